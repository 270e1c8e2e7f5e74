//! Which member led at one instant, as far as clocks and ledgers show it.

use types::names;

use super::reigns::{Reign, clock_spread_ms, reigns};
use super::{Ledgers, MemberLedger};
use crate::instant::format_instant;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WhoLed {
    pub held: Held,
    /// The reigns that may cover the instant; under [`Held::One`] the reign that does.
    pub reigns: Vec<Reign>,
    /// The difference between the members' clocks: an estimate, see [`clock_spread_ms`].
    pub uncertainty_ms: u64,
    /// Why the answer is not more certain.
    pub why: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// One member, by the available ledgers and farther from any change than the known difference of the clocks. A
    /// missing ledger may record another leader; `why` names it.
    One,
    /// Several members claimed to lead at once.
    Several,
    /// Too close to a change, or inside the unknown end of a killed process.
    Perhaps,
    Nobody,
    Unknown,
}

names!(Held { One: "one", Several: "several", Perhaps: "perhaps", Nobody: "nobody", Unknown: "unknown" });

/// `now_ms` is when the ledgers were read.
pub fn who_led_at(ledgers: &Ledgers, at_ms: u64, now_ms: u64) -> WhoLed {
    let uncertainty_ms = clock_spread_ms(ledgers);
    let possible = |reign: &Reign| {
        let until = reign.to.map_or(u64::MAX, |to| to.latest_ms.saturating_add(uncertainty_ms));
        reign.from_ms.saturating_sub(uncertainty_ms) <= at_ms && at_ms <= until
    };
    let certain = |reign: &Reign| {
        let until = reign.to.map_or(u64::MAX, |to| to.earliest_ms.saturating_sub(uncertainty_ms));
        reign.from_ms + uncertainty_ms <= at_ms && at_ms < until
    };
    if at_ms > now_ms.saturating_add(uncertainty_ms) {
        let why = vec!["that instant is in the future".to_owned()];
        return WhoLed { held: Held::Unknown, reigns: Vec::new(), uncertainty_ms, why };
    }
    let mut reigns: Vec<Reign> = reigns(ledgers).into_iter().filter(possible).collect();
    let mut why = holes(ledgers, at_ms);
    let one_name = reigns.iter().all(|reign| reign.leader == reigns[0].leader);
    let held = match reigns.iter().filter(|reign| certain(reign)).count() {
        0 if reigns.is_empty() && why.is_empty() => Held::Nobody,
        0 if reigns.is_empty() => Held::Unknown,
        // A leader that moves to a later epoch leads without a break.
        1 if one_name => Held::One,
        2.. => Held::Several,
        _ => {
            why.insert(0, "a reign began or ended near that instant".to_owned());
            Held::Perhaps
        }
    };
    if held == Held::One {
        reigns.retain(certain);
    }
    WhoLed { held, reigns, uncertainty_ms, why }
}

/// Gaps that could hide a reign at that instant.
fn holes(ledgers: &Ledgers, at_ms: u64) -> Vec<String> {
    let mut holes: Vec<String> = ledgers.missing_in_words().collect();
    let first = ledgers.members.iter().filter_map(|ledger| ledger.entries.first()).map(|entry| entry.wall_ms).min();
    match first {
        None => holes.push("no ledger has any entry".to_owned()),
        Some(first) if at_ms < first => holes.push(format!("the ledgers begin at {}", format_instant(first))),
        Some(_) => {}
    }
    holes.extend(ledgers.members.iter().filter_map(|ledger| hole(ledger, at_ms)));
    holes
}

