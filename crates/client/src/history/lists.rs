//! Member lists, as far as the ledgers tell of them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use types::Stamp;

use super::{Ledgers, MemberLedger};
use crate::ledger::{LedgerKind, ListPart};

pub(super) type Voters = BTreeSet<u32>;

/// What a ledger says of a member list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListNews {
    /// The member has it on its disk.
    Adopted,
    /// The member leads, and a majority of the list's voters has it on disk.
    InForce,
    /// An operator began a new cluster with it.
    Forced,
}

/// One member list in one ledger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListEntry {
    pub news: ListNews,
    pub stamp: Stamp,
    pub voters: BTreeSet<u32>,
    /// The member whose ledger it is, and the number of the entry; the last one of a long list.
    pub member: u32,
    pub sequence: u64,
    /// By the clock of that member.
    pub at_ms: u64,
}

/// Where an operator began a new cluster: no majority of the voters before it has granted what came after it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Cut {
    /// The first epoch after it.
    pub epoch: u64,
    pub voters: Vec<u32>,
    pub member: u32,
    pub sequence: u64,
}

/// The lists that were in force, or with which an operator began a cluster, each once, in the order of their stamps.
pub fn lists_in_force(ledgers: &Ledgers) -> Vec<ListEntry> {
    let mut lists: BTreeMap<Stamp, ListEntry> = BTreeMap::new();
    for entry in ledgers.members.iter().flat_map(told).filter(|entry| entry.news != ListNews::Adopted) {
        lists.entry(entry.stamp).or_insert(entry);
    }
    lists.into_values().collect()
}

/// The lists that this ledger tells of, in its order. A list of which an entry is lost is left out.
pub(super) fn told(ledger: &MemberLedger) -> Vec<ListEntry> {
    let mut lists = Vec::new();
    let mut open: Option<(ListEntry, u16)> = None;
    for entry in &ledger.entries {
        let Some((news, part)) = list_part(&entry.kind) else {
            open = None;
            continue;
        };
        let fits = |list: &ListEntry, parts: u16| {
            (list.news, list.stamp, parts, list.sequence + 1) == (news, part.stamp, part.from, entry.sequence)
        };
        let continued = open.take().filter(|(list, parts)| fits(list, *parts));
        let (voters, from) = continued.map_or((Voters::new(), 0), |(list, parts)| (list.voters, parts));
        if part.from != from {
            continue;
        }
        let known = from.saturating_add(part.voters.len() as u16);
        let voters = voters.into_iter().chain(part.voters.iter().copied()).collect();
        let (member, sequence, at_ms) = (ledger.id, entry.sequence, entry.wall_ms);
        let list = ListEntry { news, stamp: part.stamp, voters, member, sequence, at_ms };
        if known >= part.of {
            lists.push(list);
        } else {
            open = Some((list, known));
        }
    }
    lists
}

pub(super) fn list_part(kind: &LedgerKind) -> Option<(ListNews, &ListPart)> {
    match kind {
        LedgerKind::Adopted(part) => Some((ListNews::Adopted, part)),
        LedgerKind::InForce(part) => Some((ListNews::InForce, part)),
        LedgerKind::Forced(part) => Some((ListNews::Forced, part)),
        _ => None,
    }
}

/// All lists that are known.
#[derive(Debug)]
pub(super) struct Lists {
    /// Of all ledgers.
    pub(super) entries: Vec<ListEntry>,
    /// Oldest first.
    pub(super) cuts: Vec<Cut>,
    /// By ledgers.
    told: BTreeMap<Stamp, Voters>,
    /// By what members answered, or by the config.
    supposed: BTreeMap<Stamp, Voters>,
}

