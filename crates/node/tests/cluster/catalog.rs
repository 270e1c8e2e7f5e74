//! Every algorithm of the catalog as real processes over TCP, through the same losses.

use algorithms::Topology;
use algorithms::catalog::{Elects, ROWS, Row};
use algorithms::theory::{Before, Case};
use client::{ElectionSummary, MemberStatus};
use testkit::{Live, Plan, done};
use tokio::task::{JoinSet, LocalSet};

const NODES: u32 = 6;
/// Nothing happens by the clock: what moves was sent by an election, and only a closed connection tells of a death.
const NO_CLOCK: &str = "
[timing]
heartbeat = \"5m\"
suspect_after = \"15m\"
answer_timeout = \"5m\"
coordinator_timeout = \"30m\"
";

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

    // Two neighbours at once, one of them the leader; and a third member while the others still elect. Where a majority
    // elects, one more death of the six leaves just enough.
    let at = left.iter().position(|&id| id == second).expect("the leader is alive");
    let neighbour = left[(at + 1) % left.len()];
    let third = left[(at + 2) % left.len()];
    let gone = if row.elects == Elects::Majority { vec![second] } else { vec![second, neighbour, third] };
    live.kill_all(&gone).await;
    let left = without(&left, &gone);
    let (_, after) = live.agreement_that(&left, |_, found| found > epoch).await;
    epoch = after;

    // They come back, and one leader has them all.
    for id in gone.into_iter().chain([first]) {
        live.cluster.start(id).expect("a restart");
    }
    // A leader that a majority elected goes on.
    let goes_on = row.elects == Elects::Majority;
    let best = plan.best();
    live.agreement_that(&all, |leader, found| (goes_on || found > epoch) && best.is_none_or(|best| best == leader))
        .await;
    live.cluster.stop().await;
}

/// Clusters of a catalog test that run at the same time: their members mostly wait.
const AT_ONCE: usize = 3;

/// Runs the scenario for every row.
async fn for_every_row<F: Future<Output = ()> + 'static>(scenario: fn(&'static Row) -> F) {
    let clusters = LocalSet::new();
    let run = clusters.run_until(async {
        let mut running = JoinSet::new();
        for row in ROWS {
            if running.len() == AT_ONCE {
                running.join_next().await.expect("a cluster").expect("its scenario holds");
            }
            eprintln!("{}", row.name);
            running.spawn_local(scenario(row));
        }
        running.join_all().await;
    });
    run.await;
}

#[tokio::test]
async fn every_row_elects_survives_losses_and_takes_members_back() {
    for_every_row(survives).await;
}

/// A leader that hangs and returns, and a network in two parts that meet again: each part has a leader of its own, unless a
/// majority elects it, and at the end there is one. Not the best at once: members that failed wait before they take over.
async fn survives_a_pause_and_a_partition(row: &'static Row) {
    let (left, right, all) = ([1, 2], [3, 4, 5], [1, 2, 3, 4, 5]);
    let plan = Plan { chaos: true, ..Plan::new(5, row) };
    let mut live = Live::start(&plan);
    let (first, epoch) = live.agreement(&all).await;
    live.cluster.pause(first).expect("a signal");
    live.agreement_that(&without(&all, &[first]), |_, found| found > epoch).await;
    live.cluster.resume(first).expect("a signal");
    live.agreement_that(&all, |_, found| found > epoch).await;

    done(&live.ctl(&["chaos", "cut", "1,2", "3,4,5", "--member-timeout", "5s", "--timeout", "20s"]).await);
    if row.elects != Elects::Majority {
        live.agreement(&left).await;
    }
    live.agreement(&right).await;
    done(&live.ctl(&["chaos", "heal", "--member-timeout", "5s", "--timeout", "20s"]).await);
    live.agreement(&all).await;
    live.cluster.stop().await;
}

#[tokio::test]
async fn every_row_survives_a_pause_and_a_partition() {
    for_every_row(survives_a_pause_and_a_partition).await;
}

/// An election of one initiator, and the member that its first message goes to. On a ring that is any follower; in a
/// mesh it must be the best, or others would answer.
fn initiator_and_next(row: &Row, leader: u32) -> (u32, u32) {
    let after = |id: u32| id % NODES + 1;
    match row.topology {
        Topology::Mesh => (NODES - 1, NODES),
        Topology::Ring | Topology::Graph => (after(leader), after(after(leader))),
    }
}

/// Frames that were sent and not read by anybody.
fn in_flight(all: &[MemberStatus]) -> i64 {
    all.iter().map(|status| status.sent.cast_signed() - status.received.cast_signed()).sum()
}

fn election_messages(all: &[MemberStatus]) -> u64 {
    all.iter().map(|status| status.election_messages).sum()
}

