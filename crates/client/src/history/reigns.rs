//! Reigns from ledgers. The leader's own ledger counts first; its followers' ledgers replace a missing one.

use std::collections::BTreeMap;

use super::{Ledgers, MemberLedger};
use crate::ledger::{LedgerEntry, LedgerKind};
use types::Cause;

/// A process records every second that it is alive: without such a record for this long it counts as ended.
const GONE_MS: u64 = 2000;

/// One member led in one epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reign {
    pub leader: u32,
    pub epoch: u64,
    /// By the clock of the leader, or of the first follower that recorded it.
    pub from_ms: u64,
    /// Why it began, by the ledger with that clock.
    pub cause: Cause,
    /// When it ended; `None` if no ledger records its end.
    pub to: Option<Span>,
    /// Why it ended.
    pub end: Option<ReignEnd>,
    /// Does the leader's own ledger record it?
    pub claimed: bool,
    /// The members whose ledgers record it.
    pub told_by: Vec<u32>,
}

/// Why a reign ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReignEnd {
    /// The leader, or a follower, changed its standing.
    Changed(Cause),
    /// The process left the cluster in order.
    Left,
    /// The process ended without writing an entry.
    ProcessEnded,
}

impl ReignEnd {
    pub fn name(self) -> &'static str {
        match self {
            ReignEnd::Changed(cause) => cause.name(),
            ReignEnd::Left => "left",
            ReignEnd::ProcessEnded => "process-ended",
        }
    }
}

/// A moment between these two, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    pub earliest_ms: u64,
    pub latest_ms: u64,
}

/// All reigns that the ledgers record, oldest first.
pub fn reigns(ledgers: &Ledgers) -> Vec<Reign> {
    let mut by_reign: BTreeMap<(u64, u32), Vec<Stay<'_>>> = BTreeMap::new();
    for stay in ledgers.members.iter().flat_map(stays) {
        by_reign.entry((stay.epoch, stay.leader)).or_default().push(stay);
    }
    let mut reigns: Vec<Reign> =
        by_reign.into_iter().map(|((epoch, leader), stays)| reign(leader, epoch, &stays)).collect();
    reigns.sort_by_key(|reign| (reign.from_ms, reign.epoch));
    end_before_successors(&mut reigns);
    name_handovers(&mut reigns);
    reigns
}

/// A leader whose machine slept recorded late that its lease was over. The lease ended before any other member led:
/// leases guarantee that. The exact moment is not known.
fn end_before_successors(reigns: &mut [Reign]) {
    for at in 0..reigns.len() {
        let (epoch, leader) = (reigns[at].epoch, reigns[at].leader);
        let later = reigns.iter().filter(|next| next.epoch > epoch && next.leader != leader);
        let Some(next_ms) = later.map(|next| next.from_ms).min() else { continue };
        let reign = &mut reigns[at];
        let slept = reign.end == Some(ReignEnd::Changed(Cause::LeaseEnded))
            && reign.to.is_some_and(|to| to.latest_ms > next_ms);
        if slept && next_ms > reign.from_ms {
            let earliest_ms = next_ms.saturating_sub(GONE_MS).max(reign.from_ms);
            reign.to = Some(Span { earliest_ms, latest_ms: next_ms });
        }
    }
}

/// A successor to which the leader before it handed over was not elected, although it needed the grants of a majority.
fn name_handovers(reigns: &mut [Reign]) {
    let given = |reign: &Reign| reign.end == Some(ReignEnd::Changed(Cause::HandedOver));
    for at in 0..reigns.len() {
        let epoch = reigns[at].epoch;
        let before = reigns.iter().filter(|earlier| earlier.epoch < epoch).max_by_key(|earlier| earlier.epoch);
        if reigns[at].cause == Cause::Elected && before.is_some_and(given) {
            reigns[at].cause = Cause::HandedOver;
        }
    }
}

/// The difference between the members' clocks, as far as the ledgers show it: several members dated the same reign. The
/// closest dates of each two members count, since a date may also be late for other reasons. Members on one machine
/// have one clock. The estimate may be too small: the delay of the news can hide a part of the difference.
pub fn clock_spread_ms(ledgers: &Ledgers) -> u64 {
    let stays: Vec<Stay<'_>> = ledgers.members.iter().flat_map(stays).collect();
    let mut closest: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for own in stays.iter().filter(|stay| stay.own()) {
        for other in stays.iter().filter(|stay| (stay.epoch, stay.leader) == (own.epoch, own.leader) && !stay.own()) {
            let same_clock = own.from.boot_id == other.from.boot_id && own.from.boot_id != [0; 16];
            let apart = if same_clock { 0 } else { own.from.wall_ms.abs_diff(other.from.wall_ms) };
            let pair = (own.member.min(other.member), own.member.max(other.member));
            closest.entry(pair).and_modify(|known| *known = apart.min(*known)).or_insert(apart);
        }
    }
    closest.into_values().max().unwrap_or(0)
}

