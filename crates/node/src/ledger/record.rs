//! The bytes of a ledger segment: a head, then records, all of [`RECORD_BYTES`] so that damage to one hides no other.
//!
//! ```text
//! head:   magic (8) | version u16 | zeros | CRC32 of all before it
//! record: sequence u64 | wall ms u64 | boot ns u64 | boot id (16) | kind u8 | fields of that kind | zeros | CRC32
//! ```
//! Integers are little-endian. Roles and causes are text, so that a new one needs no new version; a version that does not
//! know the word cannot read the record.

use client::{LedgerEntry, LedgerKind, Transition};
use types::{Epoch, NodeId, Role, Standing};

use crate::storage::Fields;

/// The format this code writes, and the newest it reads.
pub(super) const VERSION: u16 = 1;
/// The size of the head and of every record.
pub(super) const RECORD_BYTES: usize = 128;

const MAGIC: [u8; 8] = *b"cnclv-lg";
const CRC_BYTES: usize = 4;
const ROLE_BYTES: usize = 12;
const CAUSE_BYTES: usize = 28;

const STARTED: u8 = 1;
const BECAME: u8 = 2;
const GRANTED: u8 = 3;
const PROMISE_ENDED: u8 = 4;

pub(super) fn head() -> [u8; RECORD_BYTES] {
    let mut writer = Writer::new();
    writer.put(&MAGIC);
    writer.put(&VERSION.to_le_bytes());
    writer.finish()
}

/// The version in an intact head; `None` for any other bytes.
pub(super) fn head_version(bytes: &[u8]) -> Option<u16> {
    let mut fields = Fields(checked(bytes)?);
    (fields.take()? == MAGIC).then_some(())?;
    fields.take().map(u16::from_le_bytes)
}

pub(super) fn encode(entry: &LedgerEntry) -> [u8; RECORD_BYTES] {
    let mut writer = Writer::new();
    writer.put(&entry.sequence.to_le_bytes());
    writer.put(&entry.wall_ms.to_le_bytes());
    writer.put(&entry.boot_ns.to_le_bytes());
    writer.put(&entry.boot_id);
    match &entry.kind {
        LedgerKind::Started { incarnation, last_alive_ms } => {
            writer.put(&[STARTED]);
            writer.put(&incarnation.to_le_bytes());
            writer.put(&[u8::from(last_alive_ms.is_some())]);
            writer.put(&last_alive_ms.unwrap_or(0).to_le_bytes());
        }
        LedgerKind::Became(Transition { old, now, cause, .. }) => {
            writer.put(&[BECAME]);
            writer.text::<ROLE_BYTES>(old.map_or("", Role::name));
            writer.text::<ROLE_BYTES>(now.role.name());
            writer.put(&[u8::from(now.leader.is_some())]);
            writer.put(&now.leader.map_or(0, |leader| leader.0).to_le_bytes());
            writer.put(&now.epoch.0.to_le_bytes());
            writer.text::<CAUSE_BYTES>(cause.name());
        }
        LedgerKind::Granted { epoch, holder } => writer.promise(GRANTED, *epoch, *holder),
        LedgerKind::PromiseEnded { epoch, holder } => writer.promise(PROMISE_ENDED, *epoch, *holder),
    }
    writer.finish()
}

/// `None` if these bytes are no intact record.
pub(super) fn decode(bytes: &[u8]) -> Option<LedgerEntry> {
    let mut fields = Fields(checked(bytes)?);
    let [sequence, wall_ms, boot_ns] = [fields.u64()?, fields.u64()?, fields.u64()?];
    let boot_id = fields.take()?;
    let kind = match fields.take()? {
        [STARTED] => {
            let incarnation = fields.u64()?;
            let known = fields.bool()?;
            LedgerKind::Started { incarnation, last_alive_ms: fields.u64().filter(|_| known) }
        }
        [BECAME] => {
            let (old, role) = (text::<ROLE_BYTES>(&mut fields)?, text::<ROLE_BYTES>(&mut fields)?.parse().ok()?);
            let old = if old.is_empty() { None } else { Some(old.parse().ok()?) };
            let known = fields.bool()?;
            let leader = fields.u32().filter(|_| known).map(NodeId);
            let (epoch, cause) = (Epoch(fields.u64()?), text::<CAUSE_BYTES>(&mut fields)?.parse().ok()?);
            let now = Standing { role, leader, epoch };
            LedgerKind::Became(Transition { old, now, cause, lease_until_ns: None })
        }
        [GRANTED] => LedgerKind::Granted { epoch: fields.u64()?, holder: fields.u32()? },
        [PROMISE_ENDED] => LedgerKind::PromiseEnded { epoch: fields.u64()?, holder: fields.u32()? },
        _ => return None,
    };
    Some(LedgerEntry { sequence, wall_ms, boot_ns, boot_id, kind })
}

