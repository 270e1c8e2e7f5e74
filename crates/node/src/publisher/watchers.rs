//! Clients that follow the stream over their connections (`ctl watch`, and every command that waits for a leader).
//!
//! A few are told at once. A crowd is told some milliseconds later and a few at a time: sealing an announcement for a thousand
//! watchers takes as long as an election, and the election that it is about may not be over.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, RangeInclusive};
use std::time::Duration;

use bytes::BytesMut;
use client::{Announcement, CallId, Happened, Response};
use transport::{ClientId, Net, codec};
use types::InstanceId;

/// The most bytes that may wait for one watcher. A watcher that reads nothing costs this and its socket's buffers.
const QUEUE_BYTES: usize = 16 << 10;
/// So many watchers are told at once. More of them are a crowd.
const FEW: usize = 8;
/// Of a crowd those are told at once that have been connected longest: the HTTP face of this member, and an operator's screen.
const FIRST: usize = 2;
/// The others are told this much later, when an election is over, ...
const CROWD_AFTER: Duration = Duration::from_millis(5);
/// ... so many at a time, ...
const CROWD_PART: usize = 8;
/// ... in steps of this time: the pace at which the transport writes to clients.
const CROWD_EVERY: Duration = Duration::from_millis(1);
/// The most announcements that wait for the crowd; with one more, all are told at once.
const WAITING_MAX: usize = 256;

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
    /// The clients that have been connected longest come first.
    all: BTreeMap<Subscription, Watcher>,
    /// How many watchers have missed announcements.
    behind: usize,
    log: Log,
    /// When the next part of the crowd is told, since boot.
    due: Option<Duration>,
    /// The last one that was told of it.
    last: Option<Subscription>,
    buffer: BytesMut,
}

#[derive(Debug)]
struct Watcher {
    instance: InstanceId,
    everything: bool,
    missed: u64,
    /// The number of the next announcement in the log that it is to be told.
    next: u64,
}

/// Announcements that not every watcher has been told.
#[derive(Debug, Default)]
struct Log {
    /// The number of the first one.
    first: u64,
    waiting: VecDeque<Encoded>,
}

/// Encoded once, whatever the number of watchers.
#[derive(Debug)]
struct Encoded {
    instance: InstanceId,
    /// Those who do not ask for everything are told of changes of a standing and of an end in order, the last such change.
    transition: bool,
    body: Vec<u8>,
}

impl Log {
    fn end(&self) -> u64 {
        self.first + self.waiting.len() as u64
    }

    /// Every watcher has been told all.
    fn clear(&mut self) {
        self.first = self.end();
        self.waiting.clear();
    }
}

impl Watchers {
    /// False if this client has as many streams as it may have.
    pub(crate) fn add(&mut self, subscription: Subscription, instance: InstanceId, everything: bool) -> bool {
        let room = self.all.range(subscription.of_same_client()).count() < STREAMS_MAX;
        if room {
            // It is told the present standing now.
            let next = self.log.end();
            self.all.insert(subscription, Watcher { instance, everything, missed: 0, next });
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

    /// Tells the first watchers; the others are told by [`Watchers::tell_crowd`].
    pub(super) fn tell(&mut self, announcement: &Announcement, net: &mut Net, now: Duration) {
        if self.all.is_empty() {
            return;
        }
        let Some(body) = encoded(&Response::Announced(announcement.clone())) else { return };
        let transition = matches!(announcement.what, Happened::Became(_) | Happened::Leaving);
        self.log.waiting.push_back(Encoded { instance: announcement.instance, transition, body });
        if self.all.len() <= FEW || self.log.waiting.len() > WAITING_MAX {
            return self.tell_all(net);
        }
        for (subscription, watcher) in self.all.iter_mut().take(FIRST) {
            self.behind += usize::from(watcher.is_told(*subscription, &self.log, net, &mut self.buffer).falls_behind);
        }
        self.due.get_or_insert(now + CROWD_AFTER);
    }

    /// When [`Watchers::tell_crowd`] has something to do, since boot.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.due
    }

    /// Tells the next part of the crowd, if its time has come. All have their turn before one has another.
    pub(super) fn tell_crowd(&mut self, net: &mut Net, now: Duration) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        let mut left = CROWD_PART;
        let after = self.last.take().map_or(Bound::Unbounded, Bound::Excluded);
        for (subscription, watcher) in self.all.range_mut((after, Bound::Unbounded)) {
            let told = watcher.is_told(*subscription, &self.log, net, &mut self.buffer);
            self.behind += usize::from(told.falls_behind);
            left -= usize::from(told.any);
            if left == 0 {
                self.last = Some(*subscription);
                break;
            }
        }
        let end = self.log.end();
        let done = self.last.is_none() && self.all.values().all(|watcher| watcher.next == end);
        self.due = (!done).then(|| now + CROWD_EVERY);
        if done {
            self.log.clear();
        }
    }

