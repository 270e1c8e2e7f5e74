//! Frames in clear, before there is a session: a four-byte big-endian length, then that many bytes.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;

/// The largest payload of a frame of an authenticated connection.
pub const FRAME_MAX_BYTES: usize = 1 << 20;
/// The largest frame of a handshake.
pub const HANDSHAKE_FRAME_MAX_BYTES: usize = 4 << 10;
/// The largest flight of a handshake with certificates: chains of authorities may be long.
pub(crate) const FLIGHT_MAX_BYTES: usize = 16 << 10;

pub(crate) const PREFIX_BYTES: usize = 4;
/// The first byte of every frame of an authenticated connection; see [`mod@crate::kind`].
pub(crate) const KIND_BYTES: usize = 1;

/// Why a byte stream holds no further frame.
#[derive(Debug, Error)]
pub enum FrameError {
    #[error("a frame of {bytes} bytes exceeds the limit of {max_bytes}")]
    TooLarge { bytes: usize, max_bytes: usize },
    #[error("a frame that is not authentic: changed, repeated, moved or invented on its way")]
    NotAuthentic,
    #[error("a frame of no known kind")]
    NoKind,
    /// The far side did not accept this side's certificate.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Appends a frame.
pub(crate) fn put(payload: &[u8], max_bytes: usize, out: &mut BytesMut) -> Result<(), FrameError> {
    check(payload.len(), max_bytes)?;
    out.reserve(PREFIX_BYTES + payload.len());
    out.put_u32(payload.len() as u32);
    out.put_slice(payload);
    Ok(())
}

/// Takes the frame at the beginning of the input, if all of it is there.
///
/// The length prefix is not trusted: it never causes a reservation, so a connection holds memory in proportion to the
/// bytes it has sent.
pub(crate) fn take(input: &mut BytesMut, max_bytes: usize) -> Result<Option<Bytes>, FrameError> {
    let Some(prefix) = input.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
    let bytes = u32::from_be_bytes(*prefix) as usize;
    check(bytes, max_bytes)?;
    if input.len() < PREFIX_BYTES + bytes {
        return Ok(None);
    }
    input.advance(PREFIX_BYTES);
    Ok(Some(input.split_to(bytes).freeze()))
}

fn check(bytes: usize, max_bytes: usize) -> Result<(), FrameError> {
    if bytes > max_bytes { Err(FrameError::TooLarge { bytes, max_bytes }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole_however_they_arrive() {
        let mut wire = BytesMut::new();
        let payloads: [&[u8]; 3] = [b"first", b"", &[7; 3000]];
        for payload in payloads {
            put(payload, HANDSHAKE_FRAME_MAX_BYTES, &mut wire).unwrap();
        }
        for step in [1, 3, 1024, wire.len()] {
            let (mut input, mut out) = (BytesMut::new(), Vec::new());
            for piece in wire.chunks(step) {
                input.extend_from_slice(piece);
                while let Some(frame) = take(&mut input, HANDSHAKE_FRAME_MAX_BYTES).unwrap() {
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
        input.put_u32(HANDSHAKE_FRAME_MAX_BYTES as u32);
        let before = input.capacity();
        assert!(take(&mut input, HANDSHAKE_FRAME_MAX_BYTES).unwrap().is_none());
        assert_eq!(input.capacity(), before);
    }

    #[test]
    fn limits_hold_in_both_directions() {
        let mut wire = BytesMut::new();
        put(&[0; HANDSHAKE_FRAME_MAX_BYTES], HANDSHAKE_FRAME_MAX_BYTES, &mut wire).unwrap();
        assert_eq!(take(&mut wire, HANDSHAKE_FRAME_MAX_BYTES).unwrap().unwrap().len(), HANDSHAKE_FRAME_MAX_BYTES);
        assert!(put(&[0; HANDSHAKE_FRAME_MAX_BYTES + 1], HANDSHAKE_FRAME_MAX_BYTES, &mut wire).is_err());
        let mut wire = BytesMut::from(&(HANDSHAKE_FRAME_MAX_BYTES as u32 + 1).to_be_bytes()[..]);
        assert!(matches!(take(&mut wire, HANDSHAKE_FRAME_MAX_BYTES), Err(FrameError::TooLarge { .. })));
    }
}
