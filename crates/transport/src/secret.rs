//! The cluster secret: proves membership, is never sent, is never printed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use thiserror::Error;
use types::Access;

use crate::hello::KeyId;

/// Shorter secrets could be guessed offline from one recorded handshake.
const SECRET_MIN_BYTES: usize = 16;

const KEY_ID_LABEL: &[u8] = b"conclave key id";

/// The secrets of operators and readers are derived from the cluster's secret and begin with these words, so that a
/// secret says what it is for. The cluster's own secret is any text that does not.
const OPERATOR_PREFIX: &str = "conclave-operator-";
const READER_PREFIX: &str = "conclave-reader-";

/// The secret of a cluster, or one of the two that are derived from it. Only the keyed MAC is kept, not the secret
/// itself.
#[derive(Clone)]
pub struct Secret {
    access: Access,
    mac: Arc<Hmac<Sha256>>,
    key_id: KeyId,
}

/// Why a secret was not accepted.
#[derive(Debug, Error)]
pub enum SecretError {
    #[error("the secret has {bytes} bytes; at least {SECRET_MIN_BYTES} are needed")]
    TooShort { bytes: usize },
    #[error("cannot read the secret file {path}: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
}

impl Secret {
    /// Accepts a secret; line ends at its end are dropped, since editors and `echo` add them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SecretError> {
        let end = bytes.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
        if end < SECRET_MIN_BYTES {
            return Err(SecretError::TooShort { bytes: end });
        }
        let mac: Hmac<Sha256> =
            Hmac::new_from_slice(&bytes[..end]).map_err(|_| SecretError::TooShort { bytes: end })?;
        let digest = mac.clone().chain_update(KEY_ID_LABEL).finalize().into_bytes();
        let key_id = std::array::from_fn(|at| digest[at]);
        Ok(Self { access: access(&bytes[..end]), mac: Arc::new(mac), key_id })
    }

    /// What a process that knows this secret may do.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The operators' or the readers' secret as text: from the cluster's secret only, which cannot be computed from it.
    pub fn derived(&self, access: Access) -> Option<String> {
        let prefix = prefix(access).filter(|_| self.access == Access::Member)?;
        let bytes = self.mac(&[b"conclave derived secret", access.name().as_bytes()]).finalize().into_bytes();
        Some(bytes.iter().fold(prefix.to_owned(), |text, byte| format!("{text}{byte:02x}")))
    }

    /// Reads a secret from a file.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, SecretError> {
        let path = path.as_ref();
        let bytes =
            std::fs::read(path).map_err(|source| SecretError::Unreadable { path: path.to_path_buf(), source })?;
        Self::from_bytes(&bytes)
    }

    /// Sent in clear in a hello: the beginning of an HMAC over a fixed text. It helps to guess the secret no more than
    /// a recorded proof does.
    pub(crate) fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// HMAC-SHA256 over the parts, each preceded by its length so that no two lists of parts give the same bytes.
    pub(crate) fn proof(&self, parts: &[&[u8]]) -> Vec<u8> {
        self.mac(parts).finalize().into_bytes().to_vec()
    }

    /// Compares in constant time.
    pub(crate) fn verifies(&self, parts: &[&[u8]], proof: &[u8]) -> bool {
        self.mac(parts).verify_slice(proof).is_ok()
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::clone(&self.mac);
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }
}

fn prefix(access: Access) -> Option<&'static str> {
    match access {
        Access::Reader => Some(READER_PREFIX),
        Access::Operator => Some(OPERATOR_PREFIX),
        Access::Member => None,
    }
}

fn access(secret: &[u8]) -> Access {
    let has_prefix = |access: &Access| prefix(*access).is_some_and(|prefix| secret.starts_with(prefix.as_bytes()));
    Access::ALL.into_iter().find(has_prefix).unwrap_or(Access::Member)
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_are_trimmed_and_short_secrets_refused() {
        let plain = Secret::from_bytes(b"0123456789abcdef").unwrap();
        let with_newline = Secret::from_bytes(b"0123456789abcdef\r\n").unwrap();
        assert_eq!(plain.proof(&[b"x"]), with_newline.proof(&[b"x"]));
        assert!(matches!(Secret::from_bytes(b"0123456789abcde\n"), Err(SecretError::TooShort { bytes: 15 })));
        assert!(matches!(Secret::from_bytes(b"\n\n"), Err(SecretError::TooShort { bytes: 0 })));
    }

    /// Members of different releases must agree on it.
    #[test]
    fn the_key_id_is_the_beginning_of_the_hmac_of_its_label() {
        let secret = Secret::from_bytes(b"0123456789abcdef").unwrap();
        assert_eq!(secret.key_id(), [0x89, 0x52, 0x26, 0x2b, 0x5d, 0x5a, 0xad, 0xde]);
    }

    #[test]
    fn derived_secrets_say_what_they_are_for_and_derive_nothing() {
        let cluster = Secret::from_bytes(b"0123456789abcdef").unwrap();
        assert_eq!((cluster.access(), cluster.derived(Access::Member)), (Access::Member, None));
        let texts = [Access::Reader, Access::Operator].map(|access| {
            let text = cluster.derived(access).unwrap();
            let secret = Secret::from_bytes(text.as_bytes()).unwrap();
            assert_eq!(secret.access(), access);
            assert!(Access::ALL.into_iter().all(|access| secret.derived(access).is_none()));
            text
        });
        assert_ne!(texts[0].rsplit('-').next(), texts[1].rsplit('-').next());
        let other = Secret::from_bytes(b"0123456789abcdeF").unwrap();
        assert_ne!(other.derived(Access::Reader).as_ref(), Some(&texts[0]));
    }

    #[test]
    fn missing_file_is_named() {
        let error = Secret::from_file("/nonexistent/secret").unwrap_err();
        assert!(error.to_string().contains("/nonexistent/secret"), "{error}");
    }

    #[test]
    fn debug_does_not_show_the_secret() {
        let secret = Secret::from_bytes(b"super-secret-value").unwrap();
        assert!(!format!("{secret:?}").contains("super"));
    }

    #[test]
    fn a_proof_depends_on_every_part_and_on_where_parts_end() {
        let secret = Secret::from_bytes(b"0123456789abcdef").unwrap();
        let proof = secret.proof(&[b"ab", b"c"]);
        assert!(secret.verifies(&[b"ab", b"c"], &proof));
        assert!(!secret.verifies(&[b"a", b"bc"], &proof));
        assert!(!secret.verifies(&[b"ab", b"d"], &proof));
        assert!(!secret.verifies(&[b"ab", b"c"], &proof[..31]));
        assert!(!secret.verifies(&[b"ab", b"c"], &[]));
    }
}
