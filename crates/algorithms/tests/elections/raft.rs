//! Raft, a step at a time: votes, the lease, transfers, learners, and clusters of one and two.

use std::time::Duration;

use algorithms::drive::{Effect, Effects};
use algorithms::election::raft::{Ballot, Msg, Raft, Slot, Timer};
use algorithms::{Campaign, Ctx, Election, Epoch, Input, NodeId, Outcome, Protocol, Settings, View};

use crate::subject::uids;

const E: Duration = Duration::from_secs(1);

struct One {
    me: u32,
    view: View,
    settings: Settings,
    raft: Raft,
    effects: Effects<Raft>,
}

impl One {
    /// Node `me` of the nodes 1 to n.
    fn start(me: u32, n: u32, learners: &[u32], stored: Option<Ballot>) -> Self {
        let view = View::mesh(uids(&(1..=n).collect::<Vec<_>>()));
        let learners = learners.iter().map(|&id| NodeId(id)).collect();
        let settings = Settings { coordinator_timeout: E, answer_timeout: E / 10, learners, ..Settings::default() };
        let uid = view.uid(NodeId(me)).expect("a node");
        let mut effects = Effects::default();
        let raft = Raft::start(&Ctx { me: uid, view: &view, settings: &settings, dice: 7 }, stored, &mut effects);
        One { me, view, settings, raft, effects }
    }

    fn of(me: u32, n: u32) -> Self {
        Self::start(me, n, &[], None)
    }

    fn step(&mut self, input: Input<Raft>) -> Vec<Effect<Raft>> {
        let me = self.view.uid(NodeId(self.me)).expect("a node");
        let ctx = Ctx { me, view: &self.view, settings: &self.settings, dice: 7 };
        self.raft.step(&ctx, input, &mut self.effects);
        std::iter::from_fn(|| self.effects.pop()).collect()
    }

    fn get(&mut self, from: u32, message: Msg) -> Vec<Effect<Raft>> {
        self.step(Input::Message { from: NodeId(from), message })
    }

    fn campaign(&mut self) -> Vec<Effect<Raft>> {
        self.step(Input::Command(Campaign))
    }

    fn hand_over(&mut self, to: u32) -> Vec<Effect<Raft>> {
        let me = self.view.uid(NodeId(self.me)).expect("a node");
        let ctx = Ctx { me, view: &self.view, settings: &self.settings, dice: 7 };
        self.raft.hand_over(&ctx, NodeId(to), &mut self.effects);
        std::iter::from_fn(|| self.effects.pop()).collect()
    }
}

fn sent(effects: &[Effect<Raft>]) -> Vec<(u32, Msg)> {
    let sent = effects.iter().filter_map(|effect| match effect {
        Effect::Send { to, message, .. } => Some((to.0, *message)),
        _ => None,
    });
    sent.collect()
}

fn announced(effects: &[Effect<Raft>]) -> Vec<Outcome> {
    let announced = effects.iter().filter_map(|effect| match effect {
        Effect::Announce(outcome) => Some(*outcome),
        _ => None,
    });
    announced.collect()
}

const YES: Msg = Msg::PreVoteReply { term: 1, granted: true };
const VOTED: Msg = Msg::VoteReply { term: 1, granted: true };

/// Node 1 of three leads in term 1, by the vote of 2.
fn leader() -> One {
    let mut one = One::of(1, 3);
    one.campaign();
    one.get(2, YES);
    assert_eq!(announced(&one.get(2, VOTED)), [Outcome::Won]);
    one
}

#[test]
fn one_member_elects_itself_without_a_message_in_a_term_of_its_own_each_time() {
    let mut one = One::of(1, 1);
    let said = one.campaign();
    assert_eq!((announced(&said), sent(&said)), (vec![Outcome::Won], vec![]));
    assert_eq!(one.raft.ballot(), Ballot { term: 1, voted_for: Some(NodeId(1)) });
    assert!(one.raft.has_lease());
    let mut again = One::start(1, 1, &[], Some(one.raft.ballot()));
    assert_eq!(announced(&again.campaign()), [], "a restarted node waits for E");
    again.step(Input::Timer(Timer::Contact));
    assert_eq!(announced(&again.step(Input::Timer(Timer::Election))), [Outcome::Won]);
    assert_eq!(again.raft.ballot().term, 2);
}

