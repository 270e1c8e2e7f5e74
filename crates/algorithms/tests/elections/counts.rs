//! The published figures, literally: least, mean and most over all rings of n members, as exact fractions.

use algorithms::Wins::{self, Highest, Lowest};
use algorithms::drive::Dice;
use algorithms::election::bully::Bully;
use algorithms::election::bully_1982::Bully1982;
use algorithms::election::improved_bully::ImprovedBully;
use algorithms::theory::{self, Before, Case};
use algorithms::{Election as Machine, Outcome, Topology, catalog};

use crate::audit::cyclic_orders;
use crate::driver;
use crate::subject::{Plan, Run, Schedule, subject, uids, view};

#[derive(Clone, Copy, Debug)]
enum What {
    Election,
    Total,
    Rounds,
}
use What::{Election, Rounds, Total};

/// Least, mean as a fraction, most.
type Figure = (u64, (u64, u64), u64);

/// All start at once, every message takes a round; the six figures are for n = 1..=6.
const TABLES: &[(&str, Wins, What, [Figure; 6])] = &[
    (
        "le-lann",
        Highest,
        Election,
        [(1, (1, 1), 1), (4, (4, 1), 4), (9, (9, 1), 9), (16, (16, 1), 16), (25, (25, 1), 25), (36, (36, 1), 36)],
    ),
    (
        "chang-roberts",
        Highest,
        Election,
        [(1, (1, 1), 1), (3, (3, 1), 3), (5, (11, 2), 6), (7, (25, 3), 10), (9, (137, 12), 15), (11, (147, 10), 21)],
    ),
    (
        "chang-roberts-substitute",
        Highest,
        Total,
        [(2, (2, 1), 2), (5, (5, 1), 5), (8, (17, 2), 9), (11, (37, 3), 14), (14, (197, 12), 20), (17, (207, 10), 27)],
    ),
    (
        "hirschberg-sinclair",
        Highest,
        Election,
        [
            (2, (2, 1), 2),
            (10, (10, 1), 10),
            (23, (23, 1), 23),
            (28, (88, 3), 32),
            (49, (158, 3), 55),
            (54, (306, 5), 68),
        ],
    ),
    // Published without the announcement lap of n rounds.
    (
        "hirschberg-sinclair",
        Highest,
        Rounds,
        [(2, (2, 1), 2), (6, (6, 1), 6), (12, (12, 1), 12), (14, (14, 1), 14), (24, (24, 1), 24), (26, (26, 1), 26)],
    ),
    (
        "hirschberg-sinclair-reply",
        Highest,
        Election,
        [
            (2, (2, 1), 2),
            (12, (12, 1), 12),
            (26, (26, 1), 26),
            (32, (104, 3), 40),
            (54, (178, 3), 62),
            (60, (352, 5), 80),
        ],
    ),
    (
        "peterson",
        Highest,
        Election,
        [(1, (1, 1), 1), (5, (5, 1), 5), (8, (8, 1), 8), (11, (38, 3), 16), (14, (55, 3), 21), (17, (121, 5), 27)],
    ),
    (
        "peterson",
        Highest,
        Total,
        [(2, (2, 1), 2), (7, (7, 1), 7), (11, (11, 1), 11), (15, (50, 3), 20), (19, (70, 3), 26), (23, (151, 5), 33)],
    ),
    (
        "dolev-klawe-rodeh",
        Highest,
        Election,
        [(1, (1, 1), 1), (6, (6, 1), 6), (9, (9, 1), 9), (12, (44, 3), 20), (15, (65, 3), 25), (18, (142, 5), 30)],
    ),
    // The published bound is 1.5 n log2 n + O(n); these figures are from an independent simulation.
    (
        "dolev-klawe-rodeh-b",
        Highest,
        Election,
        [(1, (1, 1), 1), (4, (4, 1), 4), (6, (13, 2), 7), (8, (31, 3), 13), (10, (89, 6), 17), (12, (289, 15), 21)],
    ),
    // All start, so what reaches the next better initiator is what reaches the next better id.
    (
        "modified-ring",
        Highest,
        Total,
        [(2, (2, 1), 2), (5, (5, 1), 5), (8, (17, 2), 9), (11, (37, 3), 14), (14, (197, 12), 20), (17, (207, 10), 27)],
    ),
    (
        "variable-speeds",
        Lowest,
        Election,
        [(1, (1, 1), 1), (3, (3, 1), 3), (5, (5, 1), 5), (7, (22, 3), 8), (9, (19, 2), 10), (11, (119, 10), 13)],
    ),
];

