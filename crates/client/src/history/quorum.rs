//! Under quorum safety a majority of voters grants every reign, so any two reigns share a voter, and that voter's own
//! ledger has them in order: it made a promise to one holder, the promise ended, it made a promise to the next. No two
//! clocks are compared.

use std::collections::{BTreeMap, BTreeSet};

use super::audit::{Audit, EntryRef, Finding, Proof};
use super::reigns::stays;
use super::{Ledgers, MemberLedger};
use crate::ledger::LedgerKind;

/// An epoch and its holder.
type Reign = (u64, u32);

pub(super) fn judge(ledgers: &Ledgers, voters: &[u32], audit: &mut Audit) {
    let majority = voters.len() / 2 + 1;
    let at_hand: Vec<&MemberLedger> = ledgers.members.iter().filter(|ledger| voters.contains(&ledger.id)).collect();
    audit.findings = at_hand.iter().flat_map(|ledger| broken_promises(ledger)).collect();
    let reigns = led(ledgers, voters, majority);
    audit.findings.extend(two_leaders(&reigns.told));
    audit.reigns = reigns.all.len();
    if at_hand.len() < majority {
        let n = voters.len();
        audit.reasons.push(format!("ledgers of {} of {n} voters are at hand: a majority is {majority}", at_hand.len()));
        audit.reasons.extend(Ledgers { members: Vec::new(), missing: ledgers.missing.clone() }.flaws());
    }
    audit.reasons.extend(ledgers.members.iter().flat_map(MemberLedger::flaws));
    let all: Vec<Reign> = reigns.all.into_iter().collect();
    for pair in all.windows(2).filter(|pair| pair[0].0 < pair[1].0) {
        match at_hand.iter().find_map(|ledger| ordered_at(ledger, pair[0], pair[1])) {
            Some(proof) => audit.proofs.push(proof),
            None => audit.reasons.push(unproven(ledgers, voters, pair[0], pair[1])),
        }
    }
}

struct Led {
    /// Reigns that a ledger records: the leader's, or that of a follower.
    told: BTreeSet<Reign>,
    /// These, and the reigns that no ledger records but that the grants make possible.
    all: BTreeSet<Reign>,
}

fn led(ledgers: &Ledgers, voters: &[u32], majority: usize) -> Led {
    let told: BTreeSet<Reign> = ledgers.members.iter().flat_map(stays).map(|stay| (stay.epoch, stay.leader)).collect();
    let mut grants: BTreeMap<Reign, BTreeSet<u32>> = BTreeMap::new();
    for ledger in &ledgers.members {
        for entry in &ledger.entries {
            if let LedgerKind::Granted { epoch, holder } = entry.kind {
                grants.entry((epoch, holder)).or_default().insert(ledger.id);
            }
        }
    }
    let whole = |id: u32| ledgers.member(id).is_some_and(MemberLedger::is_whole);
    // A voter whose ledger is not complete may have granted anything.
    let silent = voters.iter().filter(|&&voter| !whole(voter)).count();
    let mut all = told.clone();
    for ((epoch, holder), voters) in grants {
        // The holder's own complete ledger would record the reign.
        if !whole(holder) && voters.len() + silent >= majority {
            all.insert((epoch, holder));
        }
    }
    Led { told, all }
}

fn two_leaders(told: &BTreeSet<Reign>) -> Vec<Finding> {
    let pairs = told.iter().zip(told.iter().skip(1)).filter(|(a, b)| a.0 == b.0);
    let finding = |(a, b): (&Reign, &Reign)| Finding {
        what: format!("members {} and {} both led in epoch {}", a.1, b.1, a.0),
        epochs: vec![a.0],
        entries: Vec::new(),
    };
    pairs.map(finding).collect()
}

/// What a single voter must never do: make two promises at once, or grant a lower epoch after a higher one.
fn broken_promises(ledger: &MemberLedger) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut promise: Option<(Reign, u64)> = None;
    let mut highest: Option<(Reign, u64)> = None;
    let mut previous = ledger.dropped();
    for entry in &ledger.entries {
        if entry.sequence != previous + 1 {
            // The end of the promise may be among the lost entries.
            promise = None;
        }
        previous = entry.sequence;
        match entry.kind {
            // A restarted voter waits until no promise of its former incarnation can run. It writes no entry about
            // that.
            LedgerKind::Started { .. } => promise = None,
            LedgerKind::Became(_) | LedgerKind::Ordered(_) => {}
            LedgerKind::PromiseEnded { holder, .. } => {
                promise = promise.filter(|((_, promised), _)| *promised != holder);
            }
            LedgerKind::Granted { epoch, holder } => {
                let now = ((epoch, holder), entry.sequence);
                let running = promise.filter(|((_, promised), _)| *promised != holder);
                let above = highest.filter(|((known, to), _)| *known > epoch || (*known == epoch && *to != holder));
                let conflict = running
                    .map(|earlier| (earlier, "while its promise ran"))
                    .or(above.map(|earlier| (earlier, "which is not above its earlier grant")));
                findings.extend(conflict.map(|(earlier, how)| conflict_at(ledger.id, earlier, now, how)));
                promise = Some(now);
                highest = highest.filter(|(known, _)| known.0 > epoch).or(Some(now));
            }
        }
    }
    findings
}

