//! The open office: sessions, queues and tokens, and the operations that change the table.

use std::collections::{BTreeMap, BTreeSet};

use algorithms::{NodeId, Outbox, Span};
use types::{Epoch, Token};

use super::keeper::Copy;
use super::messages::{Label, Note, Place, Term};
use super::notary::{Answer, Notary};
use super::queues::{Heir, Queues, Waiter};
use super::reserved::Reservations;
use super::sessions::{Claim, Sessions};
use super::table::Table;
use super::taking::Taking;
use super::{Central, CentralTimer, Context};
use crate::name::LockName;
use crate::service::{LockSettings, ServiceEvent, StreamId};
use crate::wire::{Mode, Refusal, RequestId, SessionId, ToClient};

/// The time in which waiters of an earlier clerk come back has so many parts.
const REQUEUE_PARTS: u32 = 4;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Clerk {
    epoch: Epoch,
    pub(super) sessions: Sessions,
    pub(super) queues: Queues,
    pub(super) reserved: Reservations,
    notary: Notary,
    /// Names that are held or waited for.
    names: usize,
    /// The count in the last token.
    count: u32,
    /// The leader was asked to open its next epoch.
    used_up: bool,
    /// Waiters of an earlier clerk are coming back: a lock that has a queue is not given on yet.
    pub(super) requeuing: bool,
    /// One has come back since the timer for them was set.
    came_back: bool,
    /// How often that timer was set once more.
    prolonged: u32,
}

impl Clerk {
    pub(super) fn new(term: Term, base: Option<Label>) -> Self {
        Clerk {
            epoch: term.epoch,
            sessions: Sessions::default(),
            queues: Queues::default(),
            reserved: Reservations::default(),
            notary: Notary::new(term, base),
            names: 0,
            count: 0,
            used_up: false,
            requeuing: false,
            came_back: false,
            prolonged: 0,
        }
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    pub fn queues(&self) -> &Queues {
        &self.queues
    }

    pub fn reserved(&self) -> &Reservations {
        &self.reserved
    }

    pub fn notary(&self) -> &Notary {
        &self.notary
    }

    /// Names that are held or waited for.
    pub fn names(&self) -> usize {
        self.names
    }

    pub(super) fn notary_mut(&mut self) -> &mut Notary {
        &mut self.notary
    }

    pub(super) fn next_token(&mut self) -> Token {
        self.count += 1;
        Token::new(self.epoch, self.count)
    }
}

/// Who ends a claim on a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    /// Its own client, which never names it as held again but to learn that a majority has noted its end.
    Client,
    /// The clerk or an operator. The client may not know it, and would name the lock as held to a later clerk.
    Clerk,
}

/// The clerk at work: its state, the table, and what the step lends it.
pub(super) struct Desk<'a, O> {
    pub(super) ctx: &'a Context<'a>,
    pub(super) clerk: &'a mut Clerk,
    pub(super) copy: &'a mut Copy,
    pub(super) voters: &'a [NodeId],
    pub(super) without_heirs: &'a BTreeSet<NodeId>,
    pub(super) streams: &'a mut BTreeMap<StreamId, Option<SessionId>>,
    pub(super) out: &'a mut O,
}

