use super::*;
use crate::handshake::{Answer, Refusal, RefuseCode};

/// The hello of a client, as a process of version 1 sent it; the frame's length prefix is cut off.
const FIRST_HELLO: &[u8] = b"conclave\x00\x01\x04demo\xd9\x54\x51\xdf\xeb\x21\xc9\xf6\x9a\xac\x69\x5d\xe0\x0f\xce\xf6\
    \x0b\x14\x8e\x84\x1c\x56\x00\x0a\xb5\xdc\x32\x7c\xd5\x53\x9b\x58\x01";

fn versions(min: u16, max: u16) -> Versions {
    Versions { min, max }
}

fn client() -> Hello {
    Hello { key_id: [7; 8], cluster: "north".to_owned(), nonce: [5; 32], role: Role::Client }
}

fn member(facts: Facts) -> Hello {
    let incarnation = Incarnation { counter: 9, nonce: 9 };
    Hello { role: Role::Peer(PeerRole { id: 3, to: 1, incarnation, attempt: 4, facts }), ..client() }
}

fn acceptor() -> AcceptorHello {
    let incarnation = Incarnation { counter: 1, nonce: 2 };
    AcceptorHello { cluster: "north".to_owned(), id: 1, incarnation, facts: Facts::new(), nonce: [6; 32] }
}

/// A hello that offers other versions than this build speaks.
fn hello_of(range: Versions) -> Vec<u8> {
    let mut bytes = member(Facts::new()).to_bytes().unwrap();
    bytes[..RANGE_BYTES].copy_from_slice(&range.to_bytes());
    bytes
}

fn malformed(bytes: &[u8]) -> String {
    match Hello::from_bytes(bytes) {
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
fn the_clear_part_stands_where_every_later_version_looks_for_it() {
    for (hello, role) in [(member(Facts::new()), 0), (client(), 1)] {
        let bytes = hello.to_bytes().unwrap();
        let clear = [&b"conclave\0\x02\0\x02"[..], &[role], &[7; 8]].concat();
        assert_eq!(bytes[..21], clear);
        assert_eq!(Hello::from_bytes(&bytes).unwrap(), (2, hello));
    }
    assert_eq!(versions(3, 4).to_bytes(), *b"conclave\0\x03\0\x04");
}

#[test]
fn ranges_that_hold_our_version_are_taken_and_others_are_not() {
    for (range, taken) in [((2, 2), true), ((2, 9), true), ((3, 9), false), ((7, 9), false), ((9, 2), false)] {
        let range = versions(range.0, range.1);
        match Hello::from_bytes(&hello_of(range)) {
            Ok((2, _)) => assert!(taken, "{range}"),
            Err(HelloError::NoCommonVersion(theirs)) => assert!(!taken && theirs == range, "{range}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_later_version_may_have_any_body() {
    for body in [&b""[..], b"x", &[0xff; 300]] {
        let bytes = [&versions(7, 9).to_bytes()[..], body].concat();
        assert!(matches!(Hello::from_bytes(&bytes), Err(HelloError::NoCommonVersion(theirs)) if theirs.max == 9));
    }
}

#[test]
fn a_recorded_hello_of_version_1_is_recognised() {
    let error = Hello::from_bytes(FIRST_HELLO).unwrap_err();
    assert!(matches!(error, HelloError::First), "{error:?}");
    assert!(error.to_string().contains("protocol version 1") && error.to_string().contains("protocol version 2"));
}

/// A process of version 1 reads its own encoding: this is a recorded refusal of such a process.
#[test]
fn refusals_are_encoded_as_in_version_1() {
    let text = "protocol version: this node speaks 1, the dialler speaks 2";
    let recorded = [&b"\x00\x01\x3a"[..], text.as_bytes()].concat();
    let refusal = Answer::Refused(Refusal::new(RefuseCode::Version, text));
    assert_eq!(codec::to_vec(&refusal).unwrap(), recorded);
    assert_eq!(codec::decode::<Answer>(&recorded).unwrap(), refusal);
}

#[test]
fn garbage_behind_the_magic_is_told_apart_from_other_protocols() {
    for cut in 0..MAGIC.len() {
        assert!(matches!(Hello::from_bytes(&MAGIC[..cut]), Err(HelloError::Foreign)), "cut at {cut}");
    }
    for cut in [8, 9, 10, 11] {
        assert!(matches!(Hello::from_bytes(&client().to_bytes().unwrap()[..cut]), Err(HelloError::NoVersions)));
    }
    let whole = member(Facts::new()).to_bytes().unwrap();
    for cut in 12..whole.len() {
        malformed(&whole[..cut]);
    }
    malformed(&[&whole[..], b"x"].concat());
    let mut strange_role = whole;
    strange_role[12] = 2;
    assert!(malformed(&strange_role).contains("role 2"));
}

#[test]
fn an_acceptor_cannot_choose_what_was_not_offered() {
    assert_eq!(AcceptorHello::from_bytes(&acceptor().to_bytes(2).unwrap()).unwrap(), acceptor());
    for chosen in [0, 1, 3, u16::MAX] {
        let error = AcceptorHello::from_bytes(&acceptor().to_bytes(chosen).unwrap()).unwrap_err();
        assert!(error.to_string().contains("not offered"), "{error}");
    }
    assert!(AcceptorHello::from_bytes(&[0]).is_err());
}

/// As many facts as fit into a handshake frame: comparing all with all would be a million comparisons per hello.
#[test]
fn too_many_too_large_and_repeated_facts_are_refused_before_they_are_compared() {
    let facts = |count: usize| (0..count).map(|at| (format!("{at}"), String::new())).collect::<Facts>();
    let fits = member(facts(FACTS_MAX));
    assert_eq!(Hello::from_bytes(&fits.to_bytes().unwrap()).unwrap().1, fits);
    let many = member(facts(800)).to_bytes().unwrap();
    assert!(many.len() < crate::frame::HANDSHAKE_FRAME_MAX_BYTES, "{} bytes", many.len());
    for (hello, part) in [
        (member(facts(FACTS_MAX + 1)), "65 facts"),
        (member(facts(600)), "600 facts"),
        (member(vec![("n".repeat(FACT_NAME_MAX_BYTES + 1), String::new())]), "65 bytes"),
        (member(vec![("name".to_owned(), "v".repeat(FACT_VALUE_MAX_BYTES + 1))]), "1029 bytes"),
        (member(vec![("lease".to_owned(), "1s".to_owned()), ("lease".to_owned(), "2s".to_owned())]), "twice"),
        (Hello { cluster: "c".repeat(CLUSTER_MAX_BYTES + 1), ..client() }, "257 bytes"),
    ] {
        let text = malformed(&hello.to_bytes().unwrap());
        assert!(text.contains(part), "{text}");
    }
    for large in [
        AcceptorHello { facts: facts(FACTS_MAX + 1), ..acceptor() },
        AcceptorHello { cluster: "c".repeat(CLUSTER_MAX_BYTES + 1), ..acceptor() },
    ] {
        assert!(AcceptorHello::from_bytes(&large.to_bytes(2).unwrap()).is_err());
    }
}
