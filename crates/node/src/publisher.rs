//! One ordered stream of announcements at this member, and its subscribers.
//!
//! Only the event loop publishes. Announcements wait until the effects of a turn are carried out and the sockets of the
//! peers are flushed. Then the watchers get them, whose sockets belong to the loop, and then the other subscribers, which
//! wake other threads. Each has a bounded queue of its own: a slow subscriber misses announcements and learns how many;
//! it never delays the loop.

mod log_lines;
mod watchers;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use client::{Announcement, Happened};
use transport::Net;
use types::{InstanceId, NodeId, boot_clock};

pub(crate) use log_lines::LogLines;
pub(crate) use watchers::{STREAMS_MAX, Subscription, Watchers};

/// Receives every announcement, in order. Must not block.
pub(crate) trait Subscriber: Send {
    fn take(&mut self, announcement: &Announcement);
}

pub(crate) struct Publisher {
    member: NodeId,
    /// The number of the last announcement.
    sequence: u64,
    /// The announcements of this turn, in order.
    pending: Vec<Announcement>,
    pub(crate) watchers: Watchers,
    subscribers: Vec<Box<dyn Subscriber>>,
}

impl Publisher {
    pub(crate) fn new(member: NodeId, subscribers: Vec<Box<dyn Subscriber>>) -> Self {
        Publisher { member, sequence: 0, pending: Vec::new(), watchers: Watchers::default(), subscribers }
    }

    pub(crate) fn publish(&mut self, instance: InstanceId, what: Happened) {
        self.sequence += 1;
        let announcement = self.stamp(instance, what);
        self.pending.push(announcement);
    }

    /// An announcement for one watcher that reports nothing new: it has the number of the last announcement.
    pub(crate) fn stamp(&self, instance: InstanceId, what: Happened) -> Announcement {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Announcement {
            member: self.member.0,
            instance,
            sequence: self.sequence,
            wall_ms: wall.as_millis() as u64,
            boot_ns: boot_clock().as_nanos() as u64,
            what,
        }
    }

    /// The announcements of this turn that subscribers have not got yet.
    pub(crate) fn pending(&self) -> &[Announcement] {
        &self.pending
    }

    /// When a crowd of watchers is to be told, since boot.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.watchers.deadline()
    }

    /// Called once for the announcements of a turn, before the sockets are flushed.
    pub(crate) fn tell_watchers(&mut self, net: &mut Net, now: Duration) {
        for announcement in &self.pending {
            self.watchers.tell(announcement, net, now);
        }
        self.watchers.tell_crowd(net, now);
    }

    /// The same for a process that can tell nothing later.
    pub(crate) fn tell_all_watchers(&mut self, net: &mut Net) {
        self.tell_watchers(net, Duration::ZERO);
        self.watchers.tell_all(net);
    }

    /// Called after the sockets are flushed.
    pub(crate) fn tell_subscribers(&mut self) {
        for announcement in self.pending.drain(..) {
            for subscriber in &mut self.subscribers {
                subscriber.take(&announcement);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    struct Tape(mpsc::Sender<Announcement>);

    impl Subscriber for Tape {
        fn take(&mut self, announcement: &Announcement) {
            self.0.send(announcement.clone()).unwrap();
        }
    }

    #[test]
    fn every_subscriber_hears_everything_once_in_order_without_holes() {
        let (tapes, heard): (Vec<_>, Vec<_>) = (0..2).map(|_| mpsc::channel()).unzip();
        let subscribers = tapes.into_iter().map(|tape| Box::new(Tape(tape)) as Box<dyn Subscriber>).collect();
        let mut publisher = Publisher::new(NodeId(4), subscribers);
        publisher.publish(InstanceId::ELECTION, Happened::Started { incarnation: 9 });
        publisher.publish(InstanceId(256), Happened::Link { peer: 2, up: true });
        assert!(heard[0].try_recv().is_err(), "nothing before the sockets are flushed");
        publisher.tell_subscribers();
        publisher.publish(InstanceId::ELECTION, Happened::Leaving);
        publisher.tell_subscribers();
        publisher.tell_subscribers();
        for tape in heard {
            let all: Vec<Announcement> = tape.try_iter().collect();
            let numbers: Vec<(u64, u16)> = all.iter().map(|a| (a.sequence, a.instance.0)).collect();
            assert_eq!(numbers, [(1, 0), (2, 256), (3, 0)]);
            assert!(all.iter().all(|a| a.member == 4 && a.boot_ns > 0 && a.wall_ms > 0));
            assert!(all.windows(2).all(|pair| pair[0].boot_ns <= pair[1].boot_ns));
        }
    }
}
