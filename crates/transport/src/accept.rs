//! The accepting side until a connection is authenticated: many unknown diallers, little memory, short deadlines.

use std::collections::{HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::admit::Claim;
use crate::certificate::Certificate;
use crate::chaos::FaultMap;
use crate::codec;
use crate::dial::{Connected, DialError};
use crate::dial_log::DialLog;
use crate::exchange::{Channel, ExchangeError, SecureChannel};
use crate::frame::{FLIGHT_MAX_BYTES, FrameError};
use crate::handshake::{
    ANYBODY, Answer, Identity, PeerId, Refusal, RefuseCode, Reply, Verdict, check_dialler, check_key_id,
};
use crate::handshake_thread;
use crate::hello::{AcceptorHello, DiallerHello, HEADER_BYTES, Header, HelloError, spoken};
use crate::key_handshake;
use crate::keyring::Proof;
use crate::loglimit::{LogLimit, Topic};
use crate::secret::BY_CERTIFICATE;
use crate::seen::Seen;
use crate::socket;
use crate::sources::{self, Attempt, Sources};
use crate::tls;

/// How long a refused dialler has to read the reason.
const LINGER: Duration = Duration::from_millis(500);
/// Pause after a failed accept: an immediate retry does not help when file descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What all handshakes need to know.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) identity: Identity,
    /// The peers of the list; `None` if every member id may connect.
    pub(crate) known: Option<HashSet<PeerId>>,
    pub(crate) handshake_deadline: Duration,
    pub(crate) unauthenticated_max: usize,
    pub(crate) log_limit: LogLimit,
    pub(crate) dial_log: DialLog,
    pub(crate) faults: FaultMap,
    pub(crate) seen: Seen,
    pub(crate) sources: Arc<Sources>,
}

/// What handshake tasks send to the event loop.
#[derive(Debug)]
pub(crate) enum Arrival {
    Dialled {
        peer: PeerId,
        attempt: u64,
        result: Result<Connected, DialError>,
    },
    Accepted(Accepted),
    /// The process at this address was asked for its id; `None`: it told none.
    Introduced {
        address: String,
        attempt: u64,
        id: Option<PeerId>,
    },
    /// A process with the members' key says that it is this peer, and calls this member's incarnation stale.
    Doubted(PeerId),
    /// No connection can be accepted.
    OutOfDescriptors,
}

/// An authenticated connection that waits to be admitted.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) channel: SecureChannel,
    pub(crate) address: SocketAddr,
    pub(crate) who: Authenticated,
    /// Takes the connection back with the reason if it is not admitted: telling the dialler would block the event loop.
    pub(crate) refuse: oneshot::Sender<(SecureChannel, Refusal)>,
}

/// The authenticated far side.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Authenticated {
    Peer(Claim),
    Client,
}

/// Accepts for ever. Dropping the future ends every handshake it started.
pub(crate) async fn listen(listener: TcpListener, context: Arc<Context>, arrivals: mpsc::Sender<Arrival>) {
    let mut tasks = JoinSet::new();
    let mut by_age: VecDeque<(IpAddr, AbortHandle)> = VecDeque::new();
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                if context.log_limit.allows(Topic::Listener) {
                    warn!(%error, "cannot accept connections");
                }
                if socket::out_of_descriptors(&error) {
                    let _ = arrivals.try_send(Arrival::OutOfDescriptors);
                }
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        while tasks.try_join_next().is_some() {}
        by_age.retain(|(_, task)| !task.is_finished());
        let Some(attempt) = context.sources.begin(address.ip()) else { continue };
        let source = sources::source_of(address.ip());
        let under_way: Vec<IpAddr> = by_age.iter().map(|(source, _)| *source).collect();
        if let Some(ended) = sources::to_end(&under_way, source, context.unauthenticated_max)
            && let Some((_, task)) = by_age.remove(ended)
        {
            task.abort();
        }
        let handshake = serve(stream, address, attempt, Arc::clone(&context), arrivals.clone());
        by_age.push_back((source, tasks.spawn(handshake)));
    }
}

