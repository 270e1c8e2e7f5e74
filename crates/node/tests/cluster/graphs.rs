//! Graphs of real processes whose only connection dies and returns.

use algorithms::Topology;
use algorithms::catalog::ROWS;
use client::Safety;
use testkit::{Live, Plan};

/// The id at which the two grids are joined.
const CUT: u32 = 9;

/// A grid of the ids 1 to 8, one of 10 to 16, and one member that is linked to both.
fn two_grids() -> Vec<(u32, u32)> {
    let mut links = vec![(4, CUT), (8, CUT), (CUT, 10), (CUT, 12)];
    for (first, last, width) in [(1, 8, 4), (10, 16, 3)] {
        for id in first..=last {
            if (id - first) % width != width - 1 && id < last {
                links.push((id, id + 1));
            }
            if id + width <= last {
                links.push((id, id + width));
            }
        }
    }
    links
}

fn best(of: &[u32], plan: &Plan) -> u32 {
    let (lowest, highest) = (of.iter().min(), of.iter().max());
    *(if plan.best() == Some(1) { lowest } else { highest }).expect("members")
}

#[tokio::test]
async fn each_part_of_a_graph_has_a_leader_while_the_member_that_joins_them_is_dead() {
    let row = ROWS.iter().find(|row| row.topology == Topology::Graph).expect("a row");
    let plan = Plan { links: two_grids(), ..Plan::new(16, row) };
    plan.check_links().unwrap();
    let mut live = Live::start(&plan);
    let all: Vec<u32> = (1..=16).collect();
    let (left, right): (Vec<u32>, Vec<u32>) = all.iter().filter(|&&id| id != CUT).partition(|&&id| id < CUT);
    let (leader, _) = live.agreement(&all).await;
    assert_eq!(leader, best(&all, &plan));

    // A member dials its neighbours and no other: 16 members in a mesh would have 15 connections each.
    let statuses = live.statuses_that(&all, |_| true).await;
    for status in &statuses {
        let neighbours = plan.links.iter().filter(|(a, b)| *a == status.id || *b == status.id).count();
        let connected = status.peers.iter().filter(|peer| peer.connected).count();
        assert_eq!(connected, neighbours, "connections of {}", status.id);
    }

    live.kill(CUT).await;
    live.agreement_on(best(&left, &plan), &left).await;
    live.agreement_on(best(&right, &plan), &right).await;

    live.cluster.start(CUT).expect("a restart");
    live.agreement_on(best(&all, &plan), &all).await;
    live.cluster.stop().await;
}

/// Under quorum all members are connected to all, so that a majority of them has one leader, whatever is left of the
/// graph.
#[tokio::test]
async fn under_quorum_a_graph_in_pieces_still_has_one_leader() {
    let row = ROWS.iter().find(|row| row.topology == Topology::Graph).expect("a row");
    let path = (1..5).map(|id| (id, id + 1)).collect();
    let mut live = Live::start(&Plan { links: path, safety: Safety::Quorum, ..Plan::new(5, row) });
    let (_, epoch) = live.agreement(&[1, 2, 3, 4, 5]).await;
    live.kill(3).await;
    let (leader, _) = live.agreement(&[1, 2, 4, 5]).await;
    live.kill(leader).await;
    let left: Vec<u32> = [1, 2, 4, 5].into_iter().filter(|&id| id != leader).collect();
    live.agreement_that(&left, |_, found| found > epoch).await;
    live.cluster.stop().await;
}
