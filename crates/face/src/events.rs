//! `/v1/events`: what all members announce, as server-sent events.
//!
//! One task follows the members, only while clients listen and for a while after. It appends to one bounded buffer that all
//! clients share; a client is a position in it. A client that reads too slowly, or comes back too late, finds its position
//! gone and is told how many events it missed: it never holds anything back.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use client::json::Event;
use client::{News, Observer, Report, now_ms};
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use serde::Serialize;
use tokio::sync::{Notify, mpsc, watch};

use crate::answer::{Answer, Problem, stream};
use crate::reads::Reads;

/// The buffer for clients that come back: whichever of both is reached first.
const BUFFER_EVENTS: usize = 1024;
const BUFFER_BYTES: usize = 512 << 10;
/// The most bytes that a client is sent in one turn of its stream.
const CHUNK_BYTES: usize = 8 << 10;
/// A quiet stream shows that it lives.
const ALIVE_EVERY: Duration = Duration::from_secs(15);
/// The members are followed for so long after the last client has left: it may come back.
const LINGER: Duration = Duration::from_mins(1);
/// More streams are refused: other requests need connections too.
const STREAMS_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct Events {
    buffer: Mutex<Buffer>,
    /// The number of the next event: clients wait for its change.
    next: watch::Sender<u64>,
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
    streams: usize,
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
        let (first, kept, standings) = (1, VecDeque::new(), BTreeMap::new());
        let buffer = Mutex::new(Buffer { origin, first, kept, bytes: 0, standings, streams: 0 });
        Ok(Events { buffer, next: watch::Sender::new(1), listeners: Notify::new() })
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
            while self.lock().streams == 0 {
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
            while self.lock().streams > 0 {
                self.listeners.notified().await;
            }
            let came = tokio::time::timeout(LINGER, self.listeners.notified()).await.is_ok();
            if !came && self.lock().streams == 0 {
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
                self.publish();
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
        self.publish();
        matches!(event.what, "adopted" | "in-force" | "forced")
    }

    fn publish(&self) {
        let next = self.lock().next();
        self.next.send_replace(next);
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
    next: watch::Receiver<u64>,
}

impl Seat {
    fn take(events: &Arc<Events>) -> Option<Self> {
        let mut buffer = events.lock();
        if buffer.streams >= STREAMS_MAX {
            return None;
        }
        buffer.streams += 1;
        drop(buffer);
        events.listeners.notify_one();
        Some(Seat { next: events.next.subscribe(), events: Arc::clone(events) })
    }

    async fn feed(mut self, last: Option<String>, chunks: mpsc::Sender<Bytes>) {
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
                news = tokio::time::timeout(ALIVE_EVERY, self.next.wait_for(|next| *next != at)) => news.is_err(),
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
        self.events.lock().streams -= 1;
        self.events.listeners.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(events: u64) -> Events {
        let all = Events::new().unwrap();
        for number in 1..=events {
            all.lock().append(Bytes::from(format!("data: {number}\n\n")));
        }
        all
    }

    #[test]
    fn a_client_that_comes_back_gets_what_it_missed_or_is_told_how_much() {
        let events = filled(BUFFER_EVENTS as u64 + 10);
        let buffer = events.lock();
        let id = |number: u64| format!("{:08x}-{number}", buffer.origin);
        assert_eq!(buffer.behind(&id(20)), Some(21));
        let (bytes, next) = buffer.chunk(buffer.next() - 2);
        assert_eq!((String::from_utf8(bytes).unwrap(), next), ("data: 1033\n\ndata: 1034\n\n".to_owned(), 1035));
        let text = String::from_utf8(buffer.chunk(4).0).unwrap();
        let missed = "event: gap\ndata: {\"schema\":\"conclave.gap/1\",\"missed\":7,\"id\":null}\n\ndata: 11\n\n";
        assert!(text.starts_with(missed), "{text}");
        for foreign in ["", "x", "1-2", &id(1035), &format!("{:08x}-3", buffer.origin ^ 1)] {
            assert_eq!(buffer.behind(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn the_buffer_is_bounded_in_events_and_in_bytes() {
        let events = filled(3 * BUFFER_EVENTS as u64);
        let mut buffer = events.lock();
        assert_eq!(buffer.kept.len(), BUFFER_EVENTS);
        for _ in 0..20 {
            buffer.append(Bytes::from(vec![b'x'; BUFFER_BYTES / 4]));
        }
        assert!(buffer.bytes <= BUFFER_BYTES && buffer.kept.len() <= 4);
        assert_eq!(buffer.bytes, buffer.kept.iter().map(Bytes::len).sum::<usize>());
        let (bytes, _) = buffer.chunk(buffer.first);
        assert!(bytes.len() <= CHUNK_BYTES + BUFFER_BYTES / 4);
    }
}
