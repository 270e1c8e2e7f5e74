//! Rounds: who takes part, which round replaces which, and what happens when one gets stuck.

use std::time::Duration;
use types::Stamp;

use algorithms::drive::Effect;
use algorithms::election::bully::{Bully, Msg};
use algorithms::election::chang_roberts::{self, OwnProbeFirst};
use algorithms::{Epoch, NodeId, Side, Uid};
use member::{
    Attempt, Beat, BeliefRecord, Classic, Command, Envelope, Member, NodeSet, Record, Role, Round, Settings, Timer,
};

use crate::bench::{Bench, Wanted, mesh, ring};
use crate::single::{One, beat, beat_of, beats, in_rounds, meet, participants, set};
use crate::terms::{Terms, Won};

type Mesh = One<Bully, Classic>;
type Ring = One<OwnProbeFirst, Classic>;

fn on_mesh(me: u32, ids: &[u32]) -> Mesh {
    Bench::start(me, mesh(ids), Settings::default(), None).0
}

fn on_ring(me: u32, ids: &[u32]) -> Ring {
    Bench::start(me, ring(ids), Settings::default(), None).0
}

fn round(attempt: u64, initiator: u32) -> Round {
    Round { attempt: Attempt(attempt), initiator: NodeId(initiator), incarnation: 1 }
}

fn in_round(
    round: Round,
    participants: NodeSet,
    from: u32,
    message: Msg,
) -> Envelope<NodeId, Msg, <Classic as algorithms::Protocol>::Message> {
    Envelope::Round { round, participants, link: NodeId(from), hops: 0, message, list: Stamp::FIRST }
}

/// Member 1 of three has opened the first round.
fn opened() -> Mesh {
    let mut one = on_mesh(1, &[1, 2, 3]);
    meet(&mut one, 2);
    assert_eq!(in_rounds(&meet(&mut one, 3)).len(), 2, "it asks both");
    one
}

#[test]
fn a_round_is_between_the_members_that_are_connected_and_stand() {
    let mut one = on_mesh(1, &[1, 2, 3, 4]);
    meet(&mut one, 2);
    one.up(3);
    one.get(3, Envelope::Beat(Beat { stands: false, ..beat() }));
    let said = one.fire(Timer::Grace);
    assert_eq!(participants(&said), Some(set(&[0, 1])));
    assert_eq!(in_rounds(&said)[0].1, round(4, 1));
}

#[test]
fn a_round_that_loses_a_participant_is_replaced_by_one_without_it() {
    let mut one = opened();
    let said = one.down(3);
    assert_eq!(in_rounds(&said), [(2, round(6, 1), set(&[0, 1]), Msg::Election)]);
    assert!(one.down(3).is_nothing(), "it takes no part any more");
}

#[test]
fn a_message_of_an_older_round_is_answered_with_the_round_in_hand_and_with_the_leader_when_it_has_one() {
    let mut one = opened();
    let said = one.get(2, in_round(round(0, 2), set(&[0, 1, 2]), 2, Msg::Election));
    let join = Envelope::Join { round: round(3, 1), participants: set(&[0, 1, 2]), list: Stamp::FIRST };
    assert_eq!(said.sent(), [(2, join)], "silence would be taken for a death");
    one.get(3, in_round(round(3, 1), set(&[0, 1, 2]), 3, Msg::Coordinator));
    let said = one.get(2, in_round(round(0, 2), set(&[0, 1, 2]), 2, Msg::Election));
    assert_eq!(beats(&said)[0].1.news.leader.map(|claim| claim.uid), Some(Uid::plain(3)));
    assert!(in_rounds(&said).is_empty());
}

#[test]
fn a_newer_round_replaces_the_one_in_hand_with_a_fresh_machine() {
    let mut one = on_mesh(2, &[1, 2, 3]);
    meet(&mut one, 1);
    meet(&mut one, 3);
    let said = one.get(1, in_round(round(6, 1), set(&[0, 1]), 1, Msg::Election));
    let answers: Vec<_> = in_rounds(&said).into_iter().map(|(to, round, _, message)| (to, round, message)).collect();
    assert_eq!(answers, [(1, round(6, 1), Msg::Answer), (1, round(6, 1), Msg::Coordinator)], "it wins without 3");
    let late = one.get(3, in_round(round(3, 2), set(&[0, 1, 2]), 3, Msg::Coordinator));
    assert!(in_rounds(&late).is_empty() && one.machine.standing().leader == Some(NodeId(2)));
}

#[test]
fn a_member_that_is_told_to_join_a_newer_round_starts_it_as_well() {
    let mut one = opened();
    let older = Envelope::Join { round: round(3, 0), participants: set(&[0, 1, 2]), list: Stamp::FIRST };
    assert!(one.get(2, older).is_nothing());
    let newer = Envelope::Join { round: round(6, 2), participants: set(&[0, 1]), list: Stamp::FIRST };
    assert_eq!(in_rounds(&one.get(2, newer)), [(2, round(6, 2), set(&[0, 1]), Msg::Election)]);
}

