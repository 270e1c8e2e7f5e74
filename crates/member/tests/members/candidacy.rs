//! Whether a member takes part in elections: at its start, after it stepped down, and which winners are left out.

use crate::reigns::list;
use std::time::Duration;
use types::Stamp;

use algorithms::drive::Effect;
use algorithms::election::bully::{Bully, Msg};
use algorithms::election::chang_roberts::OwnProbeFirst;
use algorithms::{NodeId, Span, View};
use member::reign::{self, Holder, LockPast, ReignTimer, Vote};
use member::{
    ABSTAIN, Attempt, Authority, Beat, BeliefRecord, Cause, Classic, Command, Envelope, FORGIVE, Incarnation, Member,
    Quorum, QuorumRecord, Record, Role, Round, Settings, Timer,
};

use crate::bench::{Bench, Wanted, mesh, ring};
use crate::reigns::{LEASE, bid_of, holder, learner};
use crate::single::{One, beat, beat_of, beats, became, in_rounds, meet, participants, set, settled};

fn classic(me: u32, view: View, settings: Settings) -> One<Bully, Classic> {
    Bench::start(me, view, settings, None).0
}

fn three() -> View {
    mesh(&[1, 2, 3])
}

#[test]
fn the_first_election_waits_for_all_members_and_not_for_ever() {
    let mut one = classic(1, three(), Settings::default());
    assert_eq!(participants(&meet(&mut one, 2)), None);
    assert_eq!(participants(&meet(&mut one, 3)), Some(set(&[0, 1, 2])));
    let mut one = classic(1, three(), Settings::default());
    meet(&mut one, 2);
    one.up(3);
    assert_eq!(participants(&one.fire(Timer::Grace)), Some(set(&[0, 1, 2])), "3 has said nothing yet");
}

#[test]
fn a_member_that_takes_part_in_the_first_election_of_another_member_begins_none_of_its_own() {
    let mut one = classic(2, three(), Settings::default());
    meet(&mut one, 1);
    one.up(3);
    let round = Round { attempt: Attempt(3), initiator: NodeId(1), incarnation: 1 };
    let (participants, link, list) = (set(&[0, 1, 2]), NodeId(1), Stamp::FIRST);
    let asked = Envelope::Round { round, participants, link, hops: 0, message: Msg::Election, list };
    assert_eq!(in_rounds(&one.get(1, asked)).len(), 2, "it answers 1 and asks 3");
    let said = one.get(3, Envelope::Beat(beat()));
    assert!(in_rounds(&said).is_empty(), "all members are heard now, and elect already");
    assert!(said.set(Timer::Watchdog).is_some(), "that election may still come to nothing");
}

#[test]
fn a_member_that_hears_of_a_leader_it_cannot_follow_yet_waits_for_that_leader() {
    let authority = BeliefRecord { reserved_until: 192, ..BeliefRecord::default() };
    let record = Record { authority, algorithm: None, mode: None };
    let (mut one, _) = Bench::<Member<Bully, Classic>>::start(1, three(), Settings::default(), Some(record));
    one.up(2);
    one.up(3);
    one.get(2, Envelope::Beat(beat_of(3, 5)));
    assert_eq!(participants(&one.get(3, Envelope::Beat(beat_of(3, 5)))), None);
    let said = one.get(3, Envelope::Beat(beat_of(3, 197)));
    assert_eq!(became(&said), Some((Role::Follower, Cause::Heard)));
}

#[test]
fn a_refused_dial_is_no_death_while_others_may_still_be_starting() {
    let (mut one, _) =
        Bench::<Member<OwnProbeFirst, Classic>>::start(1, ring(&[1, 2, 3, 4]), Settings::default(), None);
    one.down(2);
    assert_eq!(one.machine.links(&one.view), set(&[1, 2]));
    one.fire(Timer::Grace);
    one.down(2);
    assert_eq!(one.machine.links(&one.view), set(&[1, 2, 3]));
}

