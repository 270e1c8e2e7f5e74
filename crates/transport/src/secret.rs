//! The cluster's secret, and the keys that are derived from it. Neither is ever sent or printed.

use std::fmt;
use std::sync::Arc;

use hkdf::Hkdf;
use sha2::Sha256;
use thiserror::Error;
use types::Access;

/// Shorter secrets could be guessed offline from one recorded handshake.
const SECRET_MIN_BYTES: usize = 16;

/// Labels what is extracted here; members of different releases must agree on it.
const SALT: &[u8] = b"conclave";

/// The secrets of operators and readers are derived from the cluster's secret and begin with these words, so that a
/// secret says what it is for. The cluster's own secret is any text that does not.
const OPERATOR_PREFIX: &str = "conclave-operator-";
const READER_PREFIX: &str = "conclave-reader-";

/// More lines of a secret file are a mistake: a rotation needs two.
const SECRETS_MAX: usize = 8;

/// Identifies a key without revealing it; zeros mean no secret. It stands in clear at the beginning of a connection and
/// helps to guess a secret no more than the first message of a handshake does.
pub(crate) type KeyId = [u8; 4];
pub(crate) const NO_KEY: KeyId = [0; 4];
/// In the place of a key id: the connection is proved by certificates.
pub(crate) const BY_CERTIFICATE: KeyId = *b"x509";

/// The pre-shared key of one kind of connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) id: KeyId,
    pub(crate) psk: [u8; 32],
}

/// The key of a cluster without a secret: connections are encrypted, and every process has the key.
const WITHOUT_SECRET: Key = Key { id: NO_KEY, psk: *b"conclave: a cluster, no secret. " };

/// The secret of a cluster, or one of the two that are derived from it. Only derived keys are kept, not the secret
/// itself.
#[derive(Clone)]
pub struct Secret {
    access: Access,
    extracted: Arc<Hkdf<Sha256>>,
}

/// Why a secret was not accepted.
#[derive(Debug, Error)]
pub enum SecretError {
    #[error("the secret has {bytes} bytes; at least {SECRET_MIN_BYTES} are needed")]
    TooShort { bytes: usize },
    #[error("{count} secrets; at most {SECRETS_MAX} are valid at once, one on each line")]
    TooMany { count: usize },
    #[error("secrets of a {first} and of a {other}: all lines of a secret file are for the same")]
    Mixed { first: Access, other: Access },
}

impl Secret {
    /// Accepts a secret; line ends at its end are dropped, since editors and `echo` add them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SecretError> {
        let end = bytes.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
        if end < SECRET_MIN_BYTES {
            return Err(SecretError::TooShort { bytes: end });
        }
        Ok(Self::new(&bytes[..end]))
    }

    /// The secrets of a file, one on each line: the first one is used to dial, all of them are accepted. Empty lines do not
    /// count. A file that is no text is one secret, line ends included: random bytes may contain some.
    pub fn lines(bytes: &[u8]) -> Result<Vec<Self>, SecretError> {
        let is_text = |text: &&str| text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t'));
        let Some(text) = std::str::from_utf8(bytes).ok().filter(is_text) else {
            return Ok(vec![Self::from_bytes(bytes)?]);
        };
        let lines: Vec<&str> = text.split(['\n', '\r']).filter(|line| !line.is_empty()).collect();
        if lines.len() > SECRETS_MAX {
            return Err(SecretError::TooMany { count: lines.len() });
        }
        let all = lines.iter().map(|line| Self::from_bytes(line.as_bytes())).collect::<Result<Vec<_>, _>>()?;
        let Some(first) = all.first().map(Self::access) else { return Err(SecretError::TooShort { bytes: 0 }) };
        match all.iter().map(Self::access).find(|access| *access != first) {
            Some(other) => Err(SecretError::Mixed { first, other }),
            None => Ok(all),
        }
    }

    /// Names the secret without revealing it: eight hexadecimal digits.
    pub fn key_id(&self) -> String {
        in_hex(&self.own_key().id)
    }

    fn new(bytes: &[u8]) -> Self {
        Self { access: access(bytes), extracted: Arc::new(Hkdf::new(Some(SALT), bytes)) }
    }

    /// What a process that knows this secret may do.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The operators' or the readers' secret as text: from the cluster's secret only, which cannot be computed from it.
    pub fn derived(&self, access: Access) -> Option<String> {
        let prefix = prefix(access).filter(|_| self.access == Access::Member)?;
        let bytes: [u8; 32] = self.expand(&[b"derived secret ", access.name().as_bytes()]);
        Some(format!("{prefix}{}", in_hex(&bytes)))
    }

    /// The key of connections with this access: from the secret that is for it, or from the cluster's secret.
    fn key(&self, access: Access) -> Option<Key> {
        if access != self.access {
            return Some(Self::new(self.derived(access)?.as_bytes()).own_key());
        }
        Some(self.own_key())
    }

    fn own_key(&self) -> Key {
        let role = self.access.name().as_bytes();
        Key { id: self.expand(&[b"key id ", role]), psk: self.expand(&[b"psk ", role]) }
    }

    fn expand<const N: usize>(&self, label: &[&[u8]]) -> [u8; N] {
        let mut bytes = [0; N];
        self.extracted.expand_multi_info(label, &mut bytes).expect("HKDF-SHA256 gives up to 8160 bytes");
        bytes
    }
}

