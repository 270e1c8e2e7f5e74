//! The only place that knows the wire encoding of values.

use bincode::config::Configuration;
use bincode::enc::write::Writer;
use bincode::error::EncodeError;
use bincode::serde::decode_from_slice;
use bytes::BytesMut;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// Decoding is limited by the size of the decoded value, and a string's claimed length is reserved before it is read.
/// So the limit follows the input: a few bytes cannot claim megabytes. A list's claimed length reserves at most one
/// mebibyte, until decoding ends; a decoded list holds as many elements as were read. Two limits and no more:
/// each is a copy of every decoder in the program.
const SMALL_MAX_BYTES: usize = crate::frame::HANDSHAKE_FRAME_MAX_BYTES;
const GROWTH: usize = 8;

/// Why bytes were not a value, or a value could not become bytes.
#[derive(Debug, Error)]
pub enum CodecError {
    #[error("cannot encode: {0}")]
    Encode(#[source] bincode::error::EncodeError),
    #[error("cannot decode: {0}")]
    Decode(#[source] bincode::error::DecodeError),
    /// A value followed by more bytes is invalid.
    #[error("{extra} bytes follow the value")]
    Trailing { extra: usize },
}

/// Appends the encoding of a value.
pub fn encode<T: Serialize>(value: &T, out: &mut BytesMut) -> Result<(), CodecError> {
    let mut writer = Gathered { small: [0; SMALL_BYTES], used: 0, out };
    bincode::serde::encode_into_writer(value, &mut writer, config()).map_err(CodecError::Encode)?;
    writer.move_on();
    Ok(())
}

/// Messages of locks and heartbeats are smaller.
const SMALL_BYTES: usize = 128;

/// A value is written in pieces of a few bytes: they are gathered here, where a piece costs a store or two, and then
/// appended together.
struct Gathered<'a> {
    small: [u8; SMALL_BYTES],
    used: usize,
    out: &'a mut BytesMut,
}

impl Gathered<'_> {
    fn move_on(&mut self) {
        self.out.extend_from_slice(&self.small[..self.used]);
        self.used = 0;
    }

    #[cold]
    fn write_far(&mut self, bytes: &[u8]) {
        self.move_on();
        self.out.extend_from_slice(bytes);
    }
}

impl Writer for Gathered<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        match self.small.get_mut(self.used..self.used + bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.used += bytes.len();
            }
            None => self.write_far(bytes),
        }
        Ok(())
    }
}

/// The encoding of a value, as a new vector.
pub fn to_vec<T: Serialize>(value: &T) -> Result<Vec<u8>, CodecError> {
    bincode::serde::encode_to_vec(value, config()).map_err(CodecError::Encode)
}

/// Decodes a value that fills the whole input.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let (value, rest) = decode_head(bytes)?;
    if rest.is_empty() { Ok(value) } else { Err(CodecError::Trailing { extra: rest.len() }) }
}

/// Decodes a value and returns the bytes behind it, which belong to a value whose type only the caller knows.
pub fn decode_head<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, &[u8]), CodecError> {
    let decoded = if bytes.len() <= SMALL_MAX_BYTES {
        decode_from_slice(bytes, config().with_limit::<{ GROWTH * SMALL_MAX_BYTES }>())
    } else {
        decode_from_slice(bytes, config().with_limit::<{ GROWTH * crate::frame::FRAME_MAX_BYTES }>())
    };
    decoded.map(|(value, used)| (value, &bytes[used..])).map_err(CodecError::Decode)
}

/// Decodes a value of a far side that speaks a later version: fields that it has added at the end are left out.
pub fn decode_newer<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let bytes = &bytes[..bytes.len().min(crate::frame::FRAME_MAX_BYTES)];
    decode_head(bytes).map(|(value, _)| value)
}

/// Encoding is not limited: this process encodes only its own values.
fn config() -> Configuration {
    bincode::config::standard()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::frame::FRAME_MAX_BYTES;

    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    enum Sample {
        Empty,
        Words(Vec<String>),
        Pair { key: u64, value: Option<Vec<u8>> },
    }

    #[test]
    fn fields_that_a_later_version_adds_at_the_end_are_left_out() {
        let mut bytes = to_vec(&Sample::Words(vec!["ring".into()])).unwrap();
        bytes.extend([7, 7]);
        assert!(matches!(decode::<Sample>(&bytes), Err(CodecError::Trailing { extra: 2 })));
        assert_eq!(decode_newer::<Sample>(&bytes).unwrap(), Sample::Words(vec!["ring".into()]));
        assert!(decode_newer::<Sample>(&[9, 7, 7]).is_err(), "a kind that this version does not know");
    }

    #[test]
    fn values_survive_and_the_two_encoders_agree() {
        let words = vec!["ring".to_owned(), String::new()];
        let few = [Sample::Empty, Sample::Words(words), Sample::Pair { key: 300, value: Some(vec![1, 2, 3]) }];
        // Pieces that end before, at and behind the end of the gathered bytes, with others behind them.
        let sizes = [1, SMALL_BYTES - 3, SMALL_BYTES - 2, SMALL_BYTES - 1, SMALL_BYTES, 3 * SMALL_BYTES];
        let many = sizes.map(|bytes| Sample::Words(vec!["x".repeat(bytes), "ring".to_owned(), "y".repeat(bytes)]));
        for value in few.into_iter().chain(many) {
            let bytes = to_vec(&value).unwrap();
            let mut appended = BytesMut::from(&b"before"[..]);
            encode(&value, &mut appended).unwrap();
            assert_eq!(&appended[6..], &bytes[..]);
            assert_eq!(decode::<Sample>(&bytes).unwrap(), value);
        }
    }

    #[test]
    fn bytes_after_the_value_are_refused() {
        let mut bytes = to_vec(&Sample::Empty).unwrap();
        bytes.extend_from_slice(b"xy");
        assert!(matches!(decode::<Sample>(&bytes), Err(CodecError::Trailing { extra: 2 })));
    }

    #[test]
    fn every_cut_of_a_value_is_refused() {
        let bytes = to_vec(&Sample::Pair { key: u64::MAX, value: Some(vec![7; 300]) }).unwrap();
        for cut in 0..bytes.len() {
            assert!(decode::<Sample>(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_claimed_length_beyond_the_limit_is_refused() {
        // Variant 1, then a length of 2^60 in the longest integer form.
        let mut bytes = vec![1, 253];
        bytes.extend_from_slice(&(1_u64 << 60).to_le_bytes());
        assert!(matches!(decode::<Sample>(&bytes), Err(CodecError::Decode(_))));
    }

    #[test]
    fn a_few_bytes_cannot_claim_megabytes() {
        for (claimed, limit) in [(40_000, "LimitExceeded"), (30_000, "UnexpectedEnd")] {
            let mut bytes = vec![1, 1, 252];
            bytes.extend_from_slice(&u32::to_le_bytes(claimed));
            let error = decode::<Sample>(&bytes).unwrap_err();
            assert!(format!("{error:?}").contains(limit), "{error:?}");
        }
    }

    #[test]
    fn a_full_frame_decodes() {
        let value = Sample::Pair { key: 1, value: Some(vec![9; FRAME_MAX_BYTES - 64]) };
        assert_eq!(decode::<Sample>(&to_vec(&value).unwrap()).unwrap(), value);
    }
}