#[test]
fn the_published_tables_hold() {
    for (name, wins, what, figures) in TABLES {
        for (i, figure) in figures.iter().enumerate() {
            let costs: Vec<u64> = cyclic_orders(i + 1).iter().map(|ids| cost(name, *wins, *what, ids)).collect();
            assert_eq!(summary(&costs), *figure, "{name} {what:?} n = {}", i + 1);
        }
    }
}

#[test]
fn peterson_enters_the_published_number_of_phases() {
    let figures = [(1, (1, 1), 1), (2, (2, 1), 2), (2, (2, 1), 2), (2, (7, 3), 3), (2, (8, 3), 3), (2, (43, 15), 3)];
    for (i, figure) in figures.into_iter().enumerate() {
        let phases = |ids: &Vec<u32>| {
            let ids = &uids(ids);
            let before = Before::Nothing;
            let case = Case { ids, wins: Highest, initiators: &[0], dead: &[], synchronous: true, before, shape: None };
            theory::peterson_phases(&case) as u64
        };
        let phases: Vec<u64> = cyclic_orders(i + 1).iter().map(phases).collect();
        assert_eq!(summary(&phases), figure, "n = {}", i + 1);
    }
}

#[test]
fn synchronous_rounds_with_announcement_are_the_published_ones() {
    let peterson = [(2, 2), (4, 4), (7, 7), (9, 9), (11, 11), (13, 15)];
    for (i, (least, most)) in peterson.into_iter().enumerate() {
        let rounds = |name, ids: &Vec<u32>| cost(name, Highest, Rounds, ids);
        let rings = cyclic_orders(i + 1);
        let found: Vec<u64> = rings.iter().map(|ids| rounds("peterson", ids)).collect();
        assert_eq!((summary(&found).0, summary(&found).2), (least, most), "n = {}", i + 1);
        let n = i as u64 + 1;
        assert!(rings.iter().all(|ids| rounds("le-lann", ids) == n && rounds("chang-roberts", ids) == 2 * n));
        for name in ["chang-roberts", "chang-roberts-substitute", "le-lann"] {
            let starts = rings.iter().flat_map(|ids| (0..=i).map(move |at| (ids, at)));
            let found: Vec<u64> = starts.map(|(ids, at)| run(name, Highest, ids, &[at], 0).rounds).collect();
            let (least, _, most) = summary(&found);
            let published = if name == "le-lann" { (2 * n - 1, 2 * n - 1) } else { (2 * n, 3 * n - 1) };
            assert_eq!((least, most), published, "{name} n = {n}");
        }
    }
}

#[test]
fn fixed_rings_cost_what_was_published() {
    let rings = [([1, 3, 2, 4], 16, 32, 8), ([1, 2, 3, 4], 11, 28, 7), ([4, 3, 2, 1], 11, 28, 10)];
    for (ids, peterson, hirschberg_sinclair, chang_roberts) in rings {
        assert_eq!(cost("peterson", Highest, Election, &ids), peterson);
        assert_eq!(cost("hirschberg-sinclair", Highest, Election, &ids), hirschberg_sinclair);
        assert_eq!(cost("chang-roberts", Highest, Election, &ids), chang_roberts);
    }
}

#[test]
fn substitution_costs_one_initiator_between_2n_and_3n_minus_1() {
    for n in 1..=6 {
        let ids: Vec<u32> = (1..=n as u32).collect();
        let total = |at| total(&run("chang-roberts-substitute", Highest, &ids, &[at], 0));
        let totals: Vec<u64> = (0..n).map(total).collect();
        let n = n as u64;
        assert_eq!(summary(&totals).0, 2 * n);
        assert_eq!(summary(&totals).2, 3 * n - 1);
        assert_eq!(2 * totals.iter().sum::<u64>(), n * (n - 1 + 4 * n));
    }
}

