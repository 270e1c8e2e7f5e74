//! What a frame of an authenticated connection is for: its first byte.

use bytes::{Buf, Bytes, BytesMut};

use crate::frame::{FrameCodec, FrameError};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A payload for the owner of the connection.
    Data = 0,
    /// Asks the far side for a sign of life.
    Ping = 1,
    /// The answer to one or more pings.
    Pong = 2,
}

/// Appends a frame to the output.
pub(crate) fn encode(kind: Kind, payload: &[u8], out: &mut BytesMut) -> Result<(), FrameError> {
    FrameCodec::authenticated().encode_parts(&[&[kind as u8], payload], out)
}

/// The kind of a frame and its payload; `None` if no correct far side sends such a frame. Pings and pongs carry nothing.
pub(crate) fn split(mut frame: Bytes) -> Option<(Kind, Bytes)> {
    let kind = match frame.first()? {
        0 => Kind::Data,
        1 => Kind::Ping,
        2 => Kind::Pong,
        _ => return None,
    };
    frame.advance(1);
    (kind == Kind::Data || frame.is_empty()).then_some((kind, frame))
}

#[cfg(test)]
mod tests {
    use tokio_util::codec::Decoder;

    use super::*;

    #[test]
    fn a_frame_keeps_its_kind_and_payload_and_other_frames_are_refused() {
        for (kind, payload) in [(Kind::Data, &b"abc"[..]), (Kind::Data, b""), (Kind::Ping, b""), (Kind::Pong, b"")] {
            let mut wire = BytesMut::new();
            encode(kind, payload, &mut wire).unwrap();
            let frame = FrameCodec::authenticated().decode(&mut wire).unwrap().unwrap();
            assert_eq!(split(frame), Some((kind, Bytes::from_static(payload))));
        }
        for wrong in [&b""[..], b"\x03", b"\xff", b"\x01x", b"\x02x"] {
            assert_eq!(split(Bytes::from_static(wrong)), None, "{}", wrong.escape_ascii());
        }
    }
}
