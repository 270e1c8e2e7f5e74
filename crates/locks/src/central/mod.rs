//! Locks that belong to a reign: the leader of a quorum reign is the clerk. It keeps the table of holders in memory, and so
//! does a majority of the voters; nothing is on disk.
//!
//! A lock is granted when a majority of the voters has noted it. A new leader takes office with the newest copy that a
//! majority has, so every lock that was granted is in its table; where too many copies were lost it waits until every
//! session must have expired. A session's right to act ends by the client's own clock before the clerk's timer for it
//! ends, so a lock is never given on while its holder may act. docs/locks.md has the rules.
//!
//! Parts, each the owner of its state:
//!
//! - [`table`]: who holds what. [`keeper`]: a voter's copy of it; `shadow`: a table that arrives in parts.
//! - [`taking`]: from the beginning of a reign to the first grant.
//! - [`clerk`]: the office: [`sessions`], [`queues`], tokens, and [`notary`], which counts what voters acknowledge.
//! - `requests` and `attach`: what clients ask of the clerk. `giving`: a lock is given, and given on to its heir. `reserved`: a
//!   released lock is kept ready for the session that had it.

mod attach;
mod clerk;
mod giving;
mod keeper;
mod messages;
mod notary;
mod queues;
mod requests;
mod reserved;
mod sessions;
mod shadow;
mod table;
mod taking;

use std::collections::BTreeMap;
use std::time::Duration;

use algorithms::{Ctx, Input, NodeId, Outbox, Protocol, Span};
use types::Epoch;

pub use clerk::Clerk;
pub use keeper::{Copy, Keeper};
pub use messages::{BATCH_MAX, CentralMsg, Chunk, Label, Note, Place, Term};
pub use notary::Notary;
pub use queues::{Heir, Queues, Waiter};
pub use reserved::{Reservation, Reservations};
pub use sessions::{Attached, Claim, Session, Sessions};
pub use table::{Entry, Holder, Table};
pub use taking::Taking;

use crate::service::{LockSettings, LockView, ServiceCommand, ServiceEvent, StreamId};
use crate::wire::{RequestId, SessionId, ToClient, Unavailable};
use crate::{LockName, service::HolderView};
use clerk::{By, Desk};
use taking::{Header, Next};

pub type Context<'a> = Ctx<'a, LockSettings>;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CentralTimer {
    /// Every session of an earlier clerk has expired.
    Office,
    /// Waiters of an earlier clerk have had time to queue again.
    Requeue,
    /// Notes have waited long enough for others to go with.
    Flush,
    /// The session expires.
    Session(SessionId),
    /// The request has waited as long as it may.
    Wait(SessionId, RequestId),
}

/// The lock service of one member.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Central {
    voters: Vec<NodeId>,
    leader: Option<NodeId>,
    /// Open streams, and the session that each opened last.
    streams: BTreeMap<StreamId, Option<SessionId>>,
    keeper: Keeper,
    office: Office,
    /// Reports for an office that has not begun: the leader's own announcement may wait for its disk.
    early: BTreeMap<NodeId, (Epoch, Header)>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Office {
    None,
    Taking(Taking),
    Open(Box<Clerk>),
}

impl Protocol for Central {
    type Link = NodeId;
    type Message = CentralMsg;
    type Timer = CentralTimer;
    type Command = ServiceCommand;
    type Event = ServiceEvent;
    type Durable = ();
    type Settings = LockSettings;

    fn start(_: &Context<'_>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
        Central {
            voters: Vec::new(),
            leader: None,
            streams: BTreeMap::new(),
            keeper: Keeper::default(),
            office: Office::None,
            early: BTreeMap::new(),
        }
    }

    fn step(&mut self, ctx: &Context<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Message { from, message } => self.message(ctx, from, message, out),
            Input::Timer(timer) => self.timer(ctx, timer, out),
            Input::PeerUp(peer) => self.keeper.peer_up(ctx, peer, out),
            Input::PeerDown(peer) => self.peer_down(ctx, peer, out),
            Input::Command(command) => self.command(ctx, command, out),
            Input::Stored(()) => {}
        }
        if let Some(mut desk) = self.desk(ctx, out) {
            desk.answer_noted();
        }
    }

    /// The end of the wait that the client is told of.
    fn lasts_until(event: &ServiceEvent) -> Option<CentralTimer> {
        match event {
            ServiceEvent::Tell {
                message: ToClient::Unavailable { why: Unavailable::WaitingForTtl { .. }, .. },
                ..
            } => Some(CentralTimer::Office),
            _ => None,
        }
    }
}

