use super::*;
use crate::handshake::{Refusal, RefuseCode, Verdict};

/// The hello of a client, as a process of version 1 sent it; the frame's length prefix is cut off.
const FIRST_HELLO: &[u8] = b"conclave\x00\x01\x04demo\xd9\x54\x51\xdf\xeb\x21\xc9\xf6\x9a\xac\x69\x5d\xe0\x0f\xce\xf6\
    \x0b\x14\x8e\x84\x1c\x56\x00\x0a\xb5\xdc\x32\x7c\xd5\x53\x9b\x58\x01";

fn versions(min: u16, max: u16) -> Versions {
    Versions { min, max }
}

fn header(access: Access) -> Header {
    Header { versions: SPOKEN, access, key_id: [7; 4] }
}

fn client() -> DiallerHello {
    DiallerHello { cluster: "north".to_owned(), peer: None }
}

fn member(facts: Facts) -> DiallerHello {
    let incarnation = Incarnation { counter: 9, nonce: 9 };
    DiallerHello { peer: Some(PeerHello { id: 3, to: 1, incarnation, attempt: 4, facts }), ..client() }
}

fn acceptor() -> AcceptorHello {
    let incarnation = Incarnation { counter: 1, nonce: 2 };
    AcceptorHello { cluster: "north".to_owned(), id: 1, incarnation, facts: Facts::new() }
}

/// A header that offers other versions than this build speaks.
fn header_of(versions: Versions) -> Vec<u8> {
    Header { versions, ..header(Access::Member) }.to_bytes().to_vec()
}