fn hole(ledger: &MemberLedger, at_ms: u64) -> Option<String> {
    let id = ledger.id;
    if let Some(first) = ledger.entries.first().filter(|first| first.sequence > 1 && at_ms < first.wall_ms) {
        return Some(format!("member {id} dropped its entries before {}", format_instant(first.wall_ms)));
    }
    let lost = ledger.gaps().any(|(before, after)| (before.wall_ms..=after.wall_ms).contains(&at_ms));
    lost.then(|| format!("member {id} lost entries near that instant"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn two() -> Ledgers {
        let one = ledger(1, [(100, started(None)), (212, follows(2, 4)), (300, lost(5)), (400, leads(1, 5))]);
        let two = ledger(2, [(100, started(None)), (210, leads(2, 4)), (300, lost(5)), (401, follows(1, 5))]);
        cluster([one, two])
    }

    fn held(ledgers: &Ledgers, at_ms: u64) -> (Held, Vec<u32>) {
        let answer = who_led_at(ledgers, at_ms, 10_000);
        (answer.held, answer.reigns.iter().map(|reign| reign.leader).collect())
    }

    #[test]
    fn an_instant_has_one_leader_or_nobody() {
        assert_eq!(held(&two(), 250), (Held::One, vec![2]));
        assert_eq!(held(&two(), 500), (Held::One, vec![1]));
        assert_eq!(held(&two(), 350), (Held::Nobody, vec![]));
        assert_eq!(held(&two(), 150), (Held::Nobody, vec![]));
        assert_eq!(held(&two(), 50), (Held::Unknown, vec![]), "before the ledgers");
        assert_eq!(held(&two(), 20_000), (Held::Unknown, vec![]), "not yet");
    }

    #[test]
    fn clocks_that_differ_make_the_edges_uncertain() {
        let mut ledgers = two();
        for entry in &mut ledgers.members[0].entries {
            entry.boot_id = [9; 16];
            entry.wall_ms += 20;
        }
        let answer = who_led_at(&ledgers, 220, 10_000);
        assert_eq!((answer.held, answer.uncertainty_ms), (Held::Perhaps, 19));
        assert_eq!(held(&ledgers, 250), (Held::One, vec![2]));
    }

    #[test]
    fn what_is_missing_makes_nobody_unknown_and_a_known_leader_stays() {
        let mut ledgers = two();
        ledgers.missing.push(missing(3));
        assert_eq!(held(&ledgers, 350), (Held::Unknown, vec![]));
        assert_eq!(held(&ledgers, 250), (Held::One, vec![2]));
        let mut gap = two();
        gap.members[0].entries[3].sequence = 9;
        assert_eq!(held(&gap, 350), (Held::Unknown, vec![]));
        assert_eq!(held(&gap, 150), (Held::Nobody, vec![]), "the gap lies elsewhere");
        let mut dropped = two();
        dropped.members[0].entries.drain(..2);
        assert_eq!(held(&dropped, 150), (Held::Unknown, vec![]));
    }

    #[test]
    fn the_time_of_a_killed_process_is_told_over_a_full_restart() {
        let whole = |id, kind| ledger(id, [(100, started(None)), (200, kind), (90_000, started(61_000))]);
        let ledgers = cluster([whole(1, follows(2, 4)), whole(2, leads(2, 4))]);
        assert_eq!(who_led_at(&ledgers, 50_000, 99_000).held, Held::One);
        assert_eq!(who_led_at(&ledgers, 61_500, 99_000).held, Held::Perhaps);
        assert_eq!(who_led_at(&ledgers, 80_000, 99_000).held, Held::Nobody);
    }

    #[test]
    fn a_leader_that_goes_on_in_a_later_epoch_leads_at_the_change_too() {
        let one = ledger(1, [(100, leads(1, 4)), (200, leads(1, 5)), (300, lost(6))]);
        let two = ledger(2, [(300, leads(2, 6))]);
        let ledgers = cluster([one, two]);
        assert_eq!(held(&ledgers, 200), (Held::One, vec![1]));
        assert_eq!(held(&ledgers, 300), (Held::Perhaps, vec![1, 2]), "another took over");
    }

    #[test]
    fn a_leader_that_slept_did_not_lead_beside_its_successor() {
        let one = ledger(1, [(100, leads(1, 4)), (9_000, lease_over(4))]);
        let two = ledger(2, [(100, follows(1, 4)), (6_000, leads(2, 5))]);
        let ledgers = cluster([one, two]);
        assert_eq!(held(&ledgers, 8_000), (Held::One, vec![2]));
        assert_eq!(held(&ledgers, 5_500), (Held::Perhaps, vec![1]), "its lease may have been over");
        assert_eq!(held(&ledgers, 2_000), (Held::One, vec![1]));
    }

    #[test]
    fn two_at_once_are_several() {
        let one = ledger(1, [(100, leads(1, 4)), (500, follows(2, 5))]);
        let two = ledger(2, [(100, leads(2, 5))]);
        assert_eq!(held(&cluster([one, two]), 300), (Held::Several, vec![1, 2]));
    }
}
