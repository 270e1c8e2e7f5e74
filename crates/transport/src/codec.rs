//! The one place that knows the wire encoding of values.

use bytes::{BufMut, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// The decoder counts the size of what it builds, which exceeds the size of what it reads: a frame of small strings
/// grows by the size of each string's header. Four frames' worth is enough for honest values and still a bound.
const DECODED_MAX_BYTES: usize = 4 * crate::frame::FRAME_MAX_BYTES;

/// Why bytes were not a value, or a value could not become bytes.
#[derive(Debug, Error)]
pub enum CodecError {
    #[error("cannot encode: {0}")]
    Encode(#[source] bincode::error::EncodeError),
    #[error("cannot decode: {0}")]
    Decode(#[source] bincode::error::DecodeError),
    /// A value followed by something else is not a value.
    #[error("{extra} bytes follow the value")]
    Trailing { extra: usize },
}

/// Appends the encoding of a value.
pub fn encode<T: Serialize>(value: &T, out: &mut BytesMut) -> Result<(), CodecError> {
    let mut writer = out.writer();
    bincode::serde::encode_into_std_write(value, &mut writer, config()).map_err(CodecError::Encode)?;
    Ok(())
}

/// The encoding of a value, on its own.
pub fn to_vec<T: Serialize>(value: &T) -> Result<Vec<u8>, CodecError> {
    bincode::serde::encode_to_vec(value, config()).map_err(CodecError::Encode)
}

/// Decodes a value that fills the whole input.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let (value, used) = bincode::serde::decode_from_slice(bytes, config()).map_err(CodecError::Decode)?;
    match bytes.len() - used {
        0 => Ok(value),
        extra => Err(CodecError::Trailing { extra }),
    }
}

fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<DECODED_MAX_BYTES>()
}
