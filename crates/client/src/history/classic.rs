//! Classic elections guarantee one leader per connected component and no more. The ledgers can refute two things: two
//! members claimed one epoch, or two members claimed to lead at the same time.

use std::collections::BTreeMap;

use super::audit::{Audit, EntryRef, Finding};
use super::reigns::{Stay, clock_spread_ms, stays};
use super::{Ledgers, reigns};
use crate::ledger::LedgerEntry;

/// An old leader learns of the new leader by message: for this long both may claim to lead, and nothing is wrong.
pub(super) const HANDOVER_MS: u64 = 1000;

pub(super) fn judge(ledgers: &Ledgers, now_ms: u64, audit: &mut Audit) {
    audit.reigns = reigns::reigns(ledgers).len();
    audit.reasons = ledgers.flaws();
    let time = Time::of(ledgers);
    let claims: Vec<Stay<'_>> = ledgers.members.iter().flat_map(stays).filter(Stay::own).collect();
    let tolerated = HANDOVER_MS + clock_spread_ms(ledgers);
    for (at, a) in claims.iter().enumerate() {
        for b in claims[at + 1..].iter().filter(|b| b.member != a.member) {
            let entry = |stay: &Stay<'_>| EntryRef { member: stay.member, sequence: stay.from.sequence };
            let entries = vec![entry(a), entry(b)];
            let mut found =
                |what| audit.findings.push(Finding { what, epochs: vec![a.epoch, b.epoch], entries: entries.clone() });
            let until = |stay: &Stay<'_>| time.end_ms(stay, now_ms);
            let both_ms = until(a).min(until(b)).saturating_sub(time.ms(a.from).max(time.ms(b.from)));
            if a.epoch == b.epoch {
                found(format!("members {} and {} both claimed epoch {}", a.member, b.member, a.epoch));
            } else if both_ms > tolerated {
                found(format!(
                    "member {} (epoch {}) and member {} (epoch {}) both led for {both_ms} ms",
                    a.member, a.epoch, b.member, b.epoch
                ));
            }
        }
    }
}

/// One time for all entries: the boot clock of a machine orders the entries of its processes, whatever happened to its
/// wall clock.
struct Time<'a>(BTreeMap<[u8; 16], &'a LedgerEntry>);

impl<'a> Time<'a> {
    fn of(ledgers: &'a Ledgers) -> Self {
        let mut anchors = BTreeMap::new();
        for entry in ledgers.members.iter().flat_map(|ledger| &ledger.entries).filter(|entry| entry.boot_id != [0; 16])
        {
            anchors.entry(entry.boot_id).or_insert(entry);
        }
        Time(anchors)
    }

    fn ms(&self, entry: &LedgerEntry) -> u64 {
        let since = |anchor: &&LedgerEntry| (i128::from(entry.boot_ns) - i128::from(anchor.boot_ns)) / 1_000_000;
        self.0
            .get(&entry.boot_id)
            .map_or(entry.wall_ms, |anchor| u64::try_from(i128::from(anchor.wall_ms) + since(anchor)).unwrap_or(0))
    }

    /// Until when it certainly lasted.
    fn end_ms(&self, stay: &Stay<'_>, now_ms: u64) -> u64 {
        match (stay.to, stay.end()) {
            (Some((_, after)), Some(span)) if span.earliest_ms == after.wall_ms => self.ms(after),
            (_, Some(span)) => span.earliest_ms,
            _ => now_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::{Outcome, audit};
    use super::*;

    fn judged(ledgers: &Ledgers) -> (Outcome, String) {
        let audit = audit(ledgers, &[1, 2], false, 60_000);
        let findings = audit.findings.iter().map(|finding| finding.what.clone());
        (audit.outcome, findings.chain(audit.reasons).collect::<Vec<_>>().join("; "))
    }

    fn one() -> super::super::MemberLedger {
        ledger(1, [(100, started(None)), (200, leads(1, 4)), (20_000, follows(2, 5))])
    }

    #[test]
    fn one_after_the_other_is_ordered_and_so_is_a_handover_by_message() {
        let two = ledger(2, [(100, started(None)), (201, follows(1, 4)), (20_001, leads(2, 5))]);
        assert_eq!(judged(&cluster([one(), two])), (Outcome::Ordered, String::new()));
        let two = ledger(2, [(100, started(None)), (201, follows(1, 4)), (19_990, leads(2, 5))]);
        assert_eq!(judged(&cluster([one(), two])).0, Outcome::Ordered);
    }

    #[test]
    fn two_at_once_overlap_by_their_boot_clock_whatever_the_wall_clock_says() {
        let mut two = ledger(2, [(100, started(None)), (5_000, leads(2, 5))]);
        let (outcome, what) = judged(&cluster([one(), two.clone()]));
        assert_eq!((outcome, what.contains("both led for 15000 ms")), (Outcome::Overlap, true), "{what}");
        two.entries[1].wall_ms = 30_000;
        assert_eq!(judged(&cluster([one(), two])).0, Outcome::Overlap);
    }

    #[test]
    fn one_epoch_has_one_claimant() {
        let two = ledger(2, [(100, started(None)), (30_000, leads(2, 4))]);
        let (outcome, what) = judged(&cluster([one(), two]));
        assert_eq!((outcome, what.contains("both claimed epoch 4")), (Outcome::Overlap, true), "{what}");
    }

    #[test]
    fn a_leader_that_was_killed_overlaps_with_nobody() {
        let one = ledger(1, [(100, started(None)), (200, leads(1, 4)), (50_000, started(9_800))]);
        let two = ledger(2, [(100, started(None)), (201, follows(1, 4)), (10_000, leads(2, 5))]);
        assert_eq!(judged(&cluster([one, two])).0, Outcome::Ordered);
    }

    #[test]
    fn a_missing_or_broken_ledger_is_incomplete_and_said() {
        let mut ledgers = cluster([one()]);
        ledgers.missing.push(missing(2));
        let (outcome, why) = judged(&ledgers);
        assert_eq!((outcome, why.contains("member 2 is missing")), (Outcome::Incomplete, true), "{why}");
        let mut failing = one();
        failing.troubles.push("3 entries could not be written".into());
        assert_eq!(judged(&cluster([failing])).0, Outcome::Incomplete);
        let mut dropped = one();
        dropped.entries.remove(0);
        assert_eq!(judged(&cluster([dropped])).0, Outcome::Incomplete);
    }
}