/// A time in which a member led or followed without a break.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stay<'a> {
    pub(super) member: u32,
    pub(super) leader: u32,
    pub(super) epoch: u64,
    pub(super) from: &'a LedgerEntry,
    cause: Cause,
    /// The last entry before its end, and the entry that shows its end; `None` while it lasts.
    pub(super) to: Option<(&'a LedgerEntry, &'a LedgerEntry)>,
}

impl Stay<'_> {
    pub(super) fn own(&self) -> bool {
        self.member == self.leader
    }

    /// When it ended. A killed process did not record that: it is after the time at which it was last alive.
    pub(super) fn end(&self) -> Option<Span> {
        let (before, after) = self.to?;
        let LedgerKind::Started { last_alive_ms, .. } = after.kind else {
            return Some(Span { earliest_ms: after.wall_ms, latest_ms: after.wall_ms });
        };
        let earliest_ms = last_alive_ms.unwrap_or(0).max(before.wall_ms);
        // The record of being alive is not synced: after a power cut the last ones may be lost.
        let same_boot = before.boot_id == after.boot_id && last_alive_ms.is_some();
        let gone = if same_boot { earliest_ms + GONE_MS } else { u64::MAX };
        Some(Span { earliest_ms, latest_ms: after.wall_ms.min(gone).max(earliest_ms) })
    }

    fn end_cause(&self) -> Option<ReignEnd> {
        self.to.map(|(_, after)| match &after.kind {
            LedgerKind::Became(transition) => ReignEnd::Changed(transition.cause),
            LedgerKind::Left => ReignEnd::Left,
            _ => ReignEnd::ProcessEnded,
        })
    }

    fn ended_by_restart(&self) -> bool {
        self.to.is_some_and(|(_, after)| matches!(after.kind, LedgerKind::Started { .. }))
    }
}

pub(super) fn stays(ledger: &MemberLedger) -> Vec<Stay<'_>> {
    let mut stays: Vec<Stay<'_>> = Vec::new();
    let mut open: Option<Stay<'_>> = None;
    let mut before: Option<&LedgerEntry> = None;
    for entry in &ledger.entries {
        let next = match &entry.kind {
            LedgerKind::Started { .. } | LedgerKind::Left => None,
            LedgerKind::Became(transition) => transition.leader().and_then(|leader| {
                // A member that was elected but does not lead yet, or leads no more, is not a leader.
                let (epoch, cause) = (transition.now.epoch.0, transition.cause);
                let stay = Stay { member: ledger.id, leader, epoch, from: entry, cause, to: None };
                Some(stay).filter(|stay| !stay.own() || transition.leads())
            }),
            LedgerKind::Granted { .. }
            | LedgerKind::PromiseEnded { .. }
            | LedgerKind::Ordered(_)
            | LedgerKind::Adopted(_)
            | LedgerKind::InForce(_)
            | LedgerKind::Forced(_) => {
                before = Some(entry);
                continue;
            }
        };
        let same = matches!((&open, &next), (Some(a), Some(b)) if (a.leader, a.epoch) == (b.leader, b.epoch));
        if !same {
            stays.extend(open.take().map(|stay| Stay { to: Some((before.unwrap_or(entry), entry)), ..stay }));
            open = next;
        }
        before = Some(entry);
    }
    stays.extend(open);
    stays
}

