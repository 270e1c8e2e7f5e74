//! The sessions that this member serves, and the streams that it answers on. The deadline of a session is a timer: none is
//! here.
//!
//! An answer that extends a client's right to act waits until the leader has acknowledged a beat that was sent after the
//! client's message arrived. So the right, which counts from the client's send time, ends before the member's tenancy.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use types::Token;

use crate::name::LockName;
use crate::service::StreamId;
use crate::wire::{AttachNumber, RequestId, SessionId, ToClient};

/// The most answers that wait for one stream: what comes behind them is not answered.
const WAITING_MAX: usize = 4_096;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Session {
    pub ttl: Duration,
    /// The largest that was seen.
    pub attach: AttachNumber,
    /// `None`: the stream is closed.
    pub stream: Option<StreamId>,
    pub bare: bool,
    /// The locks that it holds or waits for.
    pub claims: BTreeMap<RequestId, Claim>,
    /// The largest request that it has named: a smaller one is late, and finished.
    pub newest: RequestId,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Claim {
    pub name: LockName,
    /// `None`: it waits.
    pub token: Option<Token>,
}

impl Session {
    pub fn new(ttl: Duration) -> Self {
        Session {
            ttl,
            attach: AttachNumber(0),
            stream: None,
            bare: false,
            claims: BTreeMap::new(),
            newest: RequestId(0),
        }
    }

    pub fn claims_name(&self, name: &LockName) -> bool {
        self.claims.values().any(|claim| claim.name == *name)
    }
}

/// An answer, and the beat that must be acknowledged before it is given.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Waiting {
    beat: u64,
    message: ToClient,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Stream {
    session: Option<SessionId>,
    waiting: VecDeque<Waiting>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Clients {
    pub sessions: BTreeMap<SessionId, Session>,
    streams: BTreeMap<StreamId, Stream>,
}

impl Clients {
    pub fn open_stream(&mut self, stream: StreamId) {
        self.streams.insert(stream, Stream::default());
    }

    /// Returns the session that was attached to it.
    pub fn close_stream(&mut self, stream: StreamId) -> Option<SessionId> {
        let id = self.streams.remove(&stream)?.session?;
        let session = self.sessions.get_mut(&id)?;
        if session.stream != Some(stream) {
            return None;
        }
        session.stream = None;
        Some(id)
    }

    pub fn streams(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.streams.keys().copied()
    }

    /// The session whose messages count on this stream: the one that attached to it, and to no other stream since.
    pub fn session_of(&self, stream: StreamId) -> Option<SessionId> {
        let id = self.streams.get(&stream)?.session?;
        (self.sessions.get(&id)?.stream == Some(stream)).then_some(id)
    }

    pub fn attach(&mut self, stream: StreamId, id: SessionId) {
        if let Some(at) = self.streams.get_mut(&stream) {
            at.session = Some(id);
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            session.stream = Some(stream);
        }
    }

    /// Takes a session out, with its stream.
    pub fn remove(&mut self, id: SessionId) -> Option<Session> {
        let session = self.sessions.remove(&id)?;
        if let Some(at) = session.stream.and_then(|stream| self.streams.get_mut(&stream)) {
            at.session = None;
            at.waiting.clear();
        }
        Some(session)
    }

    /// The answer itself if it can be given now; else it waits, behind those that wait already.
    pub fn tell(&mut self, to: StreamId, beat: u64, acknowledged: u64, message: ToClient) -> Option<ToClient> {
        let waiting = &mut self.streams.get_mut(&to)?.waiting;
        if waiting.is_empty() && beat <= acknowledged {
            return Some(message);
        }
        if let (Some(Waiting { beat: at, message: last @ ToClient::Kept { .. } }), ToClient::Kept { .. }) =
            (waiting.back_mut(), &message)
        {
            (*at, *last) = (beat, message);
        } else if waiting.len() < WAITING_MAX {
            waiting.push_back(Waiting { beat, message });
        }
        None
    }

    /// The answers that wait for no later beat than this, in order.
    pub fn release(&mut self, acknowledged: u64) -> Vec<(StreamId, ToClient)> {
        let mut ready = Vec::new();
        for (&id, stream) in &mut self.streams {
            let count = stream.waiting.iter().take_while(|waiting| waiting.beat <= acknowledged).count();
            ready.extend(stream.waiting.drain(..count).map(|waiting| (id, waiting.message)));
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::SendNumber;

    const STREAM: StreamId = StreamId(1);

    fn kept(number: u64) -> ToClient {
        ToClient::Kept { number: SendNumber(number) }
    }

    #[test]
    fn answers_wait_for_their_beat_and_stay_in_order() {
        let mut clients = Clients::default();
        clients.open_stream(STREAM);
        assert_eq!(clients.tell(STREAM, 0, 0, kept(1)), Some(kept(1)));
        assert_eq!(clients.tell(STREAM, 2, 1, kept(2)), None);
        assert_eq!(clients.tell(STREAM, 0, 1, ToClient::SessionLost), None, "behind an answer that waits");
        assert_eq!(clients.release(1), []);
        assert_eq!(clients.release(2), [(STREAM, kept(2)), (STREAM, ToClient::SessionLost)]);
    }

    #[test]
    fn only_the_last_of_several_keep_alives_is_answered() {
        let mut clients = Clients::default();
        clients.open_stream(STREAM);
        for number in 1..100_000 {
            assert_eq!(clients.tell(STREAM, number, 0, kept(number)), None);
        }
        assert_eq!(clients.release(u64::MAX), [(STREAM, kept(99_999))]);
        for _ in 0..100_000 {
            assert_eq!(clients.tell(STREAM, 1, 0, ToClient::SessionLost), None);
        }
        assert_eq!(clients.release(1).len(), WAITING_MAX);
    }

    #[test]
    fn a_session_speaks_on_the_stream_that_it_attached_to_last() {
        let mut clients = Clients::default();
        let id = SessionId(7);
        clients.open_stream(STREAM);
        clients.open_stream(StreamId(2));
        clients.sessions.insert(id, Session::new(Duration::from_secs(1)));
        clients.attach(STREAM, id);
        clients.attach(StreamId(2), id);
        assert_eq!(clients.session_of(STREAM), None);
        assert_eq!(clients.session_of(StreamId(2)), Some(id));
        assert_eq!(clients.close_stream(STREAM), None, "the close of an older stream");
        assert_eq!(clients.close_stream(StreamId(2)), Some(id));
        assert_eq!(clients.session_of(StreamId(2)), None);
    }
}
