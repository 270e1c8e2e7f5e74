//! Reads secrets, certificates and their keys from files. No other user can read a secret or a key, nor change a
//! certificate.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use thiserror::Error;
use transport::{Certificate, CertificateError, Secret, SecretError};

/// A longer file is no secret.
const READ_MAX: u64 = 64 << 10;
/// Every permission of the group and of other users.
const OF_OTHERS: u32 = 0o077;
/// Their permissions to write: everybody may read a certificate.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The files of a process with a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateFiles {
    /// The authorities that are trusted.
    pub ca: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Which permissions the file of a secret may have: `secret_permissions` of the config.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SecretPermissions {
    /// None for the group and for other users.
    #[default]
    Owner,
    /// Any: where another mechanism decides which users see the file.
    Any,
}

impl SecretPermissions {
    pub const NAMES: [(&'static str, SecretPermissions); 2] =
        [("owner", SecretPermissions::Owner), ("any", SecretPermissions::Any)];
}

#[derive(Debug, Error)]
pub enum SecretFileError {
    #[error(
        "the group or other users may use the secret file {} (mode {mode:04o}), and everybody who reads it can do all \
         that it allows",
        path.display()
    )]
    Exposed { path: PathBuf, mode: u32 },
    #[error("cannot read the secret file {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Unusable { path: PathBuf, source: SecretError },
    #[error("the group or other users may change {} (mode {mode:04o})", path.display())]
    Changeable { path: PathBuf, mode: u32 },
    #[error("the certificate {} cannot be used with its key and the authorities in {}: {source}", files.certificate.display(), files.ca.display())]
    Certificate { files: Box<CertificateFiles>, source: CertificateError },
}

impl SecretFileError {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            SecretFileError::Exposed { path, .. } => format!(
                "chmod 600 {}; or write secret_permissions = \"any\" below [cluster] of the config, if something else \
                 keeps other users away from the file",
                path.display()
            ),
            SecretFileError::Unreadable { .. } => {
                "run as a user that may read it, or name another file with --secret-file".to_owned()
            }
            SecretFileError::Unusable { .. } => {
                "put 16 or more random bytes into the file, the same for all members".to_owned()
            }
            SecretFileError::Changeable { path, .. } => format!("chmod go-w {}", path.display()),
            SecretFileError::Certificate { .. } => {
                "compare the files with [tls] of the config; `ctl init --tls` makes such files".to_owned()
            }
        }
    }
}

/// The secrets of a file: the first one is used to dial, all of them are accepted.
pub fn read_secrets(path: &Path, permissions: SecretPermissions) -> Result<Vec<Secret>, SecretFileError> {
    let bytes = read_own(path, permissions)?;
    Secret::lines(&bytes).map_err(|source| SecretFileError::Unusable { path: path.to_owned(), source })
}

/// The tokens of a file, one on each line: every one of them is accepted.
pub fn read_tokens(path: &Path, permissions: SecretPermissions) -> Result<Vec<String>, SecretFileError> {
    let bytes = read_own(path, permissions)?;
    // The same rules as for secrets: long enough, not too many.
    Secret::lines(&bytes).map_err(|source| SecretFileError::Unusable { path: path.to_owned(), source })?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// The key is as secret as a secret.
pub fn read_certificate(
    files: &CertificateFiles,
    permissions: SecretPermissions,
) -> Result<Certificate, SecretFileError> {
    let public = |path: &Path| {
        let (bytes, mode) = read(path)?;
        if permissions == SecretPermissions::Owner && mode & WRITABLE_BY_OTHERS != 0 {
            return Err(SecretFileError::Changeable { path: path.to_owned(), mode });
        }
        Ok(bytes)
    };
    let (ca, chain, key) = (public(&files.ca)?, public(&files.certificate)?, read_own(&files.key, permissions)?);
    Certificate::from_pem(&ca, &chain, &key)
        .map_err(|source| SecretFileError::Certificate { files: Box::new(files.clone()), source })
}

fn read_own(path: &Path, permissions: SecretPermissions) -> Result<Vec<u8>, SecretFileError> {
    let (bytes, mode) = read(path)?;
    if permissions == SecretPermissions::Owner && mode & OF_OTHERS != 0 {
        return Err(SecretFileError::Exposed { path: path.to_owned(), mode });
    }
    Ok(bytes)
}

/// The permissions are those of the file that is read, not of a file that has its name a moment earlier.
fn read(path: &Path) -> Result<(Vec<u8>, u32), SecretFileError> {
    let unreadable = |source| SecretFileError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o7777;
    let mut bytes = Vec::new();
    file.take(READ_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok((bytes, mode))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn only_a_secret_of_its_owner_alone_is_read_unless_any_permissions_will_do() {
        let scratch = testkit::Scratch::new("secret-file").unwrap();
        let path = scratch.path().join("secret");
        fs::write(&path, "0123456789abcdef").unwrap();
        for mode in [0o600, 0o400, 0o700] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(read_secrets(&path, SecretPermissions::Owner).is_ok(), "{mode:o}");
        }
        for mode in [0o644, 0o640, 0o604, 0o620, 0o602, 0o666] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let error = read_secrets(&path, SecretPermissions::Owner).unwrap_err();
            assert!(error.to_string().contains(&format!("mode {mode:04o}")), "{error}");
            assert!(error.remedy().starts_with(&format!("chmod 600 {}", path.display())), "{}", error.remedy());
            assert!(read_secrets(&path, SecretPermissions::Any).is_ok(), "{mode:o}");
        }
    }

    #[test]
    fn a_missing_and_a_short_secret_are_told_apart_and_named() {
        let scratch = testkit::Scratch::new("secret-file").unwrap();
        let path = scratch.path().join("secret");
        let error = read_secrets(&path, SecretPermissions::Owner).unwrap_err();
        assert!(
            matches!(&error, SecretFileError::Unreadable { .. }) && error.to_string().contains("secret"),
            "{error}"
        );
        fs::write(&path, "short").unwrap();
        let error = read_secrets(&path, SecretPermissions::Any).unwrap_err();
        assert!(matches!(&error, SecretFileError::Unusable { .. }), "{error}");
    }
}