impl Central {
    /// Does the end of this turn send anything?
    pub fn owes(&self) -> bool {
        self.keeper.owes() || self.clerk().is_some_and(|clerk| clerk.notary().owes())
    }

    /// The office, if this member serves locks.
    pub fn clerk(&self) -> Option<&Clerk> {
        match &self.office {
            Office::Open(clerk) => Some(clerk),
            Office::None | Office::Taking(_) => None,
        }
    }

    /// This member leads and has not taken office.
    pub fn taking(&self) -> Option<&Taking> {
        match &self.office {
            Office::Taking(taking) => Some(taking),
            Office::None | Office::Open(_) => None,
        }
    }

    pub fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    pub fn voters(&self) -> &[NodeId] {
        &self.voters
    }

    /// The locks that are held or waited for, from this name on; `None` if this member is not the clerk.
    pub fn locks(&self, from: Option<&LockName>, most: usize) -> Option<Vec<LockView>> {
        let (clerk, copy) = (self.clerk()?, self.keeper.copy()?);
        let mut held = copy.table.names(from).filter(|name| !clerk.reserved().has(name)).peekable();
        let mut waited = clerk.queues().names_from(from).peekable();
        let merged = std::iter::from_fn(|| match (held.peek(), waited.peek()) {
            (Some(one), Some(other)) if one == other => {
                held.next();
                waited.next()
            }
            (Some(one), Some(other)) if one > other => waited.next(),
            (None, _) => waited.next(),
            (Some(_), _) => held.next(),
        });
        Some(merged.take(most).filter_map(|name| self.lock(name)).collect())
    }

    /// How many grants are held and how many requests wait; `None` if this member is not the clerk.
    pub fn totals(&self) -> Option<(usize, usize)> {
        let (entries, clerk) = (self.keeper.copy()?.table.len(), self.clerk()?);
        let (queues, reserved) = (clerk.queues(), clerk.reserved().len());
        Some((entries.saturating_sub(queues.heirs()).saturating_sub(reserved), queues.waiters()))
    }

    /// One lock; `None` if nobody holds it or waits for it, or this member is not the clerk.
    pub fn lock(&self, name: &LockName) -> Option<LockView> {
        let (clerk, copy) = (self.clerk()?, self.keeper.copy()?);
        if clerk.reserved().has(name) {
            return None;
        }
        let held = copy.table.holders(name);
        let view = |(token, holder): (_, &Holder)| HolderView { session: holder.session, token, ttl: holder.ttl };
        let mode = copy.table.holders(name).map(|(_, holder)| holder.mode).next();
        let mode = mode.or_else(|| clerk.queues().first(name).map(|waiter| waiter.mode))?;
        let waiters = clerk.queues().of(name).map(|waiter| waiter.session).collect();
        Some(LockView { name: name.clone(), mode, holders: held.map(view).collect(), waiters })
    }

    /// The open office with what it works on; `None` if this member is not the clerk.
    fn desk<'a, O: Outbox<Self>>(&'a mut self, ctx: &'a Context<'a>, out: &'a mut O) -> Option<Desk<'a, O>> {
        let (Office::Open(clerk), Some(copy)) = (&mut self.office, &mut self.keeper.copy) else { return None };
        let (voters, without_heirs) = (&self.voters, &self.keeper.without_heirs);
        Some(Desk { ctx, clerk, copy, voters, without_heirs, streams: &mut self.streams, out })
    }

    fn message(&mut self, ctx: &Context<'_>, from: NodeId, message: CentralMsg, out: &mut impl Outbox<Self>) {
        match message {
            CentralMsg::Report { epoch, life, copy } => self.reported(ctx, from, epoch, Header { life, copy }, out),
            CentralMsg::Fetched { epoch, label, chunk } => self.fetched(ctx, from, epoch, (label, chunk), out),
            CentralMsg::Pull { epoch, after } => {
                if let Some(desk) = self.desk(ctx, out).filter(|desk| desk.clerk.epoch() == epoch) {
                    desk.clerk.notary_mut().pulled(from, after);
                }
            }
            CentralMsg::Ack { epoch, seq } => {
                if let Some(desk) = self.desk(ctx, out).filter(|desk| desk.clerk.epoch() == epoch) {
                    let newest = desk.copy.label.seq;
                    desk.clerk.notary_mut().ack(from, seq, newest);
                }
            }
            CentralMsg::Fetch { term, life, label, after } => {
                self.keeper.fetch(ctx, from, (term, life, label, after), out);
            }
            CentralMsg::Install { term, seq, chunk } => self.keeper.install(ctx, from, (term, seq, chunk), out),
            CentralMsg::Adopt { term, label } => self.keeper.adopt(ctx, from, (term, label), out),
            CentralMsg::Notes { term, first, notes } => self.keeper.notes(ctx, from, (term, first, notes), out),
        }
    }

