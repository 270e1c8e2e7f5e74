//! What the ledgers of all members show together. Pure: entries in, judgements out.
//!
//! - [`reigns`]: which member led from when to when. [`who_led_at`]: which member led at one instant.
//! - [`audit`]: are successive reigns ordered, or do they overlap?
//!
//! A missing ledger or one with gaps never makes a judgement wrong, only weaker: "unknown", "incomplete".

mod at;
mod audit;
mod classic;
mod quorum;
mod reigns;
#[cfg(test)]
pub(crate) mod testing;

pub use at::{Held, WhoLed, who_led_at};
pub use audit::{Audit, EntryRef, Finding, Outcome, Proof, audit};
pub use reigns::{Reign, ReignEnd, Span, clock_spread_ms, reigns};

use serde::Serialize;

use crate::ledger::LedgerEntry;

/// The ledgers of a cluster, as far as they could be read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ledgers {
    pub members: Vec<MemberLedger>,
    pub missing: Vec<Missing>,
}

/// One member's ledger.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemberLedger {
    pub id: u32,
    pub entries: Vec<LedgerEntry>,
    /// The damage that it reports.
    pub troubles: Vec<String>,
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
        let missing = self.missing.iter().map(|missing| {
            let who = missing.id.map_or_else(|| missing.address.clone(), |id| format!("member {id}"));
            format!("the ledger of {who} is missing: {}", missing.why)
        });
        missing.chain(self.members.iter().flat_map(MemberLedger::flaws)).collect()
    }
}

impl MemberLedger {
    /// Is every entry from number 1 on present?
    pub fn is_whole(&self) -> bool {
        self.flaws().is_empty()
    }

    /// The pairs of entries between which entries were lost.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = (&LedgerEntry, &LedgerEntry)> {
        let pairs = self.entries.iter().zip(self.entries.iter().skip(1));
        pairs.filter(|(before, after)| after.sequence != before.sequence + 1)
    }

    /// How many of the oldest entries were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.entries.first().map_or(0, |first| first.sequence - 1)
    }

    pub fn flaws(&self) -> Vec<String> {
        let mut flaws: Vec<String> =
            self.troubles.iter().map(|trouble| format!("member {}: {trouble}", self.id)).collect();
        if self.entries.is_empty() {
            flaws.push(format!("member {}: the ledger is empty", self.id));
        }
        if self.dropped() > 0 {
            flaws.push(format!("member {}: the first {} entries were dropped", self.id, self.dropped()));
        }
        flaws.extend(self.gaps().map(|(before, after)| {
            format!("member {}: entries between {} and {} are lost", self.id, before.sequence, after.sequence)
        }));
        flaws
    }
}