#[test]
fn two_members_elect_only_together() {
    let mut one = One::of(1, 2);
    assert_eq!(sent(&one.campaign()), [(2, Msg::PreVote { term: 1 })]);
    for _ in 0..10 {
        let said = one.step(Input::Timer(Timer::Election));
        assert_eq!(
            (announced(&said), sent(&said)),
            (vec![], vec![(2, Msg::PreVote { term: 1 })]),
            "none is elected alone"
        );
    }
    assert_eq!(one.raft.ballot().term, 0, "and no term is used up");
    assert_eq!(sent(&one.get(2, YES)), [(2, Msg::Vote { term: 1, transfer: false })]);
    assert_eq!(announced(&one.get(2, VOTED)), [Outcome::Won]);
    // The other one dies: nothing is acknowledged, and the leadership ends.
    assert_eq!(announced(&one.step(Input::Timer(Timer::Lease(Slot::A)))), [Outcome::Halted]);
}

#[test]
fn a_vote_is_written_before_it_is_given_once_per_term_and_over_restarts() {
    let mut two = One::of(2, 3);
    let ask = Msg::Vote { term: 4, transfer: false };
    let said = two.get(1, ask);
    let written = said.iter().position(|e| *e == Effect::Persist(Ballot { term: 4, voted_for: Some(NodeId(1)) }));
    let given =
        said.iter().position(|e| matches!(e, Effect::Send { message: Msg::VoteReply { granted: true, .. }, .. }));
    assert!(written.is_some() && written < given);
    let refused = |said: &[Effect<Raft>]| sent(said) == [(3, Msg::VoteReply { term: 4, granted: false })];
    assert!(refused(&two.get(3, ask)));
    assert_eq!(sent(&two.get(1, ask)), [(1, Msg::VoteReply { term: 4, granted: true })], "the same vote again");
    let mut again = One::start(2, 3, &[], Some(two.raft.ballot()));
    assert_eq!(sent(&again.get(3, ask)), [], "it may have heard a leader before its restart");
    again.step(Input::Timer(Timer::Contact));
    assert!(refused(&again.get(3, ask)));
}

#[test]
fn a_node_that_hears_a_leader_gives_no_vote_unless_the_leader_wants_it() {
    let mut two = One::of(2, 3);
    assert_eq!(announced(&two.get(1, Msg::Heartbeat { term: 1, number: 1 })).len(), 1);
    assert_eq!(sent(&two.get(3, Msg::PreVote { term: 2 })), [(3, Msg::PreVoteReply { term: 1, granted: false })]);
    assert_eq!(two.get(3, Msg::Vote { term: 9, transfer: false }), [], "not even the term is taken");
    assert_eq!(two.raft.ballot().term, 1);
    // A closed connection is no proof that the lease has ended.
    two.step(Input::PeerDown(NodeId(1)));
    assert_eq!(sent(&two.campaign()), []);
    let vote = two.get(3, Msg::Vote { term: 2, transfer: true });
    assert_eq!(sent(&vote), [(3, Msg::VoteReply { term: 2, granted: true })]);
}

#[test]
fn a_leader_whose_heartbeats_no_majority_acknowledges_steps_down() {
    let mut one = leader();
    assert!(!one.raft.has_lease());
    one.get(3, Msg::HeartbeatReply { term: 1, number: 1 });
    assert!(one.raft.has_lease());
    // The timer of the first heartbeat is the lease now.
    let beat = one.step(Input::Timer(Timer::Heartbeat));
    assert_eq!(sent(&beat)[0], (2, Msg::Heartbeat { term: 1, number: 2 }));
    assert_eq!(announced(&one.step(Input::Timer(Timer::Lease(Slot::A)))), [], "the second was too slow");
    assert_eq!(sent(&one.step(Input::Timer(Timer::Heartbeat)))[0].1, Msg::Heartbeat { term: 1, number: 3 });
    assert!(one.get(2, Msg::HeartbeatReply { term: 1, number: 2 }).is_empty(), "an answer that came too late");
    assert_eq!(announced(&one.step(Input::Timer(Timer::Lease(Slot::B)))), [Outcome::Halted]);
    assert!(!one.raft.leads());
}

#[test]
fn a_leader_gives_up_its_lease_before_its_successor_asks_for_votes_at_once() {
    let mut one = leader();
    one.get(2, Msg::HeartbeatReply { term: 1, number: 1 });
    assert_eq!(one.hand_over(1), [], "not to itself");
    assert_eq!(sent(&one.hand_over(3)), [(3, Msg::TimeoutNow { term: 1 })]);
    assert!(one.raft.leads() && !one.raft.has_lease());
    let mut three = One::of(3, 3);
    assert_eq!(three.get(1, Msg::TimeoutNow { term: 1 }), [], "1 is not its leader");
    three.get(1, Msg::Heartbeat { term: 1, number: 1 });
    let asks = three.get(1, Msg::TimeoutNow { term: 1 });
    let ask = Msg::Vote { term: 2, transfer: true };
    assert_eq!(sent(&asks), [(1, ask), (2, ask)]);
    let given = one.get(3, ask);
    assert_eq!((announced(&given), one.raft.leads()), (vec![Outcome::Halted], false));
    assert_eq!(announced(&three.get(1, Msg::VoteReply { term: 2, granted: true })), [Outcome::Won]);
}

