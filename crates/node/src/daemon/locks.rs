//! The lock service inside the event loop: streams of clients' sessions, facts of the election, answers to operators.

use std::time::Duration;

use algorithms::NodeId;
use bytes::{BufMut, BytesMut};
use client::{FailCode, HolderStatus, LockPage, LockStatus, Reply, Request, Response};
use locks::LockName;
use locks::service::{HolderView, LockView, ServiceCommand, ServiceEvent, StreamId};
use locks::wire::{SessionId, ToClerk, ToClient, Unavailable};
use member::Role;
use transport::{Net, codec};
use types::{Epoch, InstanceId, Token, since_boot};

use super::acquire_times::AcquireTimes;
use super::grant_times::GrantTimes;
use super::lock_streams::LockStreams;
use super::{Daemon, failed};
use crate::lock_machine::{LockMachine, LockSink};
use crate::publisher::Subscription;
use crate::visible_state::ProcessState;

/// Locks in one answer.
const PAGE_LOCKS: usize = 256;
/// A client of a cluster that never grants locks is told to ask again so late.
const NEVER: Duration = Duration::from_mins(1);
/// Where many clients speak at once, the notes of so many turns go to the voters together.
const TURNS_TOGETHER: u32 = 8;

/// The lock machine of this process and what clients wait for.
pub(super) struct LockService {
    /// `None`: the cluster's safety is not enough for its lock algorithm, and nothing is ever granted.
    machine: Option<Box<dyn LockMachine>>,
    streams: LockStreams,
    /// Facts of the election, in the order of its effects.
    news: Vec<ServiceCommand>,
    /// Operators who wait for the end of a lock.
    unlocking: Vec<Unlocking>,
    granted: GrantTimes,
    acquired: AcquireTimes,
    voters_may_change: bool,
    /// Without a quorum no reign begins an office: every leadership does.
    classic: bool,
    /// When the present office of this member began, since boot.
    office: Option<Duration>,
    /// Turns since the last notes went to the voters.
    turns: u32,
    buffer: BytesMut,
}

struct Unlocking {
    asked: Subscription,
    name: LockName,
    token: Token,
}

impl LockService {
    pub(super) fn new(machine: Option<Box<dyn LockMachine>>, voters: Vec<NodeId>, classic: bool) -> Self {
        LockService {
            classic,
            voters_may_change: machine.is_none(),
            machine,
            streams: LockStreams::default(),
            news: vec![ServiceCommand::Voters(voters)],
            unlocking: Vec::new(),
            granted: GrantTimes::default(),
            acquired: AcquireTimes::new(),
            office: None,
            turns: 0,
            buffer: BytesMut::new(),
        }
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.machine.as_ref()?.deadline()
    }

    pub(super) fn news(&mut self) -> &mut Vec<ServiceCommand> {
        &mut self.news
    }

    pub(super) fn peer(&mut self, peer: NodeId, up: bool) {
        if let Some(machine) = &mut self.machine {
            machine.peer(peer, up);
        }
    }

    /// A connection is new.
    pub(super) fn meets(&mut self, peer: NodeId, knows_heirs: bool) {
        if let Some(machine) = &mut self.machine {
            machine.command(ServiceCommand::KnowsHeirs { peer, knows: knows_heirs });
        }
    }

    pub(super) fn frame(&mut self, from: NodeId, payload: &[u8]) -> bool {
        self.machine.as_mut().is_some_and(|machine| machine.frame(from, payload))
    }

    /// Does this cluster grant locks?
    pub(super) fn has_machine(&self) -> bool {
        self.machine.is_some()
    }

    /// `leads`: does the lease still run? Once it has ended, so has the office, before any other input: the next clerk may have
    /// confirmed what this one is about to give on.
    pub(super) fn tick(&mut self, now: Duration, leads: bool) {
        self.end_office(leads);
        if let Some(machine) = &mut self.machine {
            machine.tick(now);
        }
    }

    fn end_office(&mut self, leads: bool) {
        if !leads
            && self.office.take().is_some()
            && let Some(machine) = &mut self.machine
        {
            machine.command(ServiceCommand::OfficeEnded);
        }
    }

