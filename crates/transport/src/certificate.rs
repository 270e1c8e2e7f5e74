//! The certificate of a process, its key, and the authorities that it trusts.
//!
//! The names in a certificate say who holds it: `member.conclave` together with `n3.member.conclave`, `operator.conclave`, or
//! `reader.conclave`. So a member cannot pose as another one, whatever it says in its hello. Whether a certificate has
//! expired is decided by the wall clock.

mod expiry;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{CertificateError as Fault, ClientConfig, RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};
use thiserror::Error;
use types::Access;

use crate::handshake::PeerId;
use crate::secret::in_hex;

/// The name in the certificate of every member, beside its own.
pub(crate) const MEMBER: &str = "member.conclave";
const OPERATOR: &str = "operator.conclave";
const READER: &str = "reader.conclave";
/// Tells these connections from every other use of the same authority.
const PROTOCOL: &[u8] = b"conclave";
/// A longer chain does not fit into a handshake.
const CHAIN_MAX: usize = 8;

/// Whom a certificate names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holder {
    Member(PeerId),
    Operator,
    Reader,
}

impl Holder {
    /// The names in such a certificate.
    pub fn names(self) -> Vec<String> {
        match self {
            Holder::Member(id) => vec![MEMBER.to_owned(), format!("n{id}.{MEMBER}")],
            Holder::Operator => vec![OPERATOR.to_owned()],
            Holder::Reader => vec![READER.to_owned()],
        }
    }

    /// The most that a holder may do.
    pub fn access(self) -> Access {
        match self {
            Holder::Member(_) => Access::Member,
            Holder::Operator => Access::Operator,
            Holder::Reader => Access::Reader,
        }
    }

    /// Reads the names. `None` if they name nobody here, or two.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
        let mut names: Vec<String> = parsed.valid_dns_names().map(str::to_ascii_lowercase).collect();
        names.sort_unstable();
        let id = |name: &String| name.strip_prefix('n')?.strip_suffix(&format!(".{MEMBER}"))?.parse().ok();
        let member = names.iter().find_map(id).map(Holder::Member);
        let holders = [member, Some(Holder::Operator), Some(Holder::Reader)];
        holders.into_iter().flatten().find(|holder| {
            let mut expected = holder.names();
            expected.sort_unstable();
            expected == names
        })
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Member(id) => write!(f, "n{id}"),
            Holder::Operator | Holder::Reader => write!(f, "{}", article(self.access())),
        }
    }
}

fn article(access: Access) -> &'static str {
    match access {
        Access::Member => "a member",
        Access::Operator => "an operator",
        Access::Reader => "a reader",
    }
}

/// Why a certificate cannot be used.
#[derive(Debug, Error)]
pub enum CertificateError {
    #[error("no certificate in PEM: {0}")]
    Unreadable(String),
    #[error("no private key in PEM: {0}")]
    NoKey(String),
    #[error("the authority has no certificate that can be used: {0}")]
    Authority(String),
    #[error("{CHAIN_MAX} certificates are the most that a handshake carries, and there are {0}")]
    TooMany(usize),
    #[error(
        "its names are those of nobody here: a member has member.conclave and nK.member.conclave, others operator.conclave \
         or reader.conclave"
    )]
    Nobody,
    #[error("no authority of the ca file has signed it")]
    Foreign,
    #[error("{0}")]
    Unusable(rustls::Error),
}

/// A certificate that was read with its key and its authorities.
#[derive(Clone)]
pub struct Certificate(Arc<Inner>);

struct Inner {
    holder: Holder,
    key_ids: Vec<String>,
    expires: SystemTime,
    dial: Arc<ClientConfig>,
    accept: Arc<ServerConfig>,
}

