//! A lock that its holder has let go is reserved for the same session, if no other session wants it and this one has no other
//! lock.
//!
//! The clerk enters the session into the table again at once, under the request that its client would name next and with the
//! next token. When that request comes, it is granted without asking the voters: a majority knows the entry already. To a
//! later clerk the entry is that of any request that was granted without the client having heard of it: the client names
//! the request as held or as wanted when it attaches, or the entry is removed.
//!
//! A reservation keeps nobody from the lock. It ends with the first request that is not the expected one: of another session
//! for this lock, or of this session for anything else. Its end is noted before anything that follows from that request, so
//! no voter has the entries of both.

use std::collections::BTreeMap;

use algorithms::Outbox;
use types::Token;

use super::Central;
use super::clerk::Desk;
use super::messages::Note;
use super::notary::Answer;
use super::requests::Ask;
use crate::name::LockName;
use crate::wire::{Mode, RequestId, SendNumber, SessionId};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reservation {
    pub session: SessionId,
    /// The request that the client would name next.
    pub request: RequestId,
    pub token: Token,
    /// The note of it.
    noted: u64,
}

/// At most one of a lock, and one of a session.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Reservations {
    locks: BTreeMap<LockName, Reservation>,
    sessions: BTreeMap<SessionId, LockName>,
}

impl Reservations {
    pub fn len(&self) -> usize {
        self.locks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    pub fn get(&self, name: &LockName) -> Option<&Reservation> {
        self.locks.get(name)
    }

    pub fn has(&self, name: &LockName) -> bool {
        self.locks.contains_key(name)
    }

    fn first(&self) -> Option<&LockName> {
        self.locks.keys().next()
    }

    fn insert(&mut self, name: &LockName, reservation: Reservation) {
        self.sessions.insert(reservation.session, name.clone());
        self.locks.insert(name.clone(), reservation);
    }

    fn remove(&mut self, name: &LockName) -> Option<Reservation> {
        let reservation = self.locks.remove(name)?;
        self.sessions.remove(&reservation.session);
        Some(reservation)
    }
}

impl<O: Outbox<Central>> Desk<'_, O> {
    /// The client of this session has let the lock go.
    pub(super) fn reserve(&mut self, session: SessionId, request: RequestId, name: &LockName) {
        let settings = self.ctx.settings;
        let room = self.copy.table.len() < settings.limits.requests;
        // Members of an earlier build, which know no heirs, take the expected request for one that the client has named.
        let known_to_all = self.without_heirs.is_empty();
        if !settings.reserves || !known_to_all || !room || self.is_in_use(name) || !self.has_token() {
            return;
        }
        // One that has several locks at a time takes them in an order that is not known here.
        let Some(known) = self.clerk.sessions.get(session).filter(|known| known.requests().is_empty()) else { return };
        let next = RequestId(known.newest().max(request).0.saturating_add(1));
        self.end_reservation_of(session);
        if let Some(token) = self.add((session, next), name, Mode::Exclusive) {
            let noted = self.copy.label.seq;
            self.clerk.reserved.insert(name, Reservation { session, request: next, token, noted });
        }
    }

    /// Is this the request that the lock is reserved for? If not, this request ends what is reserved for its session and what
    /// is reserved of its lock.
    pub(super) fn is_expected(&mut self, Ask { session, request, name, mode, .. }: &Ask) -> bool {
        let reserved = self.clerk.reserved.get(name);
        let expected =
            *mode == Mode::Exclusive && reserved.is_some_and(|one| (one.session, one.request) == (*session, *request));
        if !expected {
            self.end_reservation(name);
            self.end_reservation_of(*session);
        }
        expected
    }

    /// The expected request has come: it holds the lock, and hears of it when a majority has noted the reservation.
    pub(super) fn hold_reserved(&mut self, name: &LockName, number: Option<SendNumber>) {
        let Some(Reservation { session, request, token, noted }) = self.clerk.reserved.remove(name) else { return };
        self.holds((session, request), name, token);
        self.clerk.notary_mut().await_note(noted, Answer::Granted { session, request, number });
    }

    pub(super) fn end_reservation_of(&mut self, session: SessionId) {
        if let Some(name) = self.clerk.reserved.sessions.get(&session).cloned() {
            self.end_reservation(&name);
        }
    }

    pub(super) fn end_reservation(&mut self, name: &LockName) {
        if let Some(Reservation { token, .. }) = self.clerk.reserved.remove(name) {
            self.note(Note::Remove { name: name.clone(), token });
        }
    }

    pub(super) fn end_reservations(&mut self) {
        while let Some(name) = self.clerk.reserved.first().cloned() {
            self.end_reservation(&name);
        }
    }

    /// There are as many entries as a table may have: room for one that is no reservation.
    pub(super) fn make_room(&mut self) {
        if self.copy.table.len() >= self.ctx.settings.limits.requests
            && let Some(name) = self.clerk.reserved.first().cloned()
        {
            self.end_reservation(&name);
        }
    }
}
