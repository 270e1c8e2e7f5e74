//! Mutated frames at every parser of bytes from the wire, as pure functions: none panics, none is taken for an honest
//! one, and no value holds more memory than a multiple of the bytes that it was read from.
//!
//! `CONCLAVE_FUZZ_CASES` sets the number of cases. A failure prints the number of its case, which is its seed.

use std::fmt::Debug;

use bytes::{Bytes, BytesMut};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio_util::codec::{Decoder, Encoder};
use types::Dice;

use crate::codec;
use crate::dialler::{HandshakeError, read_answer};
use crate::frame::{FRAME_MAX_BYTES, FrameCodec, PREFIX_BYTES};
use crate::handshake::{
    Answer, Facts, Identity, Incarnation, PeerId, Refusal, RefuseCode, Reply, Transcript, Verdict, key_id,
};
use crate::hello::{AcceptorHello, Hello, PeerRole, Role, SPOKEN, Versions};
use crate::secret::Secret;

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
    hellos: [Vec<u8>; 2],
    acceptor_hello: Vec<u8>,
    answer: Answer,
    reply: Reply,
    values: Vec<Vec<u8>>,
    stream: Vec<u8>,
}

/// Mutates one kind of frame and reads it; returns whether it could be read.
type Check = fn(&Honest, &mut Dice) -> bool;

const KINDS: [(&str, Check); 6] = [
    ("hello", hello),
    ("answer", answer),
    ("reply", reply),
    ("verdict", verdict),
    ("frames", frames),
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
        let acceptor = Identity {
            cluster: "north".to_owned(),
            id: 1,
            incarnation: Incarnation { counter: 3, nonce: 4 },
            facts: vec![("algorithm".to_owned(), "bully".to_owned()), ("lease".to_owned(), "5s".to_owned())],
            cluster_id: crate::handshake::KnownId::default(),
            secret: Some(Secret::from_bytes(b"0123456789abcdef").unwrap()),
        };
        let secret = acceptor.secret.as_ref();
        let hello = |role: Role| {
            let hello = Hello { key_id: key_id(secret), cluster: "north".to_owned(), nonce: [5; 32], role };
            hello.to_bytes().unwrap()
        };
        let (incarnation, facts) = (Incarnation { counter: 9, nonce: u64::MAX }, acceptor.facts.clone());
        let hellos =
            [hello(Role::Peer(PeerRole { id: 3, to: 1, incarnation, attempt: 300, facts })), hello(Role::Client)];
        let acceptor_hello = AcceptorHello {
            cluster: acceptor.cluster.clone(),
            id: 1,
            incarnation,
            facts: acceptor.facts.clone(),
            nonce: [6; 32],
        };
        let acceptor_hello = acceptor_hello.to_bytes(SPOKEN.max).unwrap();
        let transcript = Transcript { dialler: &hellos[0], acceptor: &acceptor_hello };
        let answer = Answer::Challenge { hello: acceptor_hello.clone(), proof: transcript.acceptor_proof(secret) };
        let reply = Reply::Proof(transcript.dialler_proof(secret));
        let pairs = (0..20).map(|number| (format!("name {number}"), vec![number; usize::from(number)])).collect();
        let nested = Value::Nested { name: "outer".to_owned(), inner: Some(Box::new(Value::Number(Some(u64::MAX)))) };
        let values: Vec<Vec<u8>> = [Value::Pairs(pairs), nested, Value::Number(None)]
            .iter()
            .map(|value| codec::to_vec(value).unwrap())
            .collect();
        let mut stream = BytesMut::new();
        for value in &values {
            FrameCodec::authenticated().encode(value, &mut stream).unwrap();
        }
        Honest { hellos, acceptor_hello, answer, reply, values, stream: stream.to_vec(), acceptor }
    }

    fn transcript(&self) -> Transcript<'_> {
        Transcript { dialler: &self.hellos[0], acceptor: &self.acceptor_hello }
    }
}

/// The acceptor reads a hello and answers it; the proof of the honest dialler must not fit a changed one.
fn hello(honest: &Honest, dice: &mut Dice) -> bool {
    let original = &honest.hellos[dice.below(2)];
    let bytes = dice.mutated(original);
    let Ok((version, hello)) = Hello::from_bytes(&bytes) else { return false };
    assert_eq!(version, SPOKEN.max);
    let facts_bytes = match &hello.role {
        Role::Peer(peer) => held_by_facts(&peer.facts),
        Role::Client => 0,
    };
    stays_small(hello.cluster.capacity() + facts_bytes, &bytes);
    let _ = honest.acceptor.check_hello(&hello, |id: PeerId| id == 3);
    let changed = Transcript { dialler: &bytes, acceptor: &honest.acceptor_hello };
    let Reply::Proof(proof) = &honest.reply else { unreachable!("made in new") };
    let authenticated = changed.check_dialler(honest.acceptor.secret.as_ref(), proof).is_ok();
    assert!(!authenticated || bytes == honest.hellos[0], "a changed hello was authenticated");
    true
}

/// The dialler reads the answer to its hello: a challenge, a refusal, or a range of versions.
fn answer(honest: &Honest, dice: &mut Dice) -> bool {
    let original = match dice.below(4) {
        0 => codec::to_vec(&Answer::Refused(refusal())).unwrap(),
        1 => Versions { min: 3, max: 4 }.to_bytes().to_vec(),
        _ => codec::to_vec(&honest.answer).unwrap(),
    };
    let bytes = dice.mutated(&original);
    let (hello, proof) = match read_answer(&bytes) {
        Ok(challenge) => challenge,
        Err(HandshakeError::Refused { refusal, .. }) => {
            // A replaced control character takes three bytes instead of one.
            stays_small(refusal.text.capacity(), &bytes);
            return true;
        }
        Err(HandshakeError::Version(_)) => return true,
        Err(HandshakeError::Exchange(_)) => return false,
    };
    stays_small(hello.capacity() + proof.capacity(), &bytes);
    if let Ok(acceptor) = AcceptorHello::from_bytes(&hello) {
        stays_small(acceptor.cluster.capacity() + held_by_facts(&acceptor.facts), &hello);
        let _ = honest.acceptor.check_acceptor(&acceptor, 3);
    }
    let changed = Transcript { dialler: &honest.hellos[0], acceptor: &hello };
    let authenticated = changed.check_acceptor(honest.acceptor.secret.as_ref(), &proof).is_ok();
    assert!(
        !authenticated || Answer::Challenge { hello, proof } == honest.answer,
        "a changed answer was authenticated"
    );
    true
}

fn reply(honest: &Honest, dice: &mut Dice) -> bool {
    let refused = Reply::Refused(refusal());
    let original = if dice.below(4) == 0 { &refused } else { &honest.reply };
    let Some(reply) = decoded::<Reply>(&dice.mutated(&codec::to_vec(original).unwrap())) else { return false };
    if let Reply::Proof(proof) = &reply {
        let authenticated = honest.transcript().check_dialler(honest.acceptor.secret.as_ref(), proof).is_ok();
        assert_eq!(authenticated, reply == honest.reply);
    }
    true
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
    assert!(taken <= stream.len() && whole.iter().all(|frame| frame.len() <= FRAME_MAX_BYTES));
    !whole.is_empty()
}

fn cut_frames(stream: &[u8], step: usize) -> (Vec<Bytes>, bool) {
    let (mut input, mut frames) = (BytesMut::new(), Vec::new());
    for piece in stream.chunks(step) {
        input.extend_from_slice(piece);
        loop {
            match FrameCodec::authenticated().decode(&mut input) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return (frames, true),
            }
        }
    }
    (frames, false)
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
