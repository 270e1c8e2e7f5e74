use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use super::*;

/// An authority for tests.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Certificate and key with these names, after a change.
    pub(crate) fn issue(&self, names: Vec<String>, change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    pub(crate) fn certificate(&self, holder: Holder) -> Certificate {
        self.certificate_with(holder, |_| {})
    }

    pub(crate) fn certificate_with(&self, holder: Holder, change: impl FnOnce(&mut CertificateParams)) -> Certificate {
        let (chain, key) = self.issue(holder.names(), change);
        Certificate::from_pem(self.pem.as_bytes(), chain.as_bytes(), key.as_bytes()).unwrap()
    }
}

fn expiring(year: i32) -> impl FnOnce(&mut CertificateParams) {
    move |params| params.not_after = rcgen::date_time_ymd(year, 1, 1)
}

#[test]
fn a_certificate_tells_its_holder_and_its_end() {
    let authority = Authority::new();
    for holder in [Holder::Member(1), Holder::Member(65_535), Holder::Operator, Holder::Reader] {
        let certificate = authority.certificate_with(holder, expiring(2040));
        assert_eq!(certificate.holder(), holder);
        let end = certificate.expires().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(end.as_secs(), 2_208_988_800, "2040-01-01");
        assert_eq!(certificate.key_ids().len(), 2, "its own and that of the authority");
    }
    let late = authority.certificate_with(Holder::Reader, expiring(2060));
    assert_eq!(late.expires().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs(), 2_840_140_800);
}

#[test]
fn names_of_nobody_or_of_two_are_refused() {
    let authority = Authority::new();
    let read = |names: &[&str]| {
        let (chain, key) = authority.issue(names.iter().map(|&name| name.to_owned()).collect(), |_| {});
        Certificate::from_pem(authority.pem.as_bytes(), chain.as_bytes(), key.as_bytes())
    };
    assert_eq!(read(&["n7.member.conclave", "member.conclave"]).unwrap().holder(), Holder::Member(7), "in any order");
    for names in [
        &["example.org"][..],
        &["member.conclave"],
        &["n1.member.conclave"],
        &["member.conclave", "n1.member.conclave", "n2.member.conclave"],
        &["member.conclave", "n1.member.conclave", "operator.conclave"],
        &["operator.conclave", "reader.conclave"],
        &["member.conclave", "n01.member.conclave"],
        &["member.conclave", "n+1.member.conclave"],
        &["member.conclave", "x1.member.conclave"],
    ] {
        assert!(matches!(read(names), Err(CertificateError::Nobody)), "{names:?}");
    }
}

#[test]
fn a_foreign_authority_another_key_and_damaged_files_are_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (chain, key) = authority.issue(Holder::Reader.names(), |_| {});
    let (_, other_key) = authority.issue(Holder::Reader.names(), |_| {});
    let read = |ca: &str, chain: &str, key: &str| {
        Certificate::from_pem(ca.as_bytes(), chain.as_bytes(), key.as_bytes()).map(|certificate| certificate.key_ids())
    };
    assert!(matches!(read(&other.pem, &chain, &key), Err(CertificateError::Foreign)));
    assert!(matches!(read(&authority.pem, &chain, &other_key), Err(CertificateError::Unusable(_))));
    assert!(matches!(read("", &chain, &key), Err(CertificateError::Unreadable(_))));
    assert!(matches!(read(&authority.pem, "", &key), Err(CertificateError::Unreadable(_))));
    assert!(matches!(read(&authority.pem, &chain, ""), Err(CertificateError::NoKey(_))));
    assert!(matches!(read(&authority.pem, &chain[..chain.len() / 2], &key), Err(CertificateError::Unreadable(_))));
    assert!(matches!(read(&authority.pem, &chain.repeat(9), &key), Err(CertificateError::TooMany(9))));
    let both = format!("{}{}", other.pem, authority.pem);
    let ids = read(&both, &chain, &key).unwrap();
    assert_eq!(ids[1..], certificate_ids(both.as_bytes()).unwrap(), "both authorities are trusted");
}

#[test]
fn debug_shows_no_key() {
    let shown = format!("{:?}", Authority::new().certificate(Holder::Member(3)));
    assert!(shown.starts_with("Certificate(of n3, ") && shown.len() < 60, "{shown}");
}
