//! How a process proves itself, exchangeable while it runs: connections that exist keep their keys, new handshakes use
//! the new ones.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use types::Access;

use crate::certificate::Certificate;
use crate::secret::{BY_CERTIFICATE, KeyId, Keys, Secret};

/// The secrets or the certificate of a process. Clones share it: [`replace`](Keyring::replace) is seen by all.
#[derive(Clone, Debug)]
pub struct Keyring(Arc<RwLock<Arc<Proof>>>);

/// What both sides of a connection prove themselves by.
#[derive(Debug)]
pub(crate) enum Proof {
    /// The same secret.
    Secret { keys: Keys, ids: Vec<String>, access: Option<Access> },
    /// A certificate of an authority that both trust.
    Certificate(Certificate),
}

impl Keyring {
    /// Takes what another keyring holds now. Handshakes under way end with the old keys.
    pub fn replace(&self, with: &Keyring) {
        let proof = with.current();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = proof;
    }

    /// Names the keys without revealing them. Secrets: all that are accepted, the first one is used to dial. Certificates:
    /// the own one, then those of the authorities that are trusted.
    pub fn key_ids(&self) -> Vec<String> {
        match &*self.current() {
            Proof::Secret { ids, .. } => ids.clone(),
            Proof::Certificate(certificate) => certificate.key_ids(),
        }
    }

    /// When the first of the certificates ends; secrets do not end.
    pub fn expires(&self) -> Option<SystemTime> {
        match &*self.current() {
            Proof::Secret { .. } => None,
            Proof::Certificate(certificate) => Some(certificate.expires()),
        }
    }

    /// What a process with these keys may do; `None` without any.
    pub fn access(&self) -> Option<Access> {
        match &*self.current() {
            Proof::Secret { access, .. } => *access,
            Proof::Certificate(certificate) => Some(certificate.holder().access()),
        }
    }

    /// What handshakes that begin now use.
    pub(crate) fn current(&self) -> Arc<Proof> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn new(proof: Proof) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(proof))))
    }
}

impl Proof {
    /// What stands in clear in the place of a key id; `None` if this process has no key for this access.
    pub(crate) fn key_id(&self, access: Access) -> Option<KeyId> {
        match self {
            Proof::Secret { keys, .. } => keys.of(access).map(|key| key.id),
            Proof::Certificate(_) => Some(BY_CERTIFICATE),
        }
    }
}

impl Default for Keyring {
    /// No secret: every process may connect.
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl From<Vec<Secret>> for Keyring {
    fn from(secrets: Vec<Secret>) -> Self {
        let ids = secrets.iter().map(Secret::key_id).collect();
        let access = secrets.first().map(Secret::access);
        Self::new(Proof::Secret { keys: Keys::new(&secrets), ids, access })
    }
}

impl From<Option<Secret>> for Keyring {
    fn from(secret: Option<Secret>) -> Self {
        Self::from(secret.into_iter().collect::<Vec<_>>())
    }
}

impl From<Secret> for Keyring {
    fn from(secret: Secret) -> Self {
        Self::from(vec![secret])
    }
}

impl From<Certificate> for Keyring {
    fn from(certificate: Certificate) -> Self {
        Self::new(Proof::Certificate(certificate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_what_replaces_the_keys() {
        let secret = |text: &str| Secret::from_bytes(text.as_bytes()).unwrap();
        let (one, two) = (secret("0123456789abcdef"), secret("fedcba9876543210"));
        let keyring = Keyring::from(one.clone());
        let (shared, before) = (keyring.clone(), keyring.current());
        keyring.replace(&Keyring::from(vec![two.clone(), one.clone()]));
        assert_eq!(shared.key_ids(), [two.key_id(), one.key_id()]);
        assert_eq!(before.key_id(Access::Member), Keyring::from(one).current().key_id(Access::Member));
        assert_eq!((shared.access(), shared.expires()), (Some(Access::Member), None));
        assert_eq!((Keyring::default().access(), Keyring::default().key_ids().len()), (None, 0));
    }
}
