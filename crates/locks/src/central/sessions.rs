//! The sessions that the clerk knows. The deadline of each is a timer: none is here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use types::Token;

use crate::name::LockName;
use crate::service::StreamId;
use crate::wire::{AttachNumber, RequestId, SessionId};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Session {
    pub ttl: Duration,
    /// How it is attached, since this clerk's office began.
    pub attached: Option<Attached>,
    /// The locks that it holds or waits for.
    requests: BTreeMap<RequestId, Claim>,
    /// Their names: no session has two requests for one lock.
    names: BTreeSet<LockName>,
    /// The largest request that it has named to this clerk: a smaller one is late, and finished.
    newest: RequestId,
}

/// One request of a session.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Claim {
    pub name: LockName,
    /// `None`: it waits.
    pub token: Option<Token>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Attached {
    /// The largest that was seen.
    pub number: AttachNumber,
    /// `None`: the stream is closed.
    pub stream: Option<StreamId>,
    pub bare: bool,
}

impl Session {
    fn new(ttl: Duration) -> Self {
        Session { ttl, attached: None, requests: BTreeMap::new(), names: BTreeSet::new(), newest: RequestId(0) }
    }

    pub fn stream(&self) -> Option<StreamId> {
        self.attached?.stream
    }

    pub fn requests(&self) -> &BTreeMap<RequestId, Claim> {
        &self.requests
    }

    /// Does it hold this lock or wait for it?
    pub fn wants(&self, name: &LockName) -> bool {
        self.names.contains(name)
    }

    /// Was this request, or a later one, named to this clerk?
    pub fn has_named(&self, request: RequestId) -> bool {
        request <= self.newest
    }

    pub(super) fn name(&mut self, request: RequestId) {
        self.newest = self.newest.max(request);
    }

    /// The largest request that was named to this clerk.
    pub(super) fn newest(&self) -> RequestId {
        self.newest
    }

    pub(super) fn insert(&mut self, request: RequestId, claim: Claim) {
        self.name(request);
        self.take_over(request, claim);
    }

    /// In the table of an earlier clerk. Its client may not have named it yet: the lock may be reserved for it.
    pub(super) fn take_over(&mut self, request: RequestId, claim: Claim) {
        self.names.insert(claim.name.clone());
        self.requests.insert(request, claim);
    }

    pub(super) fn remove(&mut self, request: RequestId) -> Option<Claim> {
        let claim = self.requests.remove(&request)?;
        self.names.remove(&claim.name);
        Some(claim)
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Sessions {
    sessions: BTreeMap<SessionId, Session>,
}

impl Sessions {
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    pub fn get(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(&id)
    }

    pub fn ids(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.sessions.keys().copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.sessions.iter().map(|(&id, session)| (id, session))
    }

    pub(super) fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.sessions.get_mut(&id)
    }

    /// The session with this id, which is new if it is not known.
    pub(super) fn open(&mut self, id: SessionId, ttl: Duration) -> &mut Session {
        self.sessions.entry(id).or_insert_with(|| Session::new(ttl))
    }

    pub(super) fn remove(&mut self, id: SessionId) -> Option<Session> {
        self.sessions.remove(&id)
    }
}
