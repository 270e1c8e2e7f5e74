//! What the fuzz targets do with bytes from the wire. Hidden: these are the parsers that only this crate calls.

use std::sync::OnceLock;

use bytes::BytesMut;
use types::Access;

use crate::codec;
use crate::dialler::read_answer;
use crate::frame::{self, FRAME_MAX_BYTES, HANDSHAKE_FRAME_MAX_BYTES};
use crate::handshake::{Answer, Reply, Verdict};
use crate::hello::{DiallerHello, Header, SPOKEN};
use crate::key_handshake::{self, Dialling};
use crate::secret::{Keys, Secret};
use crate::secure::Opener;

const SECRET: &[u8] = b"the secret of a fuzzed cluster";

/// The first bytes of a stranger, and every message of the handshake behind it.
pub fn hello(bytes: &[u8]) {
    // Of another secret: the first inputs contain an honest message under `SECRET`.
    static KEYS: OnceLock<Keys> = OnceLock::new();
    let keys = KEYS.get_or_init(|| Keys::new(Secret::from_bytes(b"the secret of another cluster").ok().as_ref()));
    let Some(key) = keys.of(Access::Member) else { return };
    let ours = Header { versions: SPOKEN, access: Access::Member, key_id: key.id };
    if let Ok((header, message)) = Header::from_bytes(bytes) {
        let clear = &bytes[..bytes.len() - message.len()];
        assert!(Header::from_bytes(&header.to_bytes()).is_ok(), "a header that was read can be written");
        assert!(key_handshake::accept(key, clear, message, b"").is_err(), "bytes without the key made a session");
    }
    let _ = read_answer(bytes, &ours);
    for access in Access::ALL {
        if let Ok(hello) = DiallerHello::from_bytes(bytes, access) {
            assert!(DiallerHello::from_bytes(&hello.to_bytes().unwrap_or_default(), access).is_ok());
        }
    }
    let _ = codec::decode::<Answer>(bytes);
    let _ = codec::decode::<Reply>(bytes);
    let _ = codec::decode::<Verdict>(bytes);
}

/// A stream of a handshake in clear, and a stream inside a session: the first byte chooses. Inside, the bytes change an
/// honest stream, and nothing but a beginning of it may open.
pub fn frames(bytes: &[u8]) {
    static HONEST: OnceLock<Option<(Opener, BytesMut)>> = OnceLock::new();
    let Some((&choice, rest)) = bytes.split_first() else { return };
    if choice % 2 == 0 {
        let mut input = BytesMut::from(rest);
        while let Ok(Some(frame)) = frame::take(&mut input, HANDSHAKE_FRAME_MAX_BYTES) {
            assert!(frame.len() <= rest.len());
        }
        return;
    }
    let Some((opener, honest)) = HONEST.get_or_init(honest_stream) else { return };
    let mut opener = opener.rewound();
    // Three bytes change one byte of the stream, wherever it is; bytes that are left over at the end cut it.
    let mut stream = honest.clone();
    let changes = rest.chunks_exact(3);
    let cut = changes.remainder().first().map(|&cut| usize::from(cut) * 2 % stream.len());
    for change in changes.take(16) {
        let at = usize::from(u16::from_be_bytes([change[0], change[1]])) % stream.len();
        stream[at] ^= change[2];
    }
    stream.truncate(cut.unwrap_or(stream.len()));
    let (mut at, mut opened) = (0, BytesMut::new());
    while let Ok(Some((used, _))) = opener.open(&mut stream[at..], FRAME_MAX_BYTES, &mut opened) {
        assert_eq!(stream[at..at + used], honest[at..at + used], "changed bytes were opened");
        at += used;
        opened.clear();
    }
}

/// A sealed stream and the end that opens it. Made once: the target tests what is read, not the arithmetic on curves.
fn honest_stream() -> Option<(Opener, BytesMut)> {
    let keys = Keys::new(Secret::from_bytes(SECRET).ok().as_ref());
    let key = keys.of(Access::Member)?;
    let (dialling, first) = Dialling::begin(key, b"").ok()?;
    let (acceptor, second) = key_handshake::accept(key, b"", &first, b"").ok()?;
    let (mut dialler, _) = dialling.finish(&second).ok()?;
    let mut stream = BytesMut::new();
    for payload in [&b"first"[..], b"", &[7; 300]] {
        dialler.sealer.seal(payload, &mut stream).ok()?;
    }
    Some((acceptor.opener, stream))
}

/// Honest first bytes of a dialler, and honest frames in clear.
pub fn seeds() -> Vec<Vec<u8>> {
    let keys = Keys::new(Secret::from_bytes(SECRET).ok().as_ref());
    let Some(key) = keys.of(Access::Member) else { return Vec::new() };
    let header = Header { versions: SPOKEN, access: Access::Member, key_id: key.id }.to_bytes();
    let Ok((_, message)) = Dialling::begin(key, &header) else { return Vec::new() };
    let hello = DiallerHello { cluster: "demo".to_owned(), peer: None };
    let mut framed = BytesMut::from(&[0][..]);
    let _ = frame::put(b"a frame", HANDSHAKE_FRAME_MAX_BYTES, &mut framed);
    let welcome = codec::to_vec(&Verdict::Welcome { floor: 3 }).unwrap_or_default();
    vec![
        header.to_vec(),
        [&header[..], &message].concat(),
        SPOKEN.to_bytes().to_vec(),
        hello.to_bytes().unwrap_or_default(),
        welcome,
        framed.to_vec(),
        vec![1, 0, 0, 1, 1, 9, 9, 5],
    ]
}