#[test]
fn an_initiator_costs_two_laps_and_suppression_leaves_one_announcement() {
    let ids = [8, 3, 5, 1, 7, 2, 6, 4];
    for name in ["modified-ring", "modified-ring-plain", "ring-list"] {
        assert_eq!(total(&run(name, Highest, &ids, &[3], 0)), 16);
    }
    let all: Vec<usize> = (0..8).collect();
    assert_eq!(total(&run("modified-ring-plain", Highest, &ids, &all, 0)), 128);
    assert_eq!(run("modified-ring", Highest, &ids, &all, 0).announcement(), 8);
}

#[test]
fn time_buys_messages() {
    for n in 1..=6_u32 {
        let ids: Vec<u32> = (2..2 + n).collect();
        let all: Vec<usize> = (0..n as usize).collect();
        let slice = run("time-slice", Lowest, &ids, &all, 0);
        assert_eq!((slice.election(), slice.rounds), (n.into(), (n * 3).into()));
        let speeds = run("variable-speeds", Lowest, &ids, &all, 0);
        // The announcement is the last n rounds.
        assert_eq!(speeds.rounds, u64::from(1 + (n - 1) * 4 + n));
        assert!(speeds.election() < 3 * u64::from(n));
        // Counted down from the highest, which then has the smallest published number.
        assert_eq!(run("time-slice", Highest, &ids, &all, 0).rounds, n.into());
        assert_eq!(run("variable-speeds", Highest, &ids, &all, 0).rounds, u64::from(1 + (n - 1) * 2 + n));
    }
}

#[test]
fn bully_costs_what_was_published_when_the_best_is_dead_and_when_nobody_is() {
    let row = catalog::row("bully").expect("a row");
    for n in 2..=12_usize {
        let view = view(row.topology, uids(&(1..=n as u32).collect::<Vec<_>>()));
        let total = |initiators: &[usize], dead: &[usize]| {
            let (wins, schedule) = (Highest, Schedule::Synchronous);
            total(&subject(row).run(&Plan { view: &view, wins, initiators, dead, schedule, seed: 1 }, None))
        };
        for at in 0..n - 1 {
            let m = n - 1 - at;
            assert_eq!(total(&[at], &[n - 1]), (m * m + n - 2) as u64);
            assert_eq!(total(&[at], &[]), (m * (m + 1) + n - 1) as u64);
        }
        let survivors: Vec<usize> = (0..n - 1).collect();
        assert_eq!(total(&survivors, &[n - 1]), (n * n - n - 1) as u64);
        assert_eq!(total(&[n - 1], &[]), (n - 1) as u64);
    }
}

#[test]
fn modified_bully_costs_what_was_published_when_the_best_is_dead() {
    let row = catalog::row("modified-bully").expect("a row");
    for n in 2..=12_usize {
        let view = view(row.topology, uids(&(1..=n as u32).collect::<Vec<_>>()));
        let total = |initiators: &[usize]| {
            let (wins, schedule, dead) = (Highest, Schedule::Synchronous, &[n - 1]);
            total(&subject(row).run(&Plan { view: &view, wins, initiators, dead, schedule, seed: 1 }, None))
        };
        for at in 0..n - 1 {
            let (i, grant) = (at + 1, usize::from(at + 1 < n - 1));
            assert_eq!(total(&[at]), (2 * (n - i) - 1 + grant + n - 2) as u64);
        }
        assert_eq!(total(&[n - 2]), (n - 1) as u64);
        assert!(n == 2 || total(&[0]) == (3 * n - 4) as u64);
    }
}

/// The election after the death of member `n`, which all others followed; the positions `initiators` miss it. The dead
/// member is none of the second election: its connections are closed.
fn after_the_death_of_the_best<E: Machine>(n: usize, initiators: &[usize], seed: u64) -> Run {
    let ids: Vec<u32> = (1..=n as u32).collect();
    let (all, left) = (view(Topology::Mesh, uids(&ids)), view(Topology::Mesh, uids(&ids[..n - 1])));
    let (wins, schedule) = (Highest, Schedule::Synchronous);
    let before = Plan { view: &all, wins, initiators: &[n - 1], dead: &[], schedule, seed };
    let run = driver::run_after::<E>(&before, &Plan { view: &left, initiators, ..before });
    assert_eq!(run.outcomes[n - 2], [Outcome::Won]);
    run
}

