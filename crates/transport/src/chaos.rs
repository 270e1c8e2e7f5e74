//! Faults on purpose, without root: a link that is cut or slow, like a network with packet loss or long distances.
//!
//! A cut looks like lost packets, never like a closed connection. Sockets stay open; output waits in the link's own
//! bounded queue, and input waits unread in the kernel, including the end of a connection that the far side has closed.
//! Handshakes between the two wait as well, until they time out. When the cut is over all bytes flow again, as after
//! TCP's retransmission: no frame is missing from the middle of a stream. A full queue ends its connection, as it does
//! with any far side that does not read.
//!
//! Faults are kept in memory only. A link without faults pays a single branch.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::sleep;

use crate::handshake::PeerId;
use crate::ready::ReadyWaker;

/// The faults between this process and one peer. Both ends are told, each from its own side.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Faults {
    /// Nothing reaches the peer.
    pub cut_out: bool,
    /// Nothing of the peer arrives.
    pub cut_in: bool,
    /// Output arrives this much later.
    pub delay_out: Duration,
    /// The far side's delay. The far side delays its frames itself; here the value only delays handshakes.
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

/// The faults of all peers; handshakes wait here for the end of a cut.
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

    /// Waits as long as the packets of a TCP connect would travel.
    pub(crate) async fn connect_delay(&self, peer: PeerId) {
        self.uncut(peer).await;
        let Faults { delay_out, delay_in, .. } = self.of(peer);
        let round_trip = delay_out + delay_in;
        if !round_trip.is_zero() {
            sleep(round_trip).await;
        }
    }
}

/// The delays and cuts of a faulty link's output. The bytes stay in the link's queue, so its bound holds for them too.
#[derive(Debug)]
pub(crate) struct FaultInjector {
    faults: Faults,
    /// Output that has to wait: until when, and how many bytes. In the order of the queue; it is the end of the queue.
    late: VecDeque<(Instant, usize)>,
    late_bytes: usize,
    /// When the link is woken next.
    alarm: Option<Instant>,
    /// Moments are counted in milliseconds from here: frames of the same millisecond share an entry.
    origin: Instant,
}

impl FaultInjector {
    fn new(faults: Faults) -> Self {
        FaultInjector { faults, late: VecDeque::new(), late_bytes: 0, alarm: None, origin: Instant::now() }
    }

    /// Sets or removes the faults of a link. Output that is already delayed stays in order.
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

    /// This many bytes were added to the output.
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

    /// How many bytes at the end of the output must not be written yet; the link is woken when fewer must wait.
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
                // Waking a link that has ended does nothing.
                ready.notify();
            });
        }
        self.late_bytes
    }
}