#[test]
fn only_rounds_of_this_member_and_of_numbers_that_can_be_true_are_joined() {
    let mut one = opened();
    let refused = [
        in_round(round(6, 2), set(&[1, 2]), 2, Msg::Election),
        in_round(round(6, 2), set(&[0, 1, 7]), 2, Msg::Election),
        in_round(round(3 << 40, 2), set(&[0, 1, 2]), 2, Msg::Election),
    ];
    for message in refused {
        assert!(one.get(2, message).is_nothing());
    }
    assert!(one.get(2, in_round(round(3, 1), set(&[0, 1, 2]), 3, Msg::Coordinator)).is_nothing(), "3 did not send it");
    assert_eq!(one.machine.standing().role, Role::Candidate);
}

#[test]
fn no_round_below_what_a_member_may_follow_is_joined() {
    let authority = BeliefRecord { reserved_until: 192, ..BeliefRecord::default() };
    let (mut one, _) = Bench::<Member<Bully, Classic>>::start(
        1,
        mesh(&[1, 2, 3]),
        Settings::default(),
        Some(Record { authority, algorithm: None, mode: None }),
    );
    one.up(2);
    let said = one.get(2, in_round(round(3, 2), set(&[0, 1, 2]), 2, Msg::Election));
    assert_eq!(beats(&said)[0].1.news.next_attempt_min, Attempt(192), "the sender learns why");
    assert!(
        !one.get(2, Envelope::Join { round: round(192, 2), participants: set(&[0, 1, 2]), list: Stamp::FIRST })
            .is_nothing()
    );
}

fn probes(said: &Wanted<Member<OwnProbeFirst, Classic>>) -> Vec<(u32, NodeSet)> {
    in_rounds(said).into_iter().map(|(to, _, participants, _)| (to, participants)).collect()
}

/// Member 1 of a ring is connected to all but 2, and has just begun its first election.
fn stuck() -> Ring {
    let mut one = on_ring(1, &[1, 2, 3, 4]);
    meet(&mut one, 3);
    meet(&mut one, 4);
    assert_eq!(probes(&one.fire(Timer::Grace)), [], "there is no connection to the next one");
    one
}

#[test]
fn a_round_that_is_stuck_at_a_neighbour_goes_on_when_that_is_connected() {
    let mut one = stuck();
    assert!(one.machine.links(&one.view).contains(member::FullPos(1)));
    assert_eq!(probes(&one.up(2)), [(2, set(&[0, 1, 2, 3]))]);
}

#[test]
fn a_round_that_is_stuck_at_a_neighbour_leaves_it_out_when_it_is_given_up() {
    assert_eq!(probes(&stuck().down(2)), [(3, set(&[0, 2, 3]))]);
    let mut one = stuck();
    let said = one.fire(Timer::Silence(NodeId(2)));
    assert_eq!(probes(&said), [(3, set(&[0, 2, 3]))], "it is not dialled for ever");
    assert!(said.announced().is_empty(), "there is no connection to drop");
}

#[test]
fn a_member_that_a_round_is_stuck_at_is_dialled_wherever_it_is_on_the_ring() {
    let mut one = on_ring(1, &[1, 2, 3, 4, 5, 6]);
    for peer in [2, 3, 6] {
        meet(&mut one, peer);
    }
    assert_eq!(one.machine.links(&one.view), set(&[1, 2]));
    // A round without 2 and 3 leads past the links to 4.
    let round = round(6, 6);
    let message = chang_roberts::Msg::Probe(Uid::plain(6));
    one.get(
        6,
        Envelope::Round {
            round,
            participants: set(&[0, 3, 4, 5]),
            link: Side::Left,
            hops: 0,
            message,
            list: Stamp::FIRST,
        },
    );
    assert_eq!(one.machine.links(&one.view), set(&[1, 2, 3]));
    assert_eq!(probes(&one.up(4))[0].0, 2, "its own next round goes to all it knows");
    assert_eq!(one.machine.links(&one.view), set(&[1, 2]));
}

#[test]
fn the_initiator_of_a_round_knows_better_of_members_that_are_not_dialled() {
    let mut one = on_ring(1, &[1, 2, 3, 4, 5, 6]);
    for peer in [2, 3, 6] {
        meet(&mut one, peer);
    }
    one.fire(Timer::Grace);
    one.down(5);
    let opened = probes(&one.tell(Command::Elect));
    assert_eq!(opened, [(2, set(&[0, 1, 2, 3, 5]))]);
    let message = chang_roberts::Msg::Probe(Uid::plain(6));
    let participants = set(&[0, 1, 2, 3, 4, 5]);
    one.get(
        6,
        Envelope::Round { round: round(60, 6), participants, link: Side::Left, hops: 0, message, list: Stamp::FIRST },
    );
    assert_eq!(probes(&one.tell(Command::Elect)), [(2, participants)]);
}

