//! Mutated frames at every parser of bytes from the wire, as pure functions: none panics, none is taken for an honest
//! one, and no value holds more memory than a multiple of the bytes that it was read from.
//!
//! `CONCLAVE_FUZZ_CASES` sets the number of cases. A failure prints the number of its case, which is its seed.

use std::fmt::Debug;

use bytes::{Bytes, BytesMut};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use types::{Access, Dice};

use crate::codec;
use crate::dialler::{HandshakeError, read_answer};
use crate::frame::{self, FRAME_MAX_BYTES, HANDSHAKE_FRAME_MAX_BYTES, PREFIX_BYTES};
use crate::handshake::{Answer, Facts, Identity, Incarnation, PeerId, Refusal, RefuseCode, Reply, Verdict};
use crate::hello::{AcceptorHello, DiallerHello, HEADER_BYTES, Header, PeerHello, SPOKEN, Versions};
use crate::key_handshake::{self, Dialling};
use crate::keyring::Keyring;
use crate::secret::{Key, Keys, Secret};
use crate::secure::{Opener, Session, sessions};

const DEFAULT_CASES: u64 = 100_000;
/// A pair of empty strings is two bytes on the wire and two `String`s in memory.
const GROWTH: usize = size_of::<(String, String)>() / 2;

/// Prints its number if the case fails, by whatever panic.
struct Case(u64);

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("fuzz case {}", self.0);
        }
    }
}

/// A value as it travels in an authenticated frame: variants, options, lists and strings.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
enum Value {
    Number(Option<u64>),
    Pairs(Vec<(String, Vec<u8>)>),
    Nested { name: String, inner: Option<Box<Value>> },
}

/// One honest handshake and one honest stream, to be mutated.
struct Honest {
    acceptor: Identity,
    keys: Keys,
    /// The dialler's first frame in clear: header and first message.
    first: Vec<u8>,
    /// The acceptor's.
    second: Vec<u8>,
    hellos: [(Access, Vec<u8>); 2],
    answer: Answer,
    values: Vec<Vec<u8>>,
    /// The values as frames in clear.
    stream: Vec<u8>,
    /// The values as frames of a session, and what opens them.
    sealed: Vec<u8>,
    opener: Opener,
}

/// Mutates one kind of frame and reads it; returns whether it could be read.
type Check = fn(&Honest, &mut Dice) -> bool;

const KINDS: [(&str, Check); 9] = [
    ("first", first),
    ("second", second),
    ("hello", hello),
    ("answer", answer),
    ("reply", reply),
    ("verdict", verdict),
    ("frames", frames),
    ("sealed frames", sealed_frames),
    ("value", value),
];

#[test]
fn mutated_frames_cause_no_panic_authenticate_nothing_and_stay_small() {
    let cases = std::env::var("CONCLAVE_FUZZ_CASES").map_or(DEFAULT_CASES, |text| text.parse().expect("a number"));
    let honest = Honest::new();
    let mut understood = [0_u64; KINDS.len()];
    for number in 0..cases {
        let _case = Case(number);
        let kind = (number % KINDS.len() as u64) as usize;
        understood[kind] += u64::from(KINDS[kind].1(&honest, &mut Dice(number)));
    }
    for ((name, _), understood) in KINDS.iter().zip(understood) {
        // If the first check stopped every mutation, the later checks would not be tested.
        let share = cases / KINDS.len() as u64 / 50;
        assert!(understood >= share, "{name}: only {understood} of {cases} cases had a readable frame");
    }
}

