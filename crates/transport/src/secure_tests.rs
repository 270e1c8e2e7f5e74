use super::*;
use crate::key_handshake::{self, Dialling};
use crate::secret::{Keys, Secret};
use types::Access;

/// The dialler's and the acceptor's end of one session.
pub(crate) fn sessions() -> (Session, Session) {
    let keys = Keys::new(Some(&Secret::from_bytes(b"0123456789abcdef").unwrap()));
    let key = keys.of(Access::Member).unwrap();
    let (dialling, first) = Dialling::begin(key, b"prologue").unwrap();
    let (acceptor, second) = key_handshake::accept(key, b"prologue", &first, b"payload").unwrap();
    let (dialler, payload) = dialling.finish(&second).unwrap();
    assert_eq!(payload, b"payload");
    (dialler, acceptor)
}

fn seal(session: &mut Session, payload: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    session.sealer.seal(payload, &mut out).unwrap();
    out
}

fn open(session: &mut Session, wire: &[u8]) -> Result<Option<(usize, BytesMut)>, FrameError> {
    let mut opened = BytesMut::new();
    let used = session.opener.open(&mut wire.to_vec(), FRAME_MAX_BYTES, &mut opened)?;
    Ok(used.map(|(used, kind)| {
        assert_eq!(kind, Kind::Data);
        (used, opened)
    }))
}