async fn serve(
    stream: TcpStream,
    address: SocketAddr,
    mut attempt: Attempt,
    context: Arc<Context>,
    arrivals: mpsc::Sender<Arrival>,
) {
    if socket::prepare(&stream).is_err() {
        return;
    }
    let mut claimed = None;
    let authenticated = timeout(context.handshake_deadline, async {
        let mut channel = secure(Channel::new(stream), &context).await?;
        let judged = handshake(&mut channel, address, &context, &mut claimed).await?;
        Ok((channel, judged))
    });
    match authenticated.await {
        Ok(Ok((channel, Ok(who)))) => {
            attempt.proved();
            let (refuse, refused) = oneshot::channel();
            let accepted = Accepted { channel, address, who, refuse };
            if arrivals.send(Arrival::Accepted(accepted)).await.is_err() {
                return;
            }
            if let Ok((channel, refusal)) = refused.await {
                send_refusal(channel, address, claimed, refusal, &context).await;
            }
        }
        Ok(Ok((channel, Err(refusal)))) => send_refusal(channel, address, claimed, refusal, &context).await,
        Ok(Err(AcceptError::NoSession(no_session))) => {
            let NoSession { channel, refusal, hint } = *no_session;
            log_refusal(&context, address, None, &refusal);
            let _ = timeout(LINGER, channel.send_last(&hint)).await;
        }
        Ok(Err(AcceptError::RefusedByDialler(refusal))) => {
            log_refusal(&context, address, claimed, &refusal);
            if let (RefuseCode::Stale { .. }, Some(peer)) = (refusal.code, claimed) {
                let _ = arrivals.send(Arrival::Doubted(peer)).await;
            }
        }
        Ok(Err(AcceptError::Asked)) => attempt.proved(),
        Ok(Err(AcceptError::Exchange(error))) => log_garbage(&context, address, &error.to_string()),
        Err(_) => log_garbage(&context, address, "handshake deadline passed"),
    }
}

/// Why a connection was not authenticated.
#[derive(Debug, Error)]
enum AcceptError {
    #[error("{}", .0.refusal)]
    NoSession(Box<NoSession>),
    #[error(transparent)]
    RefusedByDialler(Refusal),
    /// The dialler asked for the id of this process, and was told.
    #[error("asked for an id")]
    Asked,
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
}

/// The dialler has another version or another key. The refusal is logged; the hint is sent in clear, and tells no more
/// than every dialler may know.
#[derive(Debug)]
struct NoSession {
    channel: Channel,
    refusal: Refusal,
    hint: Vec<u8>,
}

/// The acceptor's side up to the session. Nothing of the dialler is proven: it costs this process a few hashes, or with
/// a recorded first message also the two multiplications of the second one, and is told nothing.
async fn secure(mut channel: Channel, context: &Context) -> Result<SecureChannel, AcceptError> {
    let hello = channel.receive().await?;
    let no_session =
        |channel, refusal, hint| Err(AcceptError::NoSession(Box::new(NoSession { channel, refusal, hint })));
    let (theirs, message) = match Header::from_bytes(&hello) {
        Ok(read) => read,
        Err(error) => {
            let refusal = Refusal::new(RefuseCode::Version, error.to_string());
            return match error {
                HelloError::First => {
                    // The encoding of version 1; see `RefuseCode`.
                    let hint = codec::to_vec(&Verdict::Refused(refusal.clone())).map_err(ExchangeError::from)?;
                    no_session(channel, refusal, hint)
                }
                HelloError::NoCommonVersion(_) | HelloError::NoVersions => {
                    no_session(channel, refusal, spoken().to_bytes().to_vec())
                }
                HelloError::Foreign | HelloError::Malformed(_) => Err(ExchangeError::from(error).into()),
            };
        }
    };
    let proof = context.identity.keyring.current();
    // A member has all keys: `Net::start` has checked it.
    let Some(first) = proof.key_id(theirs.access) else { return Err(ExchangeError::Closed.into()) };
    let other_key = |channel| {
        let hint = Header { versions: spoken(), access: theirs.access, key_id: first }.to_bytes();
        let refusal = check_key_id(theirs.key_id, first).err();
        let refusal = refusal.unwrap_or_else(|| Refusal::new(RefuseCode::Secret, "wrong secret"));
        no_session(channel, refusal, hint.to_vec())
    };
    match &*proof {
        Proof::Secret { keys, .. } => {
            let Some(key) = keys.named(theirs.access, theirs.key_id) else { return other_key(channel) };
            let ours = Header { versions: spoken(), access: theirs.access, key_id: key.id }.to_bytes();
            let (session, answer) =
                key_handshake::accept(key, &hello[..HEADER_BYTES], message, &ours).map_err(ExchangeError::from)?;
            channel.send(&[&ours[..], &answer].concat()).await?;
            let mut channel = channel.secure(session, theirs.access);
            channel.highest = theirs.versions.max;
            Ok(channel)
        }
        Proof::Certificate(_) if theirs.key_id != BY_CERTIFICATE => other_key(channel),
        Proof::Certificate(own) => secure_by_certificate(channel, own, &theirs, &hello).await,
    }
}