/// Every set of the first `n` positions that is not empty.
fn sets(n: usize) -> impl Iterator<Item = Vec<usize>> {
    (1..1_usize << n).map(move |set| (0..n).filter(|at| set >> at & 1 == 1).collect())
}

#[test]
fn improved_bully_costs_what_was_published_when_the_coordinator_is_known_to_be_dead() {
    for n in 3..=12_usize {
        for at in 0..n - 1 {
            let run = after_the_death_of_the_best::<ImprovedBully>(n, &[at], 1);
            let told = if at == n - 2 { n - 2 } else { n - 1 };
            assert_eq!(total(&run), told as u64, "{run:?}");
        }
    }
}

#[test]
fn improved_bully_costs_n_minus_2_whichever_members_miss_the_coordinator_if_its_successor_does() {
    for n in 3..=9_usize {
        let ids = &uids(&(1..n as u32).collect::<Vec<_>>());
        for initiators in sets(n - 1) {
            let (before, dead) = (Before::Lost, &[]);
            let case =
                Case { ids, wins: Highest, initiators: &initiators, dead, synchronous: true, before, shape: None };
            let expected = theory::improved_bully(&case).expect("a statement");
            let successor_misses = initiators.contains(&(n - 2));
            for seed in 1..=3 {
                let run = after_the_death_of_the_best::<ImprovedBully>(n, &initiators, seed);
                if successor_misses {
                    assert_eq!(total(&run), (n - 2) as u64, "{run:?}");
                }
                assert!(total(&run) < n as u64, "{run:?}");
                for (name, range) in &expected.kinds {
                    let sent = run.counts.iter().find(|(kind, _)| kind.name == *name).expect("a kind").1;
                    assert!(range.contains(sent), "{name}: {sent}, theory says {range}; {run:?}");
                }
                assert!(expected.rounds.is_some_and(|rounds| rounds.contains(run.rounds)), "{run:?}");
            }
        }
    }
}

/// By the order of events: how many messages, one after the other, lie between the first miss and the last announcement.
#[test]
fn the_way_to_a_successor_is_no_longer_in_improved_bully_than_in_bully() {
    for n in 3..=8_usize {
        for initiators in sets(n - 1) {
            let improved = after_the_death_of_the_best::<ImprovedBully>(n, &initiators, 1);
            let plain = after_the_death_of_the_best::<Bully>(n, &initiators, 1);
            assert!(improved.announced <= plain.announced, "{initiators:?} of {n}: {improved:?} {plain:?}");
            assert!(total(&improved) <= total(&plain), "{initiators:?} of {n}: {improved:?} {plain:?}");
            let successor_misses = initiators.contains(&(n - 2));
            assert_eq!(improved.announced, if successor_misses { 1 } else { 2 });
        }
    }
}

#[test]
fn the_published_bully_costs_a_running_cluster_6n_minus_11() {
    for n in 2..=12_usize {
        let view = view(Topology::Mesh, uids(&(1..=n as u32).collect::<Vec<_>>()));
        let (wins, schedule) = (Highest, Schedule::Synchronous);
        let plan = Plan { view: &view, wins, initiators: &[n - 2], dead: &[n - 1], schedule, seed: 1 };
        let run = driver::run_second::<Bully1982>(&plan);
        assert_eq!(run.outcomes[n - 2].last(), Some(&Outcome::Won));
        assert_eq!(run.election(), 6 * n as u64 - 11, "{run:?}");
    }
}

#[test]
fn itai_rodeh_costs_the_published_means() {
    for (n, mean, samples) in [(1, 1.0, 10), (2, 7.0, 4000), (4, 14.04, 4000), (8, 32.26, 2000)] {
        let ids: Vec<u32> = (1..=n).collect();
        let all: Vec<usize> = (0..n as usize).collect();
        let runs = (0..samples).map(|seed| run("itai-rodeh", Highest, &ids, &all, seed));
        let sum: u64 = runs.map(|run| run.election()).sum();
        let found = sum as f64 / samples as f64;
        assert!((found - mean).abs() < 0.05 * mean, "n = {n}: {found} instead of {mean}");
    }
}

