//! Maekawa 1985: a √N algorithm for mutual exclusion in decentralized systems, with the repair of Sanders 1987.
//!
//! Model: a full mesh of reliable FIFO links, no failure, all members known in the same order.
//!
//! The members stand in a grid, row by row, about √N wide. The quorum of a member is its own row and its own column:
//! any two quorums have a member in common. Every member has one vote. A member that wants to enter sends REQUEST with
//! its timestamp to its quorum and enters when all of it voted LOCKED; at its exit it sends RELEASE. A voter that has
//! given its vote away queues further requests by timestamp.
//!
//! Two members could hold half of the votes each and wait for ever. So a voter that gets a request earlier than the one
//! it voted for sends INQUIRE to the member that has its vote. That member gives the vote back with RELINQUISH if it
//! knows that it will not get all votes now, because a voter sent it FAILED or it has given back another vote; it
//! remembers the INQUIRE until it knows, or until it enters. A voter sends FAILED to every request that is not the
//! earliest it knows of. The original paper does not send it to a waiting request that a still earlier one overtakes,
//! and can deadlock: Sanders adds that.
//!
//! Messages per entry, K members in the quorum, the voter itself among them without messages: 3(K-1) where no other
//! member wants to enter, and at most 6(K-1) + 3. Every request causes at a voter either one FAILED, or one INQUIRE,
//! one RELINQUISH and one more LOCKED. A member enters one round trip after it asked where no other wants to, and 2
//! messages (RELEASE, LOCKED) after the present holder leaves.
//!
//! Pitfalls. Everything but REQUEST names the request that it is about: INQUIRE may arrive after the section is over. A
//! vote that was given back counts as FAILED. Priority goes by timestamp, but a request that happened before another
//! one need not enter first: the later one may have all its votes before the earlier one arrives anywhere.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::clock::{Clock, Stamp};
use super::{Mutex, MutexSettings, Post, Section, Stage, Want, learn, next};
use crate::protocol::{Ctx, Input, Outbox, Protocol};
use crate::view::View;
use types::{NodeId, Token};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Maekawa {
    clock: Clock,
    stage: Stage,
    /// The timestamp of the own request.
    asked: Stamp,
    /// The members that voted for it.
    votes: BTreeSet<NodeId>,
    /// The members that will not vote for it now: FAILED, or the vote was given back.
    failed: BTreeSet<NodeId>,
    /// The members whose INQUIRE is not answered yet.
    inquiries: BTreeSet<NodeId>,
    voter: Voter,
    /// The largest token that it knows of.
    known: Token,
}

/// The one vote of this member.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Voter {
    given_to: Option<Stamp>,
    waiting: BTreeSet<Stamp>,
    /// INQUIRE was sent for the vote that is given away.
    inquired: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    Request {
        time: u64,
    },
    /// `of`: the time of the request that the message is about.
    Locked {
        of: u64,
        time: u64,
        token: Token,
    },
    Failed {
        of: u64,
    },
    Inquire {
        of: u64,
    },
    Relinquish {
        of: u64,
    },
    Release {
        of: u64,
        token: Token,
    },
}

kinds!(Msg {
    Request: mutex("request"),
    Locked: mutex("locked"),
    Release: mutex("release"),
    Failed: mutex("failed"),
    Inquire: mutex("inquire"),
    Relinquish: mutex("relinquish"),
});

/// The width of the grid: the smallest w with w² >= n.
fn width(n: usize) -> usize {
    (1..=n).find(|w| w * w >= n).unwrap_or(1)
}

/// Are the members at these positions in each other's quorums? The last row may be short: of any two members outside a
/// common row, the row of the one reaches the column of the other.
fn in_one_quorum(n: usize, a: usize, b: usize) -> bool {
    let width = width(n);
    a / width == b / width || a % width == b % width
}

/// How many members the quorum of the member at `at` has, itself included.
pub fn quorum_size(n: usize, at: usize) -> usize {
    (0..n).filter(|&peer| in_one_quorum(n, at, peer)).count()
}

