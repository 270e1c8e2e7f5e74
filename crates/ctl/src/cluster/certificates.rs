//! Certificates of a cluster and the authority that signs them, as `ctl init --tls` and `ctl secret rotate` make them.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use client::Holder;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

pub const CA: &str = "ca.pem";
pub const CA_KEY: &str = "ca.key";
/// Secrets and keys: only their owner may read them.
pub const SECRET_MODE: u32 = 0o600;
pub const PUBLIC_MODE: u32 = 0o644;

const DAY: Duration = Duration::from_hours(24);
/// How long the certificates of members and clients are valid.
pub const VALID: Duration = Duration::from_hours(24 * 365);
const AUTHORITY_VALID: Duration = Duration::from_hours(24 * 3650);

/// Signs certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    params: CertificateParams,
}

impl Authority {
    pub fn new() -> Result<Self> {
        Self::of(KeyPair::generate()?)
    }

    /// The authority whose key is in this file.
    pub fn open(key: &Path) -> Result<Self> {
        let text = fs::read_to_string(key).with_context(|| format!("cannot read {}", key.display()))?;
        Self::of(KeyPair::from_pem(&text).with_context(|| format!("{} is no key of an authority", key.display()))?)
    }

    /// Its name contains a part of its key, so that two authorities never have the same name.
    fn of(key: KeyPair) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        let tag =
            params.key_identifier(&key).iter().take(4).fold(String::new(), |tag, byte| format!("{tag}{byte:02x}"));
        params.distinguished_name.push(DnType::CommonName, format!("conclave authority {tag}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Ok(Self { issuer: Issuer::new(params.clone(), key), params })
    }

    /// Its own certificate, valid from now on.
    pub fn certificate(&self) -> Result<String> {
        let mut params = self.params.clone();
        valid(&mut params, SystemTime::now() + AUTHORITY_VALID);
        Ok(params.self_signed(self.issuer.key())?.pem())
    }

    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A certificate and its key. Only members' certificates are good for accepting connections.
    pub fn issue(&self, holder: Holder, until: SystemTime) -> Result<(String, String)> {
        let mut params = CertificateParams::new(holder.names())?;
        params.distinguished_name.push(DnType::CommonName, holder.to_string());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if matches!(holder, Holder::Member(_)) {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        params.use_authority_key_identifier_extension = true;
        valid(&mut params, until);
        let key = KeyPair::generate()?;
        Ok((params.signed_by(&key, &self.issuer)?.pem(), key.serialize_pem()))
    }

    /// Writes a certificate and its key in place of older ones.
    pub fn write(&self, holder: Holder, until: SystemTime, certificate: &Path, key: &Path) -> Result<()> {
        let (chain, own) = self.issue(holder, until)?;
        replace(key, &own, SECRET_MODE)?;
        replace(certificate, &chain, PUBLIC_MODE)
    }
}

/// From yesterday on: clocks of different machines differ.
fn valid(params: &mut CertificateParams, until: SystemTime) {
    params.not_before = (SystemTime::now().min(until) - DAY).into();
    params.not_after = until.into();
}

/// The names of the files in this directory, with the holders of the certificates.
pub fn holders(directory: &Path, nodes: u32) -> Vec<(Holder, PathBuf, PathBuf)> {
    let files = |holder: Holder, name: &str| {
        (holder, directory.join(format!("{name}.pem")), directory.join(format!("{name}.key")))
    };
    let members = (1..=nodes).map(|id| files(Holder::Member(id), &format!("n{id}")));
    members.chain([files(Holder::Operator, "operator"), files(Holder::Reader, "reader")]).collect()
}

/// An authority and the certificates of all members, of operators and of readers, valid until then.
pub fn write_all(directory: &Path, nodes: u32, until: SystemTime) -> Result<()> {
    let authority = Authority::new()?;
    replace(&directory.join(CA_KEY), &authority.key(), SECRET_MODE)?;
    replace(&directory.join(CA), &authority.certificate()?, PUBLIC_MODE)?;
    for (holder, certificate, key) in holders(directory, nodes) {
        authority.write(holder, until, &certificate, &key)?;
    }
    Ok(())
}

/// Replaces a file as a whole: a reader finds the old content or the new one. Its permissions are those from the beginning.
pub fn replace(path: &Path, text: &str, mode: u32) -> Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    let beside = PathBuf::from(beside);
    let _ = fs::remove_file(&beside);
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use client::{CertificateFiles, SecretPermissions, read_certificate};

    use super::*;

    #[test]
    fn an_authority_that_is_opened_again_signs_as_before() {
        let scratch = crate::cluster::Scratch::new("certificates").unwrap();
        write_all(scratch.path(), 2, SystemTime::now() + VALID).unwrap();
        let again = Authority::open(&scratch.path().join(CA_KEY)).unwrap();
        let (certificate, key) = (scratch.path().join("n9.pem"), scratch.path().join("n9.key"));
        again.write(Holder::Member(9), SystemTime::now() + DAY, &certificate, &key).unwrap();
        let all = holders(scratch.path(), 2).into_iter().chain([(Holder::Member(9), certificate, key)]);
        for (holder, certificate, key) in all {
            let files = CertificateFiles { ca: scratch.path().join(CA), certificate, key };
            assert_eq!(read_certificate(&files, SecretPermissions::Owner).unwrap().holder(), holder);
        }
    }
}
