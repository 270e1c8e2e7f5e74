//! The cryptography of one connection, after its handshake: frames become bytes that only the far side can make and read.
//!
//! There are two kinds of it: Noise, here, for connections with a secret, and [`tls`] for connections with certificates. All
//! other parts of the crate see a [`Session`].
//!
//! A frame of Noise is a four-byte big-endian length and that many bytes: Noise messages of 65,535 bytes each, and a shorter one
//! at the end (its payload may be empty). So a message tells by its own length, which its tag covers, whether its frame
//! continues, and frames can be neither joined nor split by changing the lengths in clear. The first sealed byte is the
//! frame's [`Kind`].
//!
//! Each direction has its own key, and the number of a message is its nonce: a message that was changed, left out,
//! repeated, moved or sent back does not open.

pub(crate) mod tls;

use std::fmt;
use std::sync::Arc;

use bytes::{Buf, BufMut, BytesMut};
use snow::StatelessTransportState;

use crate::frame::{FRAME_MAX_BYTES, FrameError, KIND_BYTES, PREFIX_BYTES};
use crate::kind::Kind;

const TAG_BYTES: usize = 16;
/// The largest message of Noise.
const MESSAGE_MAX_BYTES: usize = 65_535;
/// A larger buffer is not kept.
const KEEP_BYTES: usize = 4 << 10;
const CHUNK_BYTES: usize = MESSAGE_MAX_BYTES - TAG_BYTES;

/// Both directions of one connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) sealer: Sealer,
    pub(crate) opener: Opener,
}

/// Seals what is sent.
#[derive(Debug)]
pub(crate) enum Sealer {
    Noise(NoiseSealer),
    Tls(tls::Sealer),
}

/// Opens what is received.
#[derive(Debug)]
pub(crate) enum Opener {
    Noise(NoiseOpener),
    Tls(tls::Opener),
}

/// Not to be cloned: a nonce must not be used twice.
pub(crate) struct NoiseSealer {
    noise: Arc<StatelessTransportState>,
    next: u64,
    /// Kind and payload beside each other, as they are sealed.
    plain: Vec<u8>,
}

pub(crate) struct NoiseOpener {
    noise: Arc<StatelessTransportState>,
    next: u64,
}

/// How many bytes a frame of Noise takes on the wire.
pub(crate) fn wire_bytes(payload_bytes: usize) -> usize {
    PREFIX_BYTES + sealed_bytes(payload_bytes)
}

/// The same without the length in front.
fn sealed_bytes(payload_bytes: usize) -> usize {
    let plain_bytes = KIND_BYTES + payload_bytes;
    plain_bytes + (plain_bytes / CHUNK_BYTES + 1) * TAG_BYTES
}

impl Session {
    pub(crate) fn new(noise: StatelessTransportState) -> Self {
        let noise = Arc::new(noise);
        let sealer = NoiseSealer { noise: Arc::clone(&noise), next: 0, plain: Vec::new() };
        Self { sealer: Sealer::Noise(sealer), opener: Opener::Noise(NoiseOpener { noise, next: 0 }) }
    }

    /// After a handshake with certificates.
    pub(crate) fn by_certificate(connection: tls::Connection) -> Self {
        let (sealer, opener) = tls::halves(connection);
        Self { sealer: Sealer::Tls(sealer), opener: Opener::Tls(opener) }
    }

    /// How many bytes a frame takes on the wire.
    pub(crate) fn wire_bytes(&self, payload_bytes: usize) -> usize {
        match self.sealer {
            Sealer::Noise(_) => wire_bytes(payload_bytes),
            Sealer::Tls(_) => tls::wire_bytes(payload_bytes),
        }
    }
}

impl Sealer {
    /// Appends a frame to `out`.
    pub(crate) fn seal(&mut self, payload: &[u8], out: &mut BytesMut) -> Result<(), FrameError> {
        self.seal_kind(Kind::Data, payload, out)
    }

    pub(crate) fn seal_kind(&mut self, kind: Kind, payload: &[u8], out: &mut BytesMut) -> Result<(), FrameError> {
        match self {
            Sealer::Noise(noise) => noise.seal_kind(kind, payload, out),
            Sealer::Tls(tls) => tls.seal_kind(kind, payload, out),
        }
    }
}