    /// Do notes wait for what clients have sent and was not read yet?
    pub(super) fn holds_notes(&self) -> bool {
        self.turns > 0
    }

    pub(super) fn has(&self, client: transport::ClientId) -> bool {
        self.streams.has(client)
    }

    /// How many locks are held and how many requests wait, where this member knows that.
    pub(super) fn totals(&self) -> Option<(usize, usize)> {
        self.machine.as_ref()?.totals()
    }

    pub(super) fn acquired(&self) -> &AcquireTimes {
        &self.acquired
    }

    pub(super) fn voters_may_change(&self) -> bool {
        self.voters_may_change
    }

    pub(super) fn gone(&mut self, client: transport::ClientId, leads: bool) {
        for stream in self.streams.close_all(client) {
            self.command(ServiceCommand::StreamClosed(stream), leads);
        }
        self.unlocking.retain(|waits| waits.asked.client != client);
    }

    pub(super) fn end_stream(&mut self, call: Subscription, leads: bool) {
        if let Some(stream) = self.streams.close(call) {
            self.command(ServiceCommand::StreamClosed(stream), leads);
        }
    }

    fn command(&mut self, command: ServiceCommand, leads: bool) {
        self.end_office(leads);
        if let Some(machine) = &mut self.machine {
            machine.command(command);
        }
    }
}

/// Lent to the machine while its effects are carried out.
struct Sink<'a> {
    net: &'a mut Net,
    process: &'a ProcessState,
    streams: &'a LockStreams,
    granted: &'a mut GrantTimes,
    acquired: &'a mut AcquireTimes,
    voters_may_change: &'a mut bool,
    frame: &'a mut BytesMut,
    buffer: &'a mut BytesMut,
    now: Duration,
    next_epoch: bool,
    /// Orders of operators that were decided, and whether the lock was held.
    unlocked: Vec<(LockName, Token, bool)>,
}

impl LockSink for Sink<'_> {
    fn send(&mut self, to: NodeId, payload: &[u8]) {
        self.frame.clear();
        self.frame.put_u16(InstanceId::LOCKS.0);
        self.frame.put_slice(payload);
        if self.net.send(to.0, self.frame) {
            self.process.sent(to);
        }
    }

    fn event(&mut self, event: ServiceEvent, until: Option<Duration>) {
        match event {
            ServiceEvent::Tell { to, message } => self.tell(to, with_time_left(message, until, self.now)),
            ServiceEvent::Unlocked { name, token, done } => self.unlocked.push((name, token, done)),
            ServiceEvent::NextEpoch => self.next_epoch = true,
            ServiceEvent::VotersMayChange(may) => *self.voters_may_change = may,
        }
    }
}

impl Sink<'_> {
    fn tell(&mut self, to: StreamId, message: ToClient) {
        // The client may have left in this turn.
        let Some(Subscription { client, call }) = self.streams.call(to) else { return };
        if let ToClient::Granted { token, request, .. } = &message {
            self.granted.granted(*token, self.now);
            self.acquired.granted(to, *request, self.now);
        }
        self.buffer.clear();
        match codec::encode(&Reply { to: call, response: Response::Lock(message) }, self.buffer) {
            Ok(()) => _ = self.net.reply_promptly(client, self.buffer),
            Err(error) => tracing::error!(%error, "a message to a lock session cannot be encoded"),
        }
    }
}