/// Position i holds the bits of i in reverse: the ring on which comparisons of neighbours tell least.
fn bit_reversed(n: u32) -> Vec<u32> {
    (0..n).map(|i| (i.reverse_bits() >> (32 - n.ilog2())) + 1).collect()
}

#[test]
fn algorithm_b_keeps_its_published_factor_and_a_bit_reversed_ring_attains_it() {
    for n in [4_u32, 8, 16, 64, 256] {
        let found = |ids: &[u32]| cost("dolev-klawe-rodeh-b", Highest, Election, ids);
        assert_eq!(found(&bit_reversed(n)), u64::from(3 * n * n.ilog2() / 2 + 1), "n = {n}");
        assert_eq!(found(&(1..=n).rev().collect::<Vec<_>>()), u64::from(2 * n));
        assert_eq!(found(&(1..=n).collect::<Vec<_>>()), u64::from(3 * n - 2));
        assert!(found(&bit_reversed(n)) < cost("dolev-klawe-rodeh", Highest, Election, &bit_reversed(n)));
    }
}

#[test]
fn franklin_attains_its_published_bound() {
    for n in [1_u32, 2, 4, 8, 16, 64, 256] {
        // Half of the active nodes stay in every phase.
        let ids = if n == 1 { vec![1] } else { bit_reversed(n) };
        let bound = 2 * n * n.ilog2() + 3 * n;
        assert_eq!(cost("franklin", Highest, Total, &ids), u64::from(bound), "n = {n}");
    }
}

#[test]
fn the_literal_modified_ring_pays_the_way_to_the_best_for_every_initiator() {
    let ids = [3, 8, 5, 1, 7, 2, 6, 4];
    let elect = |initiators: &[usize]| run("modified-ring-literal", Highest, &ids, initiators, 0).election();
    assert_eq!([elect(&[1]), elect(&[0]), elect(&[2])], [8, 9, 15]);
    assert_eq!(elect(&[0, 1, 2, 3, 4, 5, 6, 7]), 64 + 28);
    // For one initiator the reading with an origin pays the lap alone.
    assert_eq!(run("modified-ring", Highest, &ids, &[2], 0).election(), 8);
}

#[test]
fn random_rings_cost_the_sampled_means() {
    let means = [
        ("chang-roberts", 303.6),
        ("hirschberg-sinclair", 1214.6),
        ("hirschberg-sinclair-reply", 1411.1),
        ("peterson", 520.5),
        ("dolev-klawe-rodeh", 566.4),
    ];
    for (name, mean) in means {
        let mut dice = Dice(3);
        let mut ids: Vec<u32> = (1..=64).collect();
        let mut sum = 0;
        for _ in 0..200 {
            dice.shuffle(&mut ids);
            sum += cost(name, Highest, Election, &ids);
        }
        let found = sum as f64 / 200.0;
        assert!((found - mean).abs() < 0.05 * mean, "{name}: {found} instead of {mean}");
    }
}

fn run(name: &str, wins: Wins, ids: &[u32], initiators: &[usize], seed: u64) -> Run {
    let row = catalog::row(name).expect("a row");
    let view = view(row.topology, uids(ids));
    let plan = Plan { view: &view, wins, initiators, dead: &[], schedule: Schedule::Synchronous, seed };
    subject(row).run(&plan, None)
}

fn cost(name: &str, wins: Wins, what: What, ids: &[u32]) -> u64 {
    let all: Vec<usize> = (0..ids.len()).collect();
    let run = run(name, wins, ids, &all, 0);
    match what {
        Election => run.election(),
        Total => total(&run),
        Rounds => run.rounds,
    }
}

fn total(run: &Run) -> u64 {
    run.election() + run.announcement()
}

fn summary(costs: &[u64]) -> Figure {
    let (sum, count) = (costs.iter().sum::<u64>(), costs.len() as u64);
    let by = gcd(sum, count);
    let least = costs.iter().min().copied().unwrap_or(0);
    (least, (sum / by, count / by), costs.iter().max().copied().unwrap_or(0))
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