    /// Tells every watcher all.
    pub(super) fn tell_all(&mut self, net: &mut Net) {
        for (subscription, watcher) in &mut self.all {
            self.behind += usize::from(watcher.is_told(*subscription, &self.log, net, &mut self.buffer).falls_behind);
        }
        (self.due, self.last) = (None, None);
        self.log.clear();
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
        let standing = |now: &Announcement| encoded(&Response::Announced(now.clone()));
        let present: BTreeMap<_, _> = present.iter().filter_map(|(of, now)| Some((*of, standing(now)?))).collect();
        for (subscription, watcher) in self.all.iter_mut().filter(|(_, watcher)| watcher.missed > 0) {
            let Some(now) = present.get(&watcher.instance) else { continue };
            // What waits for it is older than the present standing: it is missed too.
            watcher.is_told(*subscription, &self.log, net, &mut self.buffer);
            let Some(gap) = encoded(&Response::Gap { missed: watcher.missed }) else { continue };
            if !net.has_room(subscription.client, gap.len() + now.len() + 64, QUEUE_BYTES) {
                continue;
            }
            send(*subscription, &gap, net, &mut self.buffer);
            send(*subscription, now, net, &mut self.buffer);
            watcher.missed = 0;
            self.behind -= 1;
        }
    }
}

/// What became of the announcements that waited for a watcher.
struct Told {
    /// Was it sent any?
    any: bool,
    /// Is this the first time that there was no room for one?
    falls_behind: bool,
}

