//! Audits of clusters whose member list changed.

use super::testing::*;
use super::{Audit, Cut, Ledgers, MemberLedger, Outcome, audit};
use crate::ledger::LedgerKind;

const CONFIG: &[u32] = &[1, 2, 3];

fn judged(ledgers: &Ledgers) -> Audit {
    audit(ledgers, CONFIG, true, 60_000)
}

fn entries(id: u32, kinds: impl IntoIterator<Item = Vec<LedgerKind>>) -> MemberLedger {
    ledger(id, (1..).zip(kinds.into_iter().flatten()))
}

/// In reign 5 member 1 replaces 2 and 3 by 4 and 5, one voter at a time.
const CHANGES: [((u64, u32), &[u32]); 5] = [
    ((5, 0), &[1, 2, 3]),
    ((5, 1), &[1, 2, 3, 4]),
    ((5, 2), &[1, 3, 4]),
    ((5, 3), &[1, 3, 4, 5]),
    ((5, 4), &[1, 4, 5]),
];

fn adopts(numbers: std::ops::Range<usize>) -> Vec<LedgerKind> {
    CHANGES[numbers].iter().flat_map(|(stamp, voters)| adopted(*stamp, voters)).collect()
}

/// 2 led in epoch 4, then 1 in epoch 5, both elected by {1, 2, 3}; then 4 in epoch 6, elected by {1, 4, 5}.
fn replaced() -> [MemberLedger; 5] {
    let before = || vec![started(None), granted(4, 2), ended(4, 2), granted(5, 1)];
    let after = || vec![ended(5, 1), granted_under(6, 4, (5, 4))];
    let made = CHANGES.iter().flat_map(|(stamp, voters)| [adopted(*stamp, voters), in_force(*stamp, voters)].concat());
    [
        entries(1, [before(), vec![leads(1, 5)], made.collect(), vec![lost(6)], after()]),
        entries(
            2,
            [vec![started(None), granted(4, 2), leads(2, 4), lost(5), ended(4, 2), granted(5, 1)], adopts(0..2)],
        ),
        entries(3, [before(), adopts(0..4)]),
        entries(4, [vec![started(None), granted_under(5, 1, (5, 1))], adopts(1..5), after(), vec![leads(4, 6)]]),
        entries(5, [vec![started(None), granted_under(5, 1, (5, 3))], adopts(3..5), after()]),
    ]
}

#[test]
fn reigns_before_and_after_changes_are_ordered_at_voters_of_their_own_lists() {
    let audit = judged(&cluster(replaced()));
    assert_eq!((audit.outcome, audit.reigns), (Outcome::Ordered, 3), "{audit:#?}");
    let proofs: Vec<(u64, u64, u32)> = audit.proofs.iter().map(|p| (p.epoch, p.next_epoch, p.voter)).collect();
    assert_eq!(proofs, [(4, 5, 1), (5, 6, 1)]);
}

#[test]
fn the_ledgers_of_removed_voters_are_needed_for_their_own_time_and_no_other() {
    let [one, two, _, four, five] = replaced();
    let remaining = judged(&cluster([one.clone(), four.clone(), five.clone()]));
    assert_eq!(remaining.outcome, Outcome::Incomplete);
    assert_eq!(
        remaining.reasons,
        ["ledgers of 1 of 3 voters (1, 2, 3) are at hand for epochs 4 to 5: a majority is 2"],
        "{remaining:#?}"
    );
    let with_two = judged(&cluster([one, two, four, five]));
    assert_eq!(with_two.outcome, Outcome::Ordered, "{with_two:#?}");
}

#[test]
fn a_removed_voter_proves_nothing() {
    let [_, two, three, four, five] = replaced();
    // It should not have granted anything under a list without itself.
    let again = two.entries.iter().map(|entry| entry.kind.clone()).chain([ended(5, 1), granted_under(6, 4, (5, 4))]);
    let two = ledger(2, (1..).zip(again));
    let forgetful = |ledger: &MemberLedger| {
        let kinds = ledger.entries.iter().map(|entry| entry.kind.clone()).filter(|kind| *kind != ended(5, 1));
        entries(ledger.id, [kinds.collect()])
    };
    let audit = judged(&cluster([two, three, forgetful(&four), forgetful(&five)]));
    assert!(audit.proofs.iter().all(|proof| proof.next_epoch != 6), "{audit:#?}");
}

