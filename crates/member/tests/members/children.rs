//! Children: they stop before leadership is given away, and are given up if they do not.

use std::time::Duration;

use algorithms::drive::Effect;
use algorithms::election::bully::Bully;
use algorithms::{Epoch, Span};
use member::reign::{LockPast, Msg};
use member::{Authority, Cause, Classic, Command, Envelope, Event, Member, Quorum, Role, Settings, Stand, Timer};

use crate::bench::{Bench, Wanted, mesh};
use crate::reigns::ready;
use crate::single::{One, beat_of, beats, became, meet, settled};

fn lease_of(lease: u64) -> Settings {
    let mut settings = Settings::default();
    settings.timing.lease = Duration::from_millis(lease);
    settings
}

fn classic(settings: Settings) -> One<Bully, Classic> {
    leading(Bench::start(1, mesh(&[1]), settings, None).0)
}

fn quorum(settings: Settings) -> One<Bully, Quorum> {
    leading(settled(1, mesh(&[1]), settings))
}

/// The only member of its cluster leads, and has a child.
fn leading<A: Authority>(mut one: One<Bully, A>) -> One<Bully, A> {
    assert_eq!(one.machine.standing().role, Role::Leader);
    one.tell(Command::Attached(true));
    one
}

fn stop_order<A: Authority>(said: &Wanted<Member<Bully, A>>) -> Option<Span> {
    said.announced().contains(&Event::StopChildren).then(|| said.set(Timer::ChildrenStop)).flatten()
}

fn children_are_told_once_and_given_up<A: Authority>(mut one: One<Bully, A>) {
    assert_eq!(stop_order(&one.tell(Command::StepDown(None))), Some(Span::exactly(Duration::from_secs(1))));
    assert_eq!(stop_order(&one.tell(Command::StepDown(None))), None, "they know");
    let said = one.fire(Timer::Handover);
    assert!(became(&said).is_none() && said.set(Timer::Handover).is_some(), "while they stop, that is why it leads");
    let said = one.fire(Timer::ChildrenStop);
    let given_up = said.place(|effect| *effect == Effect::Announce(Event::ChildrenGivenUp));
    let ended = said.place(|effect| matches!(effect, Effect::Announce(Event::Became { .. })));
    assert!(given_up.is_some() && given_up < ended, "{said:?}");
    assert_eq!(became(&said), Some((Role::Candidate, Cause::SteppedDown)));
    assert!(one.fire(Timer::ChildrenStop).announced().is_empty(), "once");
}

#[test]
fn children_that_do_not_stop_in_time_are_given_up() {
    children_are_told_once_and_given_up(classic(Settings::default()));
    children_are_told_once_and_given_up(quorum(Settings::default()));
}

fn leadership_ends_with_the_children<A: Authority>(mut one: One<Bully, A>) {
    one.tell(Command::StepDown(None));
    let said = one.tell(Command::Attached(false));
    assert!(said.cancels(Timer::ChildrenStop));
    assert_eq!(became(&said), Some((Role::Candidate, Cause::SteppedDown)));
    assert!(!said.announced().contains(&Event::ChildrenGivenUp));
}

#[test]
fn leadership_is_given_away_as_soon_as_the_children_have_stopped() {
    leadership_ends_with_the_children(classic(Settings::default()));
    leadership_ends_with_the_children(quorum(Settings::default()));
}

/// A child acts until the deadline of its guard, which is the end of the lease.
#[test]
fn children_have_at_least_the_time_of_a_lease() {
    let three = Some(Span::exactly(Duration::from_secs(3)));
    assert_eq!(stop_order(&classic(lease_of(3000)).tell(Command::StepDown(None))), three);
    assert_eq!(stop_order(&quorum(lease_of(3000)).tell(Command::StepDown(None))), three);
}

#[test]
fn children_that_come_after_others_have_stopped_are_told_anew() {
    let mut one = classic(Settings::default());
    one.tell(Command::StepDown(None));
    one.tell(Command::Attached(false));
    one.fire(Timer::Abstain);
    one.tell(Command::Elect);
    assert_eq!(one.machine.standing().role, Role::Leader);
    one.tell(Command::Attached(true));
    assert!(stop_order(&one.tell(Command::StepDown(None))).is_some());
}

