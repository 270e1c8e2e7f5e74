//! The reports of a [`Net`](crate::Net), and the queue in which they wait.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use types::Access;

use crate::handshake::{Incarnation, PeerId, RefuseCode};

/// Names one client connection; never reused while the process runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId(pub(crate) u64);

impl ClientId {
    /// A number for logs and tables.
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client-{}", self.0)
    }
}

/// One report of [`Net::event`](crate::Net::event).
///
/// Per peer the order is `Up`, its frames, `Down`, and so on: a peer is never up twice at once, a frame never precedes
/// its `Up`, and a `Down` follows every frame that was received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// An authenticated connection with this peer exists.
    Up { peer: PeerId, incarnation: Incarnation },
    /// The connection has ended; a wanted peer is being dialled again.
    Down { peer: PeerId, incarnation: Incarnation, why: DownReason },
    /// A dial failed before the far side answered: connection refused, timeout, name not resolved, no handshake.
    Unreachable { peer: PeerId, why: String },
    /// The far side answered the dial with a refusal, or this member refused its answer. Already logged, at a limited
    /// rate.
    Refused { peer: PeerId, code: RefuseCode, text: String },
    /// One frame of a peer.
    Frame { from: PeerId, payload: Bytes },
    /// A client has authenticated.
    ClientUp { client: ClientId, access: Access },
    /// One frame of a client.
    ClientFrame { client: ClientId, payload: Bytes },
    /// The client has left, or was too slow to read its replies.
    ClientGone { client: ClientId },
    /// No connection can be accepted, because the process or the machine has no file descriptor left: the owner should
    /// close clients.
    OutOfDescriptors,
}

/// Why a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DownReason {
    /// The far side closed or reset it, as the kernel does for a killed process.
    Remote,
    /// The socket failed in another way, such as a network timeout.
    Error,
    /// The far side did not read fast enough and its queue is full.
    Overflow,
    /// The far side sent a frame that no correct peer sends.
    Protocol,
    /// The far side had lost this connection and has opened a new one; `Up` follows.
    Replaced,
    /// Nothing came from the far side for several heartbeats of the link: its machine or its network is down, or its
    /// process does nothing.
    Silent,
}

impl fmt::Display for DownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Remote => "closed by the far side",
            Self::Error => "network error",
            Self::Overflow => "too slow to read",
            Self::Protocol => "broke the protocol",
            Self::Replaced => "replaced by a new connection",
            Self::Silent => "no sign of life",
        })
    }
}

/// Reports that the owner has not taken yet, with the bytes they hold, so that a turn of reading can stop in time. A
/// report without payload is not free: it has a size of its own.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    events: VecDeque<Event>,
    held_bytes: usize,
}

impl EventQueue {
    pub(crate) fn push(&mut self, event: Event) {
        self.held_bytes += held_bytes(&event);
        self.events.push_back(event);
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.held_bytes -= held_bytes(&event);
        Some(event)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Drops the queued reports of a peer's connection: the owner has just closed it and must get no further report of
    /// it.
    pub(crate) fn forget_peer(&mut self, gone: PeerId) {
        self.retain(|event| match event {
            Event::Up { peer, .. } | Event::Down { peer, .. } => *peer != gone,
            Event::Frame { from, .. } => *from != gone,
            _ => true,
        });
    }

    pub(crate) fn forget_client(&mut self, gone: ClientId) {
        self.retain(|event| match event {
            Event::ClientUp { client, .. } | Event::ClientFrame { client, .. } | Event::ClientGone { client } => {
                *client != gone
            }
            _ => true,
        });
    }

    fn retain(&mut self, keep: impl FnMut(&Event) -> bool) {
        self.events.retain(keep);
        self.held_bytes = self.events.iter().map(held_bytes).sum();
    }
}

fn held_bytes(event: &Event) -> usize {
    let payload = match event {
        Event::Frame { payload, .. } | Event::ClientFrame { payload, .. } => payload.len(),
        _ => 0,
    };
    size_of::<Event>() + payload
}
