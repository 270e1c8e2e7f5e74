//! One whole member fed by hand, and what it says to the others.

use algorithms::{Election, Epoch, Uid};
use member::reign::ReignTimer;
use member::{
    Attempt, Authority, Beat, BeliefRecord, Cause, Claim, Envelope, Event, FullPos, Incarnation, Member, News, NodeSet,
    Quorum, QuorumRecord, Record, Role, Round, Settings, Timer,
};

use crate::bench::{Bench, Wanted};
use crate::reigns::fresh_vote;

pub(crate) type One<E, A> = Bench<Member<E, A>>;
type Said<E, A> = Wanted<Member<E, A>>;

/// What a member without a leader says.
pub(crate) fn beat() -> Beat {
    let news = News { next_attempt_min: Attempt(0), leader: None, firsthand: false };
    Beat { news, stands: true, ask: false, incarnation: 1, setbacks: 0, priority: 0, mode: None, hold: None }
}

pub(crate) fn beat_of(leader: u32, epoch: u64) -> Beat {
    let leader = Some(Claim { epoch: Epoch(epoch), uid: Uid::plain(leader) });
    Beat { news: News { leader, firsthand: true, ..beat().news }, ..beat() }
}

/// The peer is connected and has said that it knows no leader.
pub(crate) fn meet<E: Election, A: Authority>(one: &mut One<E, A>, peer: u32) -> Said<E, A> {
    one.up(peer);
    one.get(peer, Envelope::Beat(beat()))
}

/// A settled member of a cluster that has never had a leader.
pub(crate) fn settled<E: Election>(me: u32, view: algorithms::View, settings: Settings) -> One<E, Quorum> {
    let incarnation = Incarnation { counter: 1, nonce: 1 };
    let belief = BeliefRecord { incarnation, ..BeliefRecord::default() };
    let authority = QuorumRecord { belief, vote: Some(fresh_vote()), cluster: None };
    let (mut one, _) = Bench::start(me, view, settings, Some(Record { authority, algorithm: None, mode: None }));
    one.fire(Timer::Authority(ReignTimer::Settle));
    one
}

pub(crate) fn set(positions: &[usize]) -> NodeSet {
    positions.iter().copied().map(FullPos).collect()
}

/// The messages of the algorithm that were sent: to which member, in which round, between which members.
pub(crate) fn in_rounds<E: Election, A: Authority>(said: &Said<E, A>) -> Vec<(u32, Round, NodeSet, E::Message)> {
    let sent = said.sent().into_iter().filter_map(|(to, envelope)| match envelope {
        Envelope::Round { round, participants, message, .. } => Some((to, round, participants, message)),
        _ => None,
    });
    sent.collect()
}

/// The participants of the round that was opened.
pub(crate) fn participants<E: Election, A: Authority>(said: &Said<E, A>) -> Option<NodeSet> {
    in_rounds(said).last().map(|&(_, _, participants, _)| participants)
}

pub(crate) fn beats<E: Election, A: Authority>(said: &Said<E, A>) -> Vec<(u32, Beat)> {
    let sent = said.sent().into_iter().filter_map(|(to, envelope)| match envelope {
        Envelope::Beat(beat) => Some((to, beat)),
        _ => None,
    });
    sent.collect()
}

/// The role and the cause of the last change that was announced.
pub(crate) fn became<E: Election, A: Authority>(said: &Said<E, A>) -> Option<(Role, Cause)> {
    said.announced().into_iter().rev().find_map(|event| match event {
        Event::Became { now, cause } => Some((now.role, cause)),
        _ => None,
    })
}
