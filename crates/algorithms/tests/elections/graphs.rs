//! Rows of graphs on all small connected graphs and on many random ones: the right leader at the published price.

use std::collections::BTreeSet;

use algorithms::catalog::{ROWS, Row};
use algorithms::drive::Dice;
use algorithms::{Topology, View, Wins};

use crate::audit::{Survey, check};
use crate::subject::{Plan, Schedule, Subject, subject, uids};

pub(crate) fn rows() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(|row| row.topology == Topology::Graph)
}

/// Every set of links that connects the ids 1 to n.
fn connected(n: usize) -> Vec<View> {
    let pairs: Vec<(usize, usize)> = (0..n).flat_map(|b| (0..b).map(move |a| (a, b))).collect();
    let ids: Vec<u32> = (1..=n as u32).collect();
    let links = |set: usize| pairs.iter().enumerate().filter(move |(at, _)| set >> at & 1 == 1).map(|(_, &pair)| pair);
    let views = (0..1_usize << pairs.len()).map(|set| View::graph(uids(&ids), &links(set).collect::<Vec<_>>()));
    views.filter(|view| view.distances(0, |_| true).iter().all(Option::is_some)).collect()
}

/// A random tree and some more links, ids in random order.
pub(crate) fn random_graph(dice: &mut Dice, n: usize) -> View {
    let mut ids: Vec<u32> = (1..=n as u32).collect();
    dice.shuffle(&mut ids);
    let mut links: BTreeSet<(usize, usize)> = (1..n).map(|at| (dice.below(at), at)).collect();
    for _ in 0..dice.below(n * n / 2 + 1) {
        let (a, b) = (dice.below(n), dice.below(n));
        if a != b {
            links.insert((a.min(b), a.max(b)));
        }
    }
    View::graph(uids(&ids), &links.into_iter().collect::<Vec<_>>())
}

#[test]
fn all_connected_graphs_of_up_to_four_nodes_elect_the_best_at_the_published_price() {
    assert_eq!([1, 2, 3, 4].map(|n| connected(n).len()), [1, 1, 4, 38], "the known numbers of connected graphs");
    for row in rows() {
        let subject = subject(row);
        let mut survey = Survey::default();
        for n in 1..=4 {
            for view in connected(n) {
                for set in 1..1_usize << n {
                    let initiators: Vec<usize> = (0..n).filter(|at| set >> at & 1 == 1).collect();
                    for (seed, wins) in [(0, Wins::Highest), (1, Wins::Highest), (2, Wins::Lowest)] {
                        let schedule = if seed == 0 { Schedule::Synchronous } else { Schedule::Random };
                        let plan = Plan { view: &view, wins, initiators: &initiators, dead: &[], schedule, seed };
                        survey.add(check(row, &*subject, &plan));
                    }
                }
            }
        }
        assert!(survey.first.is_none(), "{}", survey.first.unwrap_or_default());
    }
}

/// Random connected graphs of up to nine nodes.
pub(crate) fn random_survey(row: &'static Row, subject: &dyn Subject, graphs: u64) -> Survey {
    let mut survey = Survey::default();
    let mut dice = Dice(17);
    for seed in 0..graphs {
        let n = 1 + dice.below(9);
        let view = random_graph(&mut dice, n);
        let best = row.wins.best(view.members().iter().copied()).and_then(|uid| view.position(uid.id));
        let one = best.filter(|_| seed % 3 == 0);
        let some: Vec<usize> = (0..n).filter(|&at| at == n - 1 || dice.below(2) == 0).collect();
        let initiators = one.map_or(some, |best| vec![best]);
        let schedule = if seed % 4 == 0 { Schedule::Synchronous } else { Schedule::Random };
        let plan = Plan { view: &view, wins: row.wins, initiators: &initiators, dead: &[], schedule, seed };
        survey.add(check(row, subject, &plan));
    }
    survey
}

#[test]
fn random_graphs_elect_the_best_at_the_published_price() {
    for row in rows() {
        let survey = random_survey(row, &*subject(row), 1500);
        assert!(survey.first.is_none(), "{}", survey.first.unwrap_or_default());
    }
}

#[test]
fn the_shape_of_known_graphs() {
    let shape = |n: u32, links: &[(usize, usize)]| {
        let view = View::graph(uids(&(1..=n).collect::<Vec<_>>()), links);
        view.shape().map(|shape| (shape.links, shape.diameter))
    };
    assert_eq!(shape(4, &[(0, 1), (1, 2), (2, 3)]), Some((3, Some(3))));
    assert_eq!(shape(4, &[(0, 1), (1, 2), (2, 3), (3, 0), (0, 3)]), Some((4, Some(2))));
    assert_eq!(shape(4, &[(0, 1), (2, 3)]), Some((2, None)), "not connected");
    assert_eq!(shape(1, &[]), Some((0, Some(0))));
    assert_eq!(View::mesh(uids(&[1, 2])).shape(), None);
}
