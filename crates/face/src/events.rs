//! `/v1/events`: what all members announce, as server-sent events.
//!
//! One task follows the members, only while clients listen and for a while after. It appends to one bounded buffer that all
//! clients share; a client is a position in it. A client that reads too slowly, or comes back too late, finds its position
//! gone and is told how many events it missed: it never holds anything back. A crowd of clients is told a little later, and a
//! few clients at a time: see [`TELL_AFTER`].

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use client::json::Event;
use client::{News, Observer, Report, now_ms};
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use serde::Serialize;
use tokio::sync::{Notify, mpsc};

use crate::answer::{Answer, Problem, stream};
use crate::reads::Reads;

/// The buffer for clients that come back: whichever of both is reached first.
const BUFFER_EVENTS: usize = 1024;
const BUFFER_BYTES: usize = 512 << 10;
/// The most bytes that a client is sent in one turn of its stream.
const CHUNK_BYTES: usize = 8 << 10;
/// A quiet stream shows that it lives.
const ALIVE_EVERY: Duration = Duration::from_secs(15);
/// Clients are told of an event so much later. When a leader dies every member announces several things within a millisecond or
/// two, and the processors are needed to elect: a thousand writes, and a thousand readers that wake up, would delay exactly
/// what they report. By then most elections after a crash are over, and their events travel in one write.
const TELL_AFTER: Duration = Duration::from_millis(5);
/// For elections that are not: so many clients are woken at once, and then as many in each of these times. As clients of the
/// framed port are (`transport`).
const TELL_AT_ONCE: usize = 8;
const TELL_EVERY: Duration = Duration::from_millis(1);
/// The members are followed for so long after the last client has left: it may come back.
const LINGER: Duration = Duration::from_mins(1);
/// More streams are refused: other requests need connections too.
const STREAMS_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct Events {
    buffer: Mutex<Buffer>,
    /// Something was appended that clients have not been told of.
    news: Notify,
    /// A client has come or gone.
    listeners: Notify,
}

#[derive(Debug)]
struct Buffer {
    /// Tells the numbers of this process from those of another.
    origin: u32,
    /// The number of the first event that is kept.
    first: u64,
    kept: VecDeque<Bytes>,
    bytes: usize,
    /// The last change of standing, or loss, of each endpoint.
    standings: BTreeMap<usize, Bytes>,
    /// The clients that listen, each with what wakes its stream.
    seats: BTreeMap<u64, Arc<Notify>>,
    next_seat: u64,
}

/// `conclave.gap/1`: events are missing here.
#[derive(Serialize)]
struct Gap {
    schema: &'static str,
    /// Null if the number is not known.
    missed: Option<u64>,
    /// The member whose announcements are missing; null if they may be of any member.
    id: Option<u32>,
}