/// The office as a whole.
impl<O: Outbox<Central>> Desk<'_, O> {
    /// Sessions in the table have their full time to live from now on. Every stream hears of the new clerk.
    pub(super) fn open_for_business(&mut self, taking: Taking) {
        let mut first: Option<(&LockName, Mode)> = None;
        let longest = taking.wait.max(self.ctx.settings.max_ttl);
        for (Place { name, token }, holder) in self.copy.table.iter() {
            let session = self.clerk.sessions.open(holder.session, holder.ttl.min(longest));
            let is_heir = first == Some((name, Mode::Exclusive));
            let claim = Claim { name: name.clone(), token: Some(*token).filter(|_| !is_heir) };
            session.take_over(holder.request, claim);
            if is_heir {
                self.clerk.queues.join(name, Waiter::taken_over(*token, holder));
            } else if first.is_none_or(|(known, _)| known != name) {
                self.clerk.names += 1;
                first = Some((name, holder.mode));
            }
        }
        for (id, session) in self.clerk.sessions.iter() {
            self.out.set_timer(CentralTimer::Session(id), Span::exactly(session.ttl));
        }
        if !taking.first {
            self.clerk.requeuing = true;
            let LockSettings { requeue_window, requeue_longer, .. } = *self.ctx.settings;
            let first =
                if requeue_longer == 0 { requeue_window } else { requeue_window / REQUEUE_PARTS * (REQUEUE_PARTS - 1) };
            self.out.set_timer(CentralTimer::Requeue, Span::exactly(first));
        }
        for (voter, header) in taking.into_reports() {
            self.reported(voter, header.copy);
        }
        let message = ToClient::Clerk { epoch: self.clerk.epoch };
        for &to in self.streams.keys() {
            self.out.announce(ServiceEvent::Tell { to, message: message.clone() });
        }
    }

    /// Every timer of the office stops.
    pub(super) fn stop(&mut self) {
        for timer in [CentralTimer::Requeue, CentralTimer::Flush] {
            self.out.cancel_timer(timer);
        }
        for (id, session) in self.clerk.sessions.iter() {
            self.out.cancel_timer(CentralTimer::Session(id));
            for (&request, _) in session.requests().iter().filter(|(_, claim)| claim.token.is_none()) {
                self.out.cancel_timer(CentralTimer::Wait(id, request));
            }
        }
        if self.clerk.notary.may_change() {
            self.out.announce(ServiceEvent::VotersMayChange(false));
        }
    }

    pub(super) fn reported(&mut self, voter: NodeId, copy: Option<Label>) {
        let (seq, notary) = (self.copy.label.seq, &mut self.clerk.notary);
        if self.without_heirs.contains(&voter) {
            // The notes that it lacks may have heirs in them.
            return notary.report(voter, copy.filter(|label| label.seq == seq), seq);
        }
        notary.report(voter, copy, seq);
        if let Some(message) = notary.adopts(voter, copy, seq) {
            self.out.send(voter, message);
        }
    }

    /// Other voters are in force.
    pub(super) fn recount(&mut self) {
        if self.clerk.notary.may_change() {
            self.out.announce(ServiceEvent::VotersMayChange(false));
        }
        self.clerk.notary.recount(self.copy.label.seq);
    }

    pub(super) fn turn_ends(&mut self) {
        if self.clerk.notary.owes() {
            let none = BTreeSet::new();
            let barred = if self.clerk.queues.heirs() > 0 { self.without_heirs } else { &none };
            self.clerk.notary.turn_ends(self.ctx, self.copy, (self.voters, barred), self.out);
            self.flush_later();
        }
    }

    /// Some voters do not have all notes: they get them when the timer fires.
    fn flush_later(&mut self) {
        if self.clerk.notary.start_waiting(self.copy.label.seq) {
            let LockSettings { heartbeat, spread, .. } = *self.ctx.settings;
            let wait = if spread.is_zero() { heartbeat } else { spread.min(heartbeat) };
            self.out.set_timer(CentralTimer::Flush, Span::exactly(wait));
        }
    }

    /// Gives the answers that a majority has noted by now.
    pub(super) fn answer_noted(&mut self) {
        let notary = &self.clerk.notary;
        if notary.may_change() && !notary.has_answer(self.ctx.me.id, self.voters) {
            return;
        }
        let committed = self.clerk.notary.committed(self.ctx.me.id, self.voters, self.copy.label.seq);
        while let Some(answer) = self.clerk.notary.next_answer(committed) {
            match answer {
                Answer::Granted { session, request, number } => {
                    let held = self.clerk.sessions.get(session).and_then(|session| session.requests().get(&request));
                    if let Some(token) = held.and_then(|claim| claim.token) {
                        self.tell(session, ToClient::Granted { number, request, token });
                    }
                }
                Answer::Released { session, request } => self.tell(session, ToClient::Released { request }),
            }
        }
        if self.clerk.notary.allows_change(committed) {
            self.out.announce(ServiceEvent::VotersMayChange(true));
        }
    }

    /// To the stream that the session uses now, if it has one.
    pub(super) fn tell(&mut self, session: SessionId, message: ToClient) {
        if let Some(to) = self.clerk.sessions.get(session).and_then(super::Session::stream) {
            self.out.announce(ServiceEvent::Tell { to, message });
        }
    }

    pub(super) fn refuse(&mut self, session: SessionId, request: RequestId, why: Refusal) {
        self.tell(session, ToClient::Refused { request, why });
    }
}

