//! The files of a rotation of the cluster's secret: its own file, and those of operators and readers beside it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use client::{Access, ClusterFile, Keyring, Secret, SecretPermissions, read_secrets};

use super::rotation::{Rotation, Stage};
use crate::args::Globals;
use crate::cluster::certificates::{SECRET_MODE, replace};
use crate::cluster::{derived_files, hex_secret};
use crate::connection_options::Target;
use crate::failure::Failure;

/// A secret that was made by a rotation begins with this and its number, so that the file itself tells which of its lines
/// is the newer one.
const PREFIX: &str = "conclave-secret-";

pub(super) struct SecretRotation {
    file: PathBuf,
    permissions: SecretPermissions,
}

impl SecretRotation {
    pub(super) fn open(globals: &Globals, file: Option<&ClusterFile>, target: &Target) -> Result<Self, Failure> {
        let named = globals.secret_file.clone().or_else(|| file.and_then(|file| file.secret_file.clone()));
        let Some(path) = named else {
            return Err(Failure::usage("this cluster has neither a secret nor certificates")
                .hint("name its config with --config, or the cluster's own secret with --secret-file"));
        };
        if target.settings.keyring.access() != Some(Access::Member) {
            return Err(Failure::usage(format!("{} is not the cluster's own secret", path.display()))
                .because("the secrets of operators and readers follow from it")
                .hint("run this where the cluster's own secret is, on the machine of a member"));
        }
        let permissions = file.map(|file| file.secret_permissions).unwrap_or_default();
        Ok(SecretRotation { file: path, permissions })
    }

    fn lines(&self) -> Result<Vec<String>, Failure> {
        let text = fs::read_to_string(&self.file)
            .with_context(|| format!("{} is no text: only a secret of text can be rotated", self.file.display()))?;
        Ok(text.split(['\n', '\r']).filter(|line| !line.is_empty()).map(str::to_owned).collect())
    }

    fn secrets(&self) -> Result<Vec<Secret>, Failure> {
        read_secrets(&self.file, self.permissions)
            .map_err(|error| Failure::usage(error.to_string()).hint(error.remedy()))
    }

    /// Writes the lines, and uses the first one for the next connections of this client.
    fn write(&self, lines: &[&str], target: &Target) -> Result<Vec<Secret>, Failure> {
        replace(&self.file, &format!("{}\n", lines.join("\n")), SECRET_MODE)?;
        let secrets = self.secrets()?;
        target.settings.keyring.replace(&Keyring::from(secrets.clone()));
        Ok(secrets)
    }

    /// Operators and readers follow: their secrets are derived from the first line.
    fn write_derived(&self, own: &Secret) -> Result<Vec<PathBuf>, Failure> {
        let directory = self.file.parent().unwrap_or(Path::new(""));
        let mut written = Vec::new();
        for (access, path) in derived_files(directory).into_iter().filter(|(_, path)| path.exists()) {
            let derived = own.derived(access).context("not the secret of a cluster")?;
            replace(&path, &format!("{derived}\n"), SECRET_MODE)?;
            written.push(path);
        }
        Ok(written)
    }
}

/// Of a secret that a rotation has made; 0 for every other one.
fn number(secret: &str) -> u64 {
    let rest = secret.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    rest.and_then(|(number, _)| number.parse().ok()).unwrap_or(0)
}

fn stage(lines: &[String]) -> Option<Stage> {
    match lines {
        [_] => Some(Stage::Single),
        [first, second] if number(first) < number(second) => Some(Stage::Added),
        [first, second] if number(first) > number(second) => Some(Stage::Used),
        _ => None,
    }
}

impl Rotation for SecretRotation {
    fn stage(&self) -> Result<Stage, Failure> {
        let lines = self.lines()?;
        stage(&lines).ok_or_else(|| {
            Failure::usage(format!("{} has {} secrets that no rotation has made", self.file.display(), lines.len()))
                .because("which of them is the new one?")
                .hint("leave one line in it, or finish by hand: docs/rotation.md")
        })
    }

    fn is_held(&self, _: u32, key_ids: &[String]) -> Result<bool, Failure> {
        Ok(self.secrets()?.iter().map(Secret::key_id).eq(key_ids.iter().cloned()))
    }

    fn step(&mut self, at: Stage, target: &Target) -> Result<String, Failure> {
        let lines = self.lines()?;
        let file = self.file.display();
        match (at, lines.as_slice()) {
            (Stage::Single, [old]) => {
                let new = format!("{PREFIX}{}-{}", number(old) + 1, hex_secret()?);
                let secrets = self.write(&[old, &new], target)?;
                Ok(format!(
                    "1 of 3: {file} has the new key {} beside the old {}",
                    secrets[1].key_id(),
                    secrets[0].key_id()
                ))
            }
            (Stage::Added, [old, new]) => {
                let secrets = self.write(&[new, old], target)?;
                let derived = self.write_derived(&secrets[0])?;
                let derived: Vec<String> = derived.iter().map(|path| path.display().to_string()).collect();
                let and = if derived.is_empty() {
                    "; derive the secrets of operators and readers anew: `ctl secret derive`".to_owned()
                } else {
                    format!("; {} follow from it: copy them to clients on other machines", derived.join(" and "))
                };
                Ok(format!("2 of 3: all members accept the new key {}, and it is used now{and}", secrets[0].key_id()))
            }
            (Stage::Used, [new, _]) => {
                let secrets = self.write(&[new], target)?;
                Ok(format!("3 of 3: all members use the new key {}; the old one is dropped", secrets[0].key_id()))
            }
            _ => Err(Failure::usage(format!("{file} was changed by another process"))),
        }
    }

    fn to_copy(&self, _: u32) -> String {
        self.file.display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_tells_how_far_a_rotation_has_come() {
        let of = |lines: &[&str]| stage(&lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>());
        let (plain, one, two) = ("0123456789abcdef", "conclave-secret-1-aa", "conclave-secret-2-bb");
        assert_eq!(of(&[plain]), Some(Stage::Single));
        assert_eq!((of(&[plain, one]), of(&[one, plain])), (Some(Stage::Added), Some(Stage::Used)));
        assert_eq!((of(&[one, two]), of(&[two, one])), (Some(Stage::Added), Some(Stage::Used)));
        assert_eq!((of(&[plain, plain]), of(&[]), of(&[plain, one, two])), (None, None, None));
    }
}
