//! Clients that follow the stream over their connections (`ctl watch`, and everything that waits for a leader).

use std::collections::BTreeMap;

use bytes::BytesMut;
use client::{Announcement, CallId, Happened, Response};
use transport::{ClientId, Net, codec};
use types::InstanceId;

/// What may wait for one watcher. One that reads nothing costs no more than this, and its socket's buffers.
const QUEUE_BYTES: usize = 16 << 10;

/// Which call of which connection is answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Subscription {
    pub(crate) client: ClientId,
    pub(crate) call: CallId,
}

#[derive(Debug, Default)]
pub(crate) struct Watchers {
    all: BTreeMap<Subscription, Watcher>,
    /// How many of them have missed something.
    behind: usize,
    buffer: BytesMut,
}

#[derive(Debug)]
struct Watcher {
    instance: InstanceId,
    everything: bool,
    missed: u64,
}

impl Watchers {
    pub(crate) fn add(&mut self, subscription: Subscription, instance: InstanceId, everything: bool) {
        self.all.insert(subscription, Watcher { instance, everything, missed: 0 });
    }

    pub(crate) fn gone(&mut self, client: ClientId) {
        self.all.retain(|subscription, _| subscription.client != client);
        self.behind = self.all.values().filter(|watcher| watcher.missed > 0).count();
    }

    /// Encoded once, whatever the number of watchers.
    pub(super) fn tell(&mut self, announcement: &Announcement, net: &mut Net) {
        if self.all.is_empty() {
            return;
        }
        let Some(body) = encoded(&Response::Announced(announcement.clone())) else { return };
        let transition = matches!(announcement.what, Happened::Became(_));
        for (subscription, watcher) in &mut self.all {
            if watcher.instance != announcement.instance || !(transition || watcher.everything) {
                continue;
            }
            // After a gap comes the present standing: nothing is told in between.
            if watcher.missed > 0 || !send(*subscription, &body, net, &mut self.buffer) {
                self.behind += usize::from(watcher.missed == 0);
                watcher.missed += 1;
            }
        }
    }

    /// Has any of them missed something?
    pub(crate) fn are_behind(&self) -> bool {
        self.behind > 0
    }

    /// Watchers that have missed something and read again get the number of what they missed and the present standing.
    pub(crate) fn catch_up(&mut self, net: &mut Net, present: &BTreeMap<InstanceId, Announcement>) {
        for (subscription, watcher) in self.all.iter_mut().filter(|(_, watcher)| watcher.missed > 0) {
            let Some(now) = present.get(&watcher.instance) else { continue };
            let gap = encoded(&Response::Gap { missed: watcher.missed });
            let (Some(gap), Some(now)) = (gap, encoded(&Response::Announced(now.clone()))) else { continue };
            if !net.has_room(subscription.client, gap.len() + now.len() + 64, QUEUE_BYTES) {
                continue;
            }
            send(*subscription, &gap, net, &mut self.buffer);
            send(*subscription, &now, net, &mut self.buffer);
            watcher.missed = 0;
            self.behind -= 1;
        }
    }
}

/// A reply is the number of its call, then the response.
fn send(subscription: Subscription, response: &[u8], net: &mut Net, buffer: &mut BytesMut) -> bool {
    if !net.has_room(subscription.client, response.len(), QUEUE_BYTES) {
        return false;
    }
    buffer.clear();
    if codec::encode(&subscription.call, buffer).is_err() {
        return false;
    }
    buffer.extend_from_slice(response);
    net.reply(subscription.client, buffer)
}

fn encoded(response: &Response) -> Option<Vec<u8>> {
    codec::to_vec(response).map_err(|error| tracing::error!(%error, "an announcement cannot be encoded")).ok()
}

#[cfg(test)]
mod tests {
    use client::Reply;

    use super::*;

    #[test]
    fn a_reply_is_its_call_and_then_its_response() {
        let reply = Reply { to: CallId(70_000), response: Response::Gap { missed: 3 } };
        let mut bytes = codec::to_vec(&reply.to).unwrap();
        bytes.extend(encoded(&reply.response).unwrap());
        assert_eq!(codec::decode::<Reply>(&bytes).unwrap(), reply);
    }
}
