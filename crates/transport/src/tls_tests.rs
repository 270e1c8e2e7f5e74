use rcgen::ExtendedKeyUsagePurpose;

use super::*;
use crate::certificate::tests::Authority;
use crate::frame::{FRAME_MAX_BYTES, FrameError};
use crate::kind::Kind;
use crate::secure::Sealer;

/// Both ends after a handshake, or what each end says about it.
type Ends = (Result<(Session, Holder), String>, Result<(Session, Holder), String>);

/// Runs the handshake; each flight may be changed on its way.
fn shake(dialler: &Certificate, acceptor: &Certificate, mut change: impl FnMut(usize, &mut Vec<u8>)) -> Ends {
    let no = |no: NoSession| no.refusal.text;
    let (dialling, mut first) = dial(dialler).unwrap();
    change(0, &mut first);
    let (accepting, mut second) = match accept(acceptor, &mut first) {
        Ok(begun) => begun,
        Err(refused) => {
            let mut alert = refused.alert.clone();
            return (dialling.finish(&mut alert).map(|(s, h, _)| (s, h)).map_err(no), Err(refused.refusal.text));
        }
    };
    change(1, &mut second);
    match dialling.finish(&mut second) {
        Err(refused) => {
            let mut alert = refused.alert.clone();
            let told = accepting.finish(&mut alert).map(|(s, h, _)| (s, h)).map_err(no);
            (Err(refused.refusal.text), told)
        }
        Ok((mut session, holder, mut third)) => {
            change(2, &mut third);
            match accepting.finish(&mut third) {
                Ok((accepted, dialler, _)) => (Ok((session, holder)), Ok((accepted, dialler))),
                Err(refused) => {
                    let mut frame = (refused.alert.len() as u32).to_be_bytes().to_vec();
                    frame.extend_from_slice(&refused.alert);
                    let told = session.opener.open(&mut frame, FRAME_MAX_BYTES, &mut BytesMut::new());
                    let told = told.expect_err("an alert is no frame").to_string();
                    (Err(told), Err(refused.refusal.text))
                }
            }
        }
    }
}

fn honest() -> (Session, Session) {
    let authority = Authority::new();
    let [one, two] = [1, 2].map(|id| authority.certificate(Holder::Member(id)));
    match shake(&one, &two, |_, _| {}) {
        (Ok((dialler, Holder::Member(2))), Ok((acceptor, Holder::Member(1)))) => (dialler, acceptor),
        other => panic!("{other:?}"),
    }
}

fn seal(session: &mut Session, payload: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    session.sealer.seal(payload, &mut out).unwrap();
    out
}

fn open(session: &mut Session, wire: &[u8]) -> Result<Option<(usize, BytesMut)>, FrameError> {
    let (mut wire, mut opened) = (wire.to_vec(), BytesMut::new());
    let used = session.opener.open(&mut wire, FRAME_MAX_BYTES, &mut opened)?;
    Ok(used.map(|(used, kind)| {
        assert_eq!(kind, Kind::Data);
        (used, opened)
    }))
}

fn is_forged(result: &Result<Option<(usize, BytesMut)>, FrameError>) -> bool {
    matches!(result, Err(FrameError::NotAuthentic | FrameError::TooLarge { .. } | FrameError::Refused(_)))
}

