//! The object that owns every authenticated connection of a process.

mod arrivals;
mod faults;
mod pulse;
mod roster;
mod traffic;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, Sleep};
use types::{Access, Stamp};

use self::roster::Introduction;
use crate::accept::{self, Arrival, Context};
use crate::certificate::Holder;
use crate::chaos::FaultMap;
use crate::dial;
use crate::dial_log::DialLog;
use crate::event::{ClientId, Event, EventQueue};
use crate::frame::HANDSHAKE_FRAME_MAX_BYTES;
use crate::handshake::{Identity, Incarnation, KnownId, PeerId};
use crate::hello::{DiallerHello, is_newer};
use crate::keyring::Proof;
use crate::keys::ByKey;
use crate::link::{Link, Owner, Scratch};
use crate::list_fact::KnownList;
use crate::loglimit::LogLimit;
use crate::peer::Peer;
use crate::ready::ReadySet;
use crate::seen::Seen;
use crate::settings::Settings;

pub use crate::peer::Counters;

/// Finished handshakes that wait for the loop; more wait in their tasks.
const ARRIVALS_MAX: usize = 64;
/// Handshakes taken per turn, so that many new connections do not delay the connected peers.
const ARRIVALS_PER_TURN: usize = 16;
/// So many clients are written at once, and then as many in each of these times.
const CLIENT_WRITES: usize = 8;
const CLIENT_WRITES_EVERY: Duration = Duration::from_millis(1);
/// So many clients with a prompt reply are written in one flush: a reply that its client waits for is not paced, and neither may
/// a thousand of them delay a heartbeat.
const PROMPT_WRITES: usize = 64;
/// Bytes of reports per turn before the owner gets them; bounds memory however much all links send at once.
const TURN_BYTES: usize = 1 << 20;
/// Frames of all clients together per turn: each is a call to be answered before the next heartbeat can be.
const CLIENT_FRAMES_PER_TURN: usize = 32;

/// When the reply to a client is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pace {
    /// With those of some other clients, every millisecond.
    Usual,
    /// With the next flush.
    Prompt,
}

/// Every connection of this process: peers, clients, and the dials and handshakes that lead to them.
///
/// One task owns it. It handles each event, calls [`send`](Net::send) and [`flush`](Net::flush), and waits for the next
/// [`event`](Net::event).
pub struct Net {
    context: Arc<Context>,
    settings: Settings,
    local_address: SocketAddr,
    listener: AbortHandle,
    peers: BTreeMap<PeerId, Peer>,
    /// The addresses of members whose ids are to be asked for.
    introductions: BTreeMap<String, Introduction>,
    /// Of the pauses between dials.
    seed: u64,
    /// No peer that was forgotten had begun more dials.
    gone_dials: u64,
    /// Peers' and clients' links, by a key that is never reused.
    links: ByKey<Link>,
    next_key: u64,
    clients: usize,
    /// Bytes buffered for all clients together.
    clients_bytes: usize,
    ready: Arc<ReadySet>,
    /// Links that became ready since the last turn.
    woken: VecDeque<u64>,
    /// Links to serve, in the order in which they became ready.
    turn_peers: VecDeque<u64>,
    turn_clients: VecDeque<u64>,
    /// The next heartbeat of the links, or the end of a probe. A runtime without any timer asks the kernel for none when it
    /// waits.
    pulse: Option<Pin<Box<Sleep>>>,
    /// `None`: the owner watches the time of the heartbeats.
    next_beat: Option<Instant>,
    /// Links with output that no write has been tried for.
    dirty_peers: Vec<u64>,
    /// The same of clients, oldest first.
    dirty_clients: VecDeque<u64>,
    /// Of clients with a prompt reply, oldest first.
    dirty_prompt: VecDeque<u64>,
    /// Until the next of them are written.
    client_pause: Option<Pin<Box<Sleep>>>,
    /// Peers' links that have ended on this side; see [`drop_ended`](Net::drop_ended).
    ended: Vec<Link>,
    arrivals: mpsc::Receiver<Arrival>,
    arrivals_in: mpsc::Sender<Arrival>,
    events: EventQueue,
    scratch: Scratch,
}