fn reign(leader: u32, epoch: u64, stays: &[Stay<'_>]) -> Reign {
    let own: Vec<&Stay<'_>> = stays.iter().filter(|stay| stay.own()).collect();
    let followers: Vec<&Stay<'_>> = stays.iter().filter(|stay| !stay.own()).collect();
    let claimed = !own.is_empty();
    let told = if claimed { &own } else { &followers };
    let first = told.iter().min_by_key(|stay| stay.from.wall_ms).expect("a ledger records every reign");
    let lasts = told.iter().any(|stay| stay.to.is_none());
    let last = told.iter().max_by_key(|stay| stay.end().map(|span| span.latest_ms)).filter(|_| !lasts);
    let to = last.and_then(|last| if last.ended_by_restart() { noticed(last, &followers) } else { last.end() });
    let mut told_by: Vec<u32> = stays.iter().map(|stay| stay.member).collect();
    told_by.sort_unstable();
    told_by.dedup();
    Reign {
        leader,
        epoch,
        from_ms: first.from.wall_ms,
        cause: first.cause,
        to,
        end: last.and_then(|last| last.end_cause()),
        claimed,
        told_by,
    }
}

/// The end of a killed process: its followers noticed it some time after the process was last alive.
fn noticed(last: &Stay<'_>, followers: &[&Stay<'_>]) -> Option<Span> {
    let span = last.end()?;
    let departures = followers.iter().filter(|stay| !stay.ended_by_restart()).filter_map(|stay| stay.end());
    let within = departures.map(|end| end.latest_ms).filter(|ms| (span.earliest_ms..=span.latest_ms).contains(ms));
    Some(within.max().map_or(span, |latest_ms| Span { latest_ms, ..span }))
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn span(earliest_ms: u64, latest_ms: u64) -> Span {
        Span { earliest_ms, latest_ms }
    }

    #[test]
    fn a_reign_lasts_from_the_leaders_claim_to_its_own_end() {
        let one = ledger(1, [(100, started(None)), (212, follows(2, 4)), (305, lost(5)), (310, leads(1, 5))]);
        let two = ledger(2, [(100, started(None)), (210, leads(2, 4)), (300, lost(5)), (311, follows(1, 5))]);
        let found = reigns(&cluster([one, two]));
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].leader, found[0].epoch, found[0].from_ms, found[0].to), (2, 4, 210, Some(span(300, 300))));
        assert_eq!((found[0].cause, found[0].end), (Cause::Elected, Some(ReignEnd::Changed(Cause::LeaderLost))));
        assert_eq!((found[1].leader, found[1].from_ms, found[1].to), (1, 310, None));
        assert_eq!(found[1].told_by, [1, 2]);
    }

    #[test]
    fn a_killed_leader_ends_between_its_last_sign_of_life_and_what_its_followers_noticed() {
        let leader = ledger(2, [(100, started(None)), (200, leads(2, 4)), (90_000, started(61_000))]);
        let follower = ledger(1, [(100, started(None)), (201, follows(2, 4)), (61_400, lost(5))]);
        let found = reigns(&cluster([leader.clone(), follower]));
        assert_eq!((found[0].to, found[0].end), (Some(span(61_000, 61_400)), Some(ReignEnd::ProcessEnded)));
        assert_eq!(reigns(&cluster([leader.clone()]))[0].to, Some(span(61_000, 63_000)), "nobody noticed");
        let mut power_cut = leader;
        power_cut.entries[2].boot_id = [2; 16];
        assert_eq!(reigns(&cluster([power_cut]))[0].to, Some(span(61_000, 90_000)), "signs of life may be lost");
    }

    #[test]
    fn a_leader_that_left_in_order_ends_at_that_moment() {
        let leader =
            ledger(2, [(100, started(None)), (200, leads(2, 4)), (300, LedgerKind::Left), (90_000, started(250))]);
        let found = reigns(&cluster([leader]));
        assert_eq!((found[0].to, found[0].end), (Some(span(300, 300)), Some(ReignEnd::Left)));
        let stopped = ledger(2, [(100, started(None)), (200, leads(2, 4)), (300, LedgerKind::Left)]);
        assert_eq!(reigns(&cluster([stopped]))[0].to, Some(span(300, 300)), "a data directory of a stopped member");
    }

    #[test]
    fn a_handover_is_named_where_it_ended_and_where_it_began() {
        let handed_over = became(types::Role::Candidate, None, 4, Cause::HandedOver);
        let old = ledger(2, [(200, leads(2, 4)), (300, handed_over), (310, follows(1, 5)), (400, leads(2, 6))]);
        let new = ledger(1, [(201, follows(2, 4)), (309, leads(1, 5)), (390, lost(6))]);
        let causes: Vec<Cause> = reigns(&cluster([old, new])).iter().map(|reign| reign.cause).collect();
        assert_eq!(causes, [Cause::Elected, Cause::HandedOver, Cause::Elected]);
    }

    #[test]
    fn followers_tell_of_a_leader_whose_ledger_is_gone() {
        let one = ledger(1, [(205, follows(3, 4)), (300, lost(5))]);
        let two = ledger(2, [(203, follows(3, 4)), (310, lost(5))]);
        let found = reigns(&cluster([one.clone(), two]));
        assert_eq!((found[0].from_ms, found[0].to, found[0].claimed), (203, Some(span(310, 310)), false));
        let still = ledger(2, [(203, follows(3, 4))]);
        assert_eq!(reigns(&cluster([one, still]))[0].to, None);
    }

    #[test]
    fn clocks_of_other_machines_show_their_distance() {
        let leader = ledger(2, [(1000, leads(2, 4)), (5000, leads(2, 5))]);
        let mut far = ledger(1, [(1400, follows(2, 4)), (5900, follows(2, 5))]);
        let near = ledger(3, [(1003, follows(2, 4))]);
        assert_eq!(clock_spread_ms(&cluster([leader.clone(), far.clone(), near.clone()])), 0, "one machine");
        far.entries.iter_mut().for_each(|entry| entry.boot_id = [9; 16]);
        assert_eq!(clock_spread_ms(&cluster([leader, far, near])), 400);
    }
}