/// The quorum of a member, itself included.
fn quorum(view: &View, me: NodeId) -> impl Iterator<Item = NodeId> + '_ {
    let at = view.position(me).unwrap_or(0);
    let members = view.members().iter().enumerate();
    members.filter(move |&(peer, _)| in_one_quorum(view.len(), at, peer)).map(|(_, member)| member.id)
}

impl Protocol for Maekawa {
    type Link = NodeId;
    type Message = Msg;
    type Timer = ();
    type Command = Want;
    type Event = Section;
    type Durable = ();
    type Settings = MutexSettings;

    /// A holder has the votes of its quorum, for a request of time 0.
    fn start(ctx: &Ctx<'_, MutexSettings>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
        let holder = ctx.settings.holder.filter(|&holder| quorum(ctx.view, holder).any(|id| id == ctx.me.id));
        Maekawa {
            clock: Clock::new(ctx.settings.clock),
            stage: Stage::at_start(ctx.me.id, ctx.settings),
            asked: Stamp { time: 0, id: ctx.me.id },
            votes: BTreeSet::new(),
            failed: BTreeSet::new(),
            inquiries: BTreeSet::new(),
            voter: Voter {
                given_to: holder.map(|id| Stamp { time: 0, id }),
                waiting: BTreeSet::new(),
                inquired: false,
            },
            known: ctx.settings.floor,
        }
    }

    fn step(&mut self, ctx: &Ctx<'_, MutexSettings>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        let mut post = Post { me: ctx.me.id, own: VecDeque::new(), out };
        match input {
            Input::Command(Want::Request(_)) if self.stage == Stage::Released => self.ask(ctx, &mut post),
            Input::Command(Want::Exit) if self.stage == Stage::Held => self.exit(ctx, &mut post),
            Input::Message { from, message } if ctx.view.contains(from) => {
                self.message(ctx, from, message, &mut post);
            }
            _ => {}
        }
        while let Some(message) = post.own.pop_front() {
            self.message(ctx, ctx.me.id, message, &mut post);
        }
    }
}

impl Mutex for Maekawa {
    fn stage(&self) -> Stage {
        self.stage
    }

    fn clock(&self) -> Option<u64> {
        Some(self.clock.time())
    }

    fn stamp(&self) -> Option<Stamp> {
        (self.stage != Stage::Released).then_some(self.asked)
    }

    fn heard(&mut self, time: u64) {
        self.clock.receive(time);
    }
}

impl Maekawa {
    fn ask(&mut self, ctx: &Ctx<'_, MutexSettings>, post: &mut Post<'_, Self, impl Outbox<Self>>) {
        self.stage = Stage::Wanted;
        self.asked.time = self.clock.tick();
        for voter in quorum(ctx.view, ctx.me.id) {
            post.send(voter, Msg::Request { time: self.asked.time });
        }
    }

    fn exit(&mut self, ctx: &Ctx<'_, MutexSettings>, post: &mut Post<'_, Self, impl Outbox<Self>>) {
        self.stage = Stage::Released;
        for voter in quorum(ctx.view, ctx.me.id) {
            post.send(voter, Msg::Release { of: self.asked.time, token: self.known });
        }
    }

    fn message(
        &mut self,
        ctx: &Ctx<'_, MutexSettings>,
        from: NodeId,
        message: Msg,
        post: &mut Post<'_, Self, impl Outbox<Self>>,
    ) {
        match message {
            Msg::Request { time } => {
                if from != ctx.me.id {
                    self.clock.receive(time);
                }
                self.requested(Stamp { time, id: from }, post);
            }
            Msg::Relinquish { of } => self.given_back(Stamp { time: of, id: from }, true, post),
            Msg::Release { of, token } => {
                learn(&mut self.known, token);
                self.given_back(Stamp { time: of, id: from }, false, post);
            }
            Msg::Locked { of, time, token } => {
                learn(&mut self.known, token);
                if from != ctx.me.id {
                    self.clock.receive(time);
                }
                if self.waits_for(of) {
                    self.failed.remove(&from);
                    self.votes.insert(from);
                    self.enter_if_all_voted(ctx, post);
                }
            }
            Msg::Failed { of } => {
                if self.waits_for(of) {
                    self.failed.insert(from);
                    self.answer_inquiries(post);
                }
            }
            Msg::Inquire { of } => {
                if self.waits_for(of) {
                    self.inquiries.insert(from);
                    self.answer_inquiries(post);
                }
            }
        }
    }