/// The flights of TLS, and the comparison of the headers that were sent in clear. The dialler is proven at the end.
async fn secure_by_certificate(
    mut channel: Channel,
    own: &Certificate,
    header: &Header,
    hello: &[u8],
) -> Result<SecureChannel, AcceptError> {
    let ours = Header { versions: spoken(), access: header.access, key_id: BY_CERTIFICATE }.to_bytes();
    let (theirs, flight) = hello.split_at(HEADER_BYTES);
    let (accepting, mut flight) = (own.clone(), flight.to_vec());
    let begun = handshake_thread::run(move || tls::accept(&accepting, &mut flight)).await;
    let (shaking, answer) = match begun.ok_or(ExchangeError::Closed)? {
        Ok(begun) => begun,
        Err(tls::NoSession { refusal, alert }) => {
            let hint = [&ours[..], &alert].concat();
            return Err(AcceptError::NoSession(Box::new(NoSession { channel, refusal, hint })));
        }
    };
    channel.send(&[&ours[..], &answer].concat()).await?;
    let mut flight = channel.receive_up_to(FLIGHT_MAX_BYTES).await?.to_vec();
    let finished = handshake_thread::run(move || shaking.finish(&mut flight)).await;
    let (session, holder, _) = match finished.ok_or(ExchangeError::Closed)? {
        Ok(finished) => finished,
        Err(tls::NoSession { refusal, alert }) => {
            return Err(AcceptError::NoSession(Box::new(NoSession { channel, refusal, hint: alert })));
        }
    };
    let mut channel = channel.secure(session, header.access);
    (channel.holder, channel.highest) = (Some(holder), header.versions.max);
    if channel.receive_bytes().await? != [theirs, &ours].concat() {
        return Err(ExchangeError::from(FrameError::NotAuthentic).into());
    }
    Ok(channel)
}

/// The acceptor's side inside the session. The dialler's hello proves that the dialler has the key and is no replay;
/// only then it is read. A dialler that does not fit is refused, inside the session.
async fn handshake(
    channel: &mut SecureChannel,
    address: SocketAddr,
    context: &Context,
    claimed: &mut Option<PeerId>,
) -> Result<Result<Authenticated, Refusal>, AcceptError> {
    let me = &context.identity;
    let hello = match DiallerHello::from_bytes(&channel.receive_bytes().await?, channel.access) {
        Ok(hello) => hello,
        Err(error) => return Ok(Err(Refusal::new(RefuseCode::Malformed, error.to_string()))),
    };
    if let Some(peer) = &hello.peer {
        *claimed = Some(peer.id);
        // A cut keeps the hello from arriving; the handshake's deadline keeps running.
        context.faults.uncut(peer.id).await;
    }
    let claimed_id = hello.peer.as_ref().map(|peer| peer.id);
    let checked = check_dialler(channel.holder, channel.access, claimed_id)
        .and_then(|()| me.check_hello(&hello, |id| context.known.as_ref().is_none_or(|known| known.contains(&id))));
    if let Err(refusal) = checked {
        return Ok(Err(with_address(refusal, address)));
    }
    let acceptor =
        AcceptorHello { cluster: me.cluster.clone(), id: me.id, incarnation: me.incarnation, facts: me.told_facts() };
    channel.send(&Answer::Hello(acceptor)).await?;
    let Some(peer) = hello.peer else { return Ok(Ok(Authenticated::Client)) };
    if peer.to == ANYBODY {
        return Err(AcceptError::Asked);
    }
    match channel.receive().await? {
        Reply::Refused(refusal) => return Err(AcceptError::RefusedByDialler(refusal)),
        Reply::Commit => {}
    }
    context.faults.uncut(peer.id).await;
    let (id, incarnation, attempt) = (peer.id, peer.incarnation, peer.attempt);
    Ok(Ok(Authenticated::Peer(Claim { id, incarnation, attempt, address })))
}

/// An operator finds a duplicate id by its address, so the refusal names the address.
fn with_address(mut refusal: Refusal, address: SocketAddr) -> Refusal {
    if refusal.code == RefuseCode::Duplicate {
        refusal.text = format!("{} at {address}", refusal.text);
    }
    refusal
}

async fn send_refusal(
    channel: SecureChannel,
    address: SocketAddr,
    claimed: Option<PeerId>,
    refusal: Refusal,
    context: &Context,
) {
    log_refusal(context, address, claimed, &refusal);
    // A refusal has the same encoding at every step, so the step that the dialler has reached does not matter.
    let _ = timeout(LINGER, channel.send_last(&Verdict::Refused(refusal))).await;
}

fn log_refusal(context: &Context, address: SocketAddr, id: Option<PeerId>, refusal: &Refusal) {
    let Refusal { code, text } = refusal;
    let topic = Topic::Refused { from: address.ip(), id, code: *code };
    if *code != RefuseCode::AlreadyConnected && context.log_limit.allows(topic) {
        warn!(from = %address, claimed_id = id, ?code, ?text, "connection refused");
    }
}

fn log_garbage(context: &Context, address: SocketAddr, why: &str) {
    if context.log_limit.allows(Topic::Garbage { from: address.ip() }) {
        debug!(from = %address, why, "connection dropped inside its handshake");
    }
}