impl Events {
    pub(crate) fn new() -> io::Result<Self> {
        let origin = getrandom::u32().map_err(io::Error::other)?;
        let (kept, standings, seats) = (VecDeque::new(), BTreeMap::new(), BTreeMap::new());
        let buffer = Mutex::new(Buffer { origin, first: 1, kept, bytes: 0, standings, seats, next_seat: 0 });
        Ok(Events { buffer, news: Notify::new(), listeners: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream that begins with the present standings, or behind the event that the client saw last.
    pub(crate) fn subscribe(self: &Arc<Self>, is_head: bool, last: Option<&HeaderValue>) -> Result<Answer, Problem> {
        let (chunks, receiver) = mpsc::channel(1);
        if is_head {
            return Ok(stream(receiver));
        }
        let seat = Seat::take(self).ok_or_else(|| {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("{STREAMS_MAX} clients listen already"))
        })?;
        let last = last.and_then(|last| last.to_str().ok()).map(str::to_owned);
        tokio::spawn(seat.feed(last, chunks));
        Ok(stream(receiver))
    }

    /// Follows the members while clients listen.
    pub(crate) async fn gather(self: Arc<Self>, reads: Reads) {
        loop {
            while self.lock().seats.is_empty() {
                self.listeners.notified().await;
            }
            let mut observer = reads.observer().await;
            while self.follow(&mut observer, &reads).await {}
            drop(observer);
            // What happens until the next client comes is not seen.
            let mut buffer = self.lock();
            buffer.standings.clear();
            let gap = gap(None, None);
            buffer.append(gap);
        }
    }

    /// One report; false if nobody has listened for a while.
    async fn follow(&self, observer: &mut Observer, reads: &Reads) -> bool {
        tokio::select! {
            report = observer.next() => {
                let lists_changed = self.take(&report, observer);
                if lists_changed {
                    let members = reads.observer().await;
                    if members.endpoints() != observer.endpoints() {
                        self.lock().standings.clear();
                        *observer = members;
                    }
                }
                true
            }
            () = self.deserted() => false,
        }
    }

    /// Returns once nobody has listened for a while. Cancel-safe.
    async fn deserted(&self) {
        loop {
            while !self.lock().seats.is_empty() {
                self.listeners.notified().await;
            }
            let came = tokio::time::timeout(LINGER, self.listeners.notified()).await.is_ok();
            if !came && self.lock().seats.is_empty() {
                return;
            }
        }
    }

    /// True if the member list may be another one now.
    fn take(&self, report: &Report, observer: &Observer) -> bool {
        let endpoint = &observer.endpoints()[report.at];
        let event = match &report.news {
            News::Became { announcement, .. } | News::Announced(announcement) => {
                Event::announced(announcement, &endpoint.address)
            }
            News::Lost(error) => Event::lost(endpoint.id, &endpoint.address, now_ms(), error.to_string()),
            News::Gap { missed } => {
                let text = gap(Some(*missed), endpoint.id);
                self.lock().append(text);
                self.news.notify_one();
                return false;
            }
        };
        let is_standing = matches!(report.news, News::Became { .. } | News::Lost(_));
        let data = format!("data: {}\n\n", serde_json::to_string(&event).unwrap_or_default());
        let mut buffer = self.lock();
        let number = buffer.first + buffer.kept.len() as u64;
        let text = Bytes::from(format!("id: {:08x}-{number}\n{data}", buffer.origin));
        buffer.append(text);
        if is_standing {
            buffer.standings.insert(report.at, Bytes::from(data));
        }
        drop(buffer);
        self.news.notify_one();
        matches!(event.what, "adopted" | "in-force" | "forced")
    }

    /// Wakes the streams when there is something to tell, for ever.
    pub(crate) async fn tell(self: Arc<Self>) {
        loop {
            self.news.notified().await;
            tokio::time::sleep(TELL_AFTER).await;
            let mut told = Bound::Unbounded;
            while let Some(last) = self.wake_some(told) {
                told = Bound::Excluded(last);
                tokio::time::sleep(TELL_EVERY).await;
            }
        }
    }

    /// Wakes the next few streams; returns the last of them.
    fn wake_some(&self, behind: Bound<u64>) -> Option<u64> {
        let buffer = self.lock();
        let some = buffer.seats.range((behind, Bound::Unbounded)).take(TELL_AT_ONCE);
        some.map(|(&seat, wake)| {
            wake.notify_one();
            seat
        })
        .last()
    }
}

fn gap(missed: Option<u64>, id: Option<u32>) -> Bytes {
    let gap = Gap { schema: "conclave.gap/1", missed, id };
    Bytes::from(format!("event: gap\ndata: {}\n\n", serde_json::to_string(&gap).unwrap_or_default()))
}

impl Buffer {
    fn next(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    fn append(&mut self, text: Bytes) {
        self.bytes += text.len();
        self.kept.push_back(text);
        while self.kept.len() > BUFFER_EVENTS || self.bytes > BUFFER_BYTES {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.bytes -= oldest.len();
            self.first += 1;
        }
    }

    /// The number behind the event that this client saw last; `None` if this process never had it.
    fn behind(&self, last: &str) -> Option<u64> {
        let (origin, number) = last.split_once('-')?;
        let number: u64 = number.parse().ok()?;
        let ours = u32::from_str_radix(origin, 16) == Ok(self.origin) && number < self.next();
        ours.then_some(number + 1)
    }

    /// The bytes for a client at this position, and its next position.
    fn chunk(&self, at: u64) -> (Vec<u8>, u64) {
        let mut bytes = Vec::new();
        let mut position = at;
        if at < self.first {
            bytes.extend_from_slice(&gap(Some(self.first - at), None));
            position = self.first;
        }
        for text in self.kept.iter().skip((position - self.first) as usize) {
            bytes.extend_from_slice(text);
            position += 1;
            if bytes.len() >= CHUNK_BYTES {
                break;
            }
        }
        (bytes, position)
    }
}

/// One client of the stream.
struct Seat {
    events: Arc<Events>,
    number: u64,
    wake: Arc<Notify>,
}

impl Seat {
    fn take(events: &Arc<Events>) -> Option<Self> {
        let mut buffer = events.lock();
        if buffer.seats.len() >= STREAMS_MAX {
            return None;
        }
        let (number, wake) = (buffer.next_seat, Arc::new(Notify::new()));
        buffer.next_seat += 1;
        buffer.seats.insert(number, Arc::clone(&wake));
        drop(buffer);
        events.listeners.notify_one();
        Some(Seat { events: Arc::clone(events), number, wake })
    }

    async fn feed(self, last: Option<String>, chunks: mpsc::Sender<Bytes>) {
        let (first, mut at) = self.greeting(last.as_deref());
        if chunks.send(first.into()).await.is_err() {
            return;
        }
        loop {
            let (bytes, next) = self.events.lock().chunk(at);
            at = next;
            // Waits while the client does not read: its position stays, the buffer moves on.
            if !bytes.is_empty() {
                if chunks.send(bytes.into()).await.is_err() {
                    return;
                }
                continue;
            }
            let quiet = tokio::select! {
                () = chunks.closed() => return,
                news = tokio::time::timeout(ALIVE_EVERY, self.wake.notified()) => news.is_err(),
            };
            if quiet && chunks.send(Bytes::from_static(b": alive\n\n")).await.is_err() {
                return;
            }
        }
    }

    /// What the client gets first, and the position from which it goes on.
    fn greeting(&self, last: Option<&str>) -> (Vec<u8>, u64) {
        let buffer = self.events.lock();
        let mut bytes = b"retry: 1000\n\n".to_vec();
        if let Some(behind) = last.and_then(|last| buffer.behind(last)) {
            return (bytes, behind);
        }
        if last.is_some() {
            bytes.extend_from_slice(&gap(None, None));
        }
        buffer.standings.values().for_each(|standing| bytes.extend_from_slice(standing));
        (bytes, buffer.next())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.events.lock().seats.remove(&self.number);
        self.events.listeners.notify_one();
    }
}
