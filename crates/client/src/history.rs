//! What the ledgers of all members show together. Pure: entries in, judgements out.
//!
//! - [`reigns`]: which member led from when to when. [`who_led_at`]: which member led at one instant.
//! - [`audit`]: are successive reigns ordered, or do they overlap?
//! - [`lists_in_force`]: which member lists counted. [`orders`]: what operators asked of members, and which members carried it out.
//!
//! A missing ledger or one with gaps never makes a judgement wrong, only weaker: "unknown", "incomplete".

mod at;
mod audit;
mod classic;
#[cfg(test)]
mod list_audit_tests;
mod list_rules;
mod lists;
mod orders;
mod quorum;
mod reigns;
#[cfg(test)]
pub(crate) mod testing;

pub use at::{Held, WhoLed, who_led_at};
pub use audit::{Audit, EntryRef, Finding, Outcome, Proof, audit};
pub use lists::{Cut, ListEntry, ListNews, lists_in_force};
pub use orders::{OrderEntry, orders};
pub use reigns::{Reign, ReignEnd, Span, clock_spread_ms, reigns};

use serde::Serialize;
use types::MemberList;

use crate::ledger::{LedgerBreak, LedgerEntry, LedgerPage, LedgerProof};

/// The ledgers of a cluster, as far as they could be read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ledgers {
    pub members: Vec<MemberLedger>,
    pub missing: Vec<Missing>,
    /// Member lists that members know now.
    pub lists: Vec<MemberList>,
}

/// One member's ledger.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemberLedger {
    pub id: u32,
    pub entries: Vec<LedgerEntry>,
    /// The damage that it reports.
    pub troubles: Vec<String>,
    /// What the member found when it compared the ledger with its own hashes.
    pub proof: LedgerProof,
}

/// A member whose ledger could not be read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Missing {
    pub id: Option<u32>,
    pub address: String,
    pub why: String,
}

impl Ledgers {
    pub(crate) fn member(&self, id: u32) -> Option<&MemberLedger> {
        self.members.iter().find(|ledger| ledger.id == id)
    }

    /// The members whose ledgers are missing: ids where they are known, addresses otherwise.
    pub fn missing_names(&self) -> Vec<String> {
        let name = |missing: &Missing| missing.id.map_or_else(|| missing.address.clone(), |id| id.to_string());
        self.missing.iter().map(name).collect()
    }

    /// Everything that is missing, as text; empty if every ledger is complete.
    pub fn flaws(&self) -> Vec<String> {
        self.missing_in_words().chain(self.members.iter().flat_map(MemberLedger::flaws)).collect()
    }

    pub(crate) fn missing_in_words(&self) -> impl Iterator<Item = String> + '_ {
        self.missing.iter().map(|missing| {
            let who = missing.id.map_or_else(|| missing.address.clone(), |id| format!("member {id}"));
            format!("the ledger of {who} is missing: {}", missing.why)
        })
    }
}

impl MemberLedger {
    /// What a member answered.
    pub fn new(id: u32, LedgerPage { entries, troubles, proof, .. }: LedgerPage) -> Self {
        MemberLedger { id, entries, troubles, proof }
    }

    /// Is every entry from number 1 on present?
    pub fn is_whole(&self) -> bool {
        self.flaws().is_empty()
    }

    /// Are all entries there that were written since the oldest segment that is kept?
    pub fn is_unbroken(&self) -> bool {
        self.proof.head.is_some() && self.proof.breaks.is_empty() && self.troubles.is_empty()
    }

