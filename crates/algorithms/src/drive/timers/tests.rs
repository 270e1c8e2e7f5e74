//! Few and many timers behave alike.

use std::collections::BTreeMap;
use std::hash::DefaultHasher;

use super::*;
use types::Dice;

fn hash(timers: &Timers<u32, u64>) -> u64 {
    let mut hasher = DefaultHasher::new();
    timers.hash(&mut hasher);
    hasher.finish()
}

/// The earliest, and of several the one with the smallest name.
fn earliest(timers: &BTreeMap<u32, u64>) -> Option<(u64, u32)> {
    timers.iter().map(|(&timer, &when)| (when, timer)).min()
}

#[test]
fn timers_do_what_a_plain_map_does_however_many_there_are() {
    let mut dice = Dice(7);
    for names in [4, 20, 40, 400] {
        let (mut timers, mut wanted) = (Timers::default(), BTreeMap::new());
        for _ in 0..4_000 {
            let (timer, when) = ((dice.roll() % names) as u32, dice.roll() % 50);
            match dice.roll() % 8 {
                // In some stretches more are set than cancelled, in others the other way round.
                0..=2 => {
                    timers.set(timer, when);
                    wanted.insert(timer, when);
                }
                3..=5 => {
                    timers.cancel(timer);
                    wanted.remove(&timer);
                }
                6 => {
                    let due = earliest(&wanted).filter(|&(moment, _)| moment <= when).map(|(_, timer)| timer);
                    assert_eq!(timers.pop_due(when), due);
                    due.map(|timer| wanted.remove(&timer));
                }
                _ => {
                    timers.shift(|_, when| when.saturating_sub(1));
                    for when in wanted.values_mut() {
                        *when = when.saturating_sub(1);
                    }
                }
            }
            assert_eq!(timers.get(timer), wanted.get(&timer).copied());
            assert_eq!(timers.next_due(), earliest(&wanted).map(|(when, _)| when));
            assert!(timers.iter().eq(wanted.iter().map(|(&timer, &when)| (timer, when))));
        }
    }
}

#[test]
fn equal_timers_are_equal_values_whatever_happened_before() {
    let mut grown = Timers::default();
    for timer in 0..20 {
        grown.set(timer, u64::from(timer));
    }
    let mut shrunk = Timers::default();
    for timer in (0..=FEW as u32).rev() {
        shrunk.set(timer, u64::from(timer));
    }
    shrunk.retain(|timer| timer < 20);
    assert!(matches!((&grown.0, &shrunk.0), (Kept::Few(_), Kept::Many(_))));
    assert_eq!((&grown, hash(&grown)), (&shrunk, hash(&shrunk)));
    assert_eq!(format!("{grown:?}"), format!("{shrunk:?}"));
    shrunk.set(3, 77);
    assert_ne!(grown, shrunk);
    for timer in 10..20 {
        shrunk.cancel(timer);
    }
    assert!(matches!(shrunk.0, Kept::Few(_)));
}

/// Moving one of 10,000 timers looks through none of the others: this takes a moment, and took a minute with a list.
#[test]
fn ten_thousand_timers_are_moved_one_by_one() {
    let moves = 100_000_u64;
    let mut timers = Timers::default();
    for timer in 0..10_000_u32 {
        timers.set(timer, u64::from(timer));
    }
    for turn in 0..moves {
        let timer = (turn.wrapping_mul(7_919) % 10_000) as u32;
        timers.cancel(timer);
        timers.set(timer, 10_000 + turn);
        assert!(timers.next_due().is_some());
    }
    assert_eq!(timers.iter().count(), 10_000);
}