async fn survives_the_loss_of_all_in_flight(row: &'static Row) {
    let all: Vec<u32> = (1..=NODES).collect();
    let mut live = Live::start_with(&Plan::new(NODES, row), NO_CLOCK);
    let (leader, _) = live.agreement(&all).await;
    let (initiator, holder) = initiator_and_next(row, leader);
    let others = without(&all, &[holder]);
    live.at_rest(&all, |_| true).await;

    // Whatever reaches the paused member stays in its sockets.
    live.cluster.pause(holder).unwrap();
    let before = live.at_rest(&others, |_| true).await;
    // Where the first candidate wins, the best member may have preempted it since the agreement.
    let epochs = |all: &[MemberStatus]| all.iter().map(|status| (status.id, status.epoch)).collect::<Vec<_>>();
    let epoch = before.iter().map(|status| status.epoch).max().expect("members that answer");
    live.client(initiator).await.elect().await.unwrap();
    let after = live.at_rest(&others, |now| election_messages(now) > election_messages(&before)).await;
    let held = in_flight(&after) - in_flight(&before);
    let sent = election_messages(&after) - election_messages(&before);
    eprintln!("{}: {sent} sent, {held} in flight, all towards the paused {holder}", row.name);
    assert!(held >= 1, "{}: nothing waits for {holder}", row.name);
    // Where an election goes both ways, or asks every member, its other part has come to rest too, and waits for what is
    // held here.
    let one_way = row.topology != Topology::Graph && !row.assumes.contains("bidirectional");
    if one_way && !row.needs_all {
        assert_eq!((sent, held), (1, 1), "{}: more than one message in flight", row.name);
    }
    assert_eq!(epochs(&after), epochs(&before), "{}: elected without {holder}", row.name);

    live.kill(holder).await;
    live.agreement_that(&others, |_, found| found > epoch).await;
}

/// Where only a timeout tells that a leader is gone, nothing happens without a clock.
fn elects_without_a_clock(row: &Row) -> bool {
    row.elects != Elects::Majority
}

#[tokio::test]
async fn every_row_survives_the_death_of_the_holder_of_the_only_message_in_flight() {
    for row in ROWS.iter().filter(|row| elects_without_a_clock(row)) {
        survives_the_loss_of_all_in_flight(row).await;
    }
}

/// One member starts an election; all messages of exactly that election are counted at all members and compared.
async fn costs_what_theory_says(row: &'static Row) -> Option<String> {
    let all: Vec<u32> = (1..=NODES).collect();
    let plan = Plan::new(NODES, row);
    let mut live = Live::start_with(&plan, NO_CLOCK);
    let (leader, epoch) = live.agreement(&all).await;
    let newest =
        |statuses: &[MemberStatus]| ElectionSummary::newest(&statuses.iter().collect::<Vec<_>>()).expect("an election");
    // An algorithm that numbers its own attempts is not told who starts, and needs its timers.
    newest(&live.at_rest(&all, |_| true).await).initiators?;
    // In a mesh the worst asks all others; on a ring any follower will do.
    let initiator = if row.topology == Topology::Mesh { 1 } else { leader % NODES + 1 };
    live.client(initiator).await.elect().await.unwrap();
    live.agreement_that(&all, |_, found| found > epoch).await;
    let election = newest(&live.at_rest(&all, |_| true).await);
    assert_eq!(election.participants, all, "{}", row.name);
    let (initiators, uids) = (election.initiator_positions()?, election.uids.as_ref()?);
    let synchronous = row.topology == Topology::Mesh;
    // Not every member need have heard what the leader named in advance.
    let before = Before::Unknown;
    let case = Case {
        ids: uids,
        wins: election.wins,
        initiators: &initiators,
        dead: &[],
        synchronous,
        before,
        shape: plan.view().shape(),
    };
    let expected = (row.expect)(&case)?;
    for kind in &election.sent {
        let range = expected.kinds.iter().find(|(name, _)| *name == kind.kind).map(|(_, range)| *range);
        let fits = range.is_none_or(|range| range.contains(kind.count));
        assert!(fits, "{}: {} {}, theory says {range:?} of {election:?}", row.name, kind.count, kind.kind);
    }
    let (sent, announced) = (election.election_messages(), election.announcement_messages());
    assert!(expected.election.contains(sent), "{}: {sent}, theory says {:?}", row.name, expected.election);
    assert!(expected.announcement.contains(announced), "{}: {announced} of {:?}", row.name, expected.announcement);
    Some(format!("{}: {sent} + {announced} messages, started by {:?}", row.name, election.initiators))
}

#[tokio::test]
async fn every_row_elects_at_the_cost_that_theory_says_for_exactly_that_case() {
    let mut compared = 0;
    for row in ROWS.iter().filter(|row| elects_without_a_clock(row)) {
        if let Some(cost) = costs_what_theory_says(row).await {
            eprintln!("{cost}");
            compared += 1;
        } else {
            eprintln!("{}: theory has no number for this case", row.name);
        }
    }
    assert!(compared >= 10, "theory was compared for {compared} rows only");
}