impl Honest {
    fn new() -> Self {
        let secret = Secret::from_bytes(b"0123456789abcdef").unwrap();
        let acceptor = Identity {
            cluster: "north".to_owned(),
            id: 1,
            incarnation: Incarnation { counter: 3, nonce: 4 },
            facts: vec![("algorithm".to_owned(), "bully".to_owned()), ("lease".to_owned(), "5s".to_owned())],
            cluster_id: crate::handshake::KnownId::default(),
            list: crate::list_fact::KnownList::default(),
            keyring: Keyring::from(secret.clone()),
        };
        let keys = Keys::new(Some(&secret));
        let header = header(&keys).to_bytes();
        let (_, message) = Dialling::begin(key(&keys), &header).unwrap();
        let first = [&header[..], &message].concat();
        let (_, message) = key_handshake::accept(key(&keys), &header, &message, &header).unwrap();
        let second = [&header[..], &message].concat();
        let (incarnation, facts) = (Incarnation { counter: 9, nonce: u64::MAX }, acceptor.facts.clone());
        let peer = PeerHello { id: 3, to: 1, incarnation, attempt: 300, facts: facts.clone() };
        let hello = |peer| DiallerHello { cluster: "north".to_owned(), peer }.to_bytes().unwrap();
        let hellos = [(Access::Member, hello(Some(peer))), (Access::Reader, hello(None))];
        let answer = Answer::Hello(AcceptorHello { cluster: acceptor.cluster.clone(), id: 1, incarnation, facts });
        let pairs = (0..20).map(|number| (format!("name {number}"), vec![number; usize::from(number)])).collect();
        let nested = Value::Nested { name: "outer".to_owned(), inner: Some(Box::new(Value::Number(Some(u64::MAX)))) };
        let values: Vec<Vec<u8>> = [Value::Pairs(pairs), nested, Value::Number(None)]
            .iter()
            .map(|value| codec::to_vec(value).unwrap())
            .collect();
        let mut stream = BytesMut::new();
        let mut sealed = BytesMut::new();
        let (mut near, Session { opener, .. }) = sessions();
        for value in &values {
            frame::put(value, HANDSHAKE_FRAME_MAX_BYTES, &mut stream).unwrap();
            near.sealer.seal(value, &mut sealed).unwrap();
        }
        let (stream, sealed) = (stream.to_vec(), sealed.to_vec());
        Honest { acceptor, keys, first, second, hellos, answer, values, stream, sealed, opener }
    }
}

fn key(keys: &Keys) -> &Key {
    keys.of(Access::Member).unwrap()
}

fn header(keys: &Keys) -> Header {
    Header { versions: SPOKEN, access: Access::Member, key_id: key(keys).id }
}

/// The acceptor reads a dialler's first frame. Only the unchanged one gets a second message.
fn first(honest: &Honest, dice: &mut Dice) -> bool {
    let bytes = dice.mutated(&honest.first);
    let Ok((header, message)) = Header::from_bytes(&bytes) else { return false };
    assert_eq!(bytes[..HEADER_BYTES], header.to_bytes());
    let key = honest.keys.of(header.access).unwrap();
    let accepted = key_handshake::accept(key, &bytes[..HEADER_BYTES], message, &[]).is_ok();
    assert!(!accepted || bytes == honest.first, "a changed first message was authenticated");
    true
}

/// The dialler reads the answer to its first frame: a second message, a header, a range of versions, or a refusal of
/// version 1. The dialler of this second message is gone, so none can be authentic.
fn second(honest: &Honest, dice: &mut Dice) -> bool {
    let original = match dice.below(5) {
        0 => codec::to_vec(&Verdict::Refused(Refusal::new(RefuseCode::Version, "speaks 1"))).unwrap(),
        1 => Versions { min: 4, max: 6 }.to_bytes().to_vec(),
        2 => honest.second[..HEADER_BYTES].to_vec(),
        _ => honest.second.clone(),
    };
    let header = header(&honest.keys);
    match read_answer(&dice.mutated(&original), &header) {
        // Fresh keys take most of the time of all cases.
        Ok((_, message)) if dice.below(16) == 0 => {
            let (dialling, _) = Dialling::begin(key(&honest.keys), &header.to_bytes()).unwrap();
            assert!(dialling.finish(message).is_err(), "an invented second message was authenticated");
            true
        }
        Ok(_) | Err(HandshakeError::Secret(_) | HandshakeError::Version(_)) => true,
        Err(HandshakeError::Exchange(_)) => false,
        Err(HandshakeError::Refused(refusal)) => panic!("believed in clear: {refusal}"),
    }
}

/// The acceptor reads a hello and checks it.
fn hello(honest: &Honest, dice: &mut Dice) -> bool {
    let (access, original) = &honest.hellos[dice.below(2)];
    let bytes = dice.mutated(original);
    let Ok(hello) = DiallerHello::from_bytes(&bytes, *access) else { return false };
    let facts_bytes = hello.peer.as_ref().map_or(0, |peer| held_by_facts(&peer.facts));
    stays_small(hello.cluster.capacity() + facts_bytes, &bytes);
    let _ = honest.acceptor.check_hello(&hello, |id: PeerId| id == 3);
    true
}

/// The dialler reads the acceptor's answer to its hello.
fn answer(honest: &Honest, dice: &mut Dice) -> bool {
    let refused = Answer::Refused(refusal());
    let original = if dice.below(4) == 0 { &refused } else { &honest.answer };
    let bytes = dice.mutated(&codec::to_vec(original).unwrap());
    match decoded::<Answer>(&bytes) {
        None => return false,
        // A replaced control character takes three bytes instead of one.
        Some(Answer::Refused(refusal)) => stays_small(refusal.text.capacity(), &bytes),
        Some(Answer::Hello(acceptor)) => {
            stays_small(acceptor.cluster.capacity() + held_by_facts(&acceptor.facts), &bytes);
            if acceptor.check_size().is_ok() {
                let _ = honest.acceptor.check_acceptor(&acceptor, 3);
            }
        }
    }
    true
}