    /// The pairs of entries between which entries were lost.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = (&LedgerEntry, &LedgerEntry)> {
        let pairs = self.entries.iter().zip(self.entries.iter().skip(1));
        pairs.filter(|(before, after)| after.sequence != before.sequence + 1)
    }

    /// How many of the oldest entries are not there.
    pub(crate) fn dropped(&self) -> u64 {
        self.entries.first().map_or(0, |first| first.sequence.saturating_sub(1))
    }

    /// How many of the oldest entries rotation dropped. Without a proof all that are not there count.
    fn rotated(&self) -> u64 {
        self.proof.head.map_or(self.dropped(), |head| head.first.saturating_sub(1))
    }

    /// Were entries between these two removed?
    fn is_broken(&self, before: u64, after: u64) -> bool {
        let within = |broken: &LedgerBreak| match *broken {
            LedgerBreak::Missing { from, to } => before < from && to < after,
            LedgerBreak::Replaced { .. } => false,
        };
        self.proof.breaks.iter().any(within)
    }

    fn broken_in_words(&self, broken: LedgerBreak) -> String {
        let id = self.id;
        let known = self.proof.head.map_or(0, |head| head.sequence);
        let last = self.entries.last().map_or(0, |last| last.sequence);
        match broken {
            LedgerBreak::Missing { from, to } if self.entries.is_empty() || from <= self.rotated() + 1 => {
                let which = format!("entries {from} to {to} were written and are missing");
                format!("member {id}'s ledger was deleted, or its beginning: {which}")
            }
            LedgerBreak::Missing { from, to } if to == known && last < from => {
                format!("member {id}'s ledger ends at entry {last}, its state file knows entry {to}")
            }
            LedgerBreak::Missing { from, to } => format!(
                "member {id}'s ledger was cut or replaced: it ended at entry {}, its state file knew entry {to}",
                from.saturating_sub(1)
            ),
            LedgerBreak::Replaced { sequence } => {
                format!("member {id}'s ledger was changed: entry {sequence} is not the one that was written")
            }
        }
    }

    pub fn flaws(&self) -> Vec<String> {
        let mut flaws: Vec<String> =
            self.troubles.iter().map(|trouble| format!("member {}: {trouble}", self.id)).collect();
        flaws.extend(self.proof.breaks.iter().map(|&broken| self.broken_in_words(broken)));
        if self.entries.is_empty() && self.proof.breaks.is_empty() {
            flaws.push(format!("member {}: the ledger is empty", self.id));
        }
        if self.rotated() > 0 {
            flaws.push(format!("member {}: the first {} entries were dropped", self.id, self.rotated()));
        }
        let lost = self.gaps().filter(|(before, after)| !self.is_broken(before.sequence, after.sequence));
        flaws.extend(lost.map(|(before, after)| {
            format!("member {}: entries between {} and {} are lost", self.id, before.sequence, after.sequence)
        }));
        flaws
    }
}

#[cfg(test)]
mod tests {
    use super::testing::*;
    use super::*;
    use crate::ledger::LedgerHead;

    fn judged(edit: impl FnOnce(&mut MemberLedger)) -> Vec<String> {
        let mut ledger = ledger(3, (0..6).map(|at| (at, granted(at, 1))));
        ledger.proof.head = Some(LedgerHead { first: 1, sequence: 6, hash: [7; 16] });
        edit(&mut ledger);
        let audit = audit(&cluster([ledger.clone()]), &[3], true, 100);
        assert_eq!(audit.outcome == Outcome::Incomplete, !ledger.is_whole(), "{:?}", audit.reasons);
        ledger.flaws()
    }

    #[test]
    fn a_break_makes_every_audit_incomplete_and_says_what_is_missing() {
        assert_eq!(judged(|_| {}), [""; 0]);
        let deleted = judged(|ledger| {
            ledger.entries.drain(..5);
            ledger.proof.breaks = vec![LedgerBreak::Missing { from: 1, to: 5 }];
        });
        assert_eq!(
            deleted,
            ["member 3's ledger was deleted, or its beginning: entries 1 to 5 were written and are missing"]
        );
        let cut = judged(|ledger| {
            ledger.entries.drain(3..);
            ledger.proof.breaks = vec![LedgerBreak::Missing { from: 4, to: 6 }];
        });
        assert_eq!(cut, ["member 3's ledger ends at entry 3, its state file knows entry 6"]);
        let cut_before = judged(|ledger| {
            ledger.entries.drain(3..5);
            ledger.proof.breaks = vec![LedgerBreak::Missing { from: 4, to: 5 }];
        });
        assert_eq!(
            cut_before,
            ["member 3's ledger was cut or replaced: it ended at entry 3, its state file knew entry 5"]
        );
        let changed = judged(|ledger| ledger.proof.breaks = vec![LedgerBreak::Replaced { sequence: 2 }]);
        assert_eq!(changed, ["member 3's ledger was changed: entry 2 is not the one that was written"]);
    }

    #[test]
    fn rotation_and_lost_writes_are_told_apart_from_removed_entries() {
        let rotated = judged(|ledger| {
            ledger.entries.drain(..2);
            ledger.proof.head = Some(LedgerHead { first: 3, sequence: 6, hash: [7; 16] });
        });
        assert_eq!(rotated, ["member 3: the first 2 entries were dropped"]);
        let lost = judged(|ledger| drop(ledger.entries.drain(2..4)));
        assert_eq!(lost, ["member 3: entries between 2 and 5 are lost"]);
    }
}
