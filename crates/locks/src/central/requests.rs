//! What an attached client asks of the clerk.

use std::time::Duration;

use algorithms::{Outbox, Span};
use types::Token;

use super::clerk::{By, Desk, fits};
use super::messages::Place;
use super::notary::Answer;
use super::queues::Waiter;
use super::sessions::Claim;
use super::{Central, CentralTimer, Context, Office};
use crate::name::LockName;
use crate::service::{ServiceEvent, StreamId};
use crate::wire::{Mode, Refusal, RequestId, SendNumber, SessionId, Ticket, ToClerk, ToClient};

/// A longer wait counts as this one: no clock has room for every duration that a client can name.
const WAIT_MAX: Duration = Duration::from_hours(24 * 365);

/// A request for a lock, of an Acquire or of an Open.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) session: SessionId,
    pub(super) request: RequestId,
    pub(super) name: LockName,
    pub(super) mode: Mode,
    pub(super) wait: Option<Duration>,
    /// Of a request that waited at an earlier clerk.
    pub(super) before: Option<Before>,
    pub(super) number: SendNumber,
    /// Is the number answered by something else?
    pub(super) answered: bool,
}

/// What a request brings from an earlier clerk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) ticket: Option<Ticket>,
    pub(super) waited: Duration,
}

impl Central {
    /// `leased`: a message that was read after the lease ended is ignored. The next clerk may have ended the session by
    /// then, and the client asks it.
    pub(super) fn client(
        &mut self,
        ctx: &Context<'_>,
        from: StreamId,
        message: ToClerk,
        leased: bool,
        out: &mut impl Outbox<Self>,
    ) {
        let Some(&bound) = self.streams.get(&from) else { return };
        if !matches!(self.office, Office::Open(_)) {
            let message = self.greeting(ctx);
            return out.announce(ServiceEvent::Tell { to: from, message });
        }
        let Some(mut desk) = self.desk(ctx, out).filter(|_| leased) else { return };
        if let ToClerk::Open { .. } = message {
            return desk.open(from, bound, message);
        }
        // Before a stream opens a session to this clerk, whatever comes on it was meant for an earlier clerk.
        let Some(id) = bound else { return };
        let Some(session) = desk.clerk.sessions.get(id) else {
            return desk.out.announce(ServiceEvent::Tell { to: from, message: ToClient::SessionLost });
        };
        if session.stream() != Some(from) {
            // The session has another connection by now: nothing on an older one counts.
            return;
        }
        desk.attended(id, message);
    }

    pub(super) fn closed(&mut self, ctx: &Context<'_>, stream: StreamId, out: &mut impl Outbox<Self>) {
        let Some(Some(id)) = self.streams.remove(&stream) else { return };
        if let Some(mut desk) = self.desk(ctx, out) {
            desk.detach(id, stream);
        }
    }
}