impl Certificate {
    /// Reads the authorities, the certificate (and those between the two, if any) and its key. An expired certificate is
    /// read like any other: it is the far side that refuses it.
    pub fn from_pem(authorities: &[u8], chain: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        let (authorities, chain) = (certificates(authorities)?, certificates(chain)?);
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| CertificateError::NoKey(error.to_string()))?;
        let Some(own) = chain.first() else { return Err(CertificateError::Unreadable("the file is empty".into())) };
        let holder = Holder::of(own).ok_or(CertificateError::Nobody)?;
        let mut roots = RootCertStore::empty();
        for authority in &authorities {
            roots.add(authority.clone()).map_err(|error| CertificateError::Authority(error.to_string()))?;
        }
        let provider = Arc::new(provider());
        check_issuer(&chain, &roots, &provider)?;
        let all = || chain.iter().take(1).chain(&authorities);
        let key_ids = all().map(|certificate| id(certificate)).collect();
        let expires = all().map(|certificate| expiry::not_after(certificate)).min().flatten();
        let expires = expires.ok_or_else(|| CertificateError::Unreadable("no end of its validity".into()))?;
        let roots = Arc::new(roots);
        let dial = dial(&provider, &roots, chain.clone(), key.clone_key()).map_err(CertificateError::Unusable)?;
        let accept = accept(&provider, &roots, chain, key)?;
        Ok(Self(Arc::new(Inner { holder, key_ids, expires, dial: Arc::new(dial), accept: Arc::new(accept) })))
    }

    /// Whom it names.
    pub fn holder(&self) -> Holder {
        self.0.holder
    }

    /// When it or one of the authorities expires, whichever is first.
    pub fn expires(&self) -> SystemTime {
        self.0.expires
    }

    pub(crate) fn key_ids(&self) -> Vec<String> {
        self.0.key_ids.clone()
    }

    pub(crate) fn dial(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0.dial)
    }

    pub(crate) fn accept(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.accept)
    }
}

/// Names every certificate of a PEM text by the beginning of its SHA-256: eight hexadecimal digits each.
pub fn certificate_ids(pem: &[u8]) -> Result<Vec<String>, CertificateError> {
    Ok(certificates(pem)?.iter().map(id).collect())
}

fn id(certificate: &CertificateDer<'_>) -> String {
    in_hex(&Sha256::digest(certificate)[..4])
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let all = all.map_err(|error| CertificateError::Unreadable(error.to_string()))?;
    match all.len() {
        0 => Err(CertificateError::Unreadable("the file has none".into())),
        count if count > CHAIN_MAX => Err(CertificateError::TooMany(count)),
        _ => Ok(all),
    }
}

/// One cipher and one key exchange, the same as those of connections with a secret. ChaCha20-Poly1305 has no limit of
/// frames after which keys would have to be replaced.
fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256],
        kx_groups: vec![ring::kx_group::X25519],
        ..ring::default_provider()
    }
}

/// A certificate of another authority would be refused by every other process: better here, with the file's name. Its
/// purpose and its expiry are left to the far side.
fn check_issuer(
    chain: &[CertificateDer<'_>],
    roots: &RootCertStore,
    provider: &CryptoProvider,
) -> Result<(), CertificateError> {
    let parsed = ParsedCertificate::try_from(&chain[0]).map_err(CertificateError::Unusable)?;
    let algorithms = provider.signature_verification_algorithms.all;
    let verified = rustls::client::verify_server_cert_signed_by_trust_anchor(
        &parsed,
        roots,
        &chain[1..],
        UnixTime::now(),
        algorithms,
    );
    match verified {
        Err(rustls::Error::InvalidCertificate(Fault::UnknownIssuer | Fault::BadSignature)) => {
            Err(CertificateError::Foreign)
        }
        _ => Ok(()),
    }
}

/// Nothing is resumed: every connection proves both sides anew.
fn dial(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ClientConfig, rustls::Error> {
    let mut config = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(Arc::clone(roots))
        .with_client_auth_cert(chain, key)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Ok(config)
}

fn accept(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, CertificateError> {
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(provider)).build();
    let verifier = verifier.map_err(|error| CertificateError::Authority(error.to_string()))?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider)).with_protocol_versions(&[&TLS13]);
    let builder = builder.map_err(CertificateError::Unusable)?.with_client_cert_verifier(verifier);
    let mut config = builder.with_single_cert(chain, key).map_err(CertificateError::Unusable)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate(of {}, {})", self.0.holder, self.0.key_ids.join(", "))
    }
}

#[cfg(test)]
#[path = "certificate_tests.rs"]
pub(crate) mod tests;