/// The pre-shared keys that a process has: those of all three kinds of access, or the one of a derived secret; several
/// of each while secrets are rotated. The first one is used to dial.
#[derive(Clone)]
pub(crate) struct Keys([Vec<Key>; Access::ALL.len()]);

impl Keys {
    /// Without a secret all processes have the same key.
    pub(crate) fn new<'s>(secrets: impl IntoIterator<Item = &'s Secret>) -> Self {
        let mut keys = Access::ALL.map(|_| Vec::new());
        let mut any = false;
        for secret in secrets {
            any = true;
            for access in Access::ALL {
                keys[access as usize].extend(secret.key(access));
            }
        }
        if !any {
            keys = Access::ALL.map(|_| vec![WITHOUT_SECRET]);
        }
        Keys(keys)
    }

    /// The key to dial with.
    pub(crate) fn of(&self, access: Access) -> Option<&Key> {
        self.0[access as usize].first()
    }

    /// The key with this id.
    pub(crate) fn named(&self, access: Access, id: KeyId) -> Option<&Key> {
        self.0[access as usize].iter().find(|key| key.id == id)
    }
}

pub(crate) fn in_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
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

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(redacted)")
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> Secret {
        Secret::from_bytes(b"0123456789abcdef").unwrap()
    }

    fn derived(access: Access) -> Secret {
        Secret::from_bytes(cluster().derived(access).unwrap().as_bytes()).unwrap()
    }

    #[test]
    fn line_ends_are_trimmed_and_short_secrets_refused() {
        let with_newline = Secret::from_bytes(b"0123456789abcdef\r\n").unwrap();
        assert_eq!(cluster().own_key(), with_newline.own_key());
        assert!(matches!(Secret::from_bytes(b"0123456789abcde\n"), Err(SecretError::TooShort { bytes: 15 })));
        assert!(matches!(Secret::from_bytes(b"\n\n"), Err(SecretError::TooShort { bytes: 0 })));
    }

    /// Members of different releases must agree on them. The values were computed by another implementation of HKDF.
    #[test]
    fn keys_are_the_same_in_every_release() {
        let keys = Keys::new(Some(&cluster()));
        let ids = Access::ALL.map(|access| keys.of(access).unwrap().id);
        assert_eq!(ids, [[0x2c, 0xae, 0x54, 0x59], [0x67, 0x22, 0xa5, 0xbf], [0xc9, 0x30, 0x03, 0x5c]]);
        let psk = keys.of(Access::Member).unwrap().psk;
        assert_eq!(psk[..8], [0x10, 0x51, 0xd3, 0x6d, 0xf1, 0x7d, 0xa9, 0x1b]);
    }

    #[test]
    fn derived_secrets_say_what_they_are_for_and_derive_nothing() {
        let cluster = cluster();
        assert_eq!((cluster.access(), cluster.derived(Access::Member)), (Access::Member, None));
        let texts = [Access::Reader, Access::Operator].map(|access| {
            let secret = derived(access);
            assert_eq!(secret.access(), access);
            assert!(Access::ALL.into_iter().all(|access| secret.derived(access).is_none()));
            cluster.derived(access).unwrap()
        });
        assert_ne!(texts[0].rsplit('-').next(), texts[1].rsplit('-').next());
        let other = Secret::from_bytes(b"0123456789abcdeF").unwrap();
        assert_ne!(other.derived(Access::Reader).as_ref(), Some(&texts[0]));
    }

    #[test]
    fn the_clusters_secret_gives_every_key_and_a_derived_one_only_its_own() {
        let all = Keys::new(Some(&cluster()));
        for (at, access) in Access::ALL.into_iter().enumerate() {
            let key = all.of(access).unwrap();
            let others = &Access::ALL[at + 1..];
            assert!(others.iter().all(|other| all.of(*other).unwrap().id != key.id && key.id != NO_KEY));
            assert!(others.iter().all(|other| all.of(*other).unwrap().psk != key.psk));
        }
        for access in [Access::Reader, Access::Operator] {
            let own = Keys::new(Some(&derived(access)));
            assert_eq!(own.of(access), all.of(access));
            assert!(Access::ALL.into_iter().all(|other| own.of(other).is_none() || other == access));
        }
        let none = Keys::new(None);
        assert!(Access::ALL.into_iter().all(|access| none.of(access) == Some(&WITHOUT_SECRET)));
    }

    #[test]
    fn a_file_of_lines_has_several_secrets_and_the_first_is_used_to_dial() {
        let ids = |bytes: &[u8]| Secret::lines(bytes).map(|all| all.iter().map(Secret::key_id).collect::<Vec<_>>());
        let one = ids(b"0123456789abcdef").unwrap();
        assert_eq!((ids(b"0123456789abcdef\n").unwrap(), one.len()), (one.clone(), 1), "as before there were lines");
        let two = ids(b"\n0123456789abcdef\r\n\nfedcba9876543210").unwrap();
        assert_eq!((two.len(), &two[0]), (2, &one[0]));
        let all = Secret::lines(b"0123456789abcdef\nfedcba9876543210\n").unwrap();
        let keys = Keys::new(&all);
        for access in Access::ALL {
            let of = |secret: &Secret| secret.key(access).unwrap();
            assert_eq!(keys.of(access), Some(&of(&all[0])));
            assert_eq!(keys.named(access, of(&all[1]).id), Some(&of(&all[1])));
            assert_eq!(keys.named(access, NO_KEY), None);
        }
        // Random bytes are one secret, whatever they contain.
        assert_eq!(ids(b"\x00123456789abcdef\nfedcba9876543210").unwrap().len(), 1);
        assert_eq!(ids(b"\xff123456789abcdef\nfedcba9876543210").unwrap().len(), 1);
        assert!(matches!(Secret::lines(b"0123456789abcdef\nshort\n"), Err(SecretError::TooShort { bytes: 5 })));
        assert!(matches!(Secret::lines(b"\n"), Err(SecretError::TooShort { bytes: 0 })));
        let many = "0123456789abcdef\n".repeat(9);
        assert!(matches!(Secret::lines(many.as_bytes()), Err(SecretError::TooMany { count: 9 })));
        let mixed = format!("0123456789abcdef\n{}\n", cluster().derived(Access::Reader).unwrap());
        assert!(matches!(Secret::lines(mixed.as_bytes()), Err(SecretError::Mixed { .. })));
    }

    #[test]
    fn debug_does_not_show_the_secret() {
        let secret = Secret::from_bytes(b"super-secret-value").unwrap();
        let shown = format!("{secret:?} {:?} {:?}", secret.own_key(), Keys::new(Some(&secret)));
        assert_eq!(shown, "Secret(redacted) Key(redacted) Keys(redacted)");
    }
}