impl Daemon {
    /// The facts of this turn, due timers, the end of the turn, and the effects of all of it. True if the election has more to
    /// do. `now`: read from the clock after all messages of this turn were read: acknowledgements need a lease that still holds
    /// then.
    pub(super) fn carry_out_locks(&mut self, now: Duration) -> bool {
        if !self.locks.has_machine() {
            self.locks.news.clear();
            return false;
        }
        let leads = self.leads_at(now);
        self.locks.tick(now, leads);
        let LockService {
            machine,
            streams,
            news,
            granted,
            acquired,
            voters_may_change,
            classic,
            office,
            turns,
            buffer,
            ..
        } = &mut self.locks;
        let Some(machine) = machine else { return false };
        // A new leader announces the list in force behind its leadership; the office begins with that list.
        news.sort_by_key(|fact| !matches!(fact, ServiceCommand::Voters(_)));
        if *classic && leads && news.iter().any(|fact| matches!(fact, ServiceCommand::Leader(_))) {
            let election = self.instances.get(&InstanceId::ELECTION);
            let epoch = election.map_or(Epoch(0), |running| running.shown.standing().epoch);
            news.push(ServiceCommand::OfficeBegan { epoch, first: false, wait: Duration::ZERO });
        }
        for fact in news.drain(..) {
            match fact {
                ServiceCommand::OfficeBegan { .. } => *office = Some(now),
                ServiceCommand::OfficeEnded => *office = None,
                _ => {}
            }
            machine.command(fact);
        }
        if leads && machine.owes() {
            machine.command(ServiceCommand::LeaseHolds);
        }
        *turns += 1;
        let more = leads && !machine.serves_everywhere() && self.net.has_more_of_clients();
        if !more || *turns >= TURNS_TOGETHER {
            *turns = 0;
            machine.end_turn();
        }
        let mut sink = Sink {
            net: &mut self.net,
            process: &self.process,
            streams,
            granted,
            acquired,
            voters_may_change,
            frame: &mut self.frame,
            buffer,
            now,
            next_epoch: false,
            unlocked: Vec::new(),
        };
        machine.carry_out(now, &mut sink);
        let Sink { next_epoch, unlocked, .. } = sink;
        for (name, token, done) in unlocked {
            self.unlocked(&name, token, done);
        }
        if next_epoch && let Some(running) = self.instances.get_mut(&InstanceId::ELECTION) {
            running.machine.command(member::Command::Elect);
        }
        next_epoch
    }

    /// `None`: the stream answers.
    pub(super) fn lock_session(&mut self, asked: Subscription) -> Option<Response> {
        let Some(stream) = self.locks.streams.open(asked) else { return Some(super::calls::too_many_streams()) };
        if self.locks.machine.is_none() {
            let message = ToClient::Unavailable { why: Unavailable::ClassicSafety, retry_after: NEVER };
            return Some(Response::Lock(message));
        }
        let leads = self.leads_now();
        self.locks.command(ServiceCommand::StreamOpened(stream), leads);
        None
    }

    /// `now`: read from the clock after the message was read: a process that was paused must not answer from the lease that it
    /// had before. `None`: the stream answers.
    pub(super) fn lock_message(&mut self, call: Subscription, mut message: ToClerk, now: Duration) -> Option<Response> {
        let Some(from) = self.locks.streams.number(call) else {
            let why = "this call is no stream of a lock session: open one first".to_owned();
            return Some(failed(FailCode::BadRequest, why));
        };
        let leased = self.leads_at(now);
        if let ToClerk::Acquire { request, .. } = &message {
            self.locks.acquired.asked(from, *request, now);
        }
        rebase(&mut message, now.saturating_sub(self.locks.office.unwrap_or_default()));
        self.locks.command(ServiceCommand::Message { from, message, leased }, leased);
        None
    }

    /// Does this member lead, compared with the clock?
    pub(super) fn leads_now(&self) -> bool {
        self.leads_at(since_boot())
    }

    /// `now`: read from the clock after the message or the fact was there that the answer is about.
    pub(super) fn leads_at(&self, now: Duration) -> bool {
        let election = self.instances.get(&InstanceId::ELECTION);
        election.is_some_and(|running| running.shown.standing_at(now).role == Role::Leader)
    }

    /// An answer of a member that is not the clerk names the leader.
    fn not_the_clerk(&self) -> Option<Response> {
        if self.locks.machine.is_none() {
            let why = "this cluster grants no locks: its config has safety = \"classic\", and its lock algorithm needs \
                       safety = \"quorum\"";
            return Some(failed(FailCode::BadRequest, why.into()));
        }
        if self.locks.machine.as_ref().is_some_and(|machine| machine.serves_everywhere()) {
            return None;
        }
        let standing = self.instances.get(&InstanceId::ELECTION)?.shown.standing();
        match standing.leader {
            _ if standing.role == Role::Leader => None,
            Some(leader) => {
                let why = format!("member {leader} leads and knows the locks, not {}", self.id);
                Some(failed(FailCode::NoLeader, why))
            }
            None => Some(failed(FailCode::NoLeader, "no member leads, so no locks are granted".into())),
        }
    }

