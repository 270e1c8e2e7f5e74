//! The streams of clients' lock sessions.

use std::collections::{BTreeMap, HashMap};

use client::CallId;
use locks::service::StreamId;
use transport::ClientId;

use crate::publisher::{STREAMS_MAX, Subscription};

#[derive(Debug, Default)]
pub(super) struct LockStreams {
    /// The number of the last stream.
    last: u64,
    by_call: BTreeMap<Subscription, StreamId>,
    by_number: HashMap<StreamId, Subscription>,
}

impl LockStreams {
    /// `None` if this client has as many streams as it may have, or a stream with this call already.
    pub(super) fn open(&mut self, asked: Subscription) -> Option<StreamId> {
        let taken = self.by_call.contains_key(&asked);
        if taken || self.by_call.range(asked.of_same_client()).count() >= STREAMS_MAX {
            return None;
        }
        self.last += 1;
        let stream = StreamId(self.last);
        self.by_call.insert(asked, stream);
        self.by_number.insert(stream, asked);
        Some(stream)
    }

    pub(super) fn number(&self, call: Subscription) -> Option<StreamId> {
        self.by_call.get(&call).copied()
    }

    pub(super) fn call(&self, stream: StreamId) -> Option<Subscription> {
        self.by_number.get(&stream).copied()
    }

    pub(super) fn close(&mut self, call: Subscription) -> Option<StreamId> {
        let stream = self.by_call.remove(&call)?;
        self.by_number.remove(&stream);
        Some(stream)
    }

    /// Closes all streams of a client that has left.
    pub(super) fn close_all(&mut self, client: ClientId) -> Vec<StreamId> {
        let all: Vec<Subscription> =
            self.by_call.range(any_of(client).of_same_client()).map(|(call, _)| *call).collect();
        all.into_iter().filter_map(|call| self.close(call)).collect()
    }

    pub(super) fn has(&self, client: ClientId) -> bool {
        self.by_call.range(any_of(client).of_same_client()).next().is_some()
    }
}

fn any_of(client: ClientId) -> Subscription {
    Subscription { client, call: CallId(0) }
}
