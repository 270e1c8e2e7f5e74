//! What must never happen to member lists: a stamp names one list; a leader changes the list one voter at a
//! time, and confirms the list that it found before its first change; a voter grants nothing under a list older than its
//! own.

use std::collections::BTreeMap;

use types::Stamp;

use super::MemberLedger;
use super::audit::{EntryRef, Finding};
use super::lists::{ListEntry, ListNews, Lists, Voters, apart, in_words, list_part, told};
use crate::ledger::LedgerKind;

/// Two ledgers, or two entries of one, give different voters to one stamp.
pub(super) fn two_lists_of_one_stamp(lists: &Lists) -> Vec<Finding> {
    let mut first: BTreeMap<Stamp, &ListEntry> = BTreeMap::new();
    let mut findings: BTreeMap<Stamp, Finding> = BTreeMap::new();
    for entry in &lists.entries {
        let known = *first.entry(entry.stamp).or_insert(entry);
        if known.voters != entry.voters {
            findings.entry(entry.stamp).or_insert_with(|| Finding {
                what: format!(
                    "list {} has the voters {} and also the voters {}",
                    entry.stamp,
                    in_words(&known.voters),
                    in_words(&entry.voters)
                ),
                epochs: vec![entry.stamp.epoch.0],
                entries: [known, entry].map(at).to_vec(),
            });
        }
    }
    findings.into_values().collect()
}

/// A voter's grants under lists below the newest that it had on its disk.
pub(super) fn grants_under_old_lists(ledger: &MemberLedger) -> Vec<Finding> {
    let mut own: Option<(Stamp, u64)> = None;
    let mut findings = Vec::new();
    for entry in &ledger.entries {
        let stamp = match &entry.kind {
            LedgerKind::Granted { epoch, list, .. } => {
                if let Some((newer, sequence)) = own.filter(|(newer, _)| newer > list) {
                    let voter = ledger.id;
                    findings.push(Finding {
                        what: format!(
                            "voter {voter} granted epoch {epoch} under list {list}, below its own list {newer}"
                        ),
                        epochs: vec![*epoch],
                        entries: [sequence, entry.sequence]
                            .map(|sequence| EntryRef { member: voter, sequence })
                            .to_vec(),
                    });
                }
                *list
            }
            kind => match list_part(kind) {
                Some((ListNews::Adopted | ListNews::Forced, part)) => part.stamp,
                _ => continue,
            },
        };
        own = own.filter(|(newer, _)| *newer >= stamp).or(Some((stamp, entry.sequence)));
    }
    findings
}

/// The lists that this member made while it led.
pub(super) fn changes_by_a_leader(ledger: &MemberLedger, lists: &Lists) -> Vec<Finding> {
    let told = told(ledger);
    let mut findings = Vec::new();
    let mut reign: Option<OwnReign> = None;
    let mut granted_under: Option<(u64, Stamp)> = None;
    let mut previous = ledger.dropped();
    for entry in &ledger.entries {
        if entry.sequence != previous + 1 {
            reign = None;
        }
        previous = entry.sequence;
        match &entry.kind {
            LedgerKind::Granted { epoch, holder, list } if *holder == ledger.id => {
                granted_under = Some((*epoch, *list));
            }
            LedgerKind::Started { .. } => reign = None,
            LedgerKind::Became(became) => {
                let epoch = became.now.epoch.0;
                let leads = became.leads() && became.leader() == Some(ledger.id);
                let goes_on = reign.take().filter(|reign| leads && reign.epoch == epoch);
                reign = goes_on.or_else(|| {
                    let found = granted_under.filter(|(granted, _)| *granted == epoch);
                    let base = found.and_then(|(_, list)| lists.told_voters(list)).cloned();
                    leads.then_some(OwnReign { epoch, base, made_one: false, in_force: None })
                });
            }
            _ => {
                let list = told.iter().find(|list| list.sequence == entry.sequence);
                if let (Some(reign), Some(list)) = (&mut reign, list)
                    && list.stamp.epoch.0 == reign.epoch
                {
                    findings.extend(reign.makes(list));
                }
            }
        }
    }
    findings
}

