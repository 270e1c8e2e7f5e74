//! Priorities that change while members run: when they count, how members learn them, and what they never do.

use std::time::Duration;

use algorithms::election::bully::{Bully, Msg};
use algorithms::election::bully_1982::Bully1982;
use algorithms::election::chang_roberts::OwnProbeFirst;
use algorithms::election::echo::Echo;
use algorithms::election::time_slice::TimeSlice;
use algorithms::{Election, Epoch, NodeId, Synchronised, TypedLink, Uid, View};
use member::{Authority, Beat, Claim, Classic, Command, Envelope, Member, News, Quorum, Role, Settings, Timer};

use crate::bench::{Bench, mesh, ring};
use crate::golden::led;
use crate::single::{One, beat, beat_of, beats, in_rounds, meet};
use crate::world::World;

fn patient() -> Settings {
    Settings { preempt: false, ..Settings::default() }
}

fn leader<E: Election<Link: TypedLink>, A: Authority>(world: &World<E, A>, id: u32) -> Option<u32> {
    world.driver(id).machine().standing().leader.map(|leader| leader.0)
}

/// A raised member of a cluster that is led by 3 takes over where it may, and else wins the next election.
fn raised<E: Election<Link: TypedLink>, A: Authority>() {
    let mut world = led::<E, A>("raised", 3, Settings::default());
    world.command(1, Command::Priority(Some(7)));
    world.run_until_leader(1);
    let mut world = led::<E, A>("raised, and the leader stays", 3, patient());
    world.command(1, Command::Priority(Some(u32::MAX)));
    world.run_for(Duration::from_secs(4));
    assert_eq!(leader(&world, 2), Some(3), "until the next election");
    world.kill(3);
    world.run_until_leader(1);
}

#[test]
fn a_raised_member_takes_over_or_wins_the_next_election() {
    raised::<Bully, Classic>();
    raised::<Bully, Quorum>();
    raised::<Bully1982, Quorum>();
    raised::<OwnProbeFirst, Quorum>();
    let mut world = led::<Bully1982, Classic>("raised, continuous", 3, Settings::default());
    world.command(1, Command::Priority(Some(7)));
    world.run_until_leader(1);
}

/// Members of a ring and of a graph know the priorities of their neighbours only.
fn on<E: Election<Link: TypedLink>>(view: View) {
    let mut world: World<E, Classic> = World::new("far from the leader", view, Settings::default());
    world.start(&[1, 2, 3, 4, 5]);
    world.run_until_leader(5);
    world.command(2, Command::Priority(Some(1)));
    world.run_until_leader(2);
    world.command(3, Command::Priority(Some(2)));
    world.run_until_leader(3);
    world.run_for(Duration::from_millis(10));
    for id in 1..=5 {
        assert_eq!(leader(&world, id), Some(3));
    }
}

#[test]
fn members_without_a_connection_to_the_leader_know_its_priority_by_its_claim() {
    on::<OwnProbeFirst>(ring(&[1, 2, 3, 4, 5]));
    let path = [(0, 1), (1, 2), (2, 3), (3, 4)];
    on::<Echo>(View::graph((1..=5).map(Uid::plain).collect(), &path));
}

fn classic(me: u32, settings: Settings) -> One<Bully, Classic> {
    Bench::start(me, mesh(&[1, 2, 3]), settings, None).0
}

#[test]
fn a_change_is_told_to_every_connected_member_and_to_those_that_connect_later() {
    let mut one = classic(1, Settings::default());
    meet(&mut one, 2);
    let told =
        |said: &_| beats::<Bully, Classic>(said).into_iter().map(|(to, beat)| (to, beat.priority)).collect::<Vec<_>>();
    let tell = one.tell(Command::Priority(Some(5)));
    assert_eq!(told(&tell), vec![(2, 5)]);
    assert_eq!(told(&one.up(3)), vec![(3, 5)]);
    assert_eq!(told(&one.tell(Command::Priority(None))), vec![(2, 0), (3, 0)], "that of the list again");
}

fn claimed(leader: u32, epoch: u64, priority: u32) -> Beat {
    let uid = Uid { priority, id: NodeId(leader) };
    let news = News { leader: Some(Claim { epoch: Epoch(epoch), uid }), ..beat_of(leader, epoch).news };
    Beat { news, priority, ..beat() }
}

