//! Quorum claims: whose word of the leader counts, and what becomes of every loss of leadership.

use crate::reigns::list;
use algorithms::drive::Effect;
use algorithms::{Epoch, NodeId, Uid};
use member::AuthorityCommand as Told;
use member::AuthorityEvent::{self as Says, Follows};
use member::reign::{LockPast, Msg, ReignTimer, Released, Vote};
use member::{
    Attempt, Authority, BeliefRecord, Cause, Claim, Incarnation, LeaseTimer, News, OnClose, Quorum, QuorumRecord,
    Reach, Settings,
};

use crate::bench::{Bench, Wanted, mesh};
use crate::reigns::{LEASE, fresh_vote, holder, ready};

type One = Bench<Quorum>;

fn record(followed: u64, vote: Vote) -> QuorumRecord {
    let incarnation = Incarnation { counter: 1, nonce: 1 };
    let belief = BeliefRecord { incarnation, reserved_until: 0, followed: Epoch(followed) };
    QuorumRecord { belief, vote: Some(vote), cluster: None }
}

/// Member 1 of three, settled; has followed up to epoch 4.
fn settled(on_close: OnClose) -> One {
    let settings = Settings { on_close, preempt: false, ..Settings::default() };
    let (mut one, _) = Bench::start(1, mesh(&[1, 2, 3]), settings, Some(record(4, fresh_vote())));
    one.fire(ReignTimer::Settle);
    one
}

fn follower() -> One {
    settled(OnClose::WaitLease)
}

fn sent<T>(wanted: &Wanted<Quorum>, of: impl Fn(Msg) -> Option<T>) -> Option<T> {
    wanted.sent().into_iter().find_map(|(_, message)| of(message))
}

fn probe(wanted: &Wanted<Quorum>) -> Option<u64> {
    sent(wanted, |message| if let Msg::Probe { request, .. } = message { Some(request) } else { None })
}

fn bid(wanted: &Wanted<Quorum>) -> Option<(Epoch, u64)> {
    sent(wanted, |message| if let Msg::Bid { epoch, request, .. } = message { Some((epoch, request)) } else { None })
}

fn ack(one: &mut One, voter: u32, (epoch, request): (Epoch, u64)) -> Wanted<Quorum> {
    let incarnation = one.machine.incarnation();
    one.get(voter, Msg::Ack { epoch, request, incarnation, locks: LockPast::default() })
}

const WON: Told = Told::Won { attempt: Some(Attempt(3)), term: None };

/// Comes to lead in epoch 5; what it said at that moment.
fn leads(one: &mut One) -> Wanted<Quorum> {
    let request = probe(&one.tell(WON)).expect("it asks");
    let bid = bid(&one.get(2, Msg::ProbeOk { request })).expect("it bids");
    ack(one, 2, bid)
}

fn leader(on_close: OnClose) -> One {
    let mut one = settled(on_close);
    leads(&mut one);
    one
}

fn claim(id: u32, epoch: u64) -> Claim {
    Claim { epoch: Epoch(epoch), uid: Uid::plain(id) }
}

fn hear(one: &mut One, from: u32, leader: Option<Claim>, firsthand: bool, reach: Reach) -> Wanted<Quorum> {
    let news = News { next_attempt_min: Attempt(0), leader, firsthand };
    one.tell(Told::Heard { from: NodeId(from), news, reach })
}

fn follows(wanted: &Wanted<Quorum>) -> Option<(Option<Claim>, Cause)> {
    wanted.announced().into_iter().find_map(|event| match event {
        Follows { leader, cause } => Some((leader, cause)),
        _ => None,
    })
}

/// Follows member 3, by its own word.
fn led() -> One {
    let mut one = follower();
    assert!(follows(&hear(&mut one, 3, Some(claim(3, 5)), true, Reach::Connected)).is_some());
    one
}

#[test]
fn the_word_of_the_leader_is_believed_and_followed_when_it_is_on_the_disk() {
    let mut one = follower();
    let wanted = hear(&mut one, 3, Some(claim(3, 5)), true, Reach::Connected);
    assert_eq!(follows(&wanted), Some((Some(claim(3, 5)), Cause::Heard)));
    let persisted =
        wanted.place(|effect| matches!(effect, Effect::Persist(record) if record.belief.followed == Epoch(5)));
    let announced = wanted.place(|effect| matches!(effect, Effect::Announce(Follows { .. })));
    assert!(persisted.is_some() && persisted < announced);
    assert_eq!((one.machine.source(), one.machine.epoch()), (Some(NodeId(3)), Epoch(5)));
    let news = one.machine.news(&one.ctx());
    assert!(news.firsthand && news.leader == Some(claim(3, 5)));
}