/// Member 3 of three has offered its leadership to 2, which is ready; its child has yet to stop.
#[test]
fn a_leader_that_steps_down_goes_on_waiting_for_its_successor_while_its_children_stop() {
    let mut one: One<Bully, Quorum> = settled(3, mesh(&[1, 2, 3]), Settings::default());
    meet(&mut one, 1);
    meet(&mut one, 2);
    let request = 1;
    one.get(2, Envelope::Authority(Msg::ProbeOk { request }));
    let (epoch, request, incarnation) = (Epoch(1), 2, one.machine.incarnation());
    one.get(2, Envelope::Authority(Msg::Ack { epoch, request, incarnation, locks: LockPast::default() }));
    let mut one = leading(one);
    let offer = (2, Envelope::Authority(Msg::Offer { epoch }));
    assert!(one.tell(Command::StepDown(None)).sent().contains(&offer));
    assert!(stop_order(&one.get(2, Envelope::Authority(ready(epoch.0)))).is_some());
    assert!(one.fire(Timer::Handover).set(Timer::Handover).is_some());
    let said = one.tell(Command::Attached(false));
    assert!(said.sent().contains(&offer) && became(&said).is_none(), "it does not leave without it: {said:?}");
    assert_eq!(became(&one.fire(Timer::Handover)), Some((Role::Candidate, Cause::SteppedDown)), "unless it must");
}

/// The only member of its cluster: it leads while it has a child, and at no other time.
fn leads_for_its_children_only<A: Authority>(mut one: One<Bully, A>) {
    let leads = |one: &One<Bully, A>| one.machine.standing().role == Role::Leader;
    assert!(!leads(&one), "no child yet");
    one.tell(Command::Elect);
    assert!(!leads(&one), "not by an operator's election either");
    for _ in 0..2 {
        let said = one.tell(Command::Attached(true));
        if !leads(&one) {
            assert!(said.set(Timer::Watchdog).is_some(), "{said:?}");
            one.fire(Timer::Watchdog);
        }
        assert!(leads(&one), "{:?}", one.machine.standing());
        let said = one.tell(Command::Attached(false));
        assert_eq!(became(&said), Some((Role::Candidate, Cause::SteppedDown)));
        assert_eq!(said.set(Timer::Abstain), None, "it stands again with the next child");
    }
}

#[test]
fn a_member_that_stands_for_its_children_leads_while_it_has_one_and_gives_way_without() {
    let settings = Settings { stand: Stand::Attached, ..Settings::default() };
    let one: One<Bully, Classic> = Bench::start(1, mesh(&[1]), settings.clone(), None).0;
    leads_for_its_children_only(one);
    let one: One<Bully, Quorum> = settled(1, mesh(&[1]), settings);
    leads_for_its_children_only(one);
}

/// Member 3 of three stands for its children only: its heartbeats say so, and it follows a worse member.
#[test]
fn a_better_member_without_children_follows_and_takes_over_once_it_has_one() {
    let settings = Settings { stand: Stand::Attached, ..Settings::default() };
    let (mut one, _) = Bench::<Member<Bully, Classic>>::start(3, mesh(&[1, 2, 3]), settings, None);
    assert!(!beats(&meet(&mut one, 1)).iter().any(|(_, beat)| beat.stands));
    meet(&mut one, 2);
    let said = one.get(2, Envelope::Beat(beat_of(2, 7)));
    assert_eq!(became(&said), Some((Role::Follower, Cause::Heard)));
    assert_eq!(said.set(Timer::Preempt), None, "it does not want to lead");
    let said = one.tell(Command::Attached(true));
    assert!(beats(&said).len() == 2 && beats(&said).iter().all(|(_, beat)| beat.stands), "{said:?}");
    assert!(said.set(Timer::Preempt).is_some(), "{said:?}");
    let said = one.tell(Command::Attached(false));
    assert!(said.cancels(Timer::Preempt) && beats(&said).iter().all(|(_, beat)| !beat.stands), "{said:?}");
}