fn malformed<T: fmt::Debug>(result: Result<T, HelloError>) -> String {
    match result {
        Err(HelloError::Malformed(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_highest_common_version_is_chosen() {
    for (ours, theirs, chosen) in [
        ((2, 2), (2, 2), Some(2)),
        ((2, 5), (3, 4), Some(4)),
        ((2, 5), (4, 9), Some(5)),
        ((2, 5), (1, 2), Some(2)),
        ((2, 5), (5, 5), Some(5)),
        ((2, 5), (6, 9), None),
        ((6, 9), (2, 5), None),
        ((2, 5), (4, 3), None),
        ((0, u16::MAX), (u16::MAX, u16::MAX), Some(u16::MAX)),
    ] {
        let (ours, theirs) = (versions(ours.0, ours.1), versions(theirs.0, theirs.1));
        assert_eq!(ours.highest_common(theirs), chosen, "{ours} and {theirs}");
        assert_eq!(theirs.highest_common(ours), chosen, "{theirs} and {ours}");
    }
}

#[test]
fn the_header_stands_where_every_later_version_looks_for_it() {
    for (access, byte) in [(Access::Member, 0), (Access::Reader, 1), (Access::Operator, 2)] {
        let bytes = header(access).to_bytes();
        assert_eq!(bytes, *[&b"conclave\0\x04\0\x05"[..], &[byte], &[7; 4]].concat());
        let whole = [&bytes[..], b"message"].concat();
        assert_eq!(Header::from_bytes(&whole).unwrap(), (header(access), &b"message"[..]));
    }
    assert_eq!(versions(3, 4).to_bytes(), *b"conclave\0\x03\0\x04");
}

#[test]
fn ranges_that_hold_our_version_are_taken_and_others_are_not() {
    for (range, taken) in [
        ((4, 4), true),
        ((3, 9), true),
        ((4, 9), true),
        ((5, 9), true),
        ((3, 3), false),
        ((6, 9), false),
        ((9, 3), false),
    ] {
        let range = versions(range.0, range.1);
        match Header::from_bytes(&header_of(range)) {
            Ok((read, _)) => assert!(taken && read.versions == range, "{range}"),
            Err(HelloError::NoCommonVersion(theirs)) => assert!(!taken && theirs == range, "{range}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_later_version_may_have_anything_behind_its_range() {
    for body in [&b""[..], b"x", &[0xff; 300]] {
        let bytes = [&versions(7, 9).to_bytes()[..], body].concat();
        assert!(matches!(Header::from_bytes(&bytes), Err(HelloError::NoCommonVersion(theirs)) if theirs.max == 9));
    }
}

#[test]
fn a_recorded_hello_of_version_1_is_recognised() {
    let error = Header::from_bytes(FIRST_HELLO).unwrap_err();
    assert!(matches!(error, HelloError::First), "{error:?}");
    assert!(error.to_string().contains("protocol version 1") && error.to_string().contains("protocol versions 4 to 5"));
}

/// A process of version 1 reads its own encoding: this is a recorded refusal of such a process.
#[test]
fn refusals_are_encoded_as_in_version_1() {
    let text = "protocol version: this node speaks 1, the dialler speaks 2";
    let recorded = [&b"\x00\x01\x3a"[..], text.as_bytes()].concat();
    let refusal = Verdict::Refused(Refusal::new(RefuseCode::Version, text));
    assert_eq!(codec::to_vec(&refusal).unwrap(), recorded);
    assert_eq!(codec::decode::<Verdict>(&recorded).unwrap(), refusal);
}

#[test]
fn garbage_behind_the_magic_is_told_apart_from_other_protocols() {
    let whole = header(Access::Member).to_bytes();
    for cut in 0..HEADER_BYTES {
        match (cut, Header::from_bytes(&whole[..cut])) {
            (0..8, Err(HelloError::Foreign)) | (8..12, Err(HelloError::NoVersions)) => {}
            (_, result) => assert!(malformed(result).contains("ends inside"), "cut at {cut}"),
        }
    }
    let mut strange = whole;
    strange[12] = 3;
    assert!(malformed(Header::from_bytes(&strange)).contains("3 is neither"));
}

#[test]
fn a_hello_must_be_the_one_of_its_connection() {
    let (member, client) = (member(Facts::new()), client());
    for access in Access::ALL {
        let (right, wrong) = if access == Access::Member { (&member, &client) } else { (&client, &member) };
        let bytes = right.to_bytes().unwrap();
        assert_eq!(&DiallerHello::from_bytes(&bytes, access).unwrap(), right);
        let text = malformed(DiallerHello::from_bytes(&wrong.to_bytes().unwrap(), access));
        assert!(text.contains(access.name()), "{text}");
        malformed(DiallerHello::from_bytes(&[&bytes[..], b"x"].concat(), access));
        for cut in 0..bytes.len() {
            malformed(DiallerHello::from_bytes(&bytes[..cut], access));
        }
    }
}

/// As many facts as fit into a handshake frame: comparing all with all would be a million comparisons per hello.
#[test]
fn too_many_too_large_and_repeated_facts_are_refused_before_they_are_compared() {
    let facts = |count: usize| (0..count).map(|at| (format!("{at}"), String::new())).collect::<Facts>();
    let read = |hello: &DiallerHello| {
        let access = if hello.peer.is_some() { Access::Member } else { Access::Reader };
        DiallerHello::from_bytes(&hello.to_bytes().unwrap(), access)
    };
    let fits = member(facts(FACTS_MAX));
    assert_eq!(read(&fits).unwrap(), fits);
    let many = member(facts(800)).to_bytes().unwrap();
    assert!(many.len() < crate::frame::HANDSHAKE_FRAME_MAX_BYTES, "{} bytes", many.len());
    for (hello, part) in [
        (member(facts(FACTS_MAX + 1)), "65 facts"),
        (member(facts(600)), "600 facts"),
        (member(vec![("n".repeat(FACT_NAME_MAX_BYTES + 1), String::new())]), "65 bytes"),
        (member(vec![("name".to_owned(), "v".repeat(FACT_VALUE_MAX_BYTES + 1))]), "1029 bytes"),
        (member(vec![("lease".to_owned(), "1s".to_owned()), ("lease".to_owned(), "2s".to_owned())]), "twice"),
        (DiallerHello { cluster: "c".repeat(CLUSTER_MAX_BYTES + 1), ..client() }, "257 bytes"),
    ] {
        let text = malformed(read(&hello));
        assert!(text.contains(part), "{text}");
    }
    for large in [
        AcceptorHello { facts: facts(FACTS_MAX + 1), ..acceptor() },
        AcceptorHello { cluster: "c".repeat(CLUSTER_MAX_BYTES + 1), ..acceptor() },
    ] {
        malformed(large.check_size());
    }
}