#[test]
fn under_quorum_the_first_election_waits_until_all_that_may_lead_stand() {
    let mut one: One<Bully, Quorum> = settled(1, three(), Settings::default());
    meet(&mut one, 2);
    one.up(3);
    let said = one.get(3, Envelope::Beat(Beat { stands: false, ..beat() }));
    assert_eq!(participants(&said), None, "3 has not settled");
    assert_eq!(participants(&one.get(3, Envelope::Beat(beat()))), Some(set(&[0, 1, 2])));
    let settings = Settings { witnesses: vec![NodeId(3)], ..Settings::default() };
    let mut one: One<Bully, Quorum> = settled(1, three(), settings);
    meet(&mut one, 2);
    one.up(3);
    let said = one.get(3, Envelope::Beat(Beat { stands: false, ..beat() }));
    assert_eq!(participants(&said), Some(set(&[0, 1])), "a witness never does");
}

#[test]
fn a_member_that_has_not_settled_says_so_and_waits_beyond_the_grace() {
    let (mut one, _) = Bench::<Member<Bully, Quorum>>::start(1, three(), Settings::default(), None);
    assert!(!beats(&one.up(2))[0].1.stands);
    let said = one.fire(Timer::Grace);
    let answer_timeout = one.settings.election.answer_timeout;
    assert_eq!(said.set(Timer::Grace), Some(Span::exactly(answer_timeout)));
    assert_eq!(participants(&said), None);
}

/// Member 3 of three leads by classic rules.
fn leader() -> One<Bully, Classic> {
    let mut one = classic(3, three(), Settings::default());
    meet(&mut one, 1);
    meet(&mut one, 2);
    assert_eq!(one.machine.standing().role, Role::Leader);
    one
}

#[test]
fn a_member_that_stepped_down_leaves_the_field_to_others_for_a_while() {
    let mut one = leader();
    let said = one.tell(Command::StepDown(None));
    assert_eq!(became(&said), Some((Role::Candidate, Cause::SteppedDown)));
    assert_eq!(said.set(Timer::Abstain), Some(Span::exactly(ABSTAIN)));
    let told: Vec<_> = beats(&said).into_iter().map(|(to, beat)| (to, beat.stands)).collect();
    assert_eq!(told, [(1, false), (2, false)]);
    assert!(one.tell(Command::Elect).is_nothing(), "it opens none");
    let election = Envelope::Round {
        round: member::Round { attempt: member::Attempt(6), initiator: NodeId(1), incarnation: 1 },
        participants: set(&[0, 1, 2]),
        link: NodeId(1),
        hops: 0,
        message: Msg::Election,
        list: Stamp::FIRST,
    };
    assert!(in_rounds(&one.get(1, election)).is_empty(), "and joins none");
    let said = one.get(2, Envelope::Beat(beat_of(2, 7)));
    assert_eq!(said.set(Timer::Abstain), Some(Span::exactly(ABSTAIN)), "its time begins when another leads");
    let said = one.fire(Timer::Abstain);
    assert!(beats(&said).iter().all(|(_, beat)| beat.stands) && beats(&said).len() == 2);
    assert!(said.set(Timer::Preempt).is_some());
}

#[test]
fn only_a_leader_can_step_down() {
    let mut one = classic(1, three(), Settings::default());
    assert!(one.tell(Command::StepDown(None)).is_nothing());
}

/// Member 1 of three, whose election was won by 3.
fn proposed() -> One<Bully, Quorum> {
    let mut one = settled(1, three(), Settings::default());
    meet(&mut one, 2);
    let said = meet(&mut one, 3);
    let &(_, round, participants, _) = &in_rounds(&said)[0];
    let message = Msg::Coordinator;
    one.get(3, Envelope::Round { round, participants, link: NodeId(3), hops: 0, message, list: Stamp::FIRST });
    one
}

#[test]
fn a_winner_that_does_not_come_to_lead_is_passed_over_and_forgiven_later() {
    let mut one = proposed();
    let said = one.fire(Timer::Watchdog);
    assert_eq!(participants(&said), Some(set(&[0, 1])));
    assert_eq!(said.set(Timer::Forgive), Some(Span::exactly(FORGIVE)));
    one.fire(Timer::Forgive);
    assert_eq!(participants(&one.fire(Timer::Watchdog)), Some(set(&[0, 1, 2])));
}

