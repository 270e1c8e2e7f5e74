//! The mutual exclusions of the papers, live. Their machines assume that no member fails; a *view* (epoch, number,
//! participants) is to them what a round is to an election: inside a view nothing fails, and when something does there is
//! a new view with new machines, begun under the locks that are held.
//!
//! - **Tenancy** ([`tenancy`]): clients of a member act while its tenancy lasts, which the leader renews with every beat
//!   that it acknowledges. A member that the leader has not acknowledged for a tenancy has no client that acts.
//! - **New view** ([`office`], [`seat`]): the leader sends Freeze to the participants of the next view, each stops its machines
//!   and says what its clients hold; when all have answered the leader sends Thaw.
//! - **Machines** ([`locks`]): one for each lock that is in use. Clients of a member queue in front of it.
//! - **Clients** ([`clients`]): sessions at the member that they are connected to, every member serves.
//!
//! Under classic safety there is no tenancy, because no leader can promise anything: there is one view of all members,
//! and while one of them is missing no client enters.
//!
//! **Why two clients are never inside together.** Inside a view the machine sees to that. A view begins with the sections of
//! all its participants. A member outside the view has been silent for a tenancy as the leader counts it, from its last
//! acknowledged beat or from the beginning of the office; the tenancy that the member counted on began earlier and was
//! shorter, and the rights of its clients began earlier still. A restarted member takes part only a tenancy after its
//! start, so clients of the process before it act no more.

pub mod clients;
mod freezing;
mod leading;
pub mod locks;
mod machines;
pub mod messages;
pub mod office;
pub mod seat;
mod serving;
mod settings;
pub mod tenancy;

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};

use algorithms::{Ctx, Data, Input, Mutex, Outbox, Protocol, Span, View};
use types::{Epoch, NodeId};

use crate::name::LockName;
use crate::service::{HolderView, LockView, ServiceCommand, ServiceEvent};
use crate::wire::{Mode, RequestId, SessionId};
use clients::Clients;
use locks::Locks;
use messages::{Full, ViewsMsg};
use office::Office;
use seat::{Phase, Seat};
use tenancy::{Tenancy, Turn};

pub use settings::ViewsSettings;

pub type Context<'a> = Ctx<'a, ViewsSettings>;
pub type Msg<M> = ViewsMsg<<M as Protocol>::Link, <M as Protocol>::Message>;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ViewsTimer<T> {
    /// Ends the tenancy, or makes a beat worthless.
    Tenancy(Turn),
    /// The process has run for a tenancy.
    Settle,
    /// At the leader: this member was not acknowledged for a tenancy.
    Silence(NodeId),
    /// At the leader: participants have been apart for too long.
    Apart,
    Beat,
    /// The ttl of a session.
    Session(SessionId),
    /// A request has waited long enough.
    Wait(SessionId, RequestId),
    /// Of the machine of a lock.
    Machine(u32, T),
}

/// The lock service of one member, for an algorithm whose machine is `M`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Views<M: Mutex> {
    /// The members of the list in force.
    list: BTreeSet<NodeId>,
    /// The members that this member has a connection to.
    up: BTreeSet<NodeId>,
    /// The member that leads as far as this member knows.
    leader: Option<NodeId>,
    /// The process has run for a tenancy: clients of the process before it act no more.
    settled: bool,
    /// This member leads.
    office: Option<Office>,
    seat: Seat<Msg<M>>,
    /// The participants of the view, as the machines see them.
    view: View,
    tenancy: Tenancy,
    /// It serves clients, since this epoch.
    serves: Option<Epoch>,
    full: Option<Full>,
    clients: Clients,
    locks: Locks<M>,
    /// Messages to itself. Empty between two steps.
    loopback: VecDeque<Msg<M>>,
}

impl<M: Mutex> Protocol for Views<M>
where
    M::Link: Data,
{
    type Link = NodeId;
    type Message = Msg<M>;
    type Timer = ViewsTimer<M::Timer>;
    type Command = ServiceCommand;
    type Event = ServiceEvent;
    type Durable = ();
    type Settings = ViewsSettings;

    fn start(ctx: &Context<'_>, _: Option<()>, out: &mut impl Outbox<Self>) -> Self {
        out.set_timer(ViewsTimer::Settle, Span::exactly(ctx.settings.tenancy));
        out.set_timer(ViewsTimer::Beat, Span::exactly(ctx.settings.beat));
        Views {
            list: ctx.view.members().iter().map(|member| member.id).collect(),
            up: BTreeSet::new(),
            leader: None,
            settled: false,
            office: None,
            seat: Seat::default(),
            view: View::mesh(Vec::new()),
            tenancy: Tenancy::default(),
            serves: None,
            full: None,
            clients: Clients::default(),
            locks: Locks::default(),
            loopback: VecDeque::new(),
        }
    }

    fn step(&mut self, ctx: &Context<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Message { from, message } if from != ctx.me.id && self.list.contains(&from) => {
                self.message(ctx, from, message, out);
            }
            Input::Timer(timer) => self.fired(ctx, timer, out),
            Input::PeerUp(peer) => {
                self.up.insert(peer);
            }
            Input::PeerDown(peer) => {
                self.up.remove(&peer);
                self.seat.broken |= self.seat.phase != Phase::Out && self.seat.set.contains(&peer);
            }
            Input::Command(command) => self.command(ctx, command, out),
            Input::Message { .. } | Input::Stored(()) => {}
        }
        while let Some(message) = self.loopback.pop_front() {
            self.message(ctx, ctx.me.id, message, out);
        }
    }
}