/// One reign in the ledger of its leader.
struct OwnReign {
    epoch: u64,
    /// The voters of the list that the leader found.
    base: Option<Voters>,
    /// Has the leader stamped a list?
    made_one: bool,
    /// The last list of this reign in force.
    in_force: Option<ListEntry>,
}

impl OwnReign {
    fn makes(&mut self, list: &ListEntry) -> Option<Finding> {
        let stamp = list.stamp;
        let first = !std::mem::replace(&mut self.made_one, true);
        if first && stamp.n == 0 && self.base.is_none() {
            self.base = Some(list.voters.clone());
        }
        // A leader's first list has the number 0 and the voters that it found.
        let unconfirmed = (first && stamp.n > 0) || self.base.as_ref().is_some_and(|base| *base != list.voters);
        let finding = match &self.in_force {
            None if unconfirmed => Some(Finding {
                what: format!(
                    "leader {} made list {stamp} (voters {}) before the list that it found was confirmed in epoch {}",
                    list.member,
                    in_words(&list.voters),
                    self.epoch
                ),
                epochs: vec![self.epoch],
                entries: vec![at(list)],
            }),
            Some(before) if apart(&before.voters, &list.voters) > 1 => Some(Finding {
                what: format!(
                    "list {stamp} (voters {}) is more than one voter apart from list {} before it (voters {})",
                    in_words(&list.voters),
                    before.stamp,
                    in_words(&before.voters)
                ),
                epochs: vec![self.epoch],
                entries: [before, list].map(at).to_vec(),
            }),
            _ => None,
        };
        if list.news == ListNews::InForce {
            self.in_force = Some(list.clone());
        }
        finding
    }
}