/// 1 led in epoch 4 with four voters; 3 was elected in epoch 5 under a list of this number of voters.
fn jump(voters: &[u32]) -> [MemberLedger; 4] {
    let four = &[1, 2, 3, 4][..];
    let reign = [adopted((4, 0), four), in_force((4, 0), four)].concat();
    let next = || vec![ended(4, 1), granted_under(5, 3, (4, 1))];
    let start = || vec![started(None), granted(4, 1)];
    [
        entries(1, [start(), vec![leads(1, 4)], reign, vec![lost(5), ended(4, 1)]]),
        entries(2, [start(), adopted((4, 0), four), next()]),
        entries(3, [start(), adopted((4, 0), four), adopted((4, 1), voters), next(), vec![leads(3, 5)]]),
        entries(4, [start(), adopted((4, 0), four), next()]),
    ]
}

#[test]
fn an_election_under_a_list_more_than_one_voter_apart_is_found() {
    let one_apart = judged(&cluster(jump(&[2, 3, 4])));
    assert_eq!(one_apart.outcome, Outcome::Ordered, "a proposal of the reign before: {one_apart:#?}");
    let two_apart = judged(&cluster(jump(&[3, 4])));
    assert_eq!(two_apart.outcome, Outcome::Overlap, "{two_apart:#?}");
    assert!(two_apart.findings[0].what.contains("more than one voter apart from list 4.0"), "{two_apart:#?}");
    let [_, two, three, four] = jump(&[3, 4]);
    let anew = entries(1, [vec![started(None)], adopted((5, 0), &[3, 4])]);
    let lost_disk = judged(&cluster([anew, two.clone(), three.clone(), four.clone()]));
    assert_eq!(lost_disk.findings, [], "1 lost its disk, and its new ledger does not tell of epoch 4: {lost_disk:#?}");
    let without_the_leader = judged(&cluster([two, three, four]));
    assert_eq!(without_the_leader.findings, [], "1 may have had further lists in force");
}

#[test]
fn every_rule_of_lists_is_an_overlap() {
    let unconfirmed = [vec![started(None), granted(4, 1), leads(1, 4)], in_force((4, 1), &[1, 2])];
    let two_lists = [adopted((4, 1), &[1, 2]), adopted((4, 1), &[1, 3])];
    let old_list = [adopted((4, 1), &[1, 2]), vec![granted(5, 1)]];
    for kinds in [&unconfirmed[..], &two_lists, &old_list] {
        let audit = judged(&cluster([entries(1, kinds.to_vec())]));
        assert_eq!(audit.outcome, Outcome::Overlap, "{kinds:?}: {audit:#?}");
    }
}

#[test]
fn a_cluster_that_an_operator_began_is_judged_apart_from_the_one_before() {
    const LEAP: u64 = 1 << 20;
    let [one, two, three, _, _] = replaced();
    let upto_four = |ledger: &MemberLedger| {
        let early = ledger.entries.iter().map(|entry| entry.kind.clone()).take(4);
        entries(ledger.id, [early.filter(|kind| !kind.grants(5, 1)).collect()])
    };
    let [one, two, three] = [one, two, three].map(|ledger| upto_four(&ledger));
    let after = vec![started(None), granted_under(LEAP + 5, 2, (LEAP + 4, 0)), leads(2, LEAP + 5)];
    let kinds: Vec<LedgerKind> = two.entries.iter().map(|entry| entry.kind.clone()).collect();
    let two = entries(2, [kinds, forced((LEAP + 4, 0), &[2]), after]);
    let audit = judged(&cluster([one, two.clone(), three]));
    assert_eq!((audit.outcome, audit.reigns, audit.proofs.len()), (Outcome::Ordered, 2, 0), "{audit:#?}");
    assert_eq!(audit.cuts, [Cut { epoch: LEAP + 4, voters: vec![2], member: 2, sequence: 5 }]);
    let alone = judged(&cluster([two]));
    assert_eq!(alone.reasons.len(), 1, "{alone:#?}");
    assert!(alone.reasons[0].contains("1 of 3 voters (1, 2, 3) are at hand for epoch 4:"), "{alone:#?}");
}
