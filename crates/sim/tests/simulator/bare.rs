//! Bare runs of the whole catalog: right winner, exact cost, same seed same run.

use algorithms::catalog::{self, Elects, Row};
use algorithms::{Topology, Uid, Wins};
use sim::{Experiment, Graph, Initiators, Order, Report, Schedule, bench_row, bench_sim};

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
    for row in catalog::ROWS.iter().filter(|row| row.topology == Topology::Mesh && row.elects == Elects::Best) {
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

/// One rule, whether the node dies before the start or during the run.
#[test]
fn a_ring_that_a_crash_stops_is_stuck_outside_the_model_and_breaks_no_invariant() {
    for row in catalog::ROWS.iter().filter(|row| row.topology == Topology::Ring && row.elects == Elects::Best) {
        for round in [0, 1] {
            let crashes = vec![(2, round)];
            let report =
                Experiment { crashes, ..Experiment::new(row, (1..=5).map(Uid::plain).collect()) }.run().expect("runs");
            assert_eq!(report.violations, [""; 0], "{} round {round}", row.name);
            assert!(report.stuck.is_some_and(|why| why.starts_with("stuck: outside the model")), "{}", row.name);
        }
    }
}

#[test]
fn a_crash_after_the_end_is_reported_and_dead_initiators_are_refused() {
    let row = sim::bench_row();
    let ids = || (1..=5).map(Uid::plain).collect::<Vec<_>>();
    for round in [1000, u64::MAX] {
        let late = Experiment { crashes: vec![(4, round)], ..Experiment::new(row, ids()) };
        let report = late.run().expect("runs");
        assert_eq!(report.crashes_after_end, [(Uid::plain(5), round)]);
        assert_eq!((report.stuck, report.violations.len()), (None, 0));
    }
    let dead = |positions: &[usize], initiators| {
        let crashes = positions.iter().map(|&at| (at, 0)).collect();
        Experiment { crashes, initiators, ..Experiment::new(row, ids()) }.run().map(|_| ())
    };
    assert!(dead(&[0, 1, 2, 3, 4], Initiators::All).unwrap_err().contains("dead before the start"));
    assert!(dead(&[1, 3], Initiators::At(vec![1, 3])).unwrap_err().contains("dead before the start"));
    assert!(dead(&[1], Initiators::At(vec![1, 3])).is_ok());
}

#[test]
fn graphs_of_many_kinds_elect_at_the_cost_of_theory() {
    for row in catalog::ROWS.iter().filter(|row| row.topology == Topology::Graph) {
        for graph in ["square", "tree", "grid:6x5", "torus:6x5", "hypercube:5", "random:0.1", "random:1"] {
            let graph: Graph = graph.parse().expect("a graph");
            for seed in 0..4 {
                let nodes = graph.nodes().unwrap_or(30);
                let ids = Order::Random.ids(nodes, seed);
                let best = row.wins.best(ids.iter().copied()).and_then(|best| ids.iter().position(|&id| id == best));
                let links = graph.links(nodes, seed).expect("links");
                let alone = Initiators::At(best.into_iter().collect());
                for (initiators, schedule) in [
                    (Initiators::All, Schedule::Sync),
                    (Initiators::All, Schedule::Random),
                    (Initiators::At(vec![seed as usize]), Schedule::Random),
                    (alone, Schedule::Sync),
                ] {
                    let experiment = Experiment {
                        links: links.clone(),
                        initiators,
                        schedule,
                        seed,
                        ..Experiment::new(row, ids.clone())
                    };
                    let report = run(&experiment);
                    assert!(report.expectation.is_some());
                    assert!(report.theory.best >= 2.0 * links.len() as f64);
                }
            }
        }
    }
}

#[test]
fn graphs_that_are_not_connected_and_links_elsewhere_are_refused() {
    let graph = catalog::ROWS.iter().find(|row| row.topology == Topology::Graph).expect("a row");
    let refused = |row, links: &[(usize, usize)]| {
        let ids = (1..=4).map(Uid::plain).collect();
        Experiment { links: links.to_vec(), ..Experiment::new(row, ids) }.run().map(|_| ()).unwrap_err()
    };
    assert!(refused(graph, &[(0, 1), (2, 3)]).contains("no path of links leads from 1 to 3"));
    assert!(refused(graph, &[(0, 0)]).contains("a link joins 1 to itself"));
    assert!(refused(graph, &[(0, 7)]).contains("there are 4 nodes"));
    assert!(refused(sim::bench_row(), &[(0, 1)]).contains("links are for graphs"));
}

/// Here and not beside `bench_sim`: a unit test that runs the catalog compiles all of it once more.
#[test]
fn a_bench_counts_the_messages_of_its_run_and_its_queue_holds_them() {
    let report = bench_sim(bench_row(), 1000, 3).expect("runs");
    assert!(report.messages > 1000 && report.peak_in_flight >= 1000, "{report:?}");
    assert!(report.ratio.is_finite() && report.record_bytes > 0, "{report:?}");
}
