//! Under quorum safety a majority of voters grants every reign. Two successive reigns stand on one member list, or on two
//! that are one voter apart, so they share a voter, and that voter's own ledger has them in order: it made a promise to
//! one holder, the promise ended, it made a promise to the next. No two clocks are compared.
//!
//! Where an operator began a new cluster with `node --force-voters`, nothing connects the reigns before and after it: each
//! side is judged alone.

use std::collections::{BTreeMap, BTreeSet};

use types::Stamp;

use super::audit::{Audit, EntryRef, Finding, Proof};
use super::list_rules::{changes_by_a_leader, grants_under_old_lists, two_lists_of_one_stamp};
use super::lists::{ListNews, Lists, Voters, apart, in_words};
use super::reigns::stays;
use super::{Ledgers, MemberLedger};
use crate::ledger::LedgerKind;

/// An epoch and its holder.
type Reign = (u64, u32);

pub(super) fn judge(ledgers: &Ledgers, voters: &[u32], audit: &mut Audit) {
    let lists = Lists::of(ledgers, voters);
    audit.findings = ledgers.members.iter().flat_map(broken_promises).collect();
    audit.findings.extend(two_lists_of_one_stamp(&lists));
    for ledger in &ledgers.members {
        audit.findings.extend(grants_under_old_lists(ledger));
        audit.findings.extend(changes_by_a_leader(ledger, &lists));
    }
    let reigns = led(ledgers, &lists);
    audit.findings.extend(two_leaders(&reigns.told));
    audit.reigns = reigns.told.len();
    audit.possible = reigns.all.len() - reigns.told.len();
    let terms: Vec<Term> = reigns.all.iter().map(|&reign| Term::of(reign, &reigns, &lists)).collect();
    let too_few = too_few_ledgers(ledgers, &lists, &terms);
    if !too_few.is_empty() {
        audit.reasons.extend(too_few);
        audit.reasons.extend(ledgers.missing_in_words());
    }
    audit.reasons.extend(ledgers.members.iter().flat_map(MemberLedger::flaws));
    for pair in terms.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        let (a, b) = (first.reign.0, second.reign.0);
        if a < b && lists.side(a) == lists.side(b) {
            judge_pair(ledgers, &lists, &reigns, [first, second], audit);
        }
    }
    audit.cuts = lists.cuts;
}

/// A reign and the lists that it stood on.
#[derive(Clone, Copy, Debug)]
struct Term {
    reign: Reign,
    /// The list under which its holder was elected, and whether a grant tells it.
    under: Stamp,
    is_told: bool,
    /// The last list that was in force in it.
    last: Stamp,
    /// Does the leader's own ledger record it, with nothing missing?
    is_own: bool,
}

impl Term {
    fn of(reign: Reign, led: &Led, lists: &Lists) -> Self {
        let (epoch, holder) = reign;
        let told = led.grants.get(&reign).map(|(under, _)| *under);
        let under = told.unwrap_or_else(|| lists.newest_before(epoch));
        let is_own = led.own.contains(&reign);
        // Without the leader's own word any list that it made may have been in force.
        let in_force = lists.entries.iter().filter(|entry| match entry.news {
            ListNews::InForce => entry.member == holder,
            ListNews::Adopted | ListNews::Forced => !is_own,
        });
        let last = in_force.map(|entry| entry.stamp).filter(|stamp| stamp.epoch.0 == epoch).max();
        Term { reign, under, is_told: told.is_some(), last: last.unwrap_or(under).max(under), is_own }
    }
}

/// Every list that a reign stood on needs the ledgers of a majority of its voters.
fn too_few_ledgers(ledgers: &Ledgers, lists: &Lists, terms: &[Term]) -> Vec<String> {
    let mut needed: BTreeMap<&Voters, BTreeSet<u64>> = BTreeMap::new();
    let mut reasons = Vec::new();
    for term in terms {
        for stamp in BTreeSet::from([term.under, term.last]) {
            match lists.voters(stamp) {
                Some(voters) => {
                    needed.entry(voters).or_default().insert(term.reign.0);
                }
                None => reasons
                    .push(format!("no ledger at hand tells the voters of list {stamp}, of epoch {}", term.reign.0)),
            }
        }
    }
    if terms.is_empty()
        && let Some(voters) = lists.voters(lists.newest_before(u64::MAX))
    {
        needed.insert(voters, BTreeSet::new());
    }
    for (voters, epochs) in needed {
        let (n, majority) = (voters.len(), voters.len() / 2 + 1);
        let at_hand = voters.iter().filter(|&&voter| ledgers.member(voter).is_some()).count();
        if at_hand < majority {
            let names = in_words(voters);
            let epochs = match (epochs.first(), epochs.last()) {
                (Some(first), Some(last)) if first == last => format!(" for epoch {first}"),
                (Some(first), Some(last)) => format!(" for epochs {first} to {last}"),
                _ => String::new(),
            };
            reasons.push(format!(
                "ledgers of {at_hand} of {n} voters ({names}) are at hand{epochs}: a majority is {majority}"
            ));
        }
    }
    reasons
}