fn at(list: &ListEntry) -> EntryRef {
    EntryRef { member: list.member, sequence: list.sequence }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::ledger::LedgerKind;

    fn walk(kinds: impl IntoIterator<Item = Vec<LedgerKind>>) -> MemberLedger {
        ledger(1, (1..).zip(kinds.into_iter().flatten()))
    }

    /// Member 1 leads in epoch 4, elected under the first list.
    fn reign(then: impl IntoIterator<Item = Vec<LedgerKind>>) -> Vec<String> {
        let start = [vec![started(None)], adopted((0, 0), &[1, 2, 3]), vec![granted(4, 1), leads(1, 4)]];
        let ledger = walk(start.into_iter().chain(then));
        let lists = Lists::of(&cluster([ledger.clone()]), &[1, 2, 3]);
        changes_by_a_leader(&ledger, &lists).into_iter().map(|finding| finding.what).collect()
    }

    fn made(stamp: (u64, u32), voters: &[u32]) -> [Vec<LedgerKind>; 2] {
        [adopted(stamp, voters), in_force(stamp, voters)]
    }

    #[test]
    fn a_leader_that_confirms_first_and_changes_one_voter_at_a_time_is_in_order() {
        let lists = [((4, 0), &[1, 2, 3][..]), ((4, 1), &[1, 2, 3, 4]), ((4, 2), &[1, 2, 4]), ((4, 3), &[1, 2, 4])];
        assert_eq!(reign(lists.into_iter().flat_map(|(stamp, voters)| made(stamp, voters))), [""; 0]);
        // A proposal that was given up: the list in force is proposed again.
        let given_up = made((4, 0), &[1, 2, 3]).into_iter().chain([adopted((4, 1), &[1, 2, 3, 9])]);
        assert_eq!(reign(given_up.chain(made((4, 2), &[1, 2, 3])).chain(made((4, 3), &[1, 2]))), [""; 0]);
        // A confirmation that was given up.
        assert_eq!(reign([adopted((4, 0), &[1, 2, 3])].into_iter().chain(made((4, 1), &[1, 2, 3]))), [""; 0]);
    }

    #[test]
    fn a_change_before_the_confirmation_is_found() {
        let direct = reign(made((4, 1), &[1, 2, 3, 4]));
        assert!(direct.iter().any(|what| what.contains("made list 4.1 (voters 1, 2, 3, 4) before")), "{direct:?}");
        let with_it = reign(made((4, 0), &[1, 2, 3, 4]));
        assert!(with_it.iter().any(|what| what.contains("made list 4.0 (voters 1, 2, 3, 4) before")), "{with_it:?}");
        let pending = reign([adopted((4, 0), &[1, 2, 3]), adopted((4, 1), &[1, 2])]);
        assert!(pending.iter().any(|what| what.contains("made list 4.1")), "{pending:?}");
    }

    #[test]
    fn a_change_of_two_voters_is_found_also_over_a_proposal_in_between() {
        let two = reign(made((4, 0), &[1, 2, 3]).into_iter().chain(made((4, 1), &[1, 2, 4])));
        assert!(
            two.iter().any(|what| what.contains("list 4.1 (voters 1, 2, 4) is more than one voter apart")),
            "{two:?}"
        );
        let over = made((4, 0), &[1, 2, 3]).into_iter().chain([adopted((4, 1), &[1, 2, 3, 4])]);
        let over = reign(over.chain(made((4, 2), &[1, 2, 3, 4, 5])));
        assert!(over.iter().any(|what| what.contains("from list 4.0 before it")), "{over:?}");
    }

    #[test]
    fn lost_entries_and_a_restart_hide_the_confirmation_and_are_no_finding() {
        let start = [vec![started(None)], vec![granted(4, 1), leads(1, 4)], in_force((4, 1), &[1, 2])];
        let mut gap = walk(start.clone());
        gap.entries[3].sequence += 5;
        assert_eq!(changes_by_a_leader(&gap, &Lists::of(&cluster([]), &[])), []);
        let [a, b, c] = start;
        let restarted = walk([a, b, vec![started(9)], c]);
        assert_eq!(changes_by_a_leader(&restarted, &Lists::of(&cluster([]), &[])), []);
    }

    #[test]
    fn one_stamp_has_one_list() {
        let one = ledger(1, (1..).zip(adopted((4, 1), &[1, 2, 3])));
        let same = ledger(2, (1..).zip(in_force((4, 1), &[3, 2, 1])));
        assert_eq!(two_lists_of_one_stamp(&Lists::of(&cluster([one.clone(), same.clone()]), &[])), []);
        let other = ledger(3, (1..).zip(adopted((4, 1), &[1, 2, 4])));
        let found = two_lists_of_one_stamp(&Lists::of(&cluster([one, same, other]), &[]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].what, "list 4.1 has the voters 1, 2, 3 and also the voters 1, 2, 4");
        assert_eq!(found[0].entries, [1, 3].map(|member| EntryRef { member, sequence: 1 }));
    }

    #[test]
    fn a_grant_under_a_list_below_the_voters_own_is_found() {
        let grants = |list| walk([adopted((4, 1), &[1, 2]), vec![granted_under(5, 2, list)]]);
        assert_eq!(grants_under_old_lists(&grants((4, 1))), []);
        assert_eq!(grants_under_old_lists(&grants((5, 0))), [], "a newer list comes with the grant");
        for older in [(4, 0), (0, 0), (3, 9)] {
            let found = grants_under_old_lists(&grants(older));
            assert_eq!((found.len(), &found[0].epochs[..]), (1, &[5][..]), "{found:?}");
            assert!(found[0].what.contains("below its own list 4.1"), "{found:?}");
        }
        let by_grant = walk([vec![granted_under(5, 2, (4, 1))], vec![granted_under(6, 3, (4, 0))]]);
        assert_eq!(grants_under_old_lists(&by_grant).len(), 1, "a grant shows the own list too");
    }
}
