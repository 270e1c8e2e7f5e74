//! A session opens, or attaches itself to this clerk over another connection.

use std::collections::BTreeSet;

use algorithms::Outbox;

use super::Central;
use super::clerk::{By, Desk};
use super::requests::{Ask, Before};
use super::sessions::{Attached, Claim};
use crate::service::{ServiceEvent, StreamId};
use crate::wire::{Held, OpenRefusal, RequestId, SessionId, ToClerk, ToClient, Wanted};

impl<O: Outbox<Central>> Desk<'_, O> {
    /// An Open of another epoch was meant for another clerk. One with an attach number that is not larger than the last is
    /// late: the client has opened the session over another connection since.
    pub(super) fn open(&mut self, from: StreamId, bound: Option<SessionId>, message: ToClerk) {
        let ToClerk::Open { session: id, number, epoch, attach, ttl, bare, holds, wants } = message else { return };
        let known = self.clerk.sessions.get(id);
        let late = known.and_then(|known| known.attached).is_some_and(|attached| attach <= attached.number);
        let other = bound.is_some_and(|bound| bound != id && self.clerk.sessions.get(bound).is_some());
        if epoch != self.clerk.epoch() || late || other {
            return;
        }
        if known.is_none()
            && let Some(why) = self.open_refusal(ttl)
        {
            return self.out.announce(ServiceEvent::Tell { to: from, message: ToClient::NotOpened { why } });
        }
        let session = self.clerk.sessions.open(id, ttl);
        let ttl = session.ttl;
        session.attached = Some(Attached { number: attach, stream: Some(from), bare });
        self.streams.insert(from, Some(id));
        self.extend(id);
        let lost = self.reconcile(id, &holds, &wants);
        let (max_drift_ppm, margin) = (self.ctx.settings.max_drift_ppm, self.ctx.settings.margin);
        self.tell(id, ToClient::Opened { number, epoch, attach, ttl, max_drift_ppm, margin, lost });
        for Wanted { request, name, mode, wait, ticket, waited } in wants {
            let before = Some(Before { ticket, waited });
            self.ask(&Ask { session: id, request, name, mode, wait, before, number, answered: true });
        }
    }

    fn open_refusal(&self, ttl: std::time::Duration) -> Option<OpenRefusal> {
        let settings = self.ctx.settings;
        let (min, max) = (settings.min_ttl, settings.max_ttl);
        if ttl < min || ttl.is_zero() {
            return Some(OpenRefusal::TtlTooShort { min });
        }
        if ttl > max {
            return Some(OpenRefusal::TtlTooLong { max });
        }
        (self.clerk.sessions.len() >= settings.limits.sessions).then_some(OpenRefusal::TooManySessions)
    }

    /// What the client wants is matched with the table first: a request may have been granted without the client having
    /// heard of it. A client that holds what it is the heir of was granted it by an earlier clerk. What is then neither held
    /// nor wanted by the client is freed. Returns what the client holds and the table does not have.
    fn reconcile(&mut self, id: SessionId, holds: &[Held], wants: &[Wanted]) -> Vec<RequestId> {
        let Some(session) = self.clerk.sessions.get(id) else { return Vec::new() };
        let (mut kept, mut lost, mut inherits) = (BTreeSet::new(), Vec::new(), Vec::new());
        let claim = |request: &RequestId| session.requests().get(request);
        for Wanted { request, name, .. } in wants {
            if claim(request).is_some_and(|claim| claim.name == *name) {
                kept.insert(*request);
            }
        }
        for Held { request, name, token, .. } in holds {
            let known = claim(request).filter(|claim| claim.name == *name);
            if known.is_some_and(|claim| claim.token == Some(*token)) {
                kept.insert(*request);
            } else if known.is_some() && self.is_heir((id, *request), name, *token) {
                kept.insert(*request);
                inherits.push((*request, name));
            } else {
                lost.push(*request);
            }
        }
        let gone: Vec<RequestId> =
            session.requests().keys().filter(|request| !kept.contains(request)).copied().collect();
        let ended: Vec<Claim> = gone.into_iter().filter_map(|request| self.drop_request(id, request)).collect();
        for (request, name) in inherits {
            self.has_inherited((id, request), name);
        }
        for claim in ended {
            self.give_on(&claim.name, By::Client);
        }
        lost
    }

    fn drop_request(&mut self, id: SessionId, request: RequestId) -> Option<Claim> {
        let claim = self.clerk.sessions.get_mut(id)?.remove(request)?;
        self.drop_claim(id, request, &claim);
        Some(claim)
    }
}