#[test]
fn what_another_member_says_of_the_leader_counts_only_firsthand_and_without_a_connection_to_the_leader() {
    let believed = |firsthand, reach| {
        let mut one = follower();
        follows(&hear(&mut one, 2, Some(claim(3, 5)), firsthand, reach)).is_some()
    };
    for reach in [Reach::Unknown, Reach::DownOnce, Reach::Down] {
        assert!(believed(true, reach), "{reach:?}");
        assert!(!believed(false, reach), "hearsay of hearsay could go in circles");
    }
    assert!(!believed(true, Reach::Connected), "the leader's own word counts for more");
    let mut one = follower();
    hear(&mut one, 2, Some(claim(3, 5)), true, Reach::Down);
    assert_eq!(one.machine.source(), Some(NodeId(2)));
    let news = one.machine.news(&one.ctx());
    assert!(!news.firsthand && news.leader == Some(claim(3, 5)), "and is passed on as hearsay");
    assert!(one.machine.sends_heartbeats(&one.ctx()), "it depends on the word of 2");
}

#[test]
fn a_report_is_followed_only_while_its_member_hears_the_leader_itself() {
    let by_report = || {
        let mut one = follower();
        assert!(follows(&hear(&mut one, 2, Some(claim(3, 5)), true, Reach::Down)).is_some());
        one
    };
    // 2 has lost the leader and follows it by the word of this member, whose report was on its way.
    let mut circle = by_report();
    let wanted = hear(&mut circle, 2, Some(claim(3, 5)), false, Reach::Down);
    assert_eq!(follows(&wanted), Some((None, Cause::LeaderLost)));
    assert!(wanted.announced().contains(&Says::OpenElection));
    assert_eq!(follows(&hear(&mut by_report(), 2, Some(claim(3, 5)), true, Reach::Down)), None, "it still hears it");
    assert_eq!(follows(&hear(&mut by_report(), 4, Some(claim(3, 5)), false, Reach::Down)), None, "not its word");
    // The leader itself is heard again: no report of another member counts any more.
    let mut connected = by_report();
    hear(&mut connected, 3, Some(claim(3, 5)), true, Reach::Connected);
    assert_eq!(connected.machine.source(), Some(NodeId(3)));
    assert_eq!(follows(&hear(&mut connected, 2, Some(claim(3, 5)), false, Reach::Down)), None);
}

#[test]
fn no_claim_below_what_was_followed_nor_of_a_stranger_nor_of_oneself_is_believed() {
    let believed = |claim: Claim| follows(&hear(&mut follower(), claim.uid.id.0, Some(claim), true, Reach::Connected));
    assert_eq!(believed(claim(3, 3)), None);
    assert!(believed(claim(3, 4)).is_some(), "a restarted member finds its leader again");
    assert_eq!(believed(claim(1, 9)), None);
    assert_eq!(believed(claim(4, 9)), None);
    let other = Claim { epoch: Epoch(9), uid: Uid { priority: 1, id: NodeId(3) } };
    assert!(believed(other).is_some(), "whatever its priority was then");
    assert!(hear(&mut led(), 3, Some(claim(3, 5)), true, Reach::Connected).is_nothing(), "no news");
}

#[test]
fn a_leader_believes_nobody_but_its_own_voters() {
    let mut one = leader(OnClose::WaitLease);
    assert!(hear(&mut one, 3, Some(claim(3, 9)), true, Reach::Connected).is_nothing());
    assert!(hear(&mut one, 3, None, false, Reach::Unknown).is_nothing());
    assert_eq!(one.machine.leader(), Some(claim(1, 5)));
}