#[test]
fn a_message_that_was_passed_on_too_often_is_not_passed_on_again() {
    let mut one = on_ring(1, &[1, 2, 3]);
    meet(&mut one, 3);
    meet(&mut one, 2);
    let mut passes = |attempt, hops| {
        let message = chang_roberts::Msg::Probe(Uid::plain(9));
        let round = round(attempt, 3);
        let said = one.get(
            3,
            Envelope::Round {
                round,
                participants: set(&[0, 1, 2]),
                link: Side::Left,
                hops,
                message,
                list: Stamp::FIRST,
            },
        );
        in_rounds(&said).into_iter().filter(|&(.., sent)| sent == message).count()
    };
    assert_eq!(passes(6, 5), 1);
    assert_eq!(passes(9, 6), 0, "twice around a ring of three");
}

#[test]
fn a_watchdog_opens_the_next_round_and_is_more_patient_every_time_until_a_member_comes() {
    let mut one = opened();
    let mut patience = Duration::ZERO;
    for attempt in [6, 9, 12] {
        let said = one.fire(Timer::Watchdog);
        assert_eq!(in_rounds(&said)[0].1, round(attempt, 1));
        let next = said.set(Timer::Watchdog).expect("it watches again").min;
        assert!(next > patience);
        patience = next;
    }
    one.up(2);
    let next = one.fire(Timer::Watchdog).set(Timer::Watchdog).expect("it watches again").min;
    assert!(next < patience);
}

#[test]
fn an_operator_may_open_an_election_while_a_member_leads() {
    let mut one = opened();
    one.get(3, Envelope::Beat(beat_of(3, 5)));
    assert_eq!(one.machine.standing().leader, Some(NodeId(3)));
    assert_eq!(in_rounds(&one.tell(Command::Elect))[0].1, round(6, 1));
}

/// Its machine is a fresh one in every round, and still knows what it wrote.
#[test]
fn the_record_of_the_algorithm_is_given_back_to_a_fresh_machine() {
    let (mut one, _) = Bench::<Member<Terms, Classic>>::start(1, mesh(&[1, 2]), Settings::default(), None);
    let said = meet(&mut one, 2);
    assert_eq!(in_rounds(&said)[0].3, Won(1));
    let written = said.persisted().last().cloned().expect("it writes");
    assert_eq!((written.algorithm, written.authority.followed), (Some(1), Epoch(1)));
    let said = one.tell(Command::Elect);
    assert_eq!(in_rounds(&said)[0].3, Won(2), "the term after the last");
    let written = said.persisted().last().cloned();
    let (mut one, said) = Bench::<Member<Terms, Classic>>::start(1, mesh(&[1, 2]), Settings::default(), written);
    assert_eq!(said.persisted()[0].algorithm, Some(2), "a record always says all");
    assert_eq!(in_rounds(&meet(&mut one, 2))[0].3, Won(3), "also after a restart");
}

#[test]
fn the_term_of_an_election_that_has_terms_is_the_epoch_of_a_classic_leader() {
    let (mut one, _) = Bench::<Member<Terms, Classic>>::start(1, mesh(&[1, 2]), Settings::default(), None);
    let said = meet(&mut one, 2);
    assert_eq!((one.machine.standing().role, one.machine.standing().epoch), (Role::Leader, Epoch(1)));
    let written =
        said.place(|effect| matches!(effect, Effect::Persist(record) if record.authority.followed == Epoch(1)));
    let announced = said.place(|effect| matches!(effect, Effect::Announce(_)));
    assert!(written.is_some() && written < announced);
    one.get(
        2,
        Envelope::Round {
            round: round(20, 2),
            participants: set(&[0, 1]),
            link: NodeId(2),
            hops: 0,
            message: Won(7),
            list: Stamp::FIRST,
        },
    );
    let now = one.machine.standing();
    assert_eq!((now.role, now.leader, now.epoch), (Role::Follower, Some(NodeId(2)), Epoch(7)));
}

#[test]
fn how_many_messages_were_sent_is_no_part_of_the_state_that_a_model_compares() {
    let mut two = on_mesh(2, &[1, 2, 3]);
    meet(&mut two, 1);
    let asked = in_rounds(&meet(&mut two, 3))[0].1;
    let election = || in_round(asked, set(&[0, 1, 2]), 1, Msg::Election);
    two.get(1, election());
    let before = two.machine.clone();
    let said = two.get(1, election());
    assert_eq!(in_rounds(&said).len(), 1, "it answers again");
    assert_eq!(two.machine, before);
}