#[test]
fn a_winner_that_was_passed_over_is_forgiven_when_a_member_leads() {
    let mut one = proposed();
    one.fire(Timer::Watchdog);
    one.get(2, Envelope::Beat(beat_of(2, 1)));
    assert_eq!(one.machine.standing().leader, Some(NodeId(2)));
    assert_eq!(participants(&one.down(2)), Some(set(&[0, 2])));
}

#[test]
fn a_winner_that_comes_to_lead_is_never_passed_over() {
    let mut one = proposed();
    one.get(3, Envelope::Beat(beat_of(3, 1)));
    assert_eq!(participants(&one.down(2)), None);
    one.up(2);
    one.get(2, Envelope::Beat(beat()));
    one.get(3, Envelope::Beat(beat()));
    assert_eq!(one.machine.standing().leader, None, "it resigned");
    assert_eq!(participants(&one.fire(Timer::Watchdog)), Some(set(&[0, 1, 2])));
}

#[test]
fn a_better_member_takes_over_after_a_while_where_it_may() {
    for preempt in [true, false] {
        let settings = Settings { preempt, ..Settings::default() };
        let after = Span::jittered(settings.preempt_after);
        let mut one = classic(3, three(), settings);
        one.up(2);
        let said = one.get(2, Envelope::Beat(beat_of(2, 4)));
        assert_eq!(said.set(Timer::Preempt), preempt.then_some(after));
        assert_eq!(became(&one.fire(Timer::Preempt)).is_some(), preempt);
    }
    let mut one = classic(1, three(), Settings::default());
    one.up(2);
    assert_eq!(one.get(2, Envelope::Beat(beat_of(2, 4))).set(Timer::Preempt), None, "it is no better");
}

/// Member 3 of three, which follows 2 and would rather lead.
fn better<A: Authority>(mut one: One<Bully, A>, setbacks: u8) -> (One<Bully, A>, Option<Span>) {
    one.up(2);
    let said = one.get(2, Envelope::Beat(Beat { setbacks, ..beat_of(2, 4) }));
    (one, said.set(Timer::Preempt))
}

fn wait(seconds: u64) -> Span {
    Span::jittered(Duration::from_secs(seconds))
}

#[test]
fn a_member_waits_as_long_as_others_remember_its_restarts_and_forgets_slowly() {
    let fresh = || classic(3, three(), Settings::default());
    for (setbacks, seconds) in [(0, 1), (1, 1), (2, 4), (3, 16), (u8::MAX, 300)] {
        let (_, after) = better(fresh(), setbacks);
        assert_eq!(after, Some(wait(seconds)), "{setbacks} setbacks");
    }
    let (mut one, _) = better(fresh(), 0);
    let said = one.get(2, Envelope::Beat(Beat { setbacks: 3, ..beat_of(2, 4) }));
    assert_eq!(said.set(Timer::Preempt), Some(wait(16)), "it learns of them while it waits");
    assert_eq!(said.set(Timer::Pardon), Some(Span::exactly(Duration::from_mins(5))));
    let said = one.fire(Timer::Pardon);
    assert_eq!((said.set(Timer::Preempt), said.set(Timer::Pardon).is_some()), (Some(wait(4)), true));
}

#[test]
fn restarts_of_other_members_are_counted_and_reported_to_them() {
    let mut one = classic(1, three(), Settings::default());
    let mut told = |incarnation| {
        one.up(3);
        let said = one.get(3, Envelope::Beat(Beat { ask: true, incarnation, ..beat() }));
        beats(&said).into_iter().find_map(|(to, beat)| (to == 3).then_some(beat.setbacks))
    };
    assert_eq!([5, 5, 6, 6, 9].map(&mut told), [0, 0, 1, 1, 4].map(Some));
    assert_eq!(told(1), Some(5), "a lost disk is a restart");
    let mut one = classic(1, three(), Settings { preempt: false, ..Settings::default() });
    one.up(3);
    one.get(3, Envelope::Beat(beat()));
    let said = one.get(3, Envelope::Beat(Beat { ask: true, incarnation: 9, ..beat() }));
    assert_eq!(beats(&said)[0].1.setbacks, 0, "no member preempts");
}

