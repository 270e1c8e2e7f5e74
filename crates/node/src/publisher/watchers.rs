//! Clients that follow the stream over their connections (`ctl watch`, and every command that waits for a leader).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use bytes::BytesMut;
use client::{Announcement, CallId, Happened, Response};
use transport::{ClientId, Net, codec};
use types::InstanceId;

/// The most bytes that may wait for one watcher. A watcher that reads nothing costs this and its socket's buffers.
const QUEUE_BYTES: usize = 16 << 10;

/// Streams of one client at the same time; attachments are counted apart.
pub(crate) const STREAMS_MAX: usize = 16;

/// Which call of which connection is answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Subscription {
    pub(crate) client: ClientId,
    pub(crate) call: CallId,
}

impl Subscription {
    /// The range of all subscriptions of this client.
    pub(crate) fn of_same_client(self) -> RangeInclusive<Subscription> {
        let of = |call| Subscription { client: self.client, call: CallId(call) };
        of(u32::MIN)..=of(u32::MAX)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Watchers {
    all: BTreeMap<Subscription, Watcher>,
    /// How many watchers have missed announcements.
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
    /// False if this client has as many streams as it may have.
    pub(crate) fn add(&mut self, subscription: Subscription, instance: InstanceId, everything: bool) -> bool {
        let room = self.all.range(subscription.of_same_client()).count() < STREAMS_MAX;
        if room {
            self.all.insert(subscription, Watcher { instance, everything, missed: 0 });
        }
        room
    }

    pub(crate) fn end(&mut self, subscription: Subscription) {
        self.behind -= usize::from(self.all.remove(&subscription).is_some_and(|watcher| watcher.missed > 0));
    }

    pub(crate) fn has(&self, client: ClientId) -> bool {
        let any = Subscription { client, call: CallId(0) };
        self.all.range(any.of_same_client()).next().is_some()
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
        // An end in order is the last change of a standing.
        let transition = matches!(announcement.what, Happened::Became(_) | Happened::Leaving);
        for (subscription, watcher) in &mut self.all {
            if watcher.instance != announcement.instance || !(transition || watcher.everything) {
                continue;
            }
            // After a gap the watcher gets the present standing first: nothing is sent in between.
            if watcher.missed > 0 || !send(*subscription, &body, net, &mut self.buffer) {
                self.behind += usize::from(watcher.missed == 0);
                watcher.missed += 1;
            }
        }
    }

    /// How many watchers do not read fast enough.
    pub(crate) fn behind(&self) -> usize {
        self.behind
    }

    /// Has any watcher missed announcements?
    pub(crate) fn are_behind(&self) -> bool {
        self.behind > 0
    }

    /// Watchers that missed announcements and read again get the number of missed announcements and the present
    /// standing.
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

/// A reply is the number of its call, followed by the response.
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
    use std::net::TcpListener;
    use std::time::Duration;

    use client::Reply;
    use transport::{ClientConnection, ClientSettings, Event, Incarnation, Settings, connect_client};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn a_reply_is_its_call_and_then_its_response() {
        let reply = Reply { to: CallId(70_000), response: Response::Gap { missed: 3 } };
        let mut bytes = codec::to_vec(&reply.to).unwrap();
        bytes.extend(encoded(&reply.response).unwrap());
        assert_eq!(codec::decode::<Reply>(&bytes).unwrap(), reply);
    }

    fn announcement(sequence: u64, what: Happened) -> Announcement {
        Announcement { member: 1, instance: InstanceId::ELECTION, sequence, wall_ms: 1, boot_ns: 1, what }
    }

    /// A member and a client of it, over a real connection.
    async fn connected() -> (Net, ClientConnection, ClientId) {
        let incarnation = Incarnation { counter: 1, nonce: 1 };
        let settings = Settings::new("demo", 1, incarnation, Vec::new());
        let mut net = Net::start(settings, TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        let settings =
            ClientSettings { cluster: "demo".into(), keyring: client::Keyring::default(), deadline: PATIENCE };
        let address = net.local_addr().to_string();
        let (connection, client) = tokio::join!(connect_client(&address, &settings), async {
            match net.event().await {
                Event::ClientUp { client, .. } => client,
                other => panic!("{other:?}"),
            }
        });
        (net, connection.unwrap(), client)
    }

    #[tokio::test]
    async fn a_watcher_that_reads_again_is_told_how_much_it_missed_and_how_things_are() {
        let (mut net, mut connection, client) = connected().await;
        let mut watchers = Watchers::default();
        let subscription = Subscription { client, call: CallId(9) };
        assert!(watchers.add(subscription, InstanceId::ELECTION, true));
        let long = Happened::Faults(vec!["x".repeat(4000)]);
        let mut told = 0;
        while !watchers.are_behind() {
            told += 1;
            watchers.tell(&announcement(told, long.clone()), &mut net);
            net.flush_all();
            assert!(told < 100_000, "the queue never filled");
        }
        for sequence in 1..=4 {
            watchers.tell(&announcement(told + sequence, long.clone()), &mut net);
        }
        // There would be room for this one, but nothing is told inside a gap.
        watchers.tell(&announcement(told + 5, Happened::Leaving), &mut net);
        let now = announcement(told + 5, Happened::Faults(vec!["y".repeat(4000)]));
        let present = BTreeMap::from([(InstanceId::ELECTION, now.clone())]);
        watchers.catch_up(&mut net, &present);
        assert!(watchers.are_behind(), "there is no room yet");
        let mut got = Vec::new();
        let reading = async {
            loop {
                let frame = tokio::select! {
                    frame = connection.recv() => frame.unwrap().expect("an open connection"),
                    event = net.event() => panic!("{event:?}"),
                };
                let Reply { to, response } = codec::decode(&frame).unwrap();
                assert_eq!(to, CallId(9));
                got.push(response);
                watchers.catch_up(&mut net, &present);
                net.flush_all();
                if got.len() as u64 == told + 1 {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("the gap and the present standing");
        assert_eq!(got[got.len() - 2..], [Response::Gap { missed: 6 }, Response::Announced(now)]);
        assert!(!watchers.are_behind());
        watchers.gone(client);
        assert!(watchers.all.is_empty());
    }

    #[tokio::test]
    async fn a_client_has_a_limited_number_of_streams() {
        let (_net, _connection, client) = connected().await;
        let mut watchers = Watchers::default();
        let added = (0..100)
            .filter(|&call| watchers.add(Subscription { client, call: CallId(call) }, InstanceId::ELECTION, false));
        assert_eq!(added.count(), STREAMS_MAX);
        let other = Subscription { client, call: CallId(200) };
        assert!(!watchers.add(other, InstanceId::ELECTION, false));
        watchers.end(Subscription { client, call: CallId(3) });
        assert!(watchers.add(other, InstanceId::ELECTION, false), "one has ended");
    }

    #[tokio::test]
    async fn a_watcher_hears_of_its_own_instance_and_of_what_it_asked_for() {
        let (mut net, mut connection, client) = connected().await;
        let mut watchers = Watchers::default();
        watchers.add(Subscription { client, call: CallId(1) }, InstanceId::ELECTION, true);
        watchers.add(Subscription { client, call: CallId(2) }, InstanceId(256), true);
        watchers.add(Subscription { client, call: CallId(3) }, InstanceId::ELECTION, false);
        let link = || Happened::Link { peer: 2, up: true };
        watchers.tell(&announcement(1, link()), &mut net);
        watchers.tell(&Announcement { instance: InstanceId(256), ..announcement(2, link()) }, &mut net);
        watchers.tell(&announcement(3, Happened::Leaving), &mut net);
        net.flush_all();
        let mut calls = Vec::new();
        for _ in 0..4 {
            let frame = connection.recv().await.unwrap().unwrap();
            calls.push(codec::decode::<Reply>(&frame).unwrap().to.0);
        }
        assert_eq!(calls, [1, 2, 1, 3], "the third hears of changes of standing and of the end alone");
    }
}
