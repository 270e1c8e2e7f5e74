//! What clients ask of the member that they are connected to, and what they are told.

use std::time::Duration;

use algorithms::{Data, Mutex, Outbox, Span};
use types::{Epoch, Token};

use super::clients::{Claim, Session};
use super::locks::Waiter;
use super::messages::Full;
use super::{Context, Views, ViewsTimer};
use crate::name::LockName;
use crate::service::{ServiceEvent, StreamId};
use crate::wire::{
    AttachNumber, Held, Mode, OpenRefusal, Refusal, RequestId, SendNumber, SessionId, Ticket, ToClerk, ToClient,
    Unavailable, Wanted,
};

struct Opening {
    session: SessionId,
    number: SendNumber,
    epoch: Epoch,
    attach: AttachNumber,
    ttl: Duration,
    bare: bool,
    holds: Vec<Held>,
    wants: Vec<Wanted>,
}

/// A request for a lock.
struct Asking {
    request: RequestId,
    name: LockName,
    mode: Mode,
    wait: Option<Duration>,
    /// Of the Acquire, and the beat that covers it.
    unanswered: Option<(SendNumber, u64)>,
}

impl<M: Mutex> Views<M>
where
    M::Link: Data,
{
    /// The tenancy has begun: this member serves.
    pub(super) fn serve(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        self.serves = Some(self.seat.view.epoch);
        let streams: Vec<StreamId> = self.clients.streams().collect();
        for stream in streams {
            self.greet(ctx, stream, out);
        }
    }

    pub(super) fn greet(&self, ctx: &Context<'_>, to: StreamId, out: &mut impl Outbox<Self>) {
        let message = match self.serves {
            // A client that comes from another member has seen no later epoch than this, unless this member is behind.
            Some(_) => ToClient::Clerk { epoch: self.seat.view.epoch },
            None => ToClient::Unavailable { why: self.why_unavailable(ctx), retry_after: ctx.settings.beat },
        };
        out.announce(ServiceEvent::Tell { to, message });
    }

    /// The members that the next view waits for, as far as this member knows.
    fn why_unavailable(&self, ctx: &Context<'_>) -> Unavailable {
        let waits = self.office.as_ref().map_or(Vec::new(), super::office::Office::waits_for);
        match (waits, self.missing(ctx.me.id)) {
            (waits, _) if !waits.is_empty() => Unavailable::WaitsFor(waits),
            (_, missing) if !missing.is_empty() => Unavailable::WaitsFor(missing),
            _ => Unavailable::TakingOffice,
        }
    }

    /// The tenancy is over, and so is every right to act that was counted within it.
    pub(super) fn lapse(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        self.serves = None;
        let sessions: Vec<SessionId> = self.clients.sessions.keys().copied().collect();
        for id in sessions {
            self.session_ends(ctx, id, out);
        }
        let streams: Vec<StreamId> = self.clients.streams().collect();
        for stream in streams {
            self.greet(ctx, stream, out);
        }
    }

    /// Ends a session: what it holds is left, what it waits for is forgotten, and its client is told.
    pub(super) fn session_ends(&mut self, ctx: &Context<'_>, id: SessionId, out: &mut impl Outbox<Self>) {
        let Some(session) = self.clients.remove(id) else { return };
        out.cancel_timer(ViewsTimer::Session(id));
        if let Some(to) = session.stream {
            out.announce(ServiceEvent::Tell { to, message: ToClient::SessionLost });
        }
        for (request, claim) in session.claims {
            self.give_up(ctx, (id, request), &claim, out);
        }
    }

    /// A claim that was taken from its session is left or withdrawn.
    fn give_up(&mut self, ctx: &Context<'_>, of: (SessionId, RequestId), claim: &Claim, out: &mut impl Outbox<Self>) {
        out.cancel_timer(ViewsTimer::Wait(of.0, of.1));
        if let Some(lock) = self.locks.get_mut(&claim.name) {
            lock.leave(of.0, of.1);
        }
        if claim.token.is_some() {
            self.left(ctx, &claim.name, of, out);
        }
    }

    /// Tells the client of a session, now or when the beat is acknowledged.
    pub(super) fn tell(&mut self, session: SessionId, beat: u64, message: ToClient, out: &mut impl Outbox<Self>) {
        let Some(to) = self.clients.sessions.get(&session).and_then(|session| session.stream) else { return };
        if let Some(message) = self.clients.tell(to, beat, self.tenancy.acknowledged(), message) {
            out.announce(ServiceEvent::Tell { to, message });
        }
    }

    pub(super) fn answer_waiting(&mut self, out: &mut impl Outbox<Self>) {
        for (to, message) in self.clients.release(self.tenancy.acknowledged()) {
            out.announce(ServiceEvent::Tell { to, message });
        }
    }

    pub(super) fn stream_closed(&mut self, ctx: &Context<'_>, stream: StreamId, out: &mut impl Outbox<Self>) {
        let Some(id) = self.clients.close_stream(stream) else { return };
        let bare = self.clients.sessions.get(&id).is_some_and(|session| session.bare);
        if bare && ctx.settings.locks.close_ends_bare {
            self.session_ends(ctx, id, out);
        }
    }

    pub(super) fn client_message(
        &mut self,
        ctx: &Context<'_>,
        from: StreamId,
        message: ToClerk,
        out: &mut impl Outbox<Self>,
    ) {
        match message {
            ToClerk::Open { session, number, epoch, attach, ttl, bare, holds, wants } => {
                let told = self.serves.is_some_and(|since| (since..=self.seat.view.epoch).contains(&epoch));
                if told {
                    let opening = Opening { session, number, epoch, attach, ttl, bare, holds, wants };
                    self.open(ctx, from, opening, out);
                } else {
                    self.greet(ctx, from, out);
                }
            }
            other => match self.clients.session_of(from) {
                Some(session) => self.session_message(ctx, session, other, out),
                None => out.announce(ServiceEvent::Tell { to: from, message: ToClient::SessionLost }),
            },
        }
        self.beat_if_due(ctx, out);
    }

    fn session_message(&mut self, ctx: &Context<'_>, id: SessionId, message: ToClerk, out: &mut impl Outbox<Self>) {
        match message {
            ToClerk::Open { .. } => {}
            ToClerk::KeepAlive { number } => {
                let beat = self.extend(ctx, id, out);
                self.tell(id, beat, ToClient::Kept { number }, out);
            }
            ToClerk::Acquire { number, request, name, mode, wait } => {
                let beat = self.extend(ctx, id, out);
                let asking = Asking { request, name, mode, wait, unanswered: Some((number, beat)) };
                self.acquire(ctx, id, &asking, out);
            }
            ToClerk::Withdraw { request } => {
                self.drop_claim(ctx, id, request, out);
                self.tell(id, 0, ToClient::Refused { request, why: Refusal::Withdrawn }, out);
            }
            ToClerk::Release { request, token, .. } => self.release(ctx, id, request, token, out),
            ToClerk::Close => self.session_ends(ctx, id, out),
        }
    }

    /// A message that extends the session has arrived: its deadline moves. Returns the beat that covers its answer.
    fn extend(&mut self, ctx: &Context<'_>, id: SessionId, out: &mut impl Outbox<Self>) -> u64 {
        if let Some(session) = self.clients.sessions.get(&id) {
            out.set_timer(ViewsTimer::Session(id), Span::exactly(session.ttl));
        }
        if ctx.settings.quorum { self.tenancy.covers_now() } else { 0 }
    }

    fn open(&mut self, ctx: &Context<'_>, from: StreamId, opening: Opening, out: &mut impl Outbox<Self>) {
        let Opening { session: id, number, epoch, attach, bare, .. } = opening;
        let known = self.clients.sessions.get(&id);
        if known.is_some_and(|session| attach < session.attach) {
            return;
        }
        if known.is_none() {
            if let Err(why) = self.admit(ctx, opening.ttl) {
                return out.announce(ServiceEvent::Tell { to: from, message: ToClient::NotOpened { why } });
            }
            // A right to act may not be longer than the tenancy that covers it.
            self.clients.sessions.insert(id, Session::new(opening.ttl.min(ctx.settings.promise())));
        }
        let Some(session) = self.clients.sessions.get_mut(&id) else { return };
        (session.attach, session.bare) = (attach, bare);
        let ttl = session.ttl;
        self.clients.attach(from, id);
        let beat = self.extend(ctx, id, out);
        let lost = self.match_holds(id, &opening.holds);
        let (max_drift_ppm, margin) = (ctx.settings.locks.max_drift_ppm, ctx.settings.locks.margin);
        let opened = ToClient::Opened { number, epoch, attach, ttl, max_drift_ppm, margin, lost };
        self.tell(id, beat, opened, out);
        self.match_wants(ctx, id, &opening.holds, opening.wants, out);
    }

    fn admit(&self, ctx: &Context<'_>, ttl: Duration) -> Result<(), OpenRefusal> {
        let settings = &ctx.settings.locks;
        if ttl < settings.min_ttl {
            Err(OpenRefusal::TtlTooShort { min: settings.min_ttl })
        } else if ttl > settings.max_ttl {
            Err(OpenRefusal::TtlTooLong { max: settings.max_ttl })
        } else if self.clients.sessions.len() >= settings.limits.sessions {
            Err(OpenRefusal::TooManySessions)
        } else {
            Ok(())
        }
    }

    /// What the client believes to hold, and does not hold here.
    fn match_holds(&mut self, id: SessionId, holds: &[Held]) -> Vec<RequestId> {
        let Some(session) = self.clients.sessions.get(&id) else { return Vec::new() };
        let is_held = |held: &&Held| {
            session
                .claims
                .get(&held.request)
                .is_some_and(|claim| claim.token == Some(held.token) && claim.name == held.name)
        };
        holds.iter().filter(|held| !is_held(held)).map(|held| held.request).collect()
    }

    /// A grant that the client never saw is repeated; then what it neither holds nor wants is freed; then what it waits
    /// for queues.
    fn match_wants(
        &mut self,
        ctx: &Context<'_>,
        id: SessionId,
        holds: &[Held],
        wants: Vec<Wanted>,
        out: &mut impl Outbox<Self>,
    ) {
        let Some(session) = self.clients.sessions.get(&id) else { return };
        let claims: Vec<RequestId> = session.claims.keys().copied().collect();
        for request in claims {
            let wanted = wants.iter().any(|wanted| wanted.request == request);
            let held = holds.iter().any(|held| held.request == request);
            if !wanted && !held {
                self.drop_claim(ctx, id, request, out);
            }
        }
        for Wanted { request, name, mode, wait, .. } in wants {
            let claim = self.clients.sessions.get(&id).and_then(|session| session.claims.get(&request));
            match claim.map(|claim| claim.token) {
                Some(Some(token)) => self.tell(id, 0, ToClient::Granted { number: None, request, token }, out),
                Some(None) => {}
                None => self.acquire(ctx, id, &Asking { request, name, mode, wait, unanswered: None }, out),
            }
        }
    }

    fn acquire(&mut self, ctx: &Context<'_>, id: SessionId, asking: &Asking, out: &mut impl Outbox<Self>) {
        let Asking { request, ref name, wait, unanswered, .. } = *asking;
        let Some(session) = self.clients.sessions.get_mut(&id) else { return };
        if request <= session.newest {
            // Late, or repeated: it was answered, or will be.
            return;
        }
        session.newest = request;
        let beat = unanswered.map_or(0, |(_, beat)| beat);
        if let Err(why) = self.enqueue(ctx, id, asking) {
            return self.tell(id, beat, ToClient::Refused { request, why }, out);
        }
        let wait = if wait == Some(Duration::ZERO) { Some(ctx.settings.try_for) } else { wait };
        if let Some(wait) = wait {
            out.set_timer(ViewsTimer::Wait(id, request), Span::exactly(wait));
        }
        self.attend(ctx, name, out);
        let Some(lock) = self.locks.get_mut(name) else { return };
        let is_inside = usize::from(lock.inside.is_some());
        let at = lock.queue.iter().position(|waiter| (waiter.session, waiter.request) == (id, request));
        if let Some(at) = at
            && let Some((number, beat)) = lock.queue.get_mut(at).and_then(|waiter| waiter.unanswered.take())
        {
            let ahead = u32::try_from(at + is_inside).unwrap_or(u32::MAX);
            self.tell(id, beat, ToClient::Queued { number, request, ahead, ticket: Ticket::default() }, out);
        }
    }

    /// The request waits in front of the machine of this member, unless it is refused.
    fn enqueue(&mut self, ctx: &Context<'_>, id: SessionId, asking: &Asking) -> Result<(), Refusal> {
        let limits = ctx.settings.locks.limits;
        let Asking { request, ref name, mode, wait, unanswered } = *asking;
        let session = self.clients.sessions.get_mut(&id).ok_or(Refusal::NotHeld)?;
        match mode {
            Mode::Exclusive => {}
            Mode::Shared if M::shares(ctx.settings.machine) => {}
            Mode::Shared | Mode::Slots(_) => return Err(Refusal::ModeUnsupported),
        }
        if session.claims_name(name) {
            return Err(Refusal::Again);
        }
        if session.claims.len() >= limits.requests_per_session {
            return Err(Refusal::TooManyRequests);
        }
        let Some(lock) = self.locks.entry(name, limits.names) else {
            self.full = Some(Full::Names);
            return Err(Refusal::TooManyNames);
        };
        if lock.queue.len() >= limits.waiters {
            return Err(Refusal::TooManyWaiters);
        }
        if wait == Some(Duration::ZERO) && (lock.inside.is_some() || !lock.queue.is_empty()) {
            return Err(Refusal::Busy);
        }
        lock.queue.push_back(Waiter { session: id, request, mode, is_try: wait == Some(Duration::ZERO), unanswered });
        session.claims.insert(request, Claim { name: name.clone(), token: None });
        Ok(())
    }

    fn drop_claim(&mut self, ctx: &Context<'_>, id: SessionId, request: RequestId, out: &mut impl Outbox<Self>) {
        let Some(session) = self.clients.sessions.get_mut(&id) else { return };
        session.newest = session.newest.max(request);
        if let Some(claim) = session.claims.remove(&request) {
            self.give_up(ctx, (id, request), &claim, out);
        }
    }

    fn release(
        &mut self,
        ctx: &Context<'_>,
        id: SessionId,
        request: RequestId,
        token: Token,
        out: &mut impl Outbox<Self>,
    ) {
        let Some(session) = self.clients.sessions.get(&id) else { return };
        if session.claims.get(&request).is_none_or(|claim| claim.token != Some(token)) {
            return self.tell(id, 0, ToClient::Refused { request, why: Refusal::NotHeld }, out);
        }
        self.drop_claim(ctx, id, request, out);
        self.tell(id, 0, ToClient::Released { request }, out);
    }

    /// A request has waited for as long as its client said.
    pub(super) fn waited(&mut self, ctx: &Context<'_>, id: SessionId, request: RequestId, out: &mut impl Outbox<Self>) {
        let Some(session) = self.clients.sessions.get(&id) else { return };
        let Some(claim) = session.claims.get(&request).filter(|claim| claim.token.is_none()) else { return };
        let is_try = self.locks.get(&claim.name).is_some_and(|lock| lock.tries(id, request));
        let why = if is_try { Refusal::Busy } else { Refusal::TimedOut };
        self.drop_claim(ctx, id, request, out);
        self.tell(id, 0, ToClient::Refused { request, why }, out);
    }

    /// An operator takes a lock from a client of this member.
    pub(super) fn unlock(&mut self, ctx: &Context<'_>, name: &LockName, token: Token, out: &mut impl Outbox<Self>) {
        let inside = self.locks.get(name).and_then(|lock| lock.inside.as_ref());
        let done = inside.is_some_and(|inside| inside.token == token);
        if done {
            self.lose(ctx, name, out);
        }
        out.announce(ServiceEvent::Unlocked { name: name.clone(), token, done });
    }
}