/// The leader lost its connections, or a worse member with a later epoch appeared.
#[test]
fn a_short_reign_that_was_lost_delays_the_next_and_one_that_was_given_away_does_not() {
    for (order, after) in [(None, Some(wait(4))), (Some(Command::StepDown(None)), Some(wait(1)))] {
        let mut one = leader();
        if let Some(order) = order.clone() {
            one.tell(order);
        }
        let said = one.get(2, Envelope::Beat(beat_of(2, 7)));
        let again = if order.is_some() { one.fire(Timer::Abstain) } else { said };
        assert_eq!(again.set(Timer::Preempt), after, "{order:?}");
    }
    let mut one = leader();
    one.fire(Timer::Tenure);
    assert_eq!(one.get(2, Envelope::Beat(beat_of(2, 7))).set(Timer::Preempt), Some(wait(1)), "it led for long");
}

#[test]
fn under_quorum_a_member_with_slow_writes_tries_its_disk_instead_of_the_leadership() {
    let (mut one, _) = better(settled::<Bully>(3, three(), Settings::default()), 0);
    one.settings.from_driver.write_time = LEASE;
    let said = one.fire(Timer::Preempt);
    assert!(said.place(|effect| matches!(effect, Effect::Store(_))).is_some() && said.sent().is_empty(), "{said:?}");
    assert_eq!(said.set(Timer::Preempt), Some(wait(4)));
    let (mut one, _) = better(classic(3, three(), Settings::default()), 0);
    one.settings.from_driver.write_time = LEASE;
    assert_eq!(
        became(&one.fire(Timer::Preempt)),
        Some((Role::Leader, Cause::Elected)),
        "a classic election writes nothing"
    );
}

#[test]
fn under_quorum_a_better_member_asks_the_leader_to_hand_over() {
    let mut one: One<Bully, Quorum> = settled(3, three(), Settings::default());
    one.up(2);
    one.get(2, Envelope::Authority(bid_of(2, 4, 1)));
    one.get(2, Envelope::Beat(beat_of(2, 4)));
    let asked = one.fire(Timer::Preempt).sent();
    let sitting = Some(reign::Released { holder: holder(2), epoch: algorithms::Epoch(4) });
    let asks = |message: &Envelope<_, _, reign::Msg>| matches!(message, Envelope::Authority(reign::Msg::Probe { after, .. }) if *after == sitting);
    assert!(asked.iter().any(|(_, message)| asks(message)), "{asked:?}");
}

#[test]
fn witnesses_and_learners_say_what_they_are_and_never_stand() {
    for (settings, role) in [
        (Settings { witnesses: vec![NodeId(1)], ..Settings::default() }, Role::Witness),
        (Settings { election: learner(1), ..Settings::default() }, Role::Learner),
    ] {
        let mut one = classic(1, three(), settings);
        assert_eq!(one.machine.standing().role, role);
        meet(&mut one, 2);
        assert_eq!(participants(&meet(&mut one, 3)), None);
        assert!(!beats(&one.up(2))[0].1.stands);
        one.get(3, Envelope::Beat(beat_of(3, 5)));
        assert_eq!((one.machine.standing().role, one.machine.standing().leader), (role, Some(NodeId(3))));
    }
}

#[test]
fn a_voter_that_settles_after_the_start_opens_the_election_it_waited_for() {
    let incarnation = Incarnation { counter: 1, nonce: 1 };
    let leader = Holder { id: NodeId(2), incarnation };
    let vote = Some(Vote {
        epoch: algorithms::Epoch(4),
        holder: Some(leader),
        longest_lease: LEASE,
        list: list(),
        locks: LockPast::default(),
    });
    let authority =
        QuorumRecord { belief: BeliefRecord { incarnation, ..BeliefRecord::default() }, vote, cluster: None };
    let record = Some(Record { authority, algorithm: None, mode: None });
    let (mut one, _) = Bench::<Member<Bully, Quorum>>::start(1, three(), Settings::default(), record);
    meet(&mut one, 2);
    meet(&mut one, 3);
    let said: Wanted<Member<Bully, Quorum>> = one.fire(Timer::Authority(ReignTimer::Settle));
    assert!(beats(&said).iter().all(|(_, beat)| beat.stands));
    assert_eq!(participants(&said), Some(set(&[0, 1, 2])));
}
