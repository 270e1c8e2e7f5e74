//! Every algorithm of the catalog as real processes over TCP, through the same losses.

mod support;

use algorithms::catalog::{ROWS, Row};
use ctl::cluster::Plan;
use support::Live;

const NODES: u32 = 6;

fn without(all: &[u32], gone: &[u32]) -> Vec<u32> {
    all.iter().copied().filter(|id| !gone.contains(id)).collect()
}

async fn survives(row: &'static Row) {
    let all: Vec<u32> = (1..=NODES).collect();
    let plan = Plan::new(NODES, row);
    let mut live = Live::start(&plan);
    let (first, mut epoch) = live.agreement(&all).await;
    assert!(plan.best().is_none_or(|best| best == first), "{}: {first} leads", row.name);

    // The leader.
    live.kill(first).await;
    let left = without(&all, &[first]);
    let (second, after) = live.agreement_that(&left, |_, found| found > epoch).await;
    epoch = after;

    // Two neighbours at once, one of them the leader; and a third member while the others still elect, which may hold
    // the only message in flight.
    let at = left.iter().position(|&id| id == second).expect("the leader is alive");
    let neighbour = left[(at + 1) % left.len()];
    let third = left[(at + 2) % left.len()];
    live.kill_all(&[second, neighbour, third]).await;
    let left = without(&left, &[second, neighbour, third]);
    let (_, after) = live.agreement_that(&left, |_, found| found > epoch).await;
    epoch = after;

    // They come back, and one leader has them all.
    for id in [first, second, neighbour, third] {
        live.cluster.start(id).expect("a restart");
    }
    let best = plan.best();
    live.agreement_that(&all, |leader, found| found > epoch && best.is_none_or(|best| best == leader)).await;
    live.cluster.stop().await;
}

#[tokio::test]
async fn every_row_elects_survives_losses_and_takes_members_back() {
    for row in ROWS {
        eprintln!("{}", row.name);
        survives(row).await;
    }
}