    fn timer(&mut self, ctx: &Context<'_>, timer: CentralTimer, out: &mut impl Outbox<Self>) {
        if timer == CentralTimer::Office {
            if matches!(self.office, Office::Taking(_)) {
                self.open(ctx, Some(Table::default()), None, out);
            }
            return;
        }
        let Some(mut desk) = self.desk(ctx, out) else { return };
        match timer {
            CentralTimer::Office => {}
            CentralTimer::Requeue => desk.end_requeuing(),
            CentralTimer::Flush => {
                desk.clerk.notary_mut().hurry();
                desk.turn_ends();
            }
            CentralTimer::Session(session) => desk.end_session(session, By::Clerk),
            CentralTimer::Wait(session, request) => desk.wait_ends(session, request),
        }
    }

    fn command(&mut self, ctx: &Context<'_>, command: ServiceCommand, out: &mut impl Outbox<Self>) {
        match command {
            ServiceCommand::OfficeBegan { epoch, first, wait } => self.begin(ctx, (epoch, first, wait), out),
            ServiceCommand::OfficeEnded => {
                self.leave(ctx, out);
                self.tell_all_unavailable(ctx, out);
            }
            ServiceCommand::Granted { epoch, to } => {
                if to.id != ctx.me.id && !matches!(self.office, Office::None) {
                    // The reign says so as well. While this member is the clerk, no other clerk touches its table.
                    self.leave(ctx, out);
                    self.tell_all_unavailable(ctx, out);
                }
                self.keeper.grant(ctx, epoch, to, out);
            }
            ServiceCommand::Voters(voters) => self.vote_changes(ctx, voters, out),
            ServiceCommand::Leader(leader) => self.leader = leader,
            ServiceCommand::KnowsHeirs { peer, knows } => self.meets(ctx, peer, knows, out),
            ServiceCommand::StreamOpened(stream) => {
                self.streams.entry(stream).or_insert(None);
                let message = self.greeting(ctx);
                out.announce(ServiceEvent::Tell { to: stream, message });
            }
            ServiceCommand::Message { from, message, leased } => self.client(ctx, from, message, leased, out),
            ServiceCommand::StreamClosed(stream) => self.closed(ctx, stream, out),
            ServiceCommand::Unlock { name, token } => {
                let done = self.desk(ctx, out).is_some_and(|mut desk| desk.unlock(&name, token));
                out.announce(ServiceEvent::Unlocked { name, token, done });
            }
            // The clerk asks for the lease with every message of a client.
            ServiceCommand::LeaseHolds => {}
            ServiceCommand::TurnEnds => {
                self.keeper.turn_ends(out);
                if let Some(mut desk) = self.desk(ctx, out) {
                    desk.turn_ends();
                }
            }
        }
    }

    fn meets(&mut self, ctx: &Context<'_>, peer: NodeId, knows_heirs: bool, out: &mut impl Outbox<Self>) {
        if knows_heirs {
            self.keeper.without_heirs.remove(&peer);
        } else if self.keeper.without_heirs.insert(peer)
            && let Some(mut desk) = self.desk(ctx, out)
        {
            desk.forget_heirs();
            desk.end_reservations();
        }
    }

    fn peer_down(&mut self, ctx: &Context<'_>, peer: NodeId, out: &mut impl Outbox<Self>) {
        self.keeper.peer_down(peer);
        self.early.remove(&peer);
        match &mut self.office {
            Office::None => {}
            Office::Taking(taking) => {
                taking.lose(peer);
                self.proceed(ctx, out);
            }
            Office::Open(clerk) => clerk.notary_mut().lose(peer),
        }
    }

    fn vote_changes(&mut self, ctx: &Context<'_>, mut voters: Vec<NodeId>, out: &mut impl Outbox<Self>) {
        voters.sort_unstable();
        voters.dedup();
        if voters == self.voters {
            return;
        }
        self.voters = voters;
        if let Some(mut desk) = self.desk(ctx, out) {
            desk.recount();
        }
        self.proceed(ctx, out);
    }

    /// What a client hears when its stream begins.
    fn greeting(&self, ctx: &Context<'_>) -> ToClient {
        let why = match &self.office {
            Office::Open(clerk) => return ToClient::Clerk { epoch: clerk.epoch() },
            Office::Taking(taking) => taking.why(ctx.me.id, &self.voters),
            Office::None => Unavailable::NotTheClerk { leader: self.leader.filter(|&leader| leader != ctx.me.id) },
        };
        ToClient::Unavailable { why, retry_after: ctx.settings.heartbeat }
    }

