//! Faults on purpose, without root: a link that is cut or slow, as a network with packet loss or distance would make it.
//!
//! A cut looks like lost packets, never like a closed connection. Sockets stay open; what is sent waits in the link's own
//! bounded queue, what the far side sends waits unread in the kernel, and so does the end of a connection the far side
//! has closed meanwhile. Handshakes between the two wait as well, until they time out. When the cut is over everything
//! goes on where it stopped, as TCP's retransmission would have it: no frame is missing from the middle of a stream. A
//! queue that fills up ends its connection, as it does with any far side that takes nothing.
//!
//! Faults live in memory only. Links without one pay a single branch.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::sleep;

use crate::handshake::PeerId;
use crate::ready::ReadyWaker;

/// What is wrong between this process and one peer. Both ends are told, each from its own side.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Faults {
    /// Nothing reaches the peer.
    pub cut_out: bool,
    /// Nothing of the peer arrives.
    pub cut_in: bool,
    /// What is sent arrives so much later.
    pub delay_out: Duration,
    /// The far side's delay. It delays its frames itself; here it only makes a handshake take as long as it would.
    pub delay_in: Duration,
}

impl Faults {
    pub fn is_none(&self) -> bool {
        *self == Faults::default()
    }

    /// A handshake needs both directions.
    fn is_cut(&self) -> bool {
        self.cut_out || self.cut_in
    }
}

/// The faults of all peers, and where handshakes wait for a cut to end.
#[derive(Debug, Default)]
pub(crate) struct FaultMap(watch::Sender<BTreeMap<PeerId, Faults>>);

impl FaultMap {
    pub(crate) fn of(&self, peer: PeerId) -> Faults {
        self.0.borrow().get(&peer).copied().unwrap_or_default()
    }

    pub(crate) fn all(&self) -> BTreeMap<PeerId, Faults> {
        self.0.borrow().clone()
    }

    pub(crate) fn set(&self, peer: PeerId, faults: Faults) {
        self.0.send_modify(|map| {
            map.remove(&peer);
            if !faults.is_none() {
                map.insert(peer, faults);
            }
        });
    }

    /// Waits until bytes pass both ways.
    pub(crate) async fn uncut(&self, peer: PeerId) {
        let passes = |map: &BTreeMap<PeerId, Faults>| map.get(&peer).is_none_or(|faults| !faults.is_cut());
        // The sender is in `self`, so the wait cannot fail.
        let _ = self.0.subscribe().wait_for(passes).await;
    }

    /// Waits as long as the packets of a TCP connect would be on their way.
    pub(crate) async fn connect_delay(&self, peer: PeerId) {
        self.uncut(peer).await;
        let Faults { delay_out, delay_in, .. } = self.of(peer);
        let round_trip = delay_out + delay_in;
        if !round_trip.is_zero() {
            sleep(round_trip).await;
        }
    }
}

/// What a faulty link does to its output. The bytes stay in the link's queue, so its bound holds for them too.
#[derive(Debug)]
pub(crate) struct FaultInjector {
    faults: Faults,
    /// Output that has to wait: until when, and how many bytes. In the order of the queue, whose end it is.
    late: VecDeque<(Instant, usize)>,
    late_bytes: usize,
    /// When the link is woken next.
    alarm: Option<Instant>,
    /// Moments are counted in milliseconds from here: frames of the same one share an entry.
    origin: Instant,
}

impl FaultInjector {
    fn new(faults: Faults) -> Self {
        FaultInjector { faults, late: VecDeque::new(), late_bytes: 0, alarm: None, origin: Instant::now() }
    }

    /// Puts faults on a link, or takes them away. Output that is already late stays in order.
    pub(crate) fn apply(injector: &mut Option<Box<FaultInjector>>, faults: Faults) {
        match injector {
            _ if faults.is_none() => *injector = None,
            Some(injector) => injector.faults = faults,
            None => *injector = Some(Box::new(FaultInjector::new(faults))),
        }
    }

    pub(crate) fn cuts_input(&self) -> bool {
        self.faults.cut_in
    }

    /// So many bytes were added to the output.
    pub(crate) fn pushed(&mut self, bytes: usize) {
        if self.late.is_empty() && self.faults.delay_out.is_zero() {
            return;
        }
        // Rounded up: never early.
        let due_ms = (self.origin.elapsed() + self.faults.delay_out).as_millis() as u64 + 1;
        let due = self.origin + Duration::from_millis(due_ms);
        self.late_bytes += bytes;
        match self.late.back_mut() {
            Some((last, held)) if *last == due => *held += bytes,
            _ => self.late.push_back((due, bytes)),
        }
    }

    /// How many bytes at the end of the output must not be written yet; the link is woken when it is fewer.
    pub(crate) fn held_bytes(&mut self, output_bytes: usize, ready: &Arc<ReadyWaker>) -> usize {
        if self.faults.cut_out {
            // The end of the cut wakes the link.
            return output_bytes;
        }
        let now = Instant::now();
        while let Some(&(due, bytes)) = self.late.front()
            && due <= now
        {
            self.late_bytes -= bytes;
            self.late.pop_front();
        }
        if let Some(&(due, _)) = self.late.front()
            && self.alarm.is_none_or(|alarm| alarm <= now)
        {
            self.alarm = Some(due);
            let ready = Arc::clone(ready);
            tokio::spawn(async move {
                tokio::time::sleep_until(due.into()).await;
                // Waking a link that is gone by now does nothing.
                ready.notify();
            });
        }
        self.late_bytes
    }
}