impl Watcher {
    fn is_told(&mut self, to: Subscription, log: &Log, net: &mut Net, buffer: &mut BytesMut) -> Told {
        let (mut any, behind) = (false, self.missed > 0);
        for Encoded { instance, transition, body } in log.waiting.range((self.next - log.first) as usize..) {
            if self.instance != *instance || !(*transition || self.everything) {
                continue;
            }
            // After a gap the watcher gets the present standing first: nothing is sent in between.
            if self.missed > 0 || !send(to, body, net, buffer) {
                self.missed += 1;
            } else {
                any = true;
            }
        }
        self.next = log.end();
        Told { any, falls_behind: !behind && self.missed > 0 }
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
            watchers.tell(&announcement(told, long.clone()), &mut net, Duration::ZERO);
            net.flush_all();
            assert!(told < 100_000, "the queue never filled");
        }
        for sequence in 1..=4 {
            watchers.tell(&announcement(told + sequence, long.clone()), &mut net, Duration::ZERO);
        }
        // There would be room for this one, but nothing is told inside a gap.
        watchers.tell(&announcement(told + 5, Happened::Leaving), &mut net, Duration::ZERO);
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
        watchers.tell(&announcement(1, link()), &mut net, Duration::ZERO);
        watchers.tell(&Announcement { instance: InstanceId(256), ..announcement(2, link()) }, &mut net, Duration::ZERO);
        watchers.tell(&announcement(3, Happened::Leaving), &mut net, Duration::ZERO);
        net.flush_all();
        let mut calls = Vec::new();
        for _ in 0..4 {
            let frame = connection.recv().await.unwrap().unwrap();
            calls.push(codec::decode::<Reply>(&frame).unwrap().to.0);
        }
        assert_eq!(calls, [1, 2, 1, 3], "the third hears of changes of standing and of the end alone");
    }

    /// The calls that have been told since, in order.
    async fn told(connection: &mut ClientConnection, net: &mut Net, frames: usize) -> Vec<(u32, u64)> {
        net.flush_all();
        let mut told = Vec::new();
        for _ in 0..frames {
            let frame = tokio::time::timeout(PATIENCE, connection.recv()).await.expect("a frame").unwrap().unwrap();
            let Reply { to, response } = codec::decode(&frame).unwrap();
            let Response::Announced(announced) = response else { panic!("{response:?}") };
            told.push((to.0, announced.sequence));
        }
        told
    }

    #[tokio::test]
    async fn a_crowd_is_told_later_a_few_at_a_time_and_every_watcher_all_of_it_in_order() {
        let (mut net, mut connection, client) = connected().await;
        let mut watchers = Watchers::default();
        // More streams than one client may open.
        let all = FIRST + CROWD_PART + 3;
        assert!(all > FEW);
        for call in 0..all as u32 {
            let watcher = Watcher { instance: InstanceId::ELECTION, everything: true, missed: 0, next: 0 };
            watchers.all.insert(Subscription { client, call: CallId(call) }, watcher);
        }
        let now = Duration::from_secs(7);
        let calls = |calls: std::ops::Range<usize>, numbers: &[u64]| -> Vec<(u32, u64)> {
            calls.flat_map(|call| numbers.iter().map(move |number| (call as u32, *number))).collect()
        };
        watchers.tell(&announcement(1, Happened::Leaving), &mut net, now);
        assert_eq!(told(&mut connection, &mut net, FIRST).await, calls(0..FIRST, &[1]));
        assert_eq!(watchers.deadline(), Some(now + CROWD_AFTER));
        watchers.tell_crowd(&mut net, now + CROWD_AFTER / 2);
        let now = now + CROWD_AFTER;
        watchers.tell_crowd(&mut net, now);
        let part = told(&mut connection, &mut net, CROWD_PART).await;
        assert_eq!(part, calls(FIRST..FIRST + CROWD_PART, &[1]), "nothing came before its time");
        // Another one, while the rest of the crowd waits.
        watchers.tell(&announcement(2, Happened::Leaving), &mut net, now);
        assert_eq!(told(&mut connection, &mut net, FIRST).await, calls(0..FIRST, &[2]));
        assert_eq!(watchers.deadline(), Some(now + CROWD_EVERY), "the crowd does not wait anew");
        watchers.tell_crowd(&mut net, now + CROWD_EVERY);
        let rest = FIRST + CROWD_PART..all;
        assert_eq!(told(&mut connection, &mut net, 2 * rest.len()).await, calls(rest, &[1, 2]));
        watchers.tell_crowd(&mut net, now + 2 * CROWD_EVERY);
        let part = told(&mut connection, &mut net, CROWD_PART).await;
        assert_eq!(part, calls(FIRST..FIRST + CROWD_PART, &[2]));
        watchers.tell_crowd(&mut net, now + 3 * CROWD_EVERY);
        assert_eq!((watchers.deadline(), watchers.log.waiting.len()), (None, 0), "all are told");
        watchers.tell(&announcement(3, Happened::Leaving), &mut net, now);
        watchers.tell_all(&mut net);
        assert_eq!(told(&mut connection, &mut net, all).await, calls(0..all, &[3]), "a process that ends tells all");
        assert_eq!(watchers.deadline(), None);
    }

    #[tokio::test]
    async fn announcements_that_wait_for_a_crowd_are_limited() {
        let (mut net, _connection, client) = connected().await;
        let mut watchers = Watchers::default();
        for call in 0..=FEW as u32 {
            assert!(watchers.add(Subscription { client, call: CallId(call) }, InstanceId::ELECTION, false));
        }
        for sequence in 0..10 * WAITING_MAX as u64 {
            watchers.tell(&announcement(sequence, Happened::Link { peer: 2, up: true }), &mut net, Duration::ZERO);
            assert!(watchers.log.waiting.len() <= WAITING_MAX);
        }
    }
}