#[test]
fn each_side_learns_whom_the_other_sides_certificate_names() {
    let authority = Authority::new();
    let member = authority.certificate(Holder::Member(9));
    for holder in [Holder::Member(4), Holder::Operator, Holder::Reader] {
        match shake(&authority.certificate(holder), &member, |_, _| {}) {
            (Ok((_, Holder::Member(9))), Ok((_, named))) => assert_eq!(named, holder),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn frames_of_every_size_around_a_record_come_out_whole_in_both_directions() {
    let (mut one, mut two) = honest();
    for size in [0, 1, 16_378, 16_379, 16_380, 16_384, 32_768, 100_000, FRAME_MAX_BYTES] {
        let payload: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        for _ in 0..2 {
            let wire = seal(&mut one, &payload);
            assert_eq!(wire.len(), one.wire_bytes(size), "{size}");
            for short in [0, 3, 4, wire.len() / 2, wire.len() - 1] {
                assert!(open(&mut two, &wire[..short]).unwrap().is_none(), "{short} of {size}");
            }
            let (used, opened) = open(&mut two, &wire).unwrap().unwrap();
            assert_eq!((used, &opened[..]), (wire.len(), &payload[..]), "{size} bytes");
            std::mem::swap(&mut one, &mut two);
        }
    }
    let mut out = BytesMut::new();
    assert!(matches!(one.sealer.seal(&vec![0; FRAME_MAX_BYTES + 1], &mut out), Err(FrameError::TooLarge { .. })));
    assert!(out.is_empty());
    assert!(matches!(one.sealer, Sealer::Tls(_)));
}

#[test]
fn a_frame_opens_once_in_its_place_at_its_end_only_and_is_neither_joined_nor_split() {
    let (mut one, mut two) = honest();
    let (first, second) = (seal(&mut one, b"first"), seal(&mut one, b"second"));
    assert!(is_forged(&open(&mut two, &second)), "left out");
    let (mut one, mut two) = honest();
    let wire = seal(&mut one, b"first");
    assert!(is_forged(&open(&mut one, &wire)), "reflected");
    assert!(open(&mut two, &wire).unwrap().is_some());
    assert!(is_forged(&open(&mut two, &wire)), "repeated");
    let (_, mut stranger) = honest();
    assert!(is_forged(&open(&mut stranger, &first)), "another session");
    for sizes in [(5, 6), (16_379, 3), (20_000, 0)] {
        let (mut one, mut two) = honest();
        let (first, second) = (seal(&mut one, &vec![7; sizes.0]), seal(&mut one, &vec![7; sizes.1]));
        let joined = [&first[4..], &second[4..]].concat();
        let wire = [&(joined.len() as u32).to_be_bytes()[..], &joined].concat();
        assert!(is_forged(&open(&mut two, &wire)), "{sizes:?} joined");
    }
    let (mut one, mut two) = honest();
    let wire = seal(&mut one, &vec![7; 20_000]);
    let record = 5 + 16_384 + 17;
    let split = [&(record as u32).to_be_bytes()[..], &wire[4..4 + record]].concat();
    assert!(is_forged(&open(&mut two, &split)), "split");
}

#[test]
fn no_flipped_bit_of_a_frame_opens() {
    for bit in 0..8 * 60 {
        let (mut one, mut two) = honest_again();
        let mut wire = seal(&mut one, b"a short frame");
        if bit / 8 >= wire.len() {
            return;
        }
        wire[bit / 8] ^= 1 << (bit % 8);
        // A length that has grown waits for bytes that never come.
        let opened = open(&mut two, &wire);
        assert!(!matches!(opened, Ok(Some(_))), "bit {bit}");
        // After that nothing is opened or sealed any more, and nothing panics.
        if opened.is_err() && bit / 8 >= 4 {
            let honest = seal(&mut one, b"another");
            assert!(is_forged(&open(&mut two, &honest)), "bit {bit}");
            assert!(two.sealer.seal(b"answer", &mut BytesMut::new()).is_err(), "bit {bit}");
        }
    }
}

/// Certificates are made once: the bits of a frame are many.
fn honest_again() -> (Session, Session) {
    static TWO: std::sync::OnceLock<[Certificate; 2]> = std::sync::OnceLock::new();
    let [one, two] = TWO.get_or_init(|| {
        let authority = Authority::new();
        [1, 2].map(|id| authority.certificate(Holder::Member(id)))
    });
    match shake(one, two, |_, _| {}) {
        (Ok((dialler, _)), Ok((acceptor, _))) => (dialler, acceptor),
        other => panic!("{other:?}"),
    }
}

/// Every byte of every flight, changed or cut off there: no side has a session that the other one has too.
#[test]
fn no_changed_or_truncated_flight_makes_a_session() {
    let authority = Authority::new();
    let [one, two] = [1, 2].map(|id| authority.certificate(Holder::Member(id)));
    for flight in 0..3 {
        let mut at = 0;
        loop {
            let (mut length, mut meaningless) = (0, Vec::new());
            for cut in [false, true] {
                let ends = shake(&one, &two, |number, bytes| {
                    if number == flight {
                        (length, meaningless) = (bytes.len(), first_bytes_of_records(bytes));
                        if cut {
                            bytes.truncate(at);
                        } else if let Some(byte) = bytes.get_mut(at) {
                            *byte ^= 1;
                        }
                    }
                });
                let both = matches!(&ends, (Ok(_), Ok(_)));
                // The kind and the version that a record claims in clear have no meaning. Signatures differ in length: this
                // flight may end before the byte, and is whole then.
                assert!(
                    !both || (!cut && meaningless.contains(&at)) || at >= length,
                    "flight {flight}, byte {at}, cut {cut}: {ends:?}"
                );
            }
            at += if at < 64 { 1 } else { 7 };
            if at >= length {
                break;
            }
        }
    }
}

fn first_bytes_of_records(flight: &[u8]) -> Vec<usize> {
    let (mut at, mut found) = (0, Vec::new());
    while let Some([_, _, _, high, low]) = flight.get(at..at + 5) {
        found.extend(at..at + 3);
        at += 5 + usize::from(u16::from_be_bytes([*high, *low]));
    }
    found
}

#[test]
fn a_foreign_and_an_expired_certificate_are_refused_with_a_sentence_on_both_sides() {
    let (authority, other) = (Authority::new(), Authority::new());
    let member = authority.certificate(Holder::Member(1));
    let foreign = other.certificate(Holder::Member(2));
    let expired = |params: &mut rcgen::CertificateParams| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    };
    let expired = authority.certificate_with(Holder::Member(2), expired);
    let early = |params: &mut rcgen::CertificateParams| params.not_before = rcgen::date_time_ymd(2090, 1, 1);
    let early = authority.certificate_with(Holder::Member(2), early);
    let cases = [(&expired, "expired", "expired"), (&early, "not valid yet", "not valid yet")];
    for (bad, here, there) in cases {
        // As the acceptor: the dialler refuses, and the acceptor is told.
        let (Err(dialler), Err(acceptor)) = shake(&member, bad, |_, _| {}) else { panic!("accepted") };
        assert!(dialler.starts_with("refused the far side's certificate") && dialler.contains(here), "{dialler}");
        assert!(acceptor.starts_with("the far side refused this side's") && acceptor.contains(there), "{acceptor}");
        // As the dialler: the acceptor refuses, and the dialler is told.
        let (Err(dialler), Err(acceptor)) = shake(bad, &member, |_, _| {}) else { panic!("accepted") };
        assert!(acceptor.starts_with("refused the far side's certificate") && acceptor.contains(here), "{acceptor}");
        assert!(dialler.starts_with("the far side refused this side's") && dialler.contains(there), "{dialler}");
    }
    // Each side refuses the other one: the dialler is the first to see a certificate.
    let (Err(dialler), Err(acceptor)) = shake(&member, &foreign, |_, _| {}) else { panic!("accepted") };
    assert!(dialler.contains("no authority that this side trusts"), "{dialler}");
    assert!(acceptor.contains("no authority that the refusing side trusts"), "{acceptor}");
}

#[test]
fn a_certificate_of_a_client_serves_no_connections_whatever_it_may_be_used_for() {
    let authority = Authority::new();
    let member = authority.certificate(Holder::Member(1));
    for holder in [Holder::Operator, Holder::Reader] {
        let (Err(dialler), Err(_)) = shake(&member, &authority.certificate(holder), |_, _| {}) else {
            panic!("accepted")
        };
        assert!(dialler.contains("not that of a member"), "{dialler}");
    }
    let client_only = |params: &mut rcgen::CertificateParams| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    };
    let client_only = authority.certificate_with(Holder::Member(2), client_only);
    assert!(matches!(shake(&member, &client_only, |_, _| {}), (Err(_), Err(_))));
}

/// What was recorded of one handshake fits no other one.
#[test]
fn recorded_flights_make_no_session() {
    let authority = Authority::new();
    let [one, two] = [1, 2].map(|id| authority.certificate(Holder::Member(id)));
    let mut recorded = [Vec::new(), Vec::new(), Vec::new()];
    let (Ok((mut dialler, _)), Ok(_)) = shake(&one, &two, |number, bytes| recorded[number].clone_from(bytes)) else {
        panic!("no honest session")
    };
    let hello = seal(&mut dialler, b"hello");
    for replayed in 0..3 {
        let ends = shake(&one, &two, |number, bytes| {
            if number >= replayed && number % 2 == replayed % 2 {
                bytes.clone_from(&recorded[number]);
            }
        });
        assert!(matches!(ends, (Err(_), _) | (_, Err(_))), "flight {replayed}: {ends:?}");
    }
    let (_, mut acceptor) = honest();
    assert!(is_forged(&open(&mut acceptor, &hello)));
}