impl<M: Mutex> Views<M>
where
    M::Link: Data,
{
    fn message(&mut self, ctx: &Context<'_>, from: NodeId, message: Msg<M>, out: &mut impl Outbox<Self>) {
        match message {
            ViewsMsg::Knock { apart } => self.knock(ctx, from, &apart, out),
            ViewsMsg::Beat { view, number, condition } => self.beat_of(ctx, from, view, number, &condition, out),
            ViewsMsg::BeatAck { view, number } => self.acknowledged(ctx, from, view, number, out),
            ViewsMsg::Freeze { view, set, fresh } => self.freeze(ctx, from, view, set, fresh, out),
            ViewsMsg::Frozen { view, part, held, last } => self.frozen(ctx, from, view, (part, held, last), out),
            ViewsMsg::Thaw { view, part, holders, last } => self.thaw(ctx, from, view, (part, holders, last), out),
            in_view @ (ViewsMsg::InView { .. } | ViewsMsg::Wake { .. } | ViewsMsg::Left { .. }) => {
                self.in_view(ctx, from, in_view, out);
            }
        }
    }

    fn fired(&mut self, ctx: &Context<'_>, timer: ViewsTimer<M::Timer>, out: &mut impl Outbox<Self>) {
        match timer {
            ViewsTimer::Tenancy(turn) => self.tenancy_fired(ctx, turn, out),
            ViewsTimer::Settle => self.settled = true,
            ViewsTimer::Silence(member) => self.silent(ctx, member, out),
            ViewsTimer::Apart => self.stayed_apart(ctx),
            ViewsTimer::Beat => {
                out.set_timer(ViewsTimer::Beat, Span::exactly(ctx.settings.beat));
                self.freeze_again(ctx, out);
                self.beat(ctx, out);
            }
            ViewsTimer::Session(id) => self.session_ends(ctx, id, out),
            ViewsTimer::Wait(session, request) => self.waited(ctx, session, request, out),
            ViewsTimer::Machine(number, timer) => self.machine_timer(ctx, number, timer, out),
        }
    }

    fn command(&mut self, ctx: &Context<'_>, command: ServiceCommand, out: &mut impl Outbox<Self>) {
        match command {
            ServiceCommand::OfficeBegan { epoch, first, .. } => self.office_began(ctx, epoch, first, out),
            ServiceCommand::OfficeEnded => self.office_ended(out),
            ServiceCommand::LeaseHolds => self.lease_holds(ctx, out),
            ServiceCommand::Voters(voters) => self.voters(ctx, &voters),
            ServiceCommand::Leader(leader) => self.leader = leader,
            ServiceCommand::StreamOpened(stream) => {
                self.clients.open_stream(stream);
                self.greet(ctx, stream, out);
            }
            ServiceCommand::StreamClosed(stream) => self.stream_closed(ctx, stream, out),
            ServiceCommand::Message { from, message, .. } => self.client_message(ctx, from, message, out),
            ServiceCommand::Unlock { name, token } => self.unlock(ctx, &name, token, out),
            ServiceCommand::Granted { .. } | ServiceCommand::KnowsHeirs { .. } | ServiceCommand::TurnEnds => {}
        }
    }

    /// Sends to a member, itself included.
    fn say(&mut self, ctx: &Context<'_>, to: NodeId, message: Msg<M>, out: &mut impl Outbox<Self>) {
        if to == ctx.me.id {
            self.loopback.push_back(message);
        } else {
            out.send(to, message);
        }
    }

    /// The other members of the list that it has no connection to.
    pub fn missing(&self, me: NodeId) -> Vec<NodeId> {
        self.list.iter().copied().filter(|&id| id != me && !self.up.contains(&id)).collect()
    }

    /// The epoch since which it serves clients; they are told the present one. `None`: it serves none.
    pub fn serves(&self) -> Option<Epoch> {
        self.serves
    }

    pub fn seat(&self) -> &Seat<Msg<M>> {
        &self.seat
    }

    pub fn office(&self) -> Option<&Office> {
        self.office.as_ref()
    }

    pub fn is_settled(&self) -> bool {
        self.settled
    }

    pub fn locks_here(&self) -> &Locks<M> {
        &self.locks
    }

    /// Does the service wait for a reading of the clock ([`ServiceCommand::LeaseHolds`])?
    pub fn owes(&self) -> bool {
        self.office.as_ref().is_some_and(Office::owes)
    }

    /// The locks that clients of this member hold or wait for, from this name on.
    pub fn table(&self, from: Option<&LockName>, most: usize) -> Vec<LockView> {
        let in_use = self.locks.iter().filter(|(_, lock)| lock.inside.is_some() || !lock.queue.is_empty());
        let wanted = in_use.filter(|(name, _)| from.is_none_or(|from| *name >= from));
        wanted.take(most).map(|(name, lock)| self.row(name, lock)).collect()
    }

    fn row(&self, name: &LockName, lock: &locks::Lock<M>) -> LockView {
        let holder = |&(session, _): &(SessionId, RequestId), token| HolderView {
            session,
            token,
            ttl: self.clients.sessions.get(&session).map_or(std::time::Duration::ZERO, |session| session.ttl),
        };
        let inside = lock.inside.as_ref();
        LockView {
            name: name.clone(),
            mode: inside
                .map(|inside| inside.mode)
                .or(lock.queue.front().map(|waiter| waiter.mode))
                .unwrap_or(Mode::Exclusive),
            holders: inside
                .map_or(Vec::new(), |inside| inside.holders.iter().map(|of| holder(of, inside.token)).collect()),
            waiters: lock.queue.iter().map(|waiter| waiter.session).collect(),
        }
    }
}