    fn waits_for(&self, of: u64) -> bool {
        self.stage == Stage::Wanted && of == self.asked.time
    }

    fn enter_if_all_voted(&mut self, ctx: &Ctx<'_, MutexSettings>, post: &mut Post<'_, Self, impl Outbox<Self>>) {
        if quorum(ctx.view, ctx.me.id).all(|voter| self.votes.contains(&voter)) {
            self.votes.clear();
            self.failed.clear();
            self.inquiries.clear();
            self.stage = Stage::Held;
            post.out.announce(Section::Enter(next(&mut self.known)));
        }
    }

    /// Gives votes back that were inquired, once it is known that not all votes will come.
    fn answer_inquiries(&mut self, post: &mut Post<'_, Self, impl Outbox<Self>>) {
        if self.failed.is_empty() {
            return;
        }
        for voter in std::mem::take(&mut self.inquiries) {
            if self.votes.remove(&voter) {
                self.failed.insert(voter);
                post.send(voter, Msg::Relinquish { of: self.asked.time });
            }
        }
    }

    /// As voter: a request arrives.
    fn requested(&mut self, theirs: Stamp, post: &mut Post<'_, Self, impl Outbox<Self>>) {
        let Some(given_to) = self.voter.given_to else { return self.vote_for(theirs, post) };
        let earliest = self.voter.waiting.first().copied();
        // A member has one open request: a hostile one cannot fill the queue.
        self.voter.waiting.retain(|waiting| waiting.id != theirs.id);
        self.voter.waiting.insert(theirs);
        if given_to < theirs || earliest.is_some_and(|earliest| earliest < theirs) {
            post.send(theirs.id, Msg::Failed { of: theirs.time });
            return;
        }
        if let Some(overtaken) = earliest.filter(|&earliest| earliest < given_to && earliest.id != theirs.id) {
            post.send(overtaken.id, Msg::Failed { of: overtaken.time });
        }
        if !self.voter.inquired {
            self.voter.inquired = true;
            post.send(given_to.id, Msg::Inquire { of: given_to.time });
        }
    }

    /// As voter: the vote comes back, and its former owner waits again or not.
    fn given_back(&mut self, theirs: Stamp, waits: bool, post: &mut Post<'_, Self, impl Outbox<Self>>) {
        if self.voter.given_to != Some(theirs) {
            return;
        }
        self.voter.given_to = None;
        if waits {
            self.voter.waiting.insert(theirs);
        }
        if let Some(earliest) = self.voter.waiting.pop_first() {
            self.vote_for(earliest, post);
        }
    }

    fn vote_for(&mut self, theirs: Stamp, post: &mut Post<'_, Self, impl Outbox<Self>>) {
        self.voter.given_to = Some(theirs);
        self.voter.inquired = false;
        post.send(theirs.id, Msg::Locked { of: theirs.time, time: self.clock.time(), token: self.known });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_two_quorums_have_a_member_in_common_and_are_small() {
        for n in 1..=40 {
            for a in 0..n {
                assert!(quorum_size(n, a) < 2 * width(n));
                for b in 0..n {
                    let common = (0..n).filter(|&c| in_one_quorum(n, a, c) && in_one_quorum(n, b, c)).count();
                    assert!(common > 0, "{a} and {b} of {n}");
                }
            }
        }
    }
}