impl Net {
    /// Listens on a socket that is already bound. Must be called inside a tokio runtime.
    pub fn start(settings: Settings, listener: StdListener) -> io::Result<Self> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let context = Arc::new(context(&settings));
        check_identity(&context.identity)?;
        listener.set_nonblocking(true)?;
        let local_address = listener.local_addr()?;
        let listener = TcpListener::from_std(listener)?;
        let seed = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
        let (arrivals_in, arrivals) = mpsc::channel(ARRIVALS_MAX);
        let listening = runtime.spawn(accept::listen(listener, Arc::clone(&context), arrivals_in.clone()));
        let next_beat = settings.beats_by_itself.then(|| Instant::now() + settings.link_heartbeat);
        let peers = settings.peers.clone();
        let mut net = Self {
            peers: BTreeMap::new(),
            introductions: BTreeMap::new(),
            seed,
            gone_dials: 0,
            context,
            local_address,
            listener: listening.abort_handle(),
            links: ByKey::default(),
            next_key: 0,
            clients: 0,
            clients_bytes: 0,
            ready: Arc::default(),
            woken: VecDeque::new(),
            turn_peers: VecDeque::new(),
            turn_clients: VecDeque::new(),
            pulse: None,
            next_beat,
            dirty_peers: Vec::new(),
            dirty_clients: VecDeque::new(),
            dirty_prompt: VecDeque::new(),
            client_pause: None,
            ended: Vec::new(),
            arrivals,
            arrivals_in,
            events: EventQueue::default(),
            scratch: Scratch::new(),
            settings,
        };
        net.set_pulse();
        net.set_peers(&peers);
        Ok(net)
    }

    /// Queues a frame. False if the peer is not connected, or not any more: a frame that overfills the peer's queue
    /// ends its connection, which is reported as `Down`. A payload above [`FRAME_MAX_BYTES`](crate::FRAME_MAX_BYTES) is
    /// never sent.
    pub fn send(&mut self, peer: PeerId, payload: &[u8]) -> bool {
        let Some(state) = self.peers.get_mut(&peer) else { return false };
        let Some(key) = state.link else { return false };
        let sent = self.push(key, payload, self.settings.queue_bytes, Pace::Usual);
        if sent && let Some(state) = self.peers.get_mut(&peer) {
            state.counters.frames_out += 1;
            state.counters.bytes_out += payload.len() as u64;
        }
        sent
    }

    /// Closes a peer's connection without a `Down`; its queued reports, frames included, are dropped. A wanted peer is
    /// dialled again.
    pub fn close(&mut self, peer: PeerId) {
        // Even without a link: a `Down` may still be queued, and its owner has just declared the peer down itself. Before the
        // end, which may admit a later process of this peer.
        self.events.forget_peer(peer);
        if let Some(key) = self.peers.get(&peer).and_then(|state| state.link) {
            self.end(key, None);
        }
    }

    /// Queues a frame for a client. False if the client has left, or is disconnected because it does not read.
    pub fn reply(&mut self, client: ClientId, payload: &[u8]) -> bool {
        self.is_client(client) && self.push(client.0, payload, self.settings.client_queue_bytes, Pace::Usual)
    }

    /// As [`Net::reply`], for a reply that the client waits for: it is written with the next [`Net::flush`], up to a bound, and
    /// does not stand in line behind a crowd of watchers.
    pub fn reply_promptly(&mut self, client: ClientId, payload: &[u8]) -> bool {
        self.is_client(client) && self.push(client.0, payload, self.settings.client_queue_bytes, Pace::Prompt)
    }

    /// Is the client connected, and would a frame of this size leave at most `max_bytes` waiting for it?
    pub fn has_room(&self, client: ClientId, bytes: usize, max_bytes: usize) -> bool {
        let link = self.links.get(&client.0).filter(|link| link.owner == Owner::Client);
        link.is_some_and(|link| !link.would_exceed(bytes, max_bytes))
    }

    /// Closes a client's connection after one attempt to write its queued output, without a `ClientGone`.
    pub fn close_client(&mut self, client: ClientId) {
        if self.is_client(client) {
            if let Some(link) = self.links.get_mut(&client.0) {
                link.write();
            }
            self.end(client.0, None);
        }
        self.events.forget_client(client);
    }

    /// Writes the queued output, with one system call per link that has any. Output that a socket does not accept is
    /// written later.
    ///
    /// Peers come first, then clients with a prompt reply. Of the other clients only a few are written, and then a few more every millisecond by [`Net::event`]: a
    /// crowd of watchers must take neither this task nor the processors of the machine from the members.
    pub fn flush(&mut self) {
        // The list keeps its memory: there is one flush for every turn.
        let mut dirty_peers = std::mem::take(&mut self.dirty_peers);
        for key in dirty_peers.drain(..) {
            self.write(key);
        }
        self.dirty_peers = dirty_peers;
        for _ in 0..PROMPT_WRITES {
            let Some(key) = self.dirty_prompt.pop_front() else { break };
            self.write(key);
        }
        if self.client_pause.is_none() {
            self.flush_some_clients();
        }
    }

    fn flush_some_clients(&mut self) {
        let mut written = 0;
        while written < CLIENT_WRITES {
            let Some(key) = self.dirty_clients.pop_front() else { break };
            // A prompt reply may have taken the rest of the output with it.
            if self.links.get(&key).is_some_and(|link| link.dirty) {
                self.write(key);
                written += 1;
            }
        }
        let more = !self.dirty_clients.is_empty();
        self.client_pause = more.then(|| Box::pin(tokio::time::sleep(CLIENT_WRITES_EVERY)));
    }

    /// Writes to the next few clients when their turn has come.
    fn poll_clients(&mut self, cx: &mut TaskContext<'_>) {
        while self.client_pause.as_mut().is_some_and(|pause| pause.as_mut().poll(cx).is_ready()) {
            self.flush_some_clients();
        }
    }

    /// Writes the queued output of every link: for a process that is about to end.
    pub fn flush_all(&mut self) {
        self.flush();
        for key in std::mem::take(&mut self.dirty_prompt).into_iter().chain(std::mem::take(&mut self.dirty_clients)) {
            self.write(key);
        }
    }

    fn write(&mut self, key: u64) {
        if let Some(link) = self.links.get_mut(&key) {
            link.write();
        }
        self.recount(key);
    }

    /// Closes the sockets of peers' links that have ended. Until then the far side sees nothing: a peer that takes a
    /// closed connection for the end of this process must not do so before the owner has handled the `Down`, or has
    /// finished the step in which it [`close`](Net::close)d the link. Call it when all reports have been handled.
    pub fn drop_ended(&mut self) {
        if self.events.is_empty() {
            self.ended.clear();
        }
    }

    /// The next report. Cancel-safe: no report is lost if the future is dropped. Output is flushed before it waits.
    pub async fn event(&mut self) -> Event {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    /// See [`event`](Net::event).
    pub fn poll_event(&mut self, cx: &mut TaskContext<'_>) -> Poll<Event> {
        if self.events.is_empty() {
            self.flush();
            self.ready.watch(cx.waker());
            self.take_turn();
            self.take_arrivals(cx);
            self.poll_pulse(cx);
        }
        if let Some(event) = self.events.pop() {
            return Poll::Ready(event);
        }
        self.poll_clients(cx);
        if !(self.turn_peers.is_empty() && self.turn_clients.is_empty() && self.dirty_prompt.is_empty()) {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// The next queued report, without reading from any connection.
    pub fn queued(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// Have clients sent something that the last turn had no room for? The next [`Net::event`] reads it without waiting.
    pub fn has_more_of_clients(&self) -> bool {
        !self.turn_clients.is_empty()
    }

    pub fn is_connected(&self, peer: PeerId) -> bool {
        self.link_of(peer).is_some()
    }

    /// Bytes that wait for a peer; 0 without a connection.
    pub fn queued_bytes(&self, peer: PeerId) -> usize {
        self.link_of(peer).map_or(0, Link::queued_bytes)
    }

    /// The far end of a peer's connection.
    pub fn peer_address(&self, peer: PeerId) -> Option<SocketAddr> {
        self.link_of(peer).map(|link| link.address)
    }

    /// Which incarnation of the peer is connected.
    pub fn peer_incarnation(&self, peer: PeerId) -> Option<Incarnation> {
        match self.link_of(peer)?.owner {
            Owner::Peer { incarnation, .. } => Some(incarnation),
            Owner::Client => None,
        }
    }

    /// Does this connected peer speak a version that this process does not know? Then it may send what this process cannot
    /// read.
    pub fn speaks_newer(&self, peer: PeerId) -> bool {
        self.link_of(peer).is_some_and(|link| is_newer(link.highest))
    }

    /// Does this connected peer speak this version?
    pub fn speaks(&self, peer: PeerId, version: u16) -> bool {
        self.link_of(peer).is_some_and(|link| link.highest >= version)
    }

    /// Counts of the traffic with a peer.
    pub fn counters(&self, peer: PeerId) -> Option<Counters> {
        self.peers.get(&peer).map(|state| state.counters)
    }

    /// The number of authenticated clients.
    pub fn clients(&self) -> usize {
        self.clients
    }

    /// The clients that have sent nothing for this long, the longest silent first.
    pub fn quiet_clients(&self, quiet_for: Duration) -> Vec<ClientId> {
        let clients = self.links.iter().filter(|(_, link)| link.owner == Owner::Client);
        let mut quiet: Vec<(Instant, u64)> = clients.map(|(key, link)| (link.heard, *key)).collect();
        quiet.retain(|(heard, _)| heard.elapsed() >= quiet_for);
        quiet.sort_unstable();
        quiet.into_iter().map(|(_, key)| ClientId(key)).collect()
    }

    /// Where a client's connection comes from.
    pub fn client_address(&self, client: ClientId) -> Option<SocketAddr> {
        self.links.get(&client.0).filter(|link| link.owner == Owner::Client).map(|link| link.address)
    }

    /// From now on every handshake compares the id of the cluster, where the far side knows one too. Connections that
    /// exist stay.
    pub fn set_cluster_id(&self, id: String) {
        self.context.identity.cluster_id.set(id);
    }

    /// From now on every handshake compares the member list with that of a peer whose list has the same stamp.
    /// Connections that exist stay.
    /// `entries`: the list in words, each `name=value`; a refusal names those that differ.
    pub fn set_list(&self, stamp: Stamp, digest: u64, entries: &[String]) {
        self.context.identity.list.set(stamp, digest, entries);
    }

    /// For dials that begin from now on.
    pub fn set_dial_timeout(&mut self, timeout: Duration) {
        self.settings.dial_timeout = timeout;
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.local_address
    }

    fn link_of(&self, peer: PeerId) -> Option<&Link> {
        self.links.get(&self.peers.get(&peer)?.link?)
    }

    fn is_client(&self, client: ClientId) -> bool {
        self.client_address(client).is_some()
    }
}

fn context(settings: &Settings) -> Context {
    Context {
        identity: Identity {
            cluster: settings.cluster.clone(),
            id: settings.id,
            incarnation: settings.incarnation,
            facts: settings.facts.clone(),
            cluster_id: KnownId::default(),
            list: KnownList::default(),
            keyring: settings.keyring.clone(),
        },
        known: (settings.guests_max == 0).then(|| settings.peers.iter().map(|(id, _)| *id).collect()),
        handshake_deadline: settings.handshake_deadline,
        unauthenticated_max: settings.unauthenticated_max,
        log_limit: LogLimit::default(),
        dial_log: DialLog::default(),
        faults: FaultMap::default(),
        seen: Seen::new(&settings.seen),
        sources: Arc::default(),
    }
}

/// No peer would accept an identity that is too large, nor a secret of clients; this is reported at the start.
fn check_identity(identity: &Identity) -> io::Result<()> {
    let invalid = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    match &*identity.keyring.current() {
        Proof::Secret { keys, .. } if keys.of(Access::Member).is_none() => {
            return invalid("the secret is one of clients; a member needs the secret of the cluster".to_owned());
        }
        Proof::Certificate(own) if own.holder() != Holder::Member(identity.id) => {
            return invalid(format!("the certificate is that of {}, not of n{}", own.holder(), identity.id));
        }
        Proof::Secret { .. } | Proof::Certificate(_) => {}
    }
    let bytes = dial::hello(identity, PeerId::MAX, u64::MAX).to_bytes().map_err(io::Error::other)?;
    if bytes.len() > HANDSHAKE_FRAME_MAX_BYTES {
        let bytes = bytes.len();
        return invalid(format!(
            "cluster name and facts take {bytes} bytes; a handshake carries {HANDSHAKE_FRAME_MAX_BYTES}"
        ));
    }
    match DiallerHello::from_bytes(&bytes, Access::Member) {
        Ok(_) => Ok(()),
        Err(error) => invalid(error.to_string()),
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // Ends the listener and every handshake in it; dials end with their peers.
        self.listener.abort();
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connected: Vec<&PeerId> =
            self.peers.iter().filter(|(_, peer)| peer.link.is_some()).map(|(id, _)| id).collect();
        f.debug_struct("Net")
            .field("id", &self.settings.id)
            .field("local_address", &self.local_address)
            .field("connected", &connected)
            .field("clients", &self.clients)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "net_tests.rs"]
mod tests;