/// The content of a record, if its checksum matches.
fn checked(bytes: &[u8]) -> Option<&[u8]> {
    let (content, crc) = bytes.get(..RECORD_BYTES)?.split_at(RECORD_BYTES - CRC_BYTES);
    (crc32fast::hash(content).to_le_bytes() == crc).then_some(content)
}

struct Writer {
    bytes: [u8; RECORD_BYTES],
    at: usize,
}

impl Writer {
    fn new() -> Self {
        Writer { bytes: [0; RECORD_BYTES], at: 0 }
    }

    fn put(&mut self, field: &[u8]) {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
    }

    /// Names of roles and causes are short ASCII words; a test shows that all of them fit.
    fn text<const N: usize>(&mut self, text: &str) {
        let mut field = [0; N];
        let length = text.floor_char_boundary(N);
        field[..length].copy_from_slice(&text.as_bytes()[..length]);
        self.put(&field);
    }

    fn promise(&mut self, kind: u8, epoch: u64, holder: u32) {
        self.put(&[kind]);
        self.put(&epoch.to_le_bytes());
        self.put(&holder.to_le_bytes());
    }

    fn finish(mut self) -> [u8; RECORD_BYTES] {
        let (content, crc) = self.bytes.split_at_mut(RECORD_BYTES - CRC_BYTES);
        crc.copy_from_slice(&crc32fast::hash(content).to_le_bytes());
        self.bytes
    }
}

/// Text in a field of this size, padded with zeros.
fn text<const N: usize>(fields: &mut Fields<'_>) -> Option<String> {
    let field: [u8; N] = fields.take()?;
    let length = field.iter().position(|byte| *byte == 0).unwrap_or(N);
    String::from_utf8(field[..length].to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use types::Cause;

    use super::*;

    fn kinds() -> Vec<LedgerKind> {
        let became = |old: Option<Role>, leader: Option<u32>| {
            let now = Standing { role: Role::Follower, leader: leader.map(NodeId), epoch: Epoch(7) };
            LedgerKind::Became(Transition { old, now, cause: Cause::OtherElected, lease_until_ns: None })
        };
        vec![
            LedgerKind::Started { incarnation: 3, last_alive_ms: None },
            LedgerKind::Started { incarnation: u64::MAX, last_alive_ms: Some(12) },
            became(None, None),
            became(Some(Role::Candidate), Some(5)),
            LedgerKind::Granted { epoch: 9, holder: 4 },
            LedgerKind::PromiseEnded { epoch: 9, holder: 4 },
        ]
    }

    fn entry(kind: LedgerKind) -> LedgerEntry {
        LedgerEntry { sequence: 8, wall_ms: 1_700_000_000_000, boot_ns: 77, boot_id: *b"0123456789abcdef", kind }
    }

    #[test]
    fn every_kind_comes_back_as_it_was_written() {
        for kind in kinds() {
            let entry = entry(kind);
            assert_eq!(decode(&encode(&entry)), Some(entry));
        }
        assert_eq!(head_version(&head()), Some(VERSION));
        assert_eq!(decode(&head()), None, "a head is no record");
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        for kind in kinds() {
            let bytes = encode(&entry(kind));
            for bit in 0..RECORD_BYTES * 8 {
                let mut flipped = bytes;
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(decode(&flipped), None, "bit {bit}");
            }
            for length in 0..RECORD_BYTES {
                assert_eq!(decode(&bytes[..length]), None, "cut to {length}");
            }
        }
    }

    #[test]
    fn every_role_and_cause_fits_its_field_and_an_unknown_word_makes_no_record() {
        for cause in Cause::ALL {
            for role in Role::ALL {
                let now = Standing { role, leader: None, epoch: Epoch(1) };
                let became = Transition { old: Some(role), now, cause, lease_until_ns: None };
                let entry = entry(LedgerKind::Became(became));
                assert_eq!(decode(&encode(&entry)), Some(entry));
            }
        }
        let mut writer = Writer::new();
        writer.put(&[0; 40]);
        writer.put(&[BECAME]);
        writer.text::<ROLE_BYTES>("");
        writer.text::<ROLE_BYTES>("emperor");
        assert_eq!(decode(&writer.finish()), None);
    }

    #[test]
    fn the_layout_of_version_1_does_not_change() {
        let crcs: Vec<u32> = kinds().into_iter().map(|kind| crc32fast::hash(&encode(&entry(kind))[..124])).collect();
        assert_eq!(crcs, [16_392_908, 1_787_687_295, 3_704_391_433, 4_042_964_492, 3_429_203_880, 2_434_669_444]);
    }
}
