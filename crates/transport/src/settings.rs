//! The settings of a [`Net`](crate::Net).

use std::time::Duration;

use crate::handshake::{Facts, Incarnation, PeerId};
use crate::keyring::Keyring;

/// Identity, neighbours and limits of one process. [`Settings::new`] fills in the limits.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Only processes that name the same cluster connect.
    pub cluster: String,
    pub id: PeerId,
    /// Distinguishes this start of the process from every other start under the same id.
    pub incarnation: Incarnation,
    /// Named values that must be equal between peers; a difference is refused with both values named.
    pub facts: Facts,
    /// How both sides prove themselves. It may be replaced while the process runs; secrets and keys are never sent.
    pub keyring: Keyring,
    /// The peers that may connect, and the address at which each is dialled (`host:port`, resolved anew at every dial).
    pub peers: Vec<(PeerId, String)>,
    /// The latest incarnation of each peer that this member has ever been connected to: an earlier one is refused.
    pub seen: Vec<(PeerId, Incarnation)>,
    /// A connection that is not authenticated after this time is closed.
    pub handshake_deadline: Duration,
    /// Name resolution and TCP connect together.
    pub dial_timeout: Duration,
    pub backoff_min: Duration,
    pub backoff_max: Duration,
    /// Outgoing bytes queued per peer; beyond it the peer loses its connection.
    pub queue_bytes: usize,
    /// Outgoing bytes queued per client.
    pub client_queue_bytes: usize,
    /// Bytes buffered for all clients together, both directions; beyond it the client that holds most is dropped.
    pub client_total_bytes: usize,
    /// Members outside the list that may be connected at one time; one more is refused as busy. With 0 every member
    /// outside the list is refused as unknown.
    pub guests_max: usize,
    /// Authenticated clients at one time; one more is refused as busy.
    pub clients_max: usize,
    /// Connections inside their handshake at one time; one more closes the oldest of the address that has most of them.
    /// One address may have a quarter of them.
    pub unauthenticated_max: usize,
    /// A peer's link that received nothing for this long is asked for a sign of life; it ends after two questions without
    /// an answer.
    pub link_heartbeat: Duration,
    /// Does [`Net::event`](crate::Net::event) watch the time of these heartbeats? An owner with a timer of its own calls
    /// [`Net::beat`](crate::Net::beat) instead.
    pub beats_by_itself: bool,
    /// How long a peer's link may take to answer when a later process of the peer waits to be connected.
    pub probe_timeout: Duration,
}

impl Settings {
    /// Settings with no facts, no secret and the default limits.
    pub fn new(cluster: impl Into<String>, id: PeerId, incarnation: Incarnation, peers: Vec<(PeerId, String)>) -> Self {
        Self {
            cluster: cluster.into(),
            id,
            incarnation,
            facts: Facts::new(),
            keyring: Keyring::default(),
            peers,
            seen: Vec::new(),
            handshake_deadline: Duration::from_secs(5),
            dial_timeout: Duration::from_secs(1),
            backoff_min: Duration::from_millis(20),
            backoff_max: Duration::from_secs(1),
            queue_bytes: 4 << 20,
            client_queue_bytes: 2 << 20,
            client_total_bytes: 16 << 20,
            guests_max: 0,
            clients_max: 1024,
            unauthenticated_max: 256,
            link_heartbeat: Duration::from_secs(5),
            beats_by_itself: true,
            probe_timeout: Duration::from_secs(1),
        }
    }
}
