//! A lock is given, and given on.
//!
//! The first in the line for a lock that another session holds alone is noted as its **heir** in advance. When the client of
//! the holder has let go, the heir is granted the lock at once: a majority knows it already, so every later clerk has it in its
//! table. Such a clerk may have the former holder in its table as well, because its removal was not noted by a majority. It
//! gives the lock to no third session before it knows more: an heir that holds the lock says so when it attaches, and a holder
//! that has let go does not name the lock any more.
//!
//! A holder that did not let go itself (it expired, or an operator took the lock) may not know of it, and would name the lock
//! as held to such a clerk. So in that case the heir is granted the lock when a majority has noted the removal.

use algorithms::Outbox;
use types::Token;

use super::clerk::{By, Desk, fits};
use super::messages::Note;
use super::notary::Answer;
use super::queues::Heir;
use super::sessions::Claim;
use super::table::{Entry, Holder};
use super::{Central, CentralTimer};
use crate::name::LockName;
use crate::wire::{Mode, RequestId, SendNumber, SessionId};

impl<O: Outbox<Central>> Desk<'_, O> {
    /// The session holds the lock from now on, and hears of it when a majority has noted it.
    pub(super) fn hold(
        &mut self,
        (session, request): (SessionId, RequestId),
        name: &LockName,
        mode: Mode,
        number: Option<SendNumber>,
    ) {
        if let Some(token) = self.add((session, request), name, mode) {
            self.holds((session, request), name, token);
            self.clerk.notary_mut().await_majority(self.copy.label.seq, Answer::Granted { session, request, number });
        }
    }

    /// Notes an entry with the next token.
    pub(super) fn add(
        &mut self,
        (session, request): (SessionId, RequestId),
        name: &LockName,
        mode: Mode,
    ) -> Option<Token> {
        let ttl = self.clerk.sessions.get(session)?.ttl;
        self.make_room();
        let token = self.clerk.next_token();
        let holder = Holder { session, request, mode, ttl };
        self.note(Note::Add(Entry { name: name.clone(), token, holder }));
        Some(token)
    }

    pub(super) fn holds(&mut self, (session, request): (SessionId, RequestId), name: &LockName, token: Token) {
        if let Some(session) = self.clerk.sessions.get_mut(session) {
            session.insert(request, Claim { name: name.clone(), token: Some(token) });
        }
    }

    /// A claim on this lock has ended. The heir gets the lock if it is free, or the first waiters do, as many as fit.
    pub(super) fn give_on(&mut self, name: &LockName, by: By) {
        self.pass_to_heir(name, by);
        while let Some(&first) = self.clerk.queues.first(name) {
            let free = !self.clerk.requeuing && fits(&self.copy.table, name, first.mode);
            if !free || !self.has_token() {
                break;
            }
            self.clerk.queues.leave(name, first.session, first.request);
            self.out.cancel_timer(CentralTimer::Wait(first.session, first.request));
            self.hold((first.session, first.request), name, first.mode, None);
        }
        self.note_heir(name);
    }

    fn pass_to_heir(&mut self, name: &LockName, by: By) {
        if let Some((session, request, heir)) = self.inherit(name) {
            let answer = Answer::Granted { session, request, number: None };
            match by {
                By::Client => self.clerk.notary_mut().await_note(heir.noted, answer),
                By::Clerk => self.clerk.notary_mut().await_majority(self.copy.label.seq, answer),
            }
        }
    }

    /// The heir is the holder now, if no other entry is before it.
    fn inherit(&mut self, name: &LockName) -> Option<(SessionId, RequestId, Heir)> {
        let &first = self.clerk.queues.first(name)?;
        let (session, request, heir) = (first.session, first.request, first.heir?);
        if self.copy.table.holders(name).next()?.0 != heir.token {
            return None;
        }
        self.clerk.queues.leave(name, session, request);
        self.out.cancel_timer(CentralTimer::Wait(session, request));
        self.holds((session, request), name, heir.token);
        Some((session, request, heir))
    }

    /// The first in the line is noted as the heir, if one session holds the lock alone and the first wants to do so as well.
    pub(super) fn note_heir(&mut self, name: &LockName) {
        let Some(&first) = self.clerk.queues.first(name) else { return };
        let wants = first.heir.is_none() && first.mode == Mode::Exclusive && !self.clerk.requeuing;
        if !wants || !self.without_heirs.is_empty() || !self.is_held_alone(name) || !self.has_token() {
            return;
        }
        if let Some(token) = self.add((first.session, first.request), name, first.mode) {
            self.clerk.queues.make_heir(name, Heir { token, noted: self.copy.label.seq });
        }
    }

    /// A member is here that does not know heirs. Those that this clerk has noted wait like all others again; one that an
    /// earlier clerk has noted may hold its lock.
    pub(super) fn forget_heirs(&mut self) {
        for (name, token) in self.clerk.queues.forget_heirs() {
            self.note(Note::Remove { name, token });
        }
    }

    fn is_held_alone(&self, name: &LockName) -> bool {
        let mut modes = self.copy.table.entries(name).map(|(_, holder)| holder.mode);
        modes.next() == Some(Mode::Exclusive) && modes.next().is_none()
    }

    /// Is this request in the table as the heir, with this token?
    pub(super) fn is_heir(&self, (session, request): (SessionId, RequestId), name: &LockName, token: Token) -> bool {
        let of = self.clerk.queues.of(name).find(|waiter| (waiter.session, waiter.request) == (session, request));
        of.and_then(|waiter| waiter.heir).is_some_and(|heir| heir.token == token)
    }

    /// The client of the heir was granted the lock by an earlier clerk, so the holder before it has let go.
    pub(super) fn has_inherited(&mut self, (session, request): (SessionId, RequestId), name: &LockName) {
        let others = |(_, holder): &(Token, &Holder)| (holder.session, holder.request) != (session, request);
        let before = self.copy.table.entries(name).take_while(others);
        let over: Vec<(SessionId, RequestId)> = before.map(|(_, holder)| (holder.session, holder.request)).collect();
        for (session, request) in over {
            let claim = self.clerk.sessions.get_mut(session).and_then(|session| session.remove(request));
            if let Some(claim) = claim {
                self.drop_claim(session, request, &claim);
            }
        }
        self.inherit(name);
        self.note_heir(name);
    }
}