impl Opener {
    /// Opens the frame at the beginning of `wire`, if all of it is there: puts its payload into `opened`, which is empty,
    /// and returns how many bytes of `wire` it took and its kind. Those bytes may have changed: TLS decrypts in place. After
    /// an error the stream is over.
    ///
    /// The length in front is not trusted: it reserves nothing, and memory grows with the bytes that have arrived.
    pub(crate) fn open(
        &mut self,
        wire: &mut [u8],
        max_bytes: usize,
        opened: &mut BytesMut,
    ) -> Result<Option<(usize, Kind)>, FrameError> {
        match self {
            Opener::Noise(noise) => noise.open(wire, max_bytes, opened),
            Opener::Tls(tls) => tls.open(wire, max_bytes, opened),
        }
    }

    /// For tests: opens a stream of Noise from its beginning again.
    pub(crate) fn rewound(&self) -> Opener {
        match self {
            Opener::Noise(noise) => Opener::Noise(NoiseOpener { noise: Arc::clone(&noise.noise), next: 0 }),
            Opener::Tls(tls) => Opener::Tls(tls.again()),
        }
    }
}

impl NoiseSealer {
    fn seal_kind(&mut self, kind: Kind, payload: &[u8], out: &mut BytesMut) -> Result<(), FrameError> {
        if payload.len() > FRAME_MAX_BYTES {
            return Err(FrameError::TooLarge { bytes: payload.len(), max_bytes: FRAME_MAX_BYTES });
        }
        let sealed = sealed_bytes(payload.len());
        out.reserve(PREFIX_BYTES + sealed);
        out.put_u32(sealed as u32);
        let (first, mut rest) = payload.split_at(payload.len().min(CHUNK_BYTES - KIND_BYTES));
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        plain.push(kind as u8);
        plain.extend_from_slice(first);
        let mut chunk = plain.as_slice();
        loop {
            self.seal_chunk(chunk, out)?;
            if chunk.len() < CHUNK_BYTES {
                break;
            }
            (chunk, rest) = rest.split_at(rest.len().min(CHUNK_BYTES));
        }
        if plain.capacity() <= KEEP_BYTES {
            self.plain = plain;
        }
        Ok(())
    }

    fn seal_chunk(&mut self, chunk: &[u8], out: &mut BytesMut) -> Result<(), FrameError> {
        let start = out.len();
        out.put_bytes(0, chunk.len() + TAG_BYTES);
        // Fails only after 2^64 messages.
        self.noise.write_message(self.next, chunk, &mut out[start..]).map_err(|_| FrameError::NotAuthentic)?;
        self.next += 1;
        Ok(())
    }
}

impl NoiseOpener {
    fn open(
        &mut self,
        wire: &[u8],
        max_bytes: usize,
        opened: &mut BytesMut,
    ) -> Result<Option<(usize, Kind)>, FrameError> {
        let Some((prefix, rest)) = wire.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let bytes = u32::from_be_bytes(*prefix) as usize;
        if bytes > sealed_bytes(max_bytes) {
            return Err(FrameError::TooLarge { bytes, max_bytes });
        }
        if bytes % MESSAGE_MAX_BYTES < TAG_BYTES {
            return Err(FrameError::NotAuthentic);
        }
        let Some(sealed) = rest.get(..bytes) else { return Ok(None) };
        if opened.capacity() < bytes {
            // The frames behind this one share the memory.
            opened.reserve(wire.len());
        }
        for message in sealed.chunks(MESSAGE_MAX_BYTES) {
            let start = opened.len();
            opened.put_bytes(0, message.len() - TAG_BYTES);
            self.noise.read_message(self.next, message, &mut opened[start..]).map_err(|_| FrameError::NotAuthentic)?;
            self.next += 1;
        }
        let kind = opened.first().and_then(|&byte| Kind::from_byte(byte)).ok_or(FrameError::NoKind)?;
        opened.advance(KIND_BYTES);
        Ok(Some((PREFIX_BYTES + bytes, kind)))
    }
}

impl fmt::Debug for NoiseSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer({})", self.next)
    }
}

impl fmt::Debug for NoiseOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opener({})", self.next)
    }
}

#[cfg(test)]
pub(crate) use tests::sessions;

#[cfg(test)]
#[path = "secure_tests.rs"]
mod tests;