/// The table changes.
impl<O: Outbox<Central>> Desk<'_, O> {
    pub(super) fn note(&mut self, note: Note) {
        self.clerk.notary.note(self.ctx, self.copy, note);
        self.flush_later();
    }

    /// Is this lock held or waited for?
    pub(super) fn is_in_use(&self, name: &LockName) -> bool {
        self.clerk.queues.has(name) || (self.copy.table.is_held(name) && !self.clerk.reserved.has(name))
    }

    /// Room for one more name?
    pub(super) fn has_room_for(&self, name: &LockName) -> bool {
        self.clerk.names < self.ctx.settings.limits.names || self.is_in_use(name)
    }

    /// This name is about to be held or waited for.
    pub(super) fn count_in(&mut self, name: &LockName) {
        if !self.is_in_use(name) {
            self.clerk.names += 1;
        }
    }

    /// A holder or waiter of this name is gone.
    fn count_out(&mut self, name: &LockName) {
        if !self.is_in_use(name) {
            self.clerk.names -= 1;
        }
    }

    /// Is there a token for one more holder? If not, the leader is to open its next epoch, where clients ask again.
    pub(super) fn has_token(&mut self) -> bool {
        let has = self.clerk.count < self.ctx.settings.limits.tokens.min(Token::COUNT_MAX);
        if !has && !self.clerk.used_up {
            self.clerk.used_up = true;
            self.out.announce(ServiceEvent::NextEpoch);
        }
        has
    }

    /// The request holds nothing and waits for nothing from now on. The lock is given on by [`Desk::give_on`].
    pub(super) fn drop_claim(&mut self, session: SessionId, request: RequestId, claim: &Claim) {
        if let Some(token) = claim.token {
            self.note(Note::Remove { name: claim.name.clone(), token });
        } else {
            let waiter = self.clerk.queues.leave(&claim.name, session, request);
            self.out.cancel_timer(CentralTimer::Wait(session, request));
            if let Some(Heir { token, .. }) = waiter.and_then(|waiter| waiter.heir) {
                self.note(Note::Remove { name: claim.name.clone(), token });
            }
        }
        self.count_out(&claim.name);
    }

    /// Ends one request; returns what it was.
    pub(super) fn end_request(&mut self, session: SessionId, request: RequestId, by: By) -> Option<Claim> {
        let claim = self.clerk.sessions.get_mut(session)?.remove(request)?;
        self.drop_claim(session, request, &claim);
        self.give_on(&claim.name, by);
        Some(claim)
    }

    /// A request of an earlier clerk is here again.
    pub(super) fn comes_back(&mut self) {
        self.clerk.came_back = self.ctx.settings.requeue_longer > 0;
    }

    /// Waiters of the earlier clerk have had time to come back, but for the last part of it. While they come, there is one part
    /// more: a crowd needs longer than a few.
    pub(super) fn end_requeuing(&mut self) {
        let LockSettings { requeue_window, requeue_longer, .. } = *self.ctx.settings;
        let come = std::mem::take(&mut self.clerk.came_back) || self.clerk.prolonged == 0;
        if come && self.clerk.prolonged < requeue_longer {
            self.clerk.prolonged += 1;
            return self.out.set_timer(CentralTimer::Requeue, Span::exactly(requeue_window / REQUEUE_PARTS));
        }
        self.clerk.requeuing = false;
        let names: Vec<LockName> = self.clerk.queues.names().cloned().collect();
        for name in names {
            self.give_on(&name, By::Clerk);
        }
    }

    /// The session has expired or ended: all its locks are free, and its client is told.
    pub(super) fn end_session(&mut self, id: SessionId, by: By) {
        self.tell(id, ToClient::SessionLost);
        self.end_reservation_of(id);
        let Some(session) = self.clerk.sessions.remove(id) else { return };
        self.out.cancel_timer(CentralTimer::Session(id));
        for (&request, claim) in session.requests() {
            self.drop_claim(id, request, claim);
        }
        for claim in session.requests().values() {
            self.give_on(&claim.name, by);
        }
    }

    /// A request has waited as long as it may.
    pub(super) fn wait_ends(&mut self, session: SessionId, request: RequestId) {
        if self.end_request(session, request, By::Clerk).is_some() {
            self.refuse(session, request, Refusal::TimedOut);
        }
    }

    /// An operator takes the lock from the holder with this token. False if there is none: an heir holds nothing yet, and neither
    /// does the session that the lock is reserved for.
    pub(super) fn unlock(&mut self, name: &LockName, token: Token) -> bool {
        if self.clerk.reserved.has(name) {
            return false;
        }
        let holder = self.copy.table.holders(name).find(|(held, _)| *held == token).map(|(_, holder)| *holder);
        let Some(holder) = holder else { return false };
        self.end_request(holder.session, holder.request, By::Clerk);
        self.tell(holder.session, ToClient::Lost { request: holder.request });
        true
    }
}

/// Does one more holder of this mode fit beside the present ones?
pub(super) fn fits(table: &Table, name: &LockName, mode: Mode) -> bool {
    let mut holders = table.holders(name).map(|(_, holder)| holder.mode);
    match mode {
        Mode::Exclusive => holders.next().is_none(),
        // Either all holders read, or one writes.
        Mode::Shared => holders.next().is_none_or(|held| held == Mode::Shared),
        Mode::Slots(slots) => {
            let slots = slots as usize;
            holders.take(slots).filter(|&held| held == mode).count() < slots
        }
    }
}