fn conflict_at(voter: u32, earlier: (Reign, u64), later: (Reign, u64), how: &str) -> Finding {
    let (((epoch, holder), first), ((next, to), second)) = (earlier, later);
    Finding {
        what: format!(
            "voter {voter} granted epoch {next} to {to} (entry {second}) {how} to {holder} in epoch {epoch} (entry {first})"
        ),
        epochs: vec![epoch, next],
        entries: [first, second].map(|sequence| EntryRef { member: voter, sequence }).to_vec(),
    }
}

/// Does the first reign's promise end before the grant of the second, in this voter's ledger?
fn ordered_at(ledger: &MemberLedger, first: Reign, second: Reign) -> Option<Proof> {
    let position = |reign: Reign| {
        let grant = LedgerKind::Granted { epoch: reign.0, holder: reign.1 };
        ledger.entries.iter().position(|entry| entry.kind == grant)
    };
    let (from, to) = (position(first)?, position(second)?);
    let between = ledger.entries.get(from..=to)?;
    if between.windows(2).any(|pair| pair[1].sequence != pair[0].sequence + 1) {
        return None;
    }
    let ended = between[..between.len() - 1].iter().rev().find_map(|entry| match entry.kind {
        LedgerKind::PromiseEnded { holder, .. } if holder == first.1 => Some(Some(entry.sequence)),
        LedgerKind::Granted { holder, .. } if holder == first.1 => Some(None),
        _ => None,
    })?;
    // For one holder that moved to a later epoch, no other holder has to be excluded.
    (ended.is_some() || first.1 == second.1).then_some(Proof {
        epoch: first.0,
        next_epoch: second.0,
        voter: ledger.id,
        granted: ledger.entries[from].sequence,
        ended,
        granted_next: ledger.entries[to].sequence,
    })
}