#[test]
fn a_leader_that_says_it_leads_no_more_has_resigned_and_a_source_that_lost_it_has_lost_it() {
    let mut one = led();
    assert!(hear(&mut one, 2, None, false, Reach::Unknown).is_nothing(), "2 may not have heard yet");
    let wanted = hear(&mut one, 3, None, false, Reach::Unknown);
    assert_eq!(follows(&wanted), Some((None, Cause::LeaderResigned)));
    assert!(wanted.announced().contains(&Says::OpenElection));

    let mut one = follower();
    hear(&mut one, 2, Some(claim(3, 5)), true, Reach::Down);
    let wanted = hear(&mut one, 2, None, false, Reach::Unknown);
    assert_eq!(follows(&wanted), Some((None, Cause::LeaderLost)));
    assert!(wanted.announced().contains(&Says::OpenElection));
    assert_eq!((one.machine.source(), one.machine.epoch()), (None, Epoch(5)));
}

#[test]
fn a_leader_leads_until_it_says_otherwise_or_is_gone() {
    for told in [Told::LeaderResigns, Told::LeaderLeftOut, Told::Halted, WON] {
        let mut one = led();
        assert!(one.tell(told.clone()).is_nothing(), "{told:?}");
        assert_eq!(one.machine.leader(), Some(claim(3, 5)));
    }
    let mut one = led();
    assert_eq!(follows(&one.tell(Told::LeaderGone)), Some((None, Cause::LeaderLost)));
}

#[test]
fn no_round_is_admitted_while_a_member_leads_nor_one_that_an_earlier_start_may_have_used() {
    assert!(!led().machine.admits(Attempt(300)));
    let mut stored = record(4, fresh_vote());
    stored.belief.reserved_until = 192;
    let (one, _) = Bench::<Quorum>::start(1, mesh(&[1, 2, 3]), Settings::default(), Some(stored));
    assert!(one.machine.admits(Attempt(192)) && !one.machine.admits(Attempt(189)));
}

#[test]
fn a_winner_asks_the_voters_and_leads_with_their_grants_lease_first() {
    let mut one = follower();
    let wanted = leads(&mut one);
    let leader = Some(claim(1, 5));
    let lease = Says::Lease { until: LeaseTimer::A, no_child: true };
    let reigns = Says::Reigns { epoch: Epoch(5), locks: LockPast::default() };
    assert_eq!(wanted.announced(), [lease, Follows { leader, cause: Cause::Elected }, reigns, Says::TellAll]);
    let news = one.machine.news(&one.ctx());
    assert!(news.firsthand && news.leader == leader);
}

#[test]
fn a_member_that_lost_the_election_or_hears_of_a_leader_does_not_ask_any_more() {
    let other =
        Told::OtherWon { winner: Some(Uid::plain(3)), reach: Reach::Connected, via: None, attempt: None, term: None };
    let mut one = follower();
    one.tell(WON);
    one.tell(other);
    assert_eq!(probe(&one.fire(ReignTimer::Retry)), None);
    let mut one = follower();
    one.tell(WON);
    hear(&mut one, 3, Some(claim(3, 5)), true, Reach::Connected);
    assert_eq!(probe(&one.fire(ReignTimer::Retry)), None);
}

/// What the member is told of the loss, and what it is to do then.
fn after(wanted: &Wanted<Quorum>) -> (Option<Cause>, bool, bool) {
    let says = |event| wanted.announced().contains(&event);
    (follows(wanted).map(|(_, cause)| cause), says(Says::TellAll), says(Says::OpenElection))
}

#[test]
fn a_leader_whose_voters_leave_it_tells_all_and_opens_an_election() {
    let ended = leader(OnClose::WaitLease).fire(ReignTimer::Lease(LeaseTimer::A));
    assert_eq!(after(&ended), (Some(Cause::LeaseEnded), true, true));
    assert_eq!(after(&leader(OnClose::Immediate).down(2)), (Some(Cause::SupportersLost), true, true));
    let mut one = leader(OnClose::WaitLease);
    let released = Some(Released { holder: one.machine.reign().expect("a reign").holder(), epoch: Epoch(5) });
    let bid =
        Msg::Bid { epoch: Epoch(6), request: 1, holder: holder(2), after: released, no_child: true, list: list() };
    assert_eq!(after(&one.get(2, bid)), (Some(Cause::Superseded), true, true));
}