fn judge_pair(ledgers: &Ledgers, lists: &Lists, reigns: &Led, pair: [Term; 2], audit: &mut Audit) {
    let [first, second] = pair;
    let (Some(before), Some(after)) = (lists.voters(first.last), lists.voters(second.under)) else {
        return audit.reasons.push(unproven(ledgers, first.reign, second.reign));
    };
    // With these ledgers no other reign can be hidden between the two, nor a later list of the first.
    let covers = |id: &&u32| reigns.is_covered(first.reign, **id);
    let nothing_between = first.is_own && 2 * before.iter().filter(covers).count() > before.len();
    if second.is_told && nothing_between && apart(before, after) > 1 {
        audit.findings.push(Finding {
            what: format!(
                "epoch {} was granted under list {} (voters {}), more than one voter apart from list {} (voters {}) of epoch {}",
                second.reign.0,
                second.under,
                in_words(after),
                first.last,
                in_words(before),
                first.reign.0
            ),
            epochs: vec![first.reign.0, second.reign.0],
            entries: Vec::new(),
        });
    }
    let common = ledgers.members.iter().filter(|ledger| before.contains(&ledger.id) && after.contains(&ledger.id));
    match common.into_iter().find_map(|ledger| ordered_at(ledger, first.reign, second.reign)) {
        Some(proof) => audit.proofs.push(proof),
        None => audit.reasons.push(unproven(ledgers, first.reign, second.reign)),
    }
}

struct Led {
    /// Who granted each reign, and the first list under which: voters that grant late do so under a list of the reign
    /// itself.
    grants: BTreeMap<Reign, (Stamp, Voters)>,
    /// Reigns that a ledger records: the leader's, or that of a follower.
    told: BTreeSet<Reign>,
    /// These, and the reigns that no ledger records but that the grants make possible.
    all: BTreeSet<Reign>,
    /// Reigns that the leader's own ledger records, with nothing missing.
    own: BTreeSet<Reign>,
    /// The members whose ledgers miss nothing.
    whole: BTreeSet<u32>,
}

impl Led {
    /// Has this member's ledger everything since its grant of this reign? A member that lost its disk begins a new ledger.
    fn is_covered(&self, reign: Reign, by: u32) -> bool {
        self.whole.contains(&by) && self.grants.get(&reign).is_some_and(|(_, granted)| granted.contains(&by))
    }
}

fn led(ledgers: &Ledgers, lists: &Lists) -> Led {
    let whole: BTreeSet<u32> =
        ledgers.members.iter().filter(|ledger| ledger.is_whole()).map(|ledger| ledger.id).collect();
    let (mut told, mut own) = (BTreeSet::new(), BTreeSet::new());
    for stay in ledgers.members.iter().flat_map(stays) {
        told.insert((stay.epoch, stay.leader));
        if stay.own() && whole.contains(&stay.member) {
            own.insert((stay.epoch, stay.leader));
        }
    }
    let mut grants: BTreeMap<Reign, (Stamp, Voters)> = BTreeMap::new();
    for ledger in &ledgers.members {
        for entry in &ledger.entries {
            if let LedgerKind::Granted { epoch, holder, list } = entry.kind {
                let (under, by) = grants.entry((epoch, holder)).or_insert((list, Voters::new()));
                *under = list.min(*under);
                by.insert(ledger.id);
            }
        }
    }
    let mut led = Led { grants, all: told.clone(), told, own, whole };
    // A voter whose ledger is not complete may have granted anything.
    let may_have = |by: &Voters, voter: &u32| by.contains(voter) || !led.whole.contains(voter);
    let is_possible = |under: Stamp, by: &Voters| {
        let majority = |voters: &Voters| 2 * voters.iter().filter(|voter| may_have(by, voter)).count() > voters.len();
        lists.voters(under).is_none_or(majority)
    };
    // The holder's own complete ledger would record the reign: a holder grants to itself first.
    let untold = led.grants.iter().filter(|(reign, _)| !led.is_covered(**reign, reign.1));
    let possible: Vec<Reign> =
        untold.filter(|(_, (under, by))| is_possible(*under, by)).map(|(reign, _)| *reign).collect();
    led.all.extend(possible);
    led
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
            LedgerKind::Became(_)
            | LedgerKind::Ordered(_)
            | LedgerKind::Adopted(_)
            | LedgerKind::InForce(_)
            | LedgerKind::Forced(_)
            | LedgerKind::Left => {}
            LedgerKind::PromiseEnded { holder, .. } => {
                promise = promise.filter(|((_, promised), _)| *promised != holder);
            }
            LedgerKind::Granted { epoch, holder, .. } => {
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
    let position = |reign: Reign| ledger.entries.iter().position(|entry| entry.kind.grants(reign.0, reign.1));
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

fn unproven(ledgers: &Ledgers, first: Reign, second: Reign) -> String {
    let granted = |(epoch, holder): Reign| {
        let has = |ledger: &&MemberLedger| ledger.entries.iter().any(|entry| entry.kind.grants(epoch, holder));
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
        let reigns = (audit.reigns, audit.possible);
        assert_eq!((audit.outcome, reigns), (Outcome::Ordered, (1, 1)), "a grant tells of epoch 5: {audit:?}");
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