fn reply(_: &Honest, dice: &mut Dice) -> bool {
    let original = match dice.below(2) {
        0 => Reply::Refused(refusal()),
        _ => Reply::Commit,
    };
    decoded::<Reply>(&dice.mutated(&codec::to_vec(&original).unwrap())).is_some()
}

fn verdict(_: &Honest, dice: &mut Dice) -> bool {
    let original = match dice.below(2) {
        0 => Verdict::Refused(refusal()),
        _ => Verdict::Welcome { floor: 70_000 },
    };
    let bytes = dice.mutated(&codec::to_vec(&original).unwrap());
    codec::decode::<Verdict>(&bytes).is_ok()
}

/// A stream gives the same frames however it is split into pieces, and they are pieces of it.
fn frames(honest: &Honest, dice: &mut Dice) -> bool {
    let stream = dice.mutated(&honest.stream);
    let (whole, whole_ended) = cut_frames(&stream, stream.len().max(1));
    let (pieces, pieces_ended) = cut_frames(&stream, 1 + dice.below(stream.len()));
    assert_eq!((&whole, whole_ended), (&pieces, pieces_ended));
    let taken: usize = whole.iter().map(|frame| PREFIX_BYTES + frame.len()).sum();
    assert!(taken <= stream.len() && whole.iter().all(|frame| frame.len() <= HANDSHAKE_FRAME_MAX_BYTES));
    !whole.is_empty()
}

fn cut_frames(stream: &[u8], step: usize) -> (Vec<Bytes>, bool) {
    let (mut input, mut frames) = (BytesMut::new(), Vec::new());
    for piece in stream.chunks(step) {
        input.extend_from_slice(piece);
        loop {
            match frame::take(&mut input, HANDSHAKE_FRAME_MAX_BYTES) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return (frames, true),
            }
        }
    }
    (frames, false)
}

/// However a sealed stream is changed, a beginning of what was sent comes out, and nothing else.
fn sealed_frames(honest: &Honest, dice: &mut Dice) -> bool {
    let mut stream = dice.mutated(&honest.sealed);
    let mut opener = honest.opener.rewound();
    let (mut opened, mut at, mut frames) = (BytesMut::new(), 0, Vec::new());
    while let Ok(Some((used, _))) = opener.open(&mut stream[at..], FRAME_MAX_BYTES, &mut opened) {
        at += used;
        frames.push(opened.split());
    }
    assert!(frames.len() <= honest.values.len() && frames.iter().zip(&honest.values).all(|(a, b)| a == b));
    assert_eq!(stream[..at], honest.sealed[..at], "changed bytes were opened");
    !frames.is_empty()
}

fn value(honest: &Honest, dice: &mut Dice) -> bool {
    let original = &honest.values[dice.below(honest.values.len())];
    let bytes = dice.mutated(original);
    let Some(value) = decoded::<Value>(&bytes) else { return false };
    stays_small(held_by(&value), &bytes);
    true
}

/// Decodes. A decoded value is the same after encoding and decoding it again, and its encoding is no longer than the
/// first.
fn decoded<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) -> Option<T> {
    let value: T = codec::decode(bytes).ok()?;
    let again = codec::to_vec(&value).unwrap();
    assert_eq!(codec::decode::<T>(&again).unwrap(), value);
    Some(value)
}

fn stays_small(held_bytes: usize, input: &[u8]) {
    assert!(held_bytes <= GROWTH * input.len(), "{held_bytes} bytes from {}", input.len());
}

fn held_by_facts(facts: &Facts) -> usize {
    let strings: usize = facts.iter().map(|(name, value)| name.capacity() + value.capacity()).sum();
    facts.capacity() * size_of::<(String, String)>() + strings
}

fn held_by(value: &Value) -> usize {
    match value {
        Value::Number(_) => 0,
        Value::Pairs(pairs) => {
            let inner: usize = pairs.iter().map(|(name, bytes)| name.capacity() + bytes.capacity()).sum();
            pairs.capacity() * size_of::<(String, Vec<u8>)>() + inner
        }
        Value::Nested { name, inner } => {
            name.capacity() + inner.as_ref().map_or(0, |inner| size_of::<Value>() + held_by(inner))
        }
    }
}

fn refusal() -> Refusal {
    Refusal::new(RefuseCode::Stale { seen: 300 }, "a sentence with a letter beyond ASCII: ü")
}