#[test]
fn a_leader_that_steps_down_tells_all_and_one_that_hands_over_leaves_it_to_its_successor() {
    let stepped = leader(OnClose::WaitLease).tell(Told::StepDown { successor: None });
    assert_eq!(after(&stepped), (Some(Cause::SteppedDown), true, false));
    for told in [Told::Transfer(NodeId(2)), Told::StepDown { successor: Some(NodeId(2)) }] {
        let mut one = leader(OnClose::WaitLease);
        assert_eq!(one.tell(told.clone()).sent(), [(2, Msg::Offer { epoch: Epoch(5) })]);
        assert_eq!(after(&one.get(2, ready(5))), (Some(Cause::HandedOver), false, false));
        one.fire(ReignTimer::Promise);
        let stands_again = probe(&one.fire(ReignTimer::Retry)).is_some();
        assert_eq!(stands_again, told == Told::Transfer(NodeId(2)), "if its successor does not come to lead");
    }
}

#[test]
fn a_reelection_hands_over_to_a_better_member_or_opens_the_next_epoch() {
    let mut one = leader(OnClose::WaitLease);
    let told = one.tell(Told::Reelect { better: Some(NodeId(3)) });
    assert_eq!(told.sent(), [(3, Msg::Offer { epoch: Epoch(5) })]);
    let mut one = leader(OnClose::WaitLease);
    let next = bid(&one.tell(Told::Reelect { better: None })).expect("it bids");
    let wanted = ack(&mut one, 3, next);
    assert_eq!(after(&wanted), (Some(Cause::Bumped), false, false), "heartbeats tell of it in time");
    assert_eq!(one.machine.leader(), Some(claim(1, 6)));
    assert!(led().tell(Told::Reelect { better: None }).is_nothing(), "that is the leader's business");
}

#[test]
fn a_restarted_member_has_followed_what_it_granted() {
    let vote = Vote {
        epoch: Epoch(9),
        holder: Some(holder(2)),
        longest_lease: LEASE,
        list: list(),
        locks: LockPast::default(),
    };
    let (one, wanted) = Bench::<Quorum>::start(1, mesh(&[1, 2, 3]), Settings::default(), Some(record(4, vote)));
    assert_eq!(one.machine.epoch(), Epoch(9));
    assert_eq!(wanted.persisted()[0].belief.incarnation.counter, 2);
    assert!(one.machine.knows_the_past() && !one.machine.electable(&one.ctx()));
}

#[test]
fn numbers_that_no_honest_member_can_have_reached_are_not_plausible() {
    let mut one = follower();
    one.get(2, Msg::Bid { epoch: Epoch(5), request: 1, holder: holder(2), after: None, no_child: true, list: list() });
    one.tell(Told::Saw(Attempt(3072)));
    let plausible = |next, epoch| {
        let news = News { next_attempt_min: Attempt(next), leader: Some(claim(3, epoch)), firsthand: true };
        one.machine.plausible(&news)
    };
    let (seen, granted) = (3072, 5);
    assert!(plausible(seen + (1 << 20), granted + (1 << 20) - 1));
    assert!(!plausible(seen + (1 << 20) + 1, 5) && !plausible(0, granted + (1 << 20)));
}

/// A member that was lied to follows no leader below the epoch that it heard of: its leader learns of that epoch and moves
/// past it.
#[test]
fn a_voter_tells_the_leader_of_a_later_epoch_and_the_leader_bids_above_it() {
    let mut two = follower();
    let renewal =
        |request| Msg::Bid { epoch: Epoch(5), request, holder: holder(2), after: None, no_child: true, list: list() };
    assert_eq!(two.get(2, renewal(1)).sent().len(), 1);
    hear(&mut two, 3, Some(claim(3, 900)), true, Reach::Connected);
    let told = two.get(2, renewal(2)).sent();
    assert!(matches!(told[..], [(2, Msg::Ack { .. }), (2, Msg::ProbeDenied { epoch: Epoch(900), .. })]), "{told:?}");
    let mut one = leader(OnClose::WaitLease);
    one.get(2, Msg::ProbeDenied { epoch: Epoch(900), list: list() });
    let (epoch, _) = bid(&one.fire(ReignTimer::Renew)).expect("it renews");
    assert_eq!(epoch, Epoch(901));
}

#[test]
fn attempts_that_others_used_are_reserved_before_anything_is_said() {
    let mut one = follower();
    let news = News { next_attempt_min: Attempt(600), leader: None, firsthand: false };
    let wanted = one.tell(Told::Heard { from: NodeId(2), news, reach: Reach::Unknown });
    assert!(wanted.persisted()[0].belief.reserved_until > 600);
    assert_eq!(one.machine.next_attempt(&one.ctx()), Attempt(603));
}
