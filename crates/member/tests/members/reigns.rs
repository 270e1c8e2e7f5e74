//! Reigns fed by hand: member 1 of three voters, unless a test says otherwise.

use std::sync::Arc;
use std::time::Duration;

use algorithms::drive::Effect;
use algorithms::{Epoch, NodeId, Uid};
use member::reign::{Holder, LockPast, Msg, Reign, ReignCommand, ReignTimer, Released, Vote, VoterRecord};
use member::{Incarnation, OnClose, Settings};

use types::{Listed, MemberList, PeerRole, Stamp};

use crate::bench::{Bench, Wanted, mesh};

pub(crate) const LEASE: Duration = Duration::from_millis(500);

/// A list of voters.
pub(crate) fn list_of(stamp: Stamp, voters: &[u32]) -> Arc<MemberList> {
    let listed = |&id: &u32| Listed { uid: Uid::plain(id), role: PeerRole::Member, address: String::new() };
    Arc::new(MemberList { stamp, members: voters.iter().map(listed).collect() })
}

/// The first list: three voters.
pub(crate) fn list() -> Arc<MemberList> {
    list_of(Stamp::FIRST, &[1, 2, 3])
}

/// A bid that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bid {
    pub(crate) epoch: Epoch,
    pub(crate) request: u64,
    pub(crate) no_child: bool,
}

/// Preemption is off: a better member takes over only where a test asks for it.
pub(crate) fn settings(on_close: OnClose) -> Settings {
    Settings { on_close, preempt: false, ..Settings::default() }
}

/// This member has no vote.
pub(crate) fn learner(id: u32) -> algorithms::Settings {
    algorithms::Settings { learners: vec![NodeId(id)], ..algorithms::Settings::default() }
}

pub(crate) fn started(settings: Settings, vote: Option<Vote>) -> (Bench<Reign>, Wanted<Reign>) {
    let stored = VoterRecord { incarnation: Incarnation { counter: 1, nonce: 1 }, vote, cluster: None };
    Bench::start(1, mesh(&[1, 2, 3]), settings, Some(stored))
}

/// Has never granted anything, and knows it.
pub(crate) fn fresh_vote() -> Vote {
    Vote { epoch: Epoch(0), holder: None, longest_lease: LEASE, list: Arc::default(), locks: LockPast::default() }
}

pub(crate) fn settled(on_close: OnClose) -> Bench<Reign> {
    let (mut one, _) = started(settings(on_close), Some(fresh_vote()));
    one.fire(ReignTimer::Settle);
    one
}

/// Has granted this epoch to member 2, which let go of it.
pub(crate) fn settled_at(epoch: u64) -> Bench<Reign> {
    let vote = Vote {
        epoch: Epoch(epoch),
        holder: Some(holder(2)),
        longest_lease: LEASE,
        list: list(),
        locks: LockPast::default(),
    };
    let (mut one, _) = started(settings(OnClose::WaitLease), Some(vote));
    one.fire(ReignTimer::Settle);
    one
}

/// Has lost its disk, and is about to ask what was granted.
pub(crate) fn blank() -> Bench<Reign> {
    let (mut one, _) = started(settings(OnClose::WaitLease), None);
    one.fire(ReignTimer::Settle);
    one
}

pub(crate) fn holder(id: u32) -> Holder {
    Holder { id: NodeId(id), incarnation: Incarnation { counter: 1, nonce: 9 } }
}

pub(crate) fn released(id: u32, epoch: u64) -> Released {
    Released { holder: holder(id), epoch: Epoch(epoch) }
}

pub(crate) fn bid_of(id: u32, epoch: u64, request: u64) -> Msg {
    Msg::Bid { epoch: Epoch(epoch), request, holder: holder(id), after: None, no_child: true, list: list() }
}

/// The sender's writes are quick.
pub(crate) fn ready(epoch: u64) -> Msg {
    Msg::Ready { epoch: Epoch(epoch), write_time: Duration::ZERO }
}

pub(crate) fn bid(wanted: &Wanted<Reign>) -> Option<Bid> {
    wanted.sent().into_iter().find_map(|(_, message)| match message {
        Msg::Bid { epoch, request, no_child, .. } => Some(Bid { epoch, request, no_child }),
        _ => None,
    })
}

pub(crate) fn request_of_probe(wanted: &Wanted<Reign>) -> Option<u64> {
    wanted.sent().into_iter().find_map(|(_, message)| match message {
        Msg::Probe { request, .. } => Some(request),
        _ => None,
    })
}

/// Wants to lead, and member 2 would grant it: the bid that follows.
pub(crate) fn bids(one: &mut Bench<Reign>) -> Bid {
    let request = request_of_probe(&one.tell(ReignCommand::Want)).expect("it asks");
    bid(&one.get(2, Msg::ProbeOk { request })).expect("it bids")
}

pub(crate) fn grant(one: &mut Bench<Reign>, voters: &[u32], bid: Bid) -> Vec<member::reign::ReignEvent> {
    let (epoch, request, incarnation) = (bid.epoch, bid.request, one.machine.incarnation());
    let acks = voters
        .iter()
        .map(|&voter| one.get(voter, Msg::Ack { epoch, request, incarnation, locks: LockPast::default() }).announced());
    acks.flatten().collect()
}

/// Leads with the grants of both others.
pub(crate) fn leading(on_close: OnClose) -> Bench<Reign> {
    let mut one = settled(on_close);
    let bid = bids(&mut one);
    grant(&mut one, &[2, 3], bid);
    assert_eq!(one.machine.leads(), Some(bid.epoch));
    one
}

/// Leads with a child, and all voters know.
pub(crate) fn leading_with_a_child(on_close: OnClose) -> Bench<Reign> {
    let mut one = leading(on_close);
    let bid = bid(&one.tell(ReignCommand::Attached(true))).expect("they are told");
    assert!(!bid.no_child);
    grant(&mut one, &[2, 3], bid);
    one
}

pub(crate) fn lets_go(wanted: &Wanted<Reign>) -> bool {
    let lets_go =
        |effect: &Effect<Reign>| matches!(effect, Effect::Send { message: Msg::Release(_) | Msg::Handover(_), .. });
    wanted.place(lets_go).is_some()
}