impl<O: Outbox<Central>> Desk<'_, O> {
    /// The stream that the session uses is closed. That is silence: the session goes on until it expires, unless nothing
    /// but its connection can act for it.
    fn detach(&mut self, id: SessionId, stream: StreamId) {
        let Some(attached) = self.clerk.sessions.get_mut(id).and_then(|session| session.attached.as_mut()) else {
            return;
        };
        if attached.stream != Some(stream) {
            return;
        }
        attached.stream = None;
        if attached.bare && self.ctx.settings.close_ends_bare {
            self.end_session(id, By::Clerk);
        }
    }

    /// The session lives for its time to live from now on.
    pub(super) fn extend(&mut self, id: SessionId) {
        if let Some(session) = self.clerk.sessions.get(id) {
            self.out.set_timer(CentralTimer::Session(id), Span::exactly(session.ttl));
        }
    }

    fn attended(&mut self, id: SessionId, message: ToClerk) {
        match message {
            ToClerk::Open { .. } => {}
            ToClerk::KeepAlive { number } => {
                self.extend(id);
                self.tell(id, ToClient::Kept { number });
            }
            ToClerk::Acquire { number, request, name, mode, wait } => {
                self.extend(id);
                let session = self.clerk.sessions.get(id);
                let known = session.is_some_and(|session| session.requests().contains_key(&request));
                if !known && session.is_some_and(|session| session.has_named(request)) {
                    return self.refuse(id, request, Refusal::Withdrawn);
                }
                self.ask(&Ask { session: id, request, name, mode, wait, before: None, number, answered: false });
            }
            ToClerk::Withdraw { request } => {
                self.end_request(id, request, By::Client);
                self.refuse(id, request, Refusal::Withdrawn);
            }
            ToClerk::Release { request, token, durable } => self.release(id, (request, token), durable),
            ToClerk::Close => self.end_session(id, By::Client),
        }
    }

    fn release(&mut self, id: SessionId, (request, token): (RequestId, Token), durable: bool) {
        let claim = self.clerk.sessions.get(id).and_then(|session| session.requests().get(&request));
        let held = claim.is_some_and(|claim| claim.token == Some(token));
        if held {
            self.let_go(id, request, token);
            // The next holder hears of it first: this one waits for nothing but the answer.
            self.answer_noted();
        }
        if durable {
            // Also where it is not held: a note of that may not be acknowledged yet.
            let answer = Answer::Released { session: id, request };
            self.clerk.notary_mut().await_majority(self.copy.label.seq, answer);
        } else if held {
            self.tell(id, ToClient::Released { request });
        } else {
            self.refuse(id, request, Refusal::NotHeld);
        }
    }

    /// The client releases what it holds. If no other session wants the lock, this one may be the next to do so again.
    fn let_go(&mut self, id: SessionId, request: RequestId, token: Token) {
        let Some(session) = self.clerk.sessions.get(id) else { return };
        let Some(Claim { name, .. }) = session.requests().get(&request).cloned() else { return };
        let place = Place { name, token };
        let alone = self.copy.table.get(&place).is_some_and(|holder| holder.mode == Mode::Exclusive);
        self.end_request(id, request, By::Client);
        if alone {
            self.reserve(id, request, &place.name);
        }
    }

    /// A request of a session that lives and is attached.
    pub(super) fn ask(&mut self, ask: &Ask) {
        let &Ask { session: id, request, number, answered, .. } = ask;
        let Some(session) = self.clerk.sessions.get_mut(id) else { return };
        if let Some(claim) = session.requests().get(&request) {
            let (held, name) = (claim.token.is_some(), claim.name.clone());
            if name != ask.name {
                return;
            }
            // Asked for before: the answer may be lost.
            if held {
                let number = Some(number).filter(|_| !answered);
                let answer = Answer::Granted { session: id, request, number };
                self.clerk.notary_mut().await_majority(self.copy.label.seq, answer);
            } else {
                let at = self.clerk.queues.position(&name, id, request).unwrap_or(0);
                let waiter = self.clerk.queues.get(&name, at);
                let ticket = waiter.map_or(Ticket::default(), |waiter| waiter.ticket);
                let is_heir = waiter.is_some_and(|waiter| waiter.heir.is_some());
                if let Some(wait) = ask.wait.filter(|_| is_heir && ask.before.is_some()) {
                    // An heir of an earlier clerk: this one has not heard how long it waits.
                    self.time_out(id, request, wait);
                }
                self.tell(id, ToClient::Queued { number, request, ahead: at as u32, ticket });
            }
            return;
        }
        session.name(request);
        let expected = self.is_expected(ask);
        match self.refusal(ask) {
            Some(why) => {
                self.end_reservation_of(id);
                self.refuse(id, request, why);
            }
            None if expected => {
                self.count_in(&ask.name);
                self.hold_reserved(&ask.name, Some(number).filter(|_| !answered));
            }
            None => self.take_or_queue(ask),
        }
    }

    fn refusal(&self, Ask { session, name, mode, .. }: &Ask) -> Option<Refusal> {
        let limits = &self.ctx.settings.limits;
        let session = self.clerk.sessions.get(*session)?;
        let holder = self.copy.table.holders(name).map(|(_, holder)| holder.mode).next();
        let present = holder.or_else(|| self.clerk.queues.first(name).map(|waiter| waiter.mode));
        if *mode == Mode::Slots(0) {
            return Some(Refusal::NoSlots);
        }
        if session.wants(name) {
            return Some(Refusal::Again);
        }
        if let Some(other) = present.filter(|&present| !is_one_kind(present, *mode)) {
            return Some(Refusal::OtherMode(other));
        }
        if session.requests().len() >= limits.requests_per_session {
            return Some(Refusal::TooManyRequests);
        }
        if !self.has_room_for(name) {
            return Some(Refusal::TooManyNames);
        }
        let waits = self.clerk.queues.waiters() - self.clerk.queues.heirs();
        let all = (self.copy.table.len() - self.clerk.reserved.len()).saturating_add(waits);
        (all >= limits.requests).then_some(Refusal::TableFull)
    }

    fn take_or_queue(&mut self, ask: &Ask) {
        let &Ask { session, request, ref name, mode, wait, before, number, answered } = ask;
        // A waiter of an earlier clerk queues behind those that asked earlier and have not attached yet, also for a free lock.
        let queues_again = self.clerk.requeuing && before.is_some() && wait != Some(Duration::ZERO);
        let free = !queues_again && !self.clerk.queues.has(name) && fits(&self.copy.table, name, mode);
        if free && self.has_token() {
            self.count_in(name);
            return self.hold((session, request), name, mode, Some(number).filter(|_| !answered));
        }
        if wait == Some(Duration::ZERO) {
            return self.refuse(session, request, Refusal::Busy);
        }
        if self.clerk.queues.len(name) >= self.ctx.settings.limits.waiters {
            return self.refuse(session, request, Refusal::TooManyWaiters);
        }
        self.count_in(name);
        if let Some(session) = self.clerk.sessions.get_mut(session) {
            session.insert(request, Claim { name: name.clone(), token: None });
        }
        let (ticket, waited) = self.place(name, before);
        let waiter = Waiter { session, request, mode, ticket, waited, heir: None };
        let ahead = self.clerk.queues.join(name, waiter) as u32;
        if let Some(wait) = wait {
            self.time_out(session, request, wait);
        }
        self.tell(session, ToClient::Queued { number, request, ahead, ticket });
        if ahead == 0 {
            self.note_heir(name);
        }
    }

    fn time_out(&mut self, session: SessionId, request: RequestId, wait: Duration) {
        self.out.set_timer(CentralTimer::Wait(session, request), Span::exactly(wait.min(WAIT_MAX)));
    }

    /// Where a request queues. One that comes back from an earlier clerk without having heard of its ticket goes before all that
    /// come to this clerk first, if it comes in time.
    fn place(&mut self, name: &LockName, before: Option<Before>) -> (Ticket, Duration) {
        let (epoch, requeuing) = (self.clerk.epoch(), self.clerk.requeuing);
        if before.is_some() && requeuing {
            self.comes_back();
        }
        match before {
            Some(Before { ticket: Some(ticket), .. }) if ticket.epoch < epoch => (ticket, Duration::ZERO),
            Some(Before { waited, .. }) if requeuing => (Ticket { epoch, number: 0 }, waited),
            _ => (self.clerk.queues.next_ticket(name, epoch), Duration::ZERO),
        }
    }
}

/// Readers and writers may ask for one lock, and so may those who name the same number of slots.
fn is_one_kind(one: Mode, other: Mode) -> bool {
    let slots = |mode| if let Mode::Slots(slots) = mode { Some(slots) } else { None };
    slots(one) == slots(other)
}