#[test]
fn learners_follow_and_neither_vote_nor_count_nor_ask() {
    let mut one = One::start(1, 3, &[3], None);
    assert_eq!(sent(&one.campaign()), [(2, Msg::PreVote { term: 1 })], "two voters of three");
    assert_eq!(one.get(3, YES), [], "no majority");
    let mut three = One::start(3, 3, &[3], None);
    assert_eq!(three.campaign(), []);
    assert_eq!(three.get(1, Msg::PreVote { term: 1 }), []);
    assert_eq!(three.get(1, Msg::Vote { term: 1, transfer: false }), []);
    let heard = three.get(1, Msg::Heartbeat { term: 1, number: 1 });
    assert_eq!(announced(&heard).len(), 1, "it follows");
    assert_eq!(sent(&three.step(Input::Timer(Timer::Election))), [], "and never asks");
}

#[test]
fn a_node_that_does_not_stand_votes_and_gives_up_what_it_leads() {
    let mut one = leader();
    assert_eq!(announced(&one.step(Input::PeerDown(NodeId(1)))), [Outcome::Halted]);
    assert_eq!(sent(&one.campaign()), []);
    let vote = one.get(2, Msg::Vote { term: 2, transfer: false });
    assert_eq!(sent(&vote), [(2, Msg::VoteReply { term: 2, granted: true })]);
    one.step(Input::PeerUp(NodeId(1)));
    assert_eq!(sent(&one.step(Input::Timer(Timer::Election))).len(), 2, "stands again");
}

#[test]
fn a_node_ahead_of_the_leader_makes_it_step_down_by_its_answer() {
    let mut two = One::start(2, 3, &[], Some(Ballot { term: 5, voted_for: Some(NodeId(2)) }));
    let answer = Msg::HeartbeatReply { term: 5, number: 1 };
    assert_eq!(sent(&two.get(1, Msg::Heartbeat { term: 1, number: 1 })), [(1, answer)]);
    let mut one = leader();
    assert_eq!(announced(&one.get(2, answer)), [Outcome::Halted]);
    assert_eq!(one.raft.ballot(), Ballot { term: 5, voted_for: None });
}

#[test]
fn a_leader_that_is_ordered_to_elect_asks_for_votes_in_the_next_term_and_its_followers_name_it_again() {
    let mut one = leader();
    let ask = Msg::Vote { term: 2, transfer: true };
    assert_eq!(sent(&one.campaign()), [(2, ask), (3, ask)]);
    assert_eq!(announced(&one.get(3, Msg::VoteReply { term: 2, granted: true })), [Outcome::Won]);
    let mut two = One::of(2, 3);
    let heard = announced(&two.get(1, Msg::Heartbeat { term: 1, number: 1 }));
    assert_eq!(announced(&two.campaign()), heard);
    two.step(Input::PeerDown(NodeId(1)));
    assert_eq!(announced(&two.get(1, Msg::Heartbeat { term: 1, number: 2 })), heard, "and when it is heard again");
}

#[test]
fn a_connection_that_comes_up_gets_the_question_or_the_heartbeat_again() {
    let mut one = One::of(1, 3);
    one.campaign();
    assert_eq!(sent(&one.step(Input::PeerUp(NodeId(3)))), [(3, Msg::PreVote { term: 1 })]);
    one.get(3, YES);
    assert_eq!(sent(&one.step(Input::PeerUp(NodeId(2)))), [(2, Msg::Vote { term: 1, transfer: false })]);
    let mut leader = leader();
    assert_eq!(sent(&leader.step(Input::PeerUp(NodeId(3)))), [(3, Msg::Heartbeat { term: 1, number: 1 })]);
}

#[test]
fn a_term_far_ahead_is_reached_in_leaps_one_in_the_time_of_e_and_terms_have_an_end() {
    let mut one = leader();
    let far = Msg::Heartbeat { term: 1 << 30, number: 1 };
    for wait in 1..=3 {
        for _ in 0..5 {
            one.get(2, far);
        }
        assert_eq!(one.raft.ballot().term, 1 + wait * Epoch::MAX_LEAP, "one leap for each E");
        one.step(Input::Timer(Timer::Leap));
    }
    let mut one = leader();
    assert_eq!(sent(&one.get(2, Msg::Vote { term: Epoch::MAX.0 + 1, transfer: true })), []);
    assert_eq!(one.raft.ballot().term, 1);
    let last = Ballot { term: Epoch::MAX.0, voted_for: None };
    let mut one = One::start(1, 1, &[], Some(last));
    one.step(Input::Timer(Timer::Contact));
    assert_eq!(announced(&one.step(Input::Timer(Timer::Election))), [], "no token has room for a later term");
}
