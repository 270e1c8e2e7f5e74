//! Bare runs of the whole catalog: right winner, exact cost, same seed same run.

use algorithms::catalog::{self, Elects, Row};
use algorithms::{Topology, Uid, Wins};
use sim::{Experiment, Initiators, Order, Report, Schedule};

const SCHEDULES: [Schedule; 2] = [Schedule::Sync, Schedule::Random];

/// All orders of 1..=n on a ring, up to rotation.
fn cyclic_orders(n: u32) -> Vec<Vec<Uid>> {
    fn extend(order: &mut Vec<u32>, n: u32, all: &mut Vec<Vec<Uid>>) {
        if order.len() == n as usize {
            all.push(order.iter().map(|&id| Uid::plain(id)).collect());
        }
        for id in 1..=n {
            if !order.contains(&id) {
                order.push(id);
                extend(order, n, all);
                order.pop();
            }
        }
    }
    let mut all = Vec::new();
    extend(&mut vec![n], n, &mut all);
    all
}

fn run(experiment: &Experiment) -> Report {
    let report = experiment.run().expect("can be run");
    assert!(report.violations.is_empty(), "{experiment:?}: {:?}", report.violations);
    report
}

/// Everybody, each one alone, and two sets in between.
fn initiator_sets(n: usize) -> Vec<Initiators> {
    let mut sets = vec![Initiators::All];
    sets.extend((0..n).map(|at| Initiators::At(vec![at])));
    if n > 2 {
        sets.push(Initiators::At(vec![0, n - 1]));
        sets.push(Initiators::At((0..n).step_by(2).collect()));
    }
    sets
}

#[test]
fn every_row_elects_at_the_cost_of_theory_on_all_small_rings_and_schedules() {
    for row in catalog::ROWS {
        let mut exact = 0;
        for n in 1..=6 {
            for ids in cyclic_orders(n) {
                for schedule in SCHEDULES {
                    for initiators in initiator_sets(n as usize) {
                        let experiment =
                            Experiment { schedule, initiators, seed: 7, ..Experiment::new(row, ids.clone()) };
                        exact += usize::from(run(&experiment).expectation.is_some());
                    }
                }
            }
        }
        println!("{}: {exact} runs compared with theory", row.name);
        assert!(exact > 0, "{}: theory is silent about every run", row.name);
    }
}

#[test]
fn every_row_elects_the_other_extreme_when_told_to() {
    for row in catalog::ROWS {
        for wins in [Wins::Highest, Wins::Lowest] {
            for ids in cyclic_orders(4) {
                let report = run(&Experiment { wins, ..Experiment::new(row, ids.clone()) });
                if row.elects == Elects::Best {
                    assert_eq!(report.leader, wins.best(ids), "{} {wins:?}", row.name);
                }
            }
        }
    }
}

#[test]
fn a_mesh_elects_the_best_living_node_when_the_best_is_dead_from_the_start() {
    for row in catalog::ROWS.iter().filter(|row| row.topology == Topology::Mesh) {
        for n in 2..=6_u32 {
            for initiator in 0..n as usize - 1 {
                let ids: Vec<Uid> = (1..=n).map(Uid::plain).collect();
                let experiment = Experiment {
                    initiators: Initiators::At(vec![initiator]),
                    crashes: vec![(n as usize - 1, 0)],
                    ..Experiment::new(row, ids)
                };
                let report = run(&experiment);
                assert_eq!(report.leader, Some(Uid::plain(n - 1)), "{}", row.name);
                assert_eq!(report.decided, n as usize - 1);
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another_schedule() {
    for row in catalog::ROWS {
        let steps = |seed| {
            let ids = Order::Random.ids(12, seed);
            let experiment = Experiment { schedule: Schedule::Random, seed, ..Experiment::new(row, ids) };
            let (report, recording) = experiment.observe(sim::Recording::new(10_000)).expect("can be run");
            (report.messages, report.steps, format!("{:?} {:?}", recording.messages, recording.marks))
        };
        assert_eq!(steps(3), steps(3), "{}", row.name);
        assert_ne!(steps(3).2, steps(4).2, "{}", row.name);
    }
}

/// The sizes at which a thousand rings cost a test little.
fn mean_cost(row: &'static Row, nodes: usize, rings: u64) -> f64 {
    let total: u64 = (0..rings)
        .map(|seed| {
            let experiment = Experiment { seed, ..Experiment::new(row, Order::Random.ids(nodes, seed)) };
            run(&experiment).messages.election
        })
        .sum();
    total as f64 / rings as f64
}

#[test]
fn the_mean_over_a_thousand_random_rings_is_within_two_percent_of_theory() {
    for row in catalog::ROWS {
        let bounds = (row.bounds)(1024);
        // Quadratic rows cost exactly their mean on every ring: one is enough and a thousand too many.
        let Some(mean) = bounds.mean.filter(|&mean| mean < 200.0 * 1024.0) else { continue };
        let measured = mean_cost(row, 1024, 1000);
        assert!((measured / mean - 1.0).abs() < 0.02, "{}: {measured} against {mean}", row.name);
    }
}

#[test]
fn what_cannot_be_run_is_said() {
    let row = catalog::row(catalog::DEFAULT).expect("the default is in the catalog");
    let error = |experiment: Experiment| experiment.run().expect_err("cannot be run");
    assert!(error(Experiment::new(row, vec![])).contains("at least one"));
    assert!(error(Experiment::new(row, [3, 1, 3].map(Uid::plain).to_vec())).contains("3 is there twice"));
    let ids = Order::Increasing.ids(3, 0);
    let nobody = Experiment { initiators: Initiators::At(vec![]), ..Experiment::new(row, ids.clone()) };
    assert!(error(nobody).contains("no initiators"));
    assert!(error(Experiment { crashes: vec![(3, 0)], ..Experiment::new(row, ids) }).contains("position 3"));
}

#[test]
fn the_memory_of_a_run_grows_with_the_nodes_and_not_with_the_messages() {
    // Arrays only grow when they are full, so a run that allocated per message would show it here.
    let row = sim::bench_row();
    let few = run(&Experiment::new(row, Order::Increasing.ids(2000, 0)));
    let many = run(&Experiment::new(row, Order::Decreasing.ids(2000, 0)));
    assert!(many.messages.total > 100 * few.messages.total);
    assert_eq!(many.bytes_per_node, few.bytes_per_node);
}
