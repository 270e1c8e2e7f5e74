//! What holds for every row, whatever it costs.

use algorithms::catalog::{self, ROWS, Row, Visitor};
use algorithms::{Election, Message, NodeId, Outcome, Rounds, Topology, Uid, View, Wins};

use crate::lockstep;
use crate::subject::{Plan, Schedule, subject, uids, view};

/// The bytes of a machine's state: the simulator keeps 10^7 of them.
struct Size;
impl Visitor for Size {
    type Output = usize;
    fn election<E: Election>(self, _: &'static Row) -> usize {
        size_of::<E>()
    }
    fn rounds<R: Rounds>(self, _: &'static Row) -> usize {
        size_of::<R>()
    }
}

#[test]
fn machines_of_rings_are_small() {
    for row in ROWS {
        let size = catalog::dispatch(row, Size);
        println!("{:26} {size:4} bytes", row.name);
        assert!(row.topology != Topology::Ring || size <= 32, "{} has {size} bytes", row.name);
    }
    for (name, most) in [("chang-roberts", 2), ("hirschberg-sinclair", 4), ("peterson", 20), ("itai-rodeh", 12)] {
        assert!(catalog::dispatch(catalog::row(name).expect("a row"), Size) <= most, "{name}");
    }
}

struct Kinds;
impl Visitor for Kinds {
    type Output = &'static [algorithms::Kind];
    fn election<E: Election>(self, _: &'static Row) -> Self::Output {
        E::Message::KINDS
    }
    fn rounds<R: Rounds>(self, _: &'static Row) -> Self::Output {
        R::Message::KINDS
    }
}

#[test]
fn announcements_are_told_by_their_names() {
    let names = ["coordinator", "selected", "elected", "announce", "leader", "heartbeat", "heartbeat-reply"];
    for row in ROWS {
        for kind in catalog::dispatch(row, Kinds) {
            assert_eq!(kind.announcement, names.contains(&kind.name), "{} {}", row.name, kind.name);
        }
    }
}

struct SkippingChangesNothing<'a>(&'a Plan<'a>);
impl Visitor for SkippingChangesNothing<'_> {
    type Output = ();
    fn election<E: Election>(self, _: &'static Row) {}
    fn rounds<R: Rounds>(self, row: &'static Row) {
        let skipped = lockstep::run::<R>(self.0, true, None);
        assert_eq!(skipped, lockstep::run::<R>(self.0, false, None), "{}", row.name);
        assert!(!skipped.endless);
    }
}

#[test]
fn silent_rounds_can_be_skipped() {
    let ring = view(Topology::Ring, uids(&[5, 2, 7, 3, 8, 4]));
    for row in ROWS {
        for wins in [Wins::Highest, Wins::Lowest] {
            for (seed, initiators) in [&[0, 1, 2, 3, 4, 5][..], &[1, 4], &[3]].into_iter().enumerate() {
                for schedule in [Schedule::Synchronous, Schedule::Random] {
                    let seed = seed as u64;
                    let plan = Plan { view: &ring, wins, initiators, dead: &[], schedule, seed };
                    catalog::dispatch(row, SkippingChangesNothing(&plan));
                }
            }
        }
    }
}

#[test]
fn itai_rodeh_needs_no_ids() {
    let subject = subject(catalog::row("itai-rodeh").expect("a row"));
    for n in [1, 2, 3, 5, 8] {
        let nobody = View::ring(vec![Uid::plain(0); n]);
        let all: Vec<usize> = (0..n).collect();
        for seed in 0..2000 {
            let schedule = if seed % 2 == 0 { Schedule::Random } else { Schedule::Synchronous };
            let plan = Plan { view: &nobody, wins: Wins::Highest, initiators: &all, dead: &[], schedule, seed };
            let outcomes = subject.run(&plan, None).outcomes;
            assert_eq!(outcomes.iter().filter(|o| **o == [Outcome::Won]).count(), 1);
            assert_eq!(outcomes.iter().filter(|o| **o == [Outcome::Follow(None)]).count(), n - 1);
        }
    }
}

#[test]
fn priorities_count_before_ids_and_algorithms_that_count_with_ids_refuse_them() {
    let members: Vec<Uid> =
        [(1, 4), (3, 1), (2, 9), (3, 2)].into_iter().map(|(priority, id)| Uid { priority, id: NodeId(id) }).collect();
    for row in ROWS {
        let view = view(row.topology, members.clone());
        let (wins, schedule) = (Wins::Highest, Schedule::Synchronous);
        let plan = Plan { view: &view, wins, initiators: &[0], dead: &[], schedule, seed: 1 };
        let outcomes = subject(row).run(&plan, None).outcomes;
        if (row.check)(&view, wins).is_err() {
            assert!(outcomes.iter().all(|o| *o == [Outcome::GaveUp]), "{}", row.name);
        } else if row.elects == catalog::Elects::Best {
            assert_eq!(outcomes[3].last(), Some(&Outcome::Won), "{}", row.name);
        }
    }
}

#[test]
fn numbers_up_to_the_limit_are_accepted_and_larger_ones_refused() {
    for (name, limit) in [("time-slice", 4096), ("variable-speeds", 16)] {
        let check = catalog::row(name).expect("a row").check;
        assert_eq!(check(&View::ring(uids(&[3, limit])), Wins::Lowest), Ok(()));
        assert!(check(&View::ring(uids(&[3, limit + 1])), Wins::Lowest).is_err());
        assert_eq!(check(&View::ring(uids(&[1_000_000, 1_000_001])), Wins::Highest), Ok(()));
        assert!(check(&View::ring(uids(&[0, limit + 1])), Wins::Highest).is_err());
    }
}