    fn tell_all_unavailable(&self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let message = self.greeting(ctx);
        for &to in self.streams.keys() {
            out.announce(ServiceEvent::Tell { to, message: message.clone() });
        }
    }
}

/// The office begins and ends.
impl Central {
    fn begin(&mut self, ctx: &Context<'_>, (epoch, first, wait): (Epoch, bool, Duration), out: &mut impl Outbox<Self>) {
        self.leave(ctx, out);
        if !self.keeper.takes_office(ctx, epoch) {
            return self.tell_all_unavailable(ctx, out);
        }
        // A member with a copy knows that an epoch was granted before.
        let first = first && self.keeper.copy.is_none();
        let mut taking = Taking::new(epoch, first, wait);
        for (from, (of, header)) in std::mem::take(&mut self.early) {
            if of == epoch {
                taking.report(from, header);
            } else if of > epoch {
                self.early.insert(from, (of, header));
            }
        }
        self.office = Office::Taking(taking);
        if first {
            return self.open(ctx, Some(Table::default()), None, out);
        }
        out.set_timer(CentralTimer::Office, Span::exactly(wait));
        self.tell_all_unavailable(ctx, out);
        self.proceed(ctx, out);
    }

    /// The office ends; the table stays as it is. No timer of the clerk fires any more: whether a session has expired is
    /// the next clerk's to say.
    fn leave(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        if let Some(mut desk) = self.desk(ctx, out) {
            desk.stop();
        }
        if matches!(self.office, Office::Taking(_)) {
            out.cancel_timer(CentralTimer::Office);
        }
        self.office = Office::None;
        self.streams.values_mut().for_each(|session| *session = None);
    }

    fn reported(&mut self, ctx: &Context<'_>, from: NodeId, epoch: Epoch, header: Header, out: &mut impl Outbox<Self>) {
        match &mut self.office {
            Office::Taking(taking) if taking.epoch == epoch => {
                taking.report(from, header);
                self.proceed(ctx, out);
            }
            Office::Open(clerk) if clerk.epoch() == epoch => {
                if let Some(mut desk) = self.desk(ctx, out) {
                    desk.reported(from, header.copy);
                }
            }
            Office::None | Office::Taking(_) | Office::Open(_) => {
                let may_begin = self.keeper.label().is_none_or(|label| label.epoch < epoch);
                let room = self.early.len() < taking::REPORTS_MAX || self.early.contains_key(&from);
                if may_begin && room {
                    self.early.insert(from, (epoch, header));
                }
            }
        }
    }

    fn fetched(
        &mut self,
        ctx: &Context<'_>,
        from: NodeId,
        epoch: Epoch,
        part: (Label, Chunk),
        out: &mut impl Outbox<Self>,
    ) {
        let Office::Taking(taking) = &mut self.office else { return };
        if taking.epoch == epoch {
            let next = taking.fetched(from, ctx.settings.incarnation, part, ctx.settings.limits.requests);
            self.follow(ctx, next, out);
            self.proceed(ctx, out);
        }
    }

    /// Another report, or one less: is that enough?
    fn proceed(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        if let Office::Taking(taking) = &mut self.office {
            let next = taking.next(ctx.me.id, ctx.settings.incarnation, &self.voters, self.keeper.copy());
            self.follow(ctx, next, out);
        }
    }

    fn follow(&mut self, ctx: &Context<'_>, next: Next, out: &mut impl Outbox<Self>) {
        match next {
            Next::Wait => {}
            Next::Send(to, message) => out.send(to, message),
            Next::Own => self.open(ctx, None, self.keeper.label(), out),
            Next::Table(table, label) => self.open(ctx, Some(table), Some(label), out),
        }
    }

    /// Serves from now on, with this table, or with the own copy.
    fn open(&mut self, ctx: &Context<'_>, table: Option<Table>, base: Option<Label>, out: &mut impl Outbox<Self>) {
        let Office::Taking(taking) = std::mem::replace(&mut self.office, Office::None) else { return };
        let label = Label { epoch: taking.epoch, seq: 0 };
        let own = |copy: Copy| copy.table;
        let table = table.or_else(|| self.keeper.copy.take().map(own)).unwrap_or_default();
        self.keeper.copy = Some(Copy { label, table });
        out.cancel_timer(CentralTimer::Office);
        let term = Term { epoch: taking.epoch, life: ctx.settings.incarnation };
        self.office = Office::Open(Box::new(Clerk::new(term, base)));
        if let Some(mut desk) = self.desk(ctx, out) {
            desk.open_for_business(taking);
        }
    }
}
