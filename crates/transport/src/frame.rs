//! Frames: a four-byte big-endian length, then that many bytes.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;
use tokio_util::codec::{Decoder, Encoder};

/// The largest payload of a frame of an authenticated connection.
pub const FRAME_MAX_BYTES: usize = 1 << 20;
/// The largest frame before authentication.
pub const HANDSHAKE_FRAME_MAX_BYTES: usize = 4 << 10;

pub(crate) const PREFIX_BYTES: usize = 4;
/// The first byte of every frame of an authenticated connection; see [`mod@crate::kind`].
pub(crate) const KIND_BYTES: usize = 1;

/// Splits a byte stream into frames.
///
/// The length prefix is not trusted: it never causes a reservation, so a connection holds memory in proportion to the
/// bytes it has sent.
#[derive(Clone, Copy, Debug)]
pub struct FrameCodec {
    max_bytes: usize,
}

/// Why a byte stream holds no further frame.
#[derive(Debug, Error)]
pub enum FrameError {
    #[error("a frame of {bytes} bytes exceeds the limit of {max_bytes}")]
    TooLarge { bytes: usize, max_bytes: usize },
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl FrameCodec {
    /// For connections that are not authenticated yet.
    pub fn unauthenticated() -> Self {
        Self { max_bytes: HANDSHAKE_FRAME_MAX_BYTES }
    }

    pub fn authenticated() -> Self {
        Self { max_bytes: KIND_BYTES + FRAME_MAX_BYTES }
    }

    /// Appends one frame that consists of these parts.
    pub(crate) fn encode_parts(self, parts: &[&[u8]], out: &mut BytesMut) -> Result<(), FrameError> {
        let bytes = parts.iter().map(|part| part.len()).sum();
        if bytes > self.max_bytes {
            return Err(FrameError::TooLarge { bytes, max_bytes: self.max_bytes });
        }
        out.reserve(PREFIX_BYTES + bytes);
        out.put_u32(bytes as u32);
        for part in parts {
            out.put_slice(part);
        }
        Ok(())
    }
}

impl Decoder for FrameCodec {
    type Item = Bytes;
    type Error = FrameError;

    fn decode(&mut self, src: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        let Some(prefix) = src.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let bytes = u32::from_be_bytes(*prefix) as usize;
        if bytes > self.max_bytes {
            return Err(FrameError::TooLarge { bytes, max_bytes: self.max_bytes });
        }
        if src.len() < PREFIX_BYTES + bytes {
            return Ok(None);
        }
        src.advance(PREFIX_BYTES);
        Ok(Some(src.split_to(bytes).freeze()))
    }
}

impl Encoder<&[u8]> for FrameCodec {
    type Error = FrameError;

    fn encode(&mut self, payload: &[u8], out: &mut BytesMut) -> Result<(), FrameError> {
        self.encode_parts(&[payload], out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole_however_they_arrive() {
        let mut wire = BytesMut::new();
        let payloads: [&[u8]; 3] = [b"first", b"", &[7; 5000]];
        for payload in payloads {
            FrameCodec::authenticated().encode(payload, &mut wire).unwrap();
        }
        for step in [1, 3, 4096, wire.len()] {
            let (mut input, mut out) = (BytesMut::new(), Vec::new());
            for piece in wire.chunks(step) {
                input.extend_from_slice(piece);
                while let Some(frame) = FrameCodec::authenticated().decode(&mut input).unwrap() {
                    out.push(frame);
                }
            }
            assert_eq!(out, payloads, "in steps of {step}");
            assert!(input.is_empty());
        }
    }

    #[test]
    fn a_length_prefix_reserves_nothing() {
        let mut input = BytesMut::with_capacity(16);
        input.put_u32(FRAME_MAX_BYTES as u32);
        let before = input.capacity();
        assert!(FrameCodec::authenticated().decode(&mut input).unwrap().is_none());
        assert_eq!(input.capacity(), before);
    }

    #[test]
    fn limits_hold_in_both_directions() {
        const LARGEST: usize = KIND_BYTES + FRAME_MAX_BYTES;
        for (mut codec, max_bytes) in
            [(FrameCodec::unauthenticated(), HANDSHAKE_FRAME_MAX_BYTES), (FrameCodec::authenticated(), LARGEST)]
        {
            let mut wire = BytesMut::new();
            codec.encode(&vec![0; max_bytes], &mut wire).unwrap();
            assert_eq!(codec.decode(&mut wire).unwrap().unwrap().len(), max_bytes);
            assert!(codec.encode(&vec![0; max_bytes + 1], &mut wire).is_err());
            let mut wire = BytesMut::from(&(max_bytes as u32 + 1).to_be_bytes()[..]);
            assert!(matches!(codec.decode(&mut wire), Err(FrameError::TooLarge { .. })));
        }
    }
}