fn is_forged(result: &Result<Option<(usize, BytesMut)>, FrameError>) -> bool {
    matches!(result, Err(FrameError::NotAuthentic | FrameError::TooLarge { .. }))
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

#[test]
fn frames_of_every_size_around_a_chunk_come_out_whole() {
    let (mut one, mut two) = sessions();
    let sizes =
        [0, 1, 65_517, 65_518, 65_519, 65_520, 65_535, 65_536, 131_036, 131_037, 131_038, 131_039, FRAME_MAX_BYTES];
    for size in sizes {
        let payload = pattern(size);
        let wire = seal(&mut one, &payload);
        assert_eq!(wire.len(), wire_bytes(size));
        for short in [0, 3, 4, wire.len() / 2, wire.len() - 1] {
            assert!(open(&mut two, &wire[..short]).unwrap().is_none(), "{short} of {size}");
        }
        let (used, opened) = open(&mut two, &wire).unwrap().unwrap();
        assert_eq!((used, &opened[..]), (wire.len(), &payload[..]), "{size} bytes");
    }
    let mut out = BytesMut::new();
    assert!(matches!(
        one.sealer.seal(&pattern(FRAME_MAX_BYTES + 1), &mut out),
        Err(FrameError::TooLarge { max_bytes: FRAME_MAX_BYTES, .. })
    ));
    assert!(out.is_empty());
}

#[test]
fn frames_share_memory_and_a_length_reserves_none() {
    let (mut one, mut two) = sessions();
    let mut wire: Vec<u8> = [&b"first"[..], b"", b"third"].iter().flat_map(|payload| seal(&mut one, payload)).collect();
    let (mut opened, mut at, mut frames) = (BytesMut::new(), 0, Vec::new());
    while let Some((used, _)) = two.opener.open(&mut wire[at..], FRAME_MAX_BYTES, &mut opened).unwrap() {
        at += used;
        frames.push(opened.split().freeze());
    }
    assert_eq!(frames, ["first", "", "third"]);
    let mut opened = BytesMut::new();
    let mut prefix = (FRAME_MAX_BYTES as u32).to_be_bytes();
    assert!(two.opener.open(&mut prefix, FRAME_MAX_BYTES, &mut opened).unwrap().is_none());
    assert_eq!(opened.capacity(), 0);
}

#[test]
fn a_frame_opens_once_in_its_place_at_its_end_only() {
    let (mut one, mut two) = sessions();
    let (first, second) = (seal(&mut one, b"first"), seal(&mut one, b"second"));
    assert!(is_forged(&open(&mut two, &second)), "left out");
    assert!(is_forged(&open(&mut one, &first)), "reflected");
    assert!(open(&mut two, &first).unwrap().is_some());
    assert!(is_forged(&open(&mut two, &first)), "repeated");
    let (_, mut stranger) = sessions();
    assert!(is_forged(&open(&mut stranger, &first)), "another session");
    assert!(open(&mut two, &second).unwrap().is_some());
}

/// The lengths stand in clear, so the ends of frames must be told by what is sealed.
#[test]
fn frames_can_be_neither_joined_nor_split() {
    let full = CHUNK_BYTES - KIND_BYTES;
    for sizes in [(full, 100), (full - 1, 100), (0, 5), (CHUNK_BYTES + full, 0)] {
        let (mut one, mut two) = sessions();
        let (first, second) = (seal(&mut one, &pattern(sizes.0)), seal(&mut one, &pattern(sizes.1)));
        let joined = [&first[4..], &second[4..]].concat();
        let wire = [&(joined.len() as u32).to_be_bytes()[..], &joined].concat();
        assert!(is_forged(&open(&mut two, &wire)), "{sizes:?} joined");
    }
    let (mut one, mut two) = sessions();
    let wire = seal(&mut one, &pattern(full + 10));
    let first = [&(MESSAGE_MAX_BYTES as u32).to_be_bytes()[..], &wire[4..4 + MESSAGE_MAX_BYTES]].concat();
    assert!(is_forged(&open(&mut two, &first)), "the first chunk alone");
    let (mut one, mut two) = sessions();
    let wire = seal(&mut one, &pattern(full));
    let first = [&(MESSAGE_MAX_BYTES as u32).to_be_bytes()[..], &wire[4..4 + MESSAGE_MAX_BYTES]].concat();
    assert!(is_forged(&open(&mut two, &first)), "without its empty end");
}

#[test]
fn no_flipped_bit_opens() {
    let frames = |session: &mut Session| [seal(session, b"a short frame"), seal(session, b"")].concat();
    let honest = {
        let (mut one, _) = sessions();
        frames(&mut one).len()
    };
    for bit in 0..8 * honest {
        let (mut one, mut two) = sessions();
        let mut wire = frames(&mut one);
        wire[bit / 8] ^= 1 << (bit % 8);
        let mut at = 0;
        // A length that has grown waits for bytes that never come.
        while let Ok(Some((used, opened))) = open(&mut two, &wire[at..]) {
            assert!(at == 0 && opened == "a short frame" && bit / 8 >= used, "bit {bit}: {opened:?}");
            at += used;
        }
        assert!(at < wire.len());
    }
}

#[test]
fn a_handshake_needs_the_same_key_and_prologue_and_unchanged_messages() {
    let secret = |text: &str| Keys::new(Some(&Secret::from_bytes(text.as_bytes()).unwrap()));
    let (ours, others) = (secret("0123456789abcdef"), secret("0123456789abcdeX"));
    let key = ours.of(Access::Member).unwrap();
    for wrong in [
        others.of(Access::Member),
        ours.of(Access::Operator),
        ours.of(Access::Reader),
        Keys::new(None).of(Access::Member),
    ] {
        let (_, first) = Dialling::begin(wrong.unwrap(), b"prologue").unwrap();
        assert!(key_handshake::accept(key, b"prologue", &first, b"").is_err());
    }
    let (_, first) = Dialling::begin(key, b"prologue").unwrap();
    assert!(key_handshake::accept(key, b"prologuf", &first, b"").is_err());
    for at in 0..first.len() {
        let mut changed = first;
        changed[at] ^= 1;
        assert!(key_handshake::accept(key, b"prologue", &changed, b"").is_err(), "byte {at}");
        assert!(key_handshake::accept(key, b"prologue", &first[..at], b"").is_err(), "cut at {at}");
    }
    assert!(key_handshake::accept(key, b"prologue", &[&first[..], b"x"].concat(), b"").is_err());
    for at in 0..key_handshake::MESSAGE_BYTES + 7 {
        let (dialling, first) = Dialling::begin(key, b"prologue").unwrap();
        let (_, mut second) = key_handshake::accept(key, b"prologue", &first, b"payload").unwrap();
        second[at] ^= 1;
        assert!(dialling.finish(&second).is_err(), "byte {at}");
    }
    // The dialler's own message, reflected.
    let (dialling, first) = Dialling::begin(key, b"prologue").unwrap();
    assert!(dialling.finish(&first).is_err());
    // A replayed first message gives another session each time, and its dialler can open neither.
    let (dialling, first) = Dialling::begin(key, b"prologue").unwrap();
    let (mut one, second) = key_handshake::accept(key, b"prologue", &first, b"").unwrap();
    let (mut again, _) = key_handshake::accept(key, b"prologue", &first, b"").unwrap();
    let (mut dialler, _) = dialling.finish(&second).unwrap();
    let wire = seal(&mut dialler, b"hello");
    assert!(is_forged(&open(&mut again, &wire)) && open(&mut one, &wire).unwrap().is_some());
}

#[test]
fn a_frame_keeps_its_kind_and_a_frame_without_one_is_refused() {
    let (mut one, mut two) = sessions();
    for kind in [Kind::Data, Kind::Ping, Kind::Pong] {
        let (mut wire, mut opened) = (BytesMut::new(), BytesMut::new());
        one.sealer.seal_kind(kind, b"", &mut wire).unwrap();
        let length = wire.len();
        assert_eq!(two.opener.open(&mut wire, FRAME_MAX_BYTES, &mut opened).unwrap(), Some((length, kind)));
        assert!(opened.is_empty());
    }
    for plain in [&b""[..], b"\x03", b"\xff"] {
        let (mut one, mut two) = sessions();
        let mut wire = BytesMut::new();
        wire.put_u32((plain.len() + TAG_BYTES) as u32);
        let Sealer::Noise(sealer) = &mut one.sealer else { unreachable!() };
        sealer.seal_chunk(plain, &mut wire).unwrap();
        let refused = two.opener.open(&mut wire, FRAME_MAX_BYTES, &mut BytesMut::new());
        assert!(matches!(refused, Err(FrameError::NoKind)), "{}", plain.escape_ascii());
    }
}
