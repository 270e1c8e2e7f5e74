//! The frame that every version of the state file has.
//!
//! ```text
//! magic (8) | format version u16 | length of the whole file u32 | content of that version | CRC32 of all before it
//! ```
//! Integers are little-endian. Every version keeps this frame, so that a damaged file and a file of a newer version can
//! be distinguished; the content may change with the version.

use std::collections::BTreeMap;
use std::fmt;

use algorithms::NodeId;
use member::{Incarnation, Safety};
use thiserror::Error;

const MAGIC: [u8; 8] = *b"cnclv-st";
const HEAD_BYTES: usize = MAGIC.len() + 2 + 4;
const CRC_BYTES: usize = 4;
/// Larger files are no state files: none is written, and no more bytes than this are read into memory.
pub(super) const FILE_BYTES_MAX: usize = 1 << 20;
/// The most peers whose latest incarnation is kept: the limit of the config.
pub(super) const SEEN_MAX: usize = 256;

/// Why bytes are not a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// It does not begin like a state file.
    Magic,
    /// Its length differs from the length that it was written with.
    Length { found: u64 },
    /// The checksum does not match the content.
    Checksum,
    /// The checksum matches, but the content is invalid.
    Content,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Magic => f.write_str("it does not begin like a state file"),
            Damage::Length { found } => write!(f, "its {found} bytes are not the length it was written with"),
            Damage::Checksum => f.write_str("its checksum does not fit its content"),
            Damage::Content => f.write_str("its fields make no sense"),
        }
    }
}

/// Why a state cannot become a file. Nothing was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub(super) enum Unwritable {
    #[error("{0} peers were seen; the state file holds {SEEN_MAX}")]
    Peers(usize),
    #[error("{0} sections; the state file holds {max}", max = u16::MAX)]
    Sections(usize),
    #[error("the state would take {0} bytes; the state file holds {FILE_BYTES_MAX}")]
    Bytes(usize),
    #[error("the member's part of a state file of format 1 was not converted, and would be lost")]
    Legacy,
}

/// The file with this content.
pub(super) fn seal(version: u16, content: &[u8]) -> Result<Vec<u8>, Unwritable> {
    let length = HEAD_BYTES + content.len() + CRC_BYTES;
    if length > FILE_BYTES_MAX {
        return Err(Unwritable::Bytes(length));
    }
    let mut bytes = Vec::with_capacity(length);
    bytes.extend(MAGIC);
    bytes.extend(version.to_le_bytes());
    bytes.extend((length as u32).to_le_bytes());
    bytes.extend(content);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    Ok(bytes)
}

/// The format version and the content of an undamaged file.
pub(super) fn open(bytes: &[u8]) -> Result<(u16, &[u8]), Damage> {
    let wrong_length = Damage::Length { found: bytes.len() as u64 };
    if !bytes.starts_with(&MAGIC[..bytes.len().min(MAGIC.len())]) {
        return Err(Damage::Magic);
    }
    let mut head = Fields(bytes.get(MAGIC.len()..).unwrap_or_default());
    let (Some(version), Some(length)) = (head.u16(), head.u32()) else {
        return Err(wrong_length);
    };
    if length as usize != bytes.len() || bytes.len() < HEAD_BYTES + CRC_BYTES {
        return Err(wrong_length);
    }
    let (checked, crc) = bytes.split_at(bytes.len() - CRC_BYTES);
    if crc32fast::hash(checked).to_le_bytes() != crc {
        return Err(Damage::Checksum);
    }
    Ok((version, &checked[HEAD_BYTES..]))
}

pub(super) fn put_incarnation(bytes: &mut Vec<u8>, incarnation: Incarnation) {
    bytes.extend(incarnation.counter.to_le_bytes());
    bytes.extend(incarnation.nonce.to_le_bytes());
}

/// Reads fields from the front of the remaining bytes. No length is trusted before that many bytes are there.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(first)
    }

    pub(crate) fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(super) fn safety(&mut self) -> Option<Safety> {
        Some(if self.bool()? { Safety::Quorum } else { Safety::Classic })
    }

    pub(super) fn incarnation(&mut self) -> Option<Incarnation> {
        Some(Incarnation { counter: self.u64()?, nonce: self.u64()? })
    }

    pub(super) fn seen(&mut self) -> Option<BTreeMap<NodeId, Incarnation>> {
        let length = usize::from(self.u16()?);
        if length > SEEN_MAX {
            return None;
        }
        let mut seen = BTreeMap::new();
        for _ in 0..length {
            seen.insert(NodeId(self.u32()?), self.incarnation()?);
        }
        (seen.len() == length).then_some(seen)
    }
}

#[cfg(test)]
pub(super) fn from_hex(hex: &str) -> Vec<u8> {
    let hex = hex.trim();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_opens_and_every_flipped_byte_and_other_length_is_noticed() {
        let bytes = seal(7, b"content").unwrap();
        assert_eq!(open(&bytes), Ok((7, b"content".as_slice())));
        for at in 0..bytes.len() {
            for mask in [0x01, 0x80, 0xff] {
                let mut flipped = bytes.clone();
                flipped[at] ^= mask;
                assert!(open(&flipped).is_err(), "byte {at} ^ {mask:#x}");
            }
        }
        for length in 0..bytes.len() {
            assert!(open(&bytes[..length]).is_err(), "cut to {length}");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert_eq!(open(&longer), Err(Damage::Length { found: longer.len() as u64 }));
        assert_eq!(open(b"[cluster]\nname = \"a config\""), Err(Damage::Magic));
    }

    #[test]
    fn the_largest_file_is_sealed_and_no_larger_one() {
        let room = FILE_BYTES_MAX - HEAD_BYTES - CRC_BYTES;
        let largest = vec![0; room];
        assert_eq!(seal(2, &largest).unwrap().len(), FILE_BYTES_MAX);
        assert_eq!(seal(2, &[largest.as_slice(), &[0]].concat()), Err(Unwritable::Bytes(FILE_BYTES_MAX + 1)));
    }
}
