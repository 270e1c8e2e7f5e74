//! The files of a rotation of certificates: a new authority, and new certificates of all members and clients.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;
use client::{ClusterFile, Holder, Keyring, TlsFiles, certificate_ids, read_certificate};

use super::rotation::{Rotation, Stage};
use crate::cluster::certificates::{Authority, CA_KEY, PUBLIC_MODE, SECRET_MODE, VALID, replace};
use crate::connection_options::Target;
use crate::failure::Failure;

/// The new authority's key, as long as nothing was signed by it.
const NEXT_KEY: &str = "ca.next.key";

pub(super) struct CertificateRotation {
    files: TlsFiles,
    members: Vec<u32>,
}

impl CertificateRotation {
    pub(super) fn open(files: TlsFiles, config: Option<&ClusterFile>) -> Result<Self, Failure> {
        let members = config.map_or(&[][..], |config| &config.peers).iter().filter_map(|peer| peer.id).collect();
        let rotation = CertificateRotation { files, members };
        let key = rotation.beside(CA_KEY);
        if !key.exists() {
            return Err(Failure::usage(format!("there is no {}", key.display()))
                .because("only the key of the authority makes new certificates")
                .hint("run this where `ctl init --tls` ran; or make them with your own tools, copy them, and `ctl secret reload`"));
        }
        Ok(rotation)
    }

    fn ca(&self) -> &Path {
        Path::new(&self.files.ca)
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.ca().with_file_name(name)
    }

    /// The certificates of the authorities, in the order of the file.
    fn authorities(&self) -> Result<Vec<String>, Failure> {
        let text = fs::read_to_string(self.ca()).with_context(|| format!("cannot read {}", self.ca().display()))?;
        let end = "-----END CERTIFICATE-----";
        Ok(text.split_inclusive(end).filter(|one| one.contains(end)).map(|one| format!("{}\n", one.trim())).collect())
    }

    fn write_authorities(&self, all: &[&String]) -> Result<(), Failure> {
        Ok(replace(self.ca(), &all.iter().map(|one| one.as_str()).collect::<String>(), PUBLIC_MODE)?)
    }

    fn ids(path: &Path) -> Result<Vec<String>, Failure> {
        let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        certificate_ids(&text).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
    }

    /// Everything that is signed by the new authority.
    fn issue_all(&self, authority: &Authority) -> Result<(), Failure> {
        let until = SystemTime::now() + VALID;
        let client = self.files.of_client();
        for &id in &self.members {
            let files = self.files.of_member(id);
            authority.write(Holder::Member(id), until, &files.certificate, &files.key)?;
        }
        authority.write(Holder::Operator, until, &client.certificate, &client.key)?;
        let [reader, key] = ["reader.pem", "reader.key"].map(|name| self.beside(name));
        Ok(authority.write(Holder::Reader, until, &reader, &key)?)
    }

    /// The next connections of this client show the files as they are now.
    fn use_files(&self, target: &Target) -> Result<(), Failure> {
        let permissions = target.file.as_ref().map(|file| file.secret_permissions).unwrap_or_default();
        let own = read_certificate(&self.files.of_client(), permissions)
            .map_err(|error| Failure::usage(error.to_string()).hint(error.remedy()))?;
        target.settings.keyring.replace(&Keyring::from(own));
        Ok(())
    }
}

impl Rotation for CertificateRotation {
    fn stage(&self) -> Result<Stage, Failure> {
        match (self.authorities()?.len(), self.beside(NEXT_KEY).exists()) {
            (1, _) => Ok(Stage::Single),
            (2, true) => Ok(Stage::Added),
            (2, false) => Ok(Stage::Used),
            (count, _) => Err(Failure::usage(format!("{} has {count} authorities", self.ca().display()))
                .because("a rotation needs one, and has two while it is under way")
                .hint("leave one in it, or finish by hand: docs/rotation.md")),
        }
    }

    fn is_held(&self, member: u32, key_ids: &[String]) -> Result<bool, Failure> {
        let own = Self::ids(&self.files.of_member(member).certificate)?;
        let expected = own.into_iter().take(1).chain(Self::ids(self.ca())?);
        Ok(expected.eq(key_ids.iter().cloned()))
    }

    fn step(&mut self, at: Stage, target: &Target) -> Result<String, Failure> {
        let authorities = self.authorities()?;
        let next_key = self.beside(NEXT_KEY);
        let done = match (at, authorities.as_slice()) {
            (Stage::Single, [old]) => {
                let authority = Authority::new()?;
                replace(&next_key, &authority.key(), SECRET_MODE)?;
                self.write_authorities(&[old, &authority.certificate()?])?;
                format!("1 of 3: {} has a new authority beside the old one", self.ca().display())
            }
            (Stage::Added, [old, new]) => {
                self.issue_all(&Authority::open(&next_key)?)?;
                self.write_authorities(&[new, old])?;
                let key = self.beside(CA_KEY);
                fs::rename(&next_key, &key).with_context(|| format!("cannot replace {}", key.display()))?;
                "2 of 3: all members trust the new authority, and all certificates are signed by it now: copy those of \
                 operators and readers to clients on other machines"
                    .to_owned()
            }
            (Stage::Used, [new, _]) => {
                self.write_authorities(&[new])?;
                "3 of 3: all members use their new certificates; the old authority is dropped".to_owned()
            }
            _ => return Err(Failure::usage(format!("{} was changed by another process", self.ca().display()))),
        };
        self.use_files(target)?;
        Ok(done)
    }

    fn to_copy(&self, member: u32) -> String {
        let files = self.files.of_member(member);
        let all = [&files.ca, &files.certificate, &files.key].map(|path| path.display().to_string());
        all.join(", ")
    }
}