fn unproven(ledgers: &Ledgers, voters: &[u32], first: Reign, second: Reign) -> String {
    let granted = |(epoch, holder): Reign| {
        let grant = LedgerKind::Granted { epoch, holder };
        let has =
            |ledger: &&MemberLedger| voters.contains(&ledger.id) && ledger.entries.iter().any(|e| e.kind == grant);
        let ids: Vec<String> = ledgers.members.iter().filter(has).map(|ledger| ledger.id.to_string()).collect();
        if ids.is_empty() { "no voter".to_owned() } else { ids.join(", ") }
    };
    format!(
        "no voter's ledger shows that epoch {} (of {}, granted by {}) ended before epoch {} (of {}, granted by {})",
        first.0,
        first.1,
        granted(first),
        second.0,
        second.1,
        granted(second)
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::{Audit, Outcome, audit};
    use super::*;

    const VOTERS: &[u32] = &[1, 2, 3];

    fn judged(ledgers: &Ledgers) -> Audit {
        audit(ledgers, VOTERS, true, 60_000)
    }

    /// 1 led in epoch 4 by the grants of 1 and 2; then 3 in epoch 5 by those of 2 and 3.
    fn three() -> [MemberLedger; 3] {
        [
            ledger(1, [(1, started(None)), (2, granted(4, 1)), (3, leads(1, 4)), (9, lost(5)), (10, ended(4, 1))]),
            ledger(2, [(1, started(None)), (2, granted(4, 1)), (12, ended(4, 1)), (13, granted(5, 3))]),
            ledger(3, [(1, started(None)), (13, granted(5, 3)), (14, leads(3, 5))]),
        ]
    }

    #[test]
    fn successive_reigns_are_ordered_at_the_voter_they_share() {
        let audit = judged(&cluster(three()));
        assert_eq!((audit.outcome, audit.reigns), (Outcome::Ordered, 2), "{audit:?}");
        let proof = Proof { epoch: 4, next_epoch: 5, voter: 2, granted: 2, ended: Some(3), granted_next: 4 };
        assert_eq!(audit.proofs, [proof]);
    }

    #[test]
    fn clocks_do_not_matter() {
        let mut ledgers = cluster(three());
        ledgers.members[2].entries.iter_mut().for_each(|entry| entry.wall_ms = 0);
        assert_eq!(judged(&ledgers).outcome, Outcome::Ordered);
    }

    #[test]
    fn a_grant_while_another_promise_runs_is_the_overlap() {
        let [one, mut two, three] = three();
        two = ledger(2, two.entries.into_iter().filter(|e| e.sequence != 3).map(|e| (e.wall_ms, e.kind)));
        let audit = judged(&cluster([one, two, three]));
        assert_eq!(audit.outcome, Outcome::Overlap, "{audit:?}");
        assert_eq!(
            (&audit.findings[0].epochs[..], &audit.findings[0].entries[..]),
            (&[4, 5][..], &[2, 3].map(|sequence| EntryRef { member: 2, sequence })[..])
        );
        assert!(audit.findings[0].what.contains("voter 2"), "{audit:?}");
    }

    #[test]
    fn an_epoch_granted_twice_or_backwards_is_an_overlap() {
        for later in [granted(4, 3), granted(3, 3), granted(3, 1)] {
            let two = ledger(2, [(1, started(None)), (2, granted(4, 1)), (3, ended(4, 1)), (4, later.clone())]);
            assert_eq!(judged(&cluster([two])).outcome, Outcome::Overlap, "{later:?}");
        }
    }

    #[test]
    fn two_leaders_of_one_epoch_are_an_overlap() {
        let [one, two, _] = three();
        let three = ledger(3, [(1, started(None)), (14, leads(3, 4))]);
        let audit = judged(&cluster([one, two, three]));
        assert_eq!(audit.outcome, Outcome::Overlap);
        assert!(audit.findings.iter().any(|finding| finding.what.contains("both led in epoch 4")), "{audit:?}");
    }

    #[test]
    fn one_holder_may_go_on_to_a_later_epoch_within_its_promise() {
        let one =
            ledger(1, [(1, started(None)), (2, granted(4, 1)), (3, leads(1, 4)), (4, granted(6, 1)), (5, leads(1, 6))]);
        let two = ledger(2, [(1, started(None)), (2, granted(4, 1)), (4, granted(6, 1))]);
        let three = ledger(3, [(1, started(None))]);
        let audit = judged(&cluster([one, two, three]));
        assert_eq!((audit.outcome, audit.proofs[0].ended), (Outcome::Ordered, None), "{audit:?}");
    }

    #[test]
    fn a_promise_renewed_for_a_later_epoch_must_end_too() {
        let [one, _, three] = three();
        // The last entry about member 1 is a grant, not an end.
        let kinds = [started(None), granted(4, 1), ended(4, 1), granted(5, 1), granted(6, 3)];
        let two = ledger(2, (1..).zip(kinds));
        assert_eq!(judged(&cluster([one, two, three])).outcome, Outcome::Overlap);
    }

    #[test]
    fn a_minority_of_ledgers_may_be_missing_and_a_majority_may_not() {
        let [one, two, three] = three();
        let mut ledgers = cluster([one.clone(), two.clone()]);
        ledgers.missing.push(missing(3));
        let audit = judged(&ledgers);
        assert_eq!((audit.outcome, audit.reigns), (Outcome::Ordered, 2), "the grant tells of epoch 5: {audit:?}");
        let mut without_the_common_voter = cluster([one.clone(), three]);
        without_the_common_voter.missing.push(missing(2));
        assert_eq!(judged(&without_the_common_voter).outcome, Outcome::Incomplete);
        let mut alone = cluster([one]);
        alone.missing.extend([missing(2), missing(3)]);
        let audit = judged(&alone);
        assert_eq!(audit.outcome, Outcome::Incomplete);
        assert!(audit.reasons.iter().any(|reason| reason.contains("1 of 3 voters")), "{audit:?}");
    }

    #[test]
    fn a_bid_that_came_to_nothing_is_no_reign() {
        // A majority granted epoch 3, and its holder never claimed it: the answers came too late.
        let bid = [started(None), granted(3, 3), ended(3, 3)];
        let with_bid = |member: MemberLedger| {
            let rest = member.entries.into_iter().skip(1).map(|entry| entry.kind);
            ledger(member.id, (1..).zip(bid.clone().into_iter().chain(rest)))
        };
        let [one, two, three] = three();
        let audit = judged(&cluster([one, with_bid(two), with_bid(three)]));
        assert_eq!((audit.outcome, audit.reigns), (Outcome::Ordered, 2), "{audit:?}");
    }

    #[test]
    fn lost_entries_between_the_grants_prove_nothing() {
        let mut ledgers = cluster(three());
        ledgers.members[1].entries[3].sequence = 9;
        let audit = judged(&ledgers);
        assert_eq!((audit.outcome, audit.proofs.len()), (Outcome::Incomplete, 0), "{audit:?}");
        assert!(audit.reasons.iter().any(|reason| reason.contains("entries between 3 and 9")), "{audit:?}");
    }

    #[test]
    fn a_restart_hides_the_end_of_a_promise_and_is_no_overlap() {
        let [one, _, three] = three();
        let two = ledger(2, [(1, started(None)), (2, granted(4, 1)), (9, started(8)), (13, granted(5, 3))]);
        let audit = judged(&cluster([one.clone(), two, three.clone()]));
        assert_eq!(audit.outcome, Outcome::Incomplete, "{audit:?}");
        let kinds = [started(None), granted(4, 1), started(8), ended(4, 1), granted(5, 3)];
        let two = ledger(2, (1..).zip(kinds));
        assert_eq!(judged(&cluster([one, two, three])).outcome, Outcome::Ordered);
    }
}
