//! Are the entries of a ledger those that were written? Every record contains the hash of the record before it, and the
//! newest hash is kept outside the ledger, in the state file.
//!
//! A record that continues after entries were removed contains the hash of the last removed one, which the state file
//! knows: the break stays visible for as long as its neighbours are kept.

use client::{LedgerBreak, LedgerHash, LedgerHead};

use super::record::{ORIGIN, Record};

/// More breaks say nothing new.
const BREAKS_MAX: usize = 16;

/// A record as the chain sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Link {
    pub(super) sequence: u64,
    /// `None` in a record of version 1.
    pub(super) previous: Option<LedgerHash>,
    pub(super) hash: LedgerHash,
}

impl Link {
    /// Before the first entry.
    const START: Link = Link { sequence: 0, previous: None, hash: ORIGIN };
}

impl From<&Record> for Link {
    fn from(record: &Record) -> Self {
        Link { sequence: record.entry.sequence, previous: record.previous, hash: record.hash() }
    }
}

/// What the next record continues: the newest record found, or the head that the state file knows, if the ledger lacks it.
pub(super) fn tail(links: &[Link], known: Option<LedgerHead>) -> Link {
    let found = links.last().copied().unwrap_or(Link::START);
    match known {
        Some(head) if !links.iter().any(|link| (link.sequence, link.hash) == (head.sequence, head.hash)) => {
            Link { sequence: found.sequence.max(head.sequence), previous: None, hash: head.hash }
        }
        _ => found,
    }
}

/// Compares the records of a ledger, in their order, with each other and with the newest entry known to have been
/// written.
pub(super) fn breaks(links: &[Link], known: Option<LedgerHead>) -> Vec<LedgerBreak> {
    let mut breaks = Vec::new();
    if let (Some(head), Some(found)) = (known, links.first())
        && found.sequence > head.first
    {
        breaks.push(LedgerBreak::Missing { from: head.first, to: found.sequence - 1 });
    }
    breaks.extend(links.windows(2).filter_map(|pair| between(pair[0], pair[1])));
    breaks.extend(known.and_then(|head| at_head(links, head)).filter(|found| !breaks.contains(found)));
    breaks.truncate(BREAKS_MAX);
    breaks
}

fn between(before: Link, after: Link) -> Option<LedgerBreak> {
    let intact = match after.previous {
        Some(previous) => previous == before.hash,
        // Both of version 1. That version never continues a ledger of a later one.
        None => before.previous.is_none(),
    };
    if intact {
        return None;
    }
    let (from, to) = (before.sequence + 1, after.sequence - 1);
    let replaced = LedgerBreak::Replaced { sequence: before.sequence };
    Some(if from <= to { LedgerBreak::Missing { from, to } } else { replaced })
}

fn at_head(links: &[Link], head: LedgerHead) -> Option<LedgerBreak> {
    let at = links.partition_point(|link| link.sequence < head.sequence);
    match links.get(at) {
        Some(link) if link.sequence == head.sequence => {
            (link.hash != head.hash).then_some(LedgerBreak::Replaced { sequence: head.sequence })
        }
        // The gap around it is a break by itself.
        Some(_) => None,
        None => {
            let from = links.last().map_or(head.first, |last| last.sequence + 1);
            Some(LedgerBreak::Missing { from, to: head.sequence })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(sequence: u64) -> LedgerHash {
        u128::from(sequence + 1000).to_le_bytes()
    }

    /// Entries with these numbers, each of which continues the one before it.
    fn chain(sequences: impl IntoIterator<Item = u64>) -> Vec<Link> {
        let mut previous = ORIGIN;
        let link = |sequence| {
            let link = Link { sequence, previous: Some(previous), hash: hash(sequence) };
            previous = link.hash;
            link
        };
        sequences.into_iter().map(link).collect()
    }

    fn head(first: u64, sequence: u64) -> LedgerHead {
        LedgerHead { first, sequence, hash: hash(sequence) }
    }

    const fn missing(from: u64, to: u64) -> LedgerBreak {
        LedgerBreak::Missing { from, to }
    }

    #[test]
    fn a_ledger_at_or_beyond_its_known_end_is_whole() {
        for known in 1..=9 {
            assert_eq!(breaks(&chain(1..=9), Some(head(1, known))), []);
        }
        assert_eq!(breaks(&chain(1..=9), None), []);
        assert_eq!(breaks(&[], None), []);
        assert_eq!(breaks(&chain(5..=9), Some(head(5, 7))), [], "entries were dropped by rotation");
        assert_eq!(breaks(&chain([1, 2, 6, 7]), Some(head(1, 7))), [], "writes that failed are a gap, and no break");
    }

    #[test]
    fn every_cut_of_the_end_below_what_is_known_is_missing_and_stays_so() {
        for kept in 0..9 {
            let mut links = chain(1..=9);
            links.truncate(kept);
            let from = kept as u64 + 1;
            assert_eq!(breaks(&links, Some(head(1, 9))), [missing(from, 9)], "{kept} kept");
            // The next process continues after what was known.
            let tail = tail(&links, Some(head(1, 9)));
            assert_eq!((tail.sequence, tail.hash), (9, hash(9)));
            links.extend([10, 11].map(|n| Link { sequence: n, previous: Some(hash(n - 1)), hash: hash(n) }));
            assert_eq!(breaks(&links, Some(head(1, 11))), [missing(from, 9)], "{kept} kept, two more written");
        }
    }

    #[test]
    fn every_removed_beginning_and_middle_is_missing() {
        for cut in 1..9 {
            assert_eq!(breaks(&chain(1..=9)[cut..], Some(head(1, 9))), [missing(1, cut as u64)]);
        }
        for (from, to) in [(2, 2), (2, 8), (5, 6)] {
            let mut links = chain(1..=9);
            links.drain(from as usize - 1..to as usize);
            assert_eq!(breaks(&links, Some(head(1, 9))), [missing(from, to)]);
            assert_eq!(breaks(&links, Some(head(1, from))), [missing(from, to)], "the known end is among them");
        }
    }

    #[test]
    fn every_changed_entry_is_named_and_the_last_by_what_is_known() {
        for changed in 1..=9_u64 {
            let mut links = chain(1..=9);
            links[changed as usize - 1].hash = [7; 16];
            assert_eq!(breaks(&links, Some(head(1, 9))), [LedgerBreak::Replaced { sequence: changed }]);
            assert_eq!(breaks(&links, None).is_empty(), changed == 9);
        }
        let mut links = chain(1..=9);
        links[8].hash = [7; 16];
        let tail = tail(&links, Some(head(1, 9)));
        assert_eq!(tail.hash, hash(9), "the next record shows it for good");
        let tail = super::tail(&chain(1..=20), Some(LedgerHead { first: 1, sequence: 9, hash: [7; 16] }));
        assert_eq!((tail.sequence, tail.hash), (20, [7; 16]), "another ledger in its place");
    }

    #[test]
    fn the_chain_begins_after_the_records_of_version_1_and_never_stops_again() {
        let mut links = chain(1..=9);
        links[..4].iter_mut().for_each(|link| link.previous = None);
        assert_eq!(breaks(&links, Some(head(1, 9))), []);
        links[3].hash = [7; 16];
        assert_eq!(breaks(&links, Some(head(1, 9))), [LedgerBreak::Replaced { sequence: 4 }], "the last of version 1");
        let mut links = chain(1..=9);
        links[6].previous = None;
        assert_eq!(breaks(&links, Some(head(1, 9))), [LedgerBreak::Replaced { sequence: 6 }], "a stripped hash");
    }
}
