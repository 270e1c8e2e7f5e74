//! Election by mutual exclusion: the member in the critical section leads.
//!
//! Model: that of the mutual exclusion, here Ricart and Agrawala 1981: a full mesh, reliable links, no failure inside
//! an election, all members known.
//!
//! A candidate asks for the lock. The member that gets it leads, says so to all others with LEADER, and never exits. No
//! second member can enter, so there is one leader. The two problems differ in three ways: members that lose do not
//! wait for the lock but follow; all members learn the result; and fairness is of no use.
//!
//! Messages with c candidates of n members: c(n-1) REQUEST; the k-th request in the order of timestamps gets n-k REPLY,
//! because the k-1 candidates before it never answer; n-1 LEADER. So 2(n-1) for one candidate, and 3n(n-1)/2 where all
//! are.
//!
//! The first candidate wins, not the best: the order is that of timestamps, and between equal times that of ids. A
//! better member that wants to lead starts an election of its own, in which it is the only candidate. A dead member
//! never replies: the election then waits until the next one begins without it.

use std::fmt::Debug;
use std::hash::Hash;

use serde::{Deserialize, Serialize};

use crate::mutex::{Mutex, MutexSettings, Section, Want, kinds_with};
use crate::protocol::{Campaign, Ctx, Election, Input, Kind, Message, Outbox, Outcome, Protocol, Span};
use crate::settings::Settings;
use types::NodeId;

/// A mutual exclusion of a mesh as an election.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ByLock<M> {
    lock: M,
    decided: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg<M> {
    Lock(M),
    Leader,
}

impl<M: Message> Msg<M> {
    const ALL: &'static [Kind; 16] = &kinds_with(M::KINDS, &[Kind::announcement("leader")]);
}

impl<M: Message> Message for Msg<M> {
    const KINDS: &'static [Kind] = Self::ALL.split_at(M::KINDS.len() + 1).0;

    fn kind(&self) -> usize {
        match self {
            Msg::Lock(message) => message.kind(),
            Msg::Leader => M::KINDS.len(),
        }
    }
}

/// Passes on what the lock does, and keeps whether it let this member enter.
struct Through<'a, O> {
    out: &'a mut O,
    entered: bool,
}

impl<M, O> Outbox<M> for Through<'_, O>
where
    M: Mutex + Protocol<Link = NodeId>,
    O: Outbox<ByLock<M>>,
{
    fn send(&mut self, to: NodeId, message: M::Message) {
        self.out.send(to, Msg::Lock(message));
    }
    fn forward(&mut self, to: NodeId, message: M::Message) {
        self.out.forward(to, Msg::Lock(message));
    }
    fn set_timer(&mut self, timer: M::Timer, after: Span) {
        self.out.set_timer(timer, after);
    }
    fn cancel_timer(&mut self, timer: M::Timer) {
        self.out.cancel_timer(timer);
    }
    fn persist(&mut self, (): ()) {}
    fn store(&mut self, (): ()) {}
    fn announce(&mut self, Section::Enter(_): Section) {
        self.entered = true;
    }
}

impl<M: Mutex + Protocol<Link = NodeId>> Protocol for ByLock<M> {
    type Link = NodeId;
    type Message = Msg<M::Message>;
    type Timer = M::Timer;
    type Command = Campaign;
    type Event = Outcome;
    type Durable = ();
    type Settings = Settings;

    fn start(ctx: &Ctx<'_>, _: Option<()>, out: &mut impl Outbox<Self>) -> Self {
        let settings = MutexSettings::default();
        let lock = M::start(&within(ctx, &settings), None, &mut Through { out, entered: false });
        ByLock { lock, decided: false }
    }

    fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Campaign) if self.decided => {}
            Input::Command(Campaign) => self.lock(ctx, Input::Command(Want::ENTER), out),
            Input::Message { from, message: Msg::Lock(message) } => {
                self.lock(ctx, Input::Message { from, message }, out);
            }
            Input::Message { from, message: Msg::Leader } => {
                let Some(leader) = ctx.view.uid(from) else { return };
                if !self.decided && leader != ctx.me {
                    self.decided = true;
                    out.announce(Outcome::Follow(Some(leader)));
                }
            }
            Input::Timer(timer) => self.lock(ctx, Input::Timer(timer), out),
            Input::PeerUp(_) | Input::PeerDown(_) | Input::Stored(()) => {}
        }
    }
}

impl<M: Mutex + Protocol<Link = NodeId>> Election for ByLock<M> {}

impl<M: Mutex + Protocol<Link = NodeId>> ByLock<M> {
    fn lock(&mut self, ctx: &Ctx<'_>, input: Input<M>, out: &mut impl Outbox<Self>) {
        let settings = MutexSettings::default();
        let mut through = Through { out, entered: false };
        self.lock.step(&within(ctx, &settings), input, &mut through);
        if through.entered && !self.decided {
            self.decided = true;
            out.announce(Outcome::Won);
            for peer in ctx.view.others(ctx.me.id) {
                out.send(peer.id, Msg::Leader);
            }
        }
    }
}

fn within<'a>(ctx: &Ctx<'a>, settings: &'a MutexSettings) -> Ctx<'a, MutexSettings> {
    Ctx { me: ctx.me, view: ctx.view, settings, dice: ctx.dice }
}