#[test]
fn the_priority_with_which_a_leader_was_elected_stays_for_its_epoch() {
    let mut one = classic(3, Settings::default());
    one.up(2);
    assert_eq!(one.get(2, Envelope::Beat(claimed(2, 4, 9))).set(Timer::Preempt), None, "the leader is better");
    let lower = Beat { priority: 0, ..claimed(2, 4, 9) };
    assert_eq!(one.get(2, Envelope::Beat(lower)).set(Timer::Preempt), None, "and was elected with that");
    let next = claimed(2, 7, 0);
    assert!(one.get(2, Envelope::Beat(next)).set(Timer::Preempt).is_some(), "the next epoch");
    let higher = Beat { priority: 1, ..next };
    assert!(one.get(2, Envelope::Beat(higher)).cancels(Timer::Preempt), "it would be elected again");
}

#[test]
fn a_report_of_another_member_does_not_replace_the_priority_that_the_leader_claims() {
    let mut one = classic(3, Settings::default());
    one.up(1);
    one.up(2);
    one.get(2, Envelope::Beat(Beat { priority: 0, ..claimed(2, 4, 9) }));
    let report = Beat { priority: 0, ..claimed(2, 4, 0) };
    assert_eq!(one.get(1, Envelope::Beat(report)).set(Timer::Preempt), None);
    let mut one = classic(3, Settings::default());
    one.up(1);
    one.up(2);
    assert!(one.get(1, Envelope::Beat(report)).set(Timer::Preempt).is_some());
    assert!(one.get(2, Envelope::Beat(claimed(2, 4, 9))).cancels(Timer::Preempt), "the leader's own word");
}

#[test]
fn a_round_keeps_the_priorities_with_which_it_began() {
    let mut one = classic(2, Settings::default());
    meet(&mut one, 1);
    let opened = meet(&mut one, 3);
    let (_, round, participants, _) = in_rounds(&opened).pop().expect("a round");
    one.get(1, Envelope::Beat(Beat { priority: 9, ..beat() }));
    let list = one.settings.list.stamp;
    let asks = Envelope::Round { round, list, participants, link: NodeId(1), hops: 1, message: Msg::Election };
    let answers =
        |said: &_| in_rounds::<Bully, Classic>(said).iter().any(|(to, _, _, what)| (*to, *what) == (1, Msg::Answer));
    assert!(answers(&one.get(1, asks)), "1 was worse when the round began");
    let next = in_rounds(&one.down(3));
    assert!(
        next.iter().any(|(to, _, _, what)| (*to, *what) == (1, Msg::Election)),
        "1 is better in the next: {next:?}"
    );
}

/// Each has raised itself and has not heard of the other.
#[test]
fn members_that_disagree_on_priorities_never_share_an_epoch() {
    let epochs = [1, 2, 3].map(|me| {
        let mut one = classic(me, Settings::default());
        one.tell(Command::Priority(Some(u32::MAX)));
        for peer in [1, 2, 3].into_iter().filter(|&peer| peer != me) {
            meet(&mut one, peer);
        }
        let standing = one.machine.standing();
        assert_eq!(standing.role, Role::Leader, "{me} takes itself for the best");
        standing.epoch
    });
    assert!(epochs[0] != epochs[1] && epochs[1] != epochs[2] && epochs[0] != epochs[2], "{epochs:?}");
}

#[test]
fn an_algorithm_that_counts_with_ids_knows_no_other_priorities() {
    type Counting = Member<Synchronised<TimeSlice>, Classic>;
    let (mut one, _) = Bench::<Counting>::start(1, ring(&[1, 2, 3]), Settings::default(), None);
    one.up(2);
    let said = one.tell(Command::Priority(Some(5)));
    assert!(beats(&said).iter().all(|(_, beat)| beat.priority == 0), "{said:?}");
    one.get(2, Envelope::Beat(Beat { priority: 9, ..beat() }));
    assert!(in_rounds(&one.fire(Timer::Grace)).iter().any(|(to, ..)| *to == 2), "its rounds go on");
}