    pub(super) fn lock_page(&mut self, only: Option<&LockName>, after: Option<&LockName>) -> Response {
        if let Some(response) = self.not_the_clerk() {
            return response;
        }
        let Some(machine) = &self.locks.machine else { return Response::Locks(LockPage::default()) };
        let views = match only {
            Some(name) => Some(machine.lock(name).into_iter().collect()),
            // The page before ended with this name.
            None => machine.locks(after, PAGE_LOCKS + 2),
        };
        let Some(mut views) = views else {
            let why = "the leader is taking over the locks of the leader before it: ask again".to_owned();
            return failed(FailCode::NoLeader, why);
        };
        views.retain(|view| after.is_none_or(|after| view.name != *after));
        let more = views.len() > PAGE_LOCKS;
        views.truncate(PAGE_LOCKS);
        let election = self.instances.get(&InstanceId::ELECTION);
        let epoch = election.map_or(0, |running| running.shown.standing().epoch.0);
        let (now, granted) = (since_boot(), &self.locks.granted);
        let left = |session| Some(machine.expires(session)?.saturating_sub(now));
        let locks = views.into_iter().map(|view| status(view, now, granted, left)).collect();
        Response::Locks(LockPage { epoch, locks, more })
    }

    /// `None`: the answer comes when the machine has decided.
    pub(super) fn unlock(&mut self, asked: Subscription, name: &str, token: Token) -> Option<Response> {
        let name = match LockName::new(name) {
            Ok(name) => name,
            Err(error) => return Some(failed(FailCode::BadRequest, error.to_string())),
        };
        if let Some(response) = self.not_the_clerk() {
            return Some(response);
        }
        self.locks.unlocking.push(Unlocking { asked, name: name.clone(), token });
        let leads = self.leads_now();
        self.locks.command(ServiceCommand::Unlock { name, token }, leads);
        None
    }

    fn unlocked(&mut self, name: &LockName, token: Token, done: bool) {
        let is_it = |waits: &Unlocking| waits.name == *name && waits.token == token;
        let Some(at) = self.locks.unlocking.iter().position(is_it) else { return };
        let Unlocking { asked, .. } = self.locks.unlocking.remove(at);
        let response = if done {
            self.record(asked.client, InstanceId::LOCKS, &Request::Unlock { name: name.to_string(), token });
            Response::Done
        } else {
            failed(FailCode::Failed, format!("no holder has the lock {:?} with the token {token}", name.as_str()))
        };
        super::reply(&mut self.net, asked, response);
    }
}

fn status(
    view: LockView,
    now: Duration,
    granted: &GrantTimes,
    left: impl Fn(SessionId) -> Option<Duration>,
) -> LockStatus {
    let millis = |time: Duration| time.as_millis() as u64;
    let holder = |HolderView { session, token, ttl }| HolderStatus {
        session,
        token,
        ttl_ms: millis(ttl),
        left_ms: left(session).map(millis),
        held_ms: granted.of(token).map(|since| millis(now.saturating_sub(since))),
    };
    LockStatus {
        name: view.name,
        mode: view.mode,
        holders: view.holders.into_iter().map(holder).collect(),
        waiters: view.waiters,
    }
}

/// Waiters of an earlier clerk queue again in the order in which they first asked. They tell how long ago that was when they
/// attach, each at another moment; the machine, which has no clock, gets how long before its office began that was.
fn rebase(message: &mut ToClerk, since_office: Duration) {
    if let ToClerk::Open { wants, .. } = message {
        for wanted in wants {
            wanted.waited = wanted.waited.saturating_sub(since_office);
        }
    }
}

/// A machine has no clock: the driver knows when its wait ends.
fn with_time_left(message: ToClient, until: Option<Duration>, now: Duration) -> ToClient {
    match (message, until) {
        (ToClient::Unavailable { why: Unavailable::WaitingForTtl { .. }, retry_after }, Some(until)) => {
            let left = until.saturating_sub(now);
            ToClient::Unavailable { why: Unavailable::WaitingForTtl { left }, retry_after }
        }
        (message, _) => message,
    }
}