impl Lists {
    /// `file`: the voters of the config, which is the first list unless a ledger tells otherwise.
    pub(super) fn of(ledgers: &Ledgers, file: &[u32]) -> Self {
        let entries: Vec<ListEntry> = ledgers.members.iter().flat_map(told).collect();
        let told: BTreeMap<Stamp, Voters> =
            entries.iter().rev().map(|entry| (entry.stamp, entry.voters.clone())).collect();
        let forced = entries.iter().filter(|entry| entry.news == ListNews::Forced);
        let mut cuts: Vec<Cut> = forced
            .map(|entry| Cut {
                epoch: entry.stamp.epoch.0,
                voters: entry.voters.iter().copied().collect(),
                member: entry.member,
                sequence: entry.sequence,
            })
            .collect();
        cuts.sort_by_key(|cut| cut.epoch);
        cuts.dedup_by_key(|cut| cut.epoch);
        // The first change of a cluster is preceded by a confirmation of its first list.
        let before_cuts = |stamp: &Stamp| cuts.first().is_none_or(|cut| stamp.epoch.0 < cut.epoch);
        let earliest = told.first_key_value().filter(|(stamp, _)| stamp.n == 0 && before_cuts(stamp));
        let first = earliest.map_or_else(|| file.iter().copied().collect(), |(_, voters)| voters.clone());
        let mut supposed = BTreeMap::from([(Stamp::FIRST, first)]);
        for list in ledgers.lists.iter().filter(|list| list.stamp != Stamp::FIRST) {
            supposed.insert(list.stamp, list.voters().map(|id| id.0).collect());
        }
        Lists { entries, cuts, told, supposed }
    }

    pub(super) fn voters(&self, stamp: Stamp) -> Option<&Voters> {
        self.told.get(&stamp).or_else(|| self.supposed.get(&stamp))
    }

    /// Only if a ledger tells it.
    pub(super) fn told_voters(&self, stamp: Stamp) -> Option<&Voters> {
        self.told.get(&stamp)
    }

    /// The newest list of an epoch before this one.
    pub(super) fn newest_before(&self, epoch: u64) -> Stamp {
        let before = |stamp: &&Stamp| stamp.epoch.0 < epoch;
        self.told.keys().chain(self.supposed.keys()).filter(before).max().copied().unwrap_or(Stamp::FIRST)
    }

    /// The number of cuts before this epoch: reigns with different numbers belong to different clusters.
    pub(super) fn side(&self, epoch: u64) -> usize {
        self.cuts.iter().filter(|cut| cut.epoch <= epoch).count()
    }
}

/// How many voters one of the two lists has and the other has not.
pub(super) fn apart(one: &Voters, other: &Voters) -> usize {
    one.symmetric_difference(other).count()
}

pub(super) fn in_words(voters: &Voters) -> String {
    voters.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn a_long_list_is_put_together_and_one_with_a_lost_part_is_left_out() {
        let voters: Vec<u32> = (1..=30).collect();
        let entries = adopted((7, 0), &[1, 2, 3]).into_iter().chain(adopted((7, 1), &voters));
        let whole = ledger(1, (1..).zip(entries));
        let found = told(&whole);
        let lengths: Vec<(usize, u64)> = found.iter().map(|list| (list.voters.len(), list.sequence)).collect();
        assert_eq!(lengths, [(3, 1), (30, 4)]);
        for lost in 1..4 {
            let mut holed = whole.clone();
            holed.entries.remove(lost);
            assert_eq!(told(&holed).len(), 1, "part {lost} is lost");
        }
    }

    #[test]
    fn lists_in_force_are_told_once_in_the_order_of_their_stamps() {
        let later = in_force((9, 0), &[1, 2]).into_iter().chain(adopted((9, 1), &[1]));
        let one = ledger(1, (1..).zip(in_force((8, 4), &[1, 2, 3]).into_iter().chain(later.clone())));
        let two = ledger(2, (1..).zip(later));
        let found = lists_in_force(&cluster([two, one]));
        let stamps: Vec<String> = found.iter().map(|list| list.stamp.to_string()).collect();
        assert_eq!(stamps, ["8.4", "9.0"]);
    }
}
