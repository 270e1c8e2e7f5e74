//! State files of format 1, which were one fixed row of fields. They are read, and never written.

use std::collections::BTreeMap;
use std::time::Duration;

use algorithms::NodeId;
use member::{Incarnation, Safety};

use super::frame::Fields;

/// The content of a file of format 1, in plain values: the member's own types may have changed since.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordV1 {
    pub id: NodeId,
    pub refused: bool,
    pub members: u64,
    pub safety: Safety,
    pub incarnation: Incarnation,
    /// Every epoch below this one may have been used.
    pub ceiling: u64,
    /// The largest epoch of a quorum reign that was followed.
    pub followed: u64,
    /// The last grant of a quorum reign; `None` if it is not known.
    pub vote: Option<VoteV1>,
    pub seen: BTreeMap<NodeId, Incarnation>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VoteV1 {
    pub epoch: u64,
    /// The incarnation of the member that the epoch was granted to.
    pub holder: Option<(NodeId, Incarnation)>,
    pub longest_lease: Duration,
}

/// `None` if the content is not exactly one record.
pub(super) fn decode(content: &[u8]) -> Option<RecordV1> {
    let mut fields = Fields(content);
    let record = RecordV1 {
        id: NodeId(fields.u32()?),
        refused: fields.bool()?,
        members: fields.u64()?,
        safety: fields.safety()?,
        incarnation: fields.incarnation()?,
        ceiling: fields.u64()?,
        followed: fields.u64()?,
        vote: vote(&mut fields)?,
        seen: fields.seen()?,
    };
    fields.0.is_empty().then_some(record)
}

/// One byte that counts the parts that are present, then all fields, zero where a part is absent. The outer `None`: no
/// vote was ever written like that.
#[allow(clippy::option_option)]
fn vote(fields: &mut Fields<'_>) -> Option<Option<VoteV1>> {
    let parts = fields.u8()?;
    let (epoch, longest_lease) = (fields.u64()?, Duration::from_nanos(fields.u64()?));
    let holder = (NodeId(fields.u32()?), fields.incarnation()?);
    let nobody = holder == (NodeId(0), Incarnation::default());
    match parts {
        0 if nobody && epoch == 0 && longest_lease.is_zero() => Some(None),
        1 if nobody => Some(Some(VoteV1 { epoch, holder: None, longest_lease })),
        2 => Some(Some(VoteV1 { epoch, holder: Some(holder), longest_lease })),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::storage::frame::{self, from_hex};

    /// Where the vote begins: id, refused, members, safety, incarnation, ceiling and followed are before it.
    const VOTE_AT: usize = 4 + 1 + 8 + 1 + 16 + 8 + 8;
    const VOTE_BYTES: usize = 1 + 8 + 8 + 4 + 16;

    /// A file as the last release with format 1 wrote it.
    pub(in crate::storage) fn stored() -> Vec<u8> {
        from_hex(include_str!("record-v1.hex"))
    }

    /// The content of that file.
    pub(in crate::storage) fn full() -> RecordV1 {
        let incarnation = Incarnation { counter: 3, nonce: 0x0123_4567_89ab_cdef };
        let vote =
            VoteV1 { epoch: 77, holder: Some((NodeId(5), incarnation)), longest_lease: Duration::from_millis(500) };
        RecordV1 {
            id: NodeId(4),
            refused: true,
            members: 0xfeed,
            safety: Safety::Quorum,
            incarnation,
            ceiling: 128,
            followed: 78,
            vote: Some(vote),
            seen: BTreeMap::from([(NodeId(2), Incarnation { counter: 9, nonce: 0xabcd }), (NodeId(5), incarnation)]),
        }
    }

    #[test]
    fn a_file_of_format_1_is_read() {
        let file = stored();
        let (version, content) = frame::open(&file).unwrap();
        assert_eq!((version, decode(content)), (1, Some(full())));
        for length in 0..content.len() {
            assert_eq!(decode(&content[..length]), None, "cut to {length}");
        }
        assert_eq!(decode(&[content, &[0]].concat()), None, "one byte more");
    }

    #[test]
    fn a_vote_is_read_with_a_holder_or_without_or_not_at_all() {
        let file = stored();
        let (_, content) = frame::open(&file).unwrap();
        let with_vote = |parts: u8, kept: usize| {
            let mut content = content.to_vec();
            content[VOTE_AT] = parts;
            content[VOTE_AT + 1 + kept..VOTE_AT + VOTE_BYTES].fill(0);
            decode(&content).map(|record| record.vote)
        };
        let whole = full().vote;
        let holderless = whole.map(|vote| VoteV1 { holder: None, ..vote });
        assert_eq!(with_vote(2, 36), Some(whole));
        assert_eq!(with_vote(1, 16), Some(holderless));
        assert_eq!(with_vote(0, 0), Some(None));
        for (parts, kept) in [(0, 16), (1, 36), (3, 36)] {
            assert_eq!(with_vote(parts, kept), None, "{parts} parts with {kept} bytes");
        }
    }
}
