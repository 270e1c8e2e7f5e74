//! The accepting side until a connection is authenticated: many unknown diallers, little memory, short deadlines.

use std::collections::{HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::admit::Claim;
use crate::chaos::FaultMap;
use crate::codec;
use crate::dial::{Connected, DialError};
use crate::exchange::{Channel, ExchangeError, nonce};
use crate::handshake::{Answer, Identity, PeerId, Refusal, RefuseCode, Reply, Transcript, Verdict};
use crate::hello::{AcceptorHello, Hello, HelloError, Role, SPOKEN};
use crate::loglimit::{LogLimit, Topic};
use crate::seen::Seen;
use crate::socket;
use crate::sources::{self, Attempt, Sources};

/// How long a refused dialler has to read the reason.
const LINGER: Duration = Duration::from_millis(500);
/// Pause after a failed accept: an immediate retry does not help when file descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What all handshakes need to know.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) identity: Identity,
    pub(crate) known: HashSet<PeerId>,
    pub(crate) handshake_deadline: Duration,
    pub(crate) unauthenticated_max: usize,
    pub(crate) log_limit: LogLimit,
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
    /// The far side claims to be this peer and calls this member's incarnation stale.
    Doubted(PeerId),
    /// No connection can be accepted.
    OutOfDescriptors,
}

/// An authenticated connection that waits to be admitted.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) parts: (TcpStream, BytesMut),
    pub(crate) address: SocketAddr,
    pub(crate) who: Authenticated,
    /// Takes the socket back with the reason if it is not admitted: telling the dialler would block the event loop.
    pub(crate) refuse: oneshot::Sender<(TcpStream, Refusal)>,
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
    let mut channel = Channel::new(stream);
    let mut claimed = None;
    let authenticated =
        timeout(context.handshake_deadline, handshake(&mut channel, address, &context, &mut claimed)).await;
    match authenticated {
        Ok(Ok(who)) => {
            attempt.proved();
            let (refuse, refused) = oneshot::channel();
            let accepted = Accepted { parts: channel.into_parts(), address, who, refuse };
            if arrivals.send(Arrival::Accepted(accepted)).await.is_err() {
                return;
            }
            if let Ok((stream, refusal)) = refused.await {
                send_refusal(Channel::new(stream), address, claimed, &refusal, &context).await;
            }
        }
        Ok(Err(AcceptError::Refused(refusal))) => send_refusal(channel, address, claimed, &refusal, &context).await,
        Ok(Err(AcceptError::NoCommonVersion(refusal))) => {
            log_refusal(&context, address, claimed, &refusal);
            let _ = timeout(LINGER, channel.send_last(&SPOKEN.to_bytes())).await;
        }
        Ok(Err(AcceptError::RefusedByDialler(refusal))) => {
            log_refusal(&context, address, claimed, &refusal);
            if let (RefuseCode::Stale { .. }, Some(peer)) = (refusal.code, claimed) {
                let _ = arrivals.send(Arrival::Doubted(peer)).await;
            }
        }
        Ok(Err(AcceptError::Exchange(error))) => log_garbage(&context, address, &error.to_string()),
        Err(_) => log_garbage(&context, address, "handshake deadline passed"),
    }
}

/// Why a connection was not authenticated.
#[derive(Debug, Error)]
enum AcceptError {
    #[error(transparent)]
    Refused(Refusal),
    /// The refusal is logged; the dialler could not read it, so it is sent the versions of this member.
    #[error(transparent)]
    NoCommonVersion(Refusal),
    #[error(transparent)]
    RefusedByDialler(Refusal),
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
}

/// The acceptor's side of a handshake.
async fn handshake(
    channel: &mut Channel,
    address: SocketAddr,
    context: &Context,
    claimed: &mut Option<PeerId>,
) -> Result<Authenticated, AcceptError> {
    let me = &context.identity;
    let hello_bytes = channel.receive_bytes().await?;
    let (version, hello) = Hello::from_bytes(&hello_bytes)?;
    if let Role::Peer(peer) = &hello.role {
        *claimed = Some(peer.id);
        // A cut keeps the hello from arriving; the handshake's deadline keeps running.
        context.faults.uncut(peer.id).await;
    }
    me.check_hello(&hello, |id| context.known.contains(&id))
        .map_err(|refusal| AcceptError::Refused(with_address(refusal, address)))?;
    let acceptor = AcceptorHello {
        cluster: me.cluster.clone(),
        id: me.id,
        incarnation: me.incarnation,
        facts: me.facts.clone(),
        nonce: nonce()?,
    };
    let acceptor_bytes = acceptor.to_bytes(version).map_err(ExchangeError::from)?;
    let transcript = Transcript { dialler: &hello_bytes, acceptor: &acceptor_bytes };
    let proof = transcript.acceptor_proof(me.secret.as_ref());
    channel.send(&Answer::Challenge { hello: acceptor_bytes.clone(), proof }).await?;
    let proof = match channel.receive().await? {
        Reply::Refused(refusal) => return Err(AcceptError::RefusedByDialler(refusal)),
        Reply::Proof(proof) => proof,
    };
    transcript.check_dialler(me.secret.as_ref(), &proof).map_err(AcceptError::Refused)?;
    if let Some(peer) = *claimed {
        context.faults.uncut(peer).await;
    }
    Ok(match hello.role {
        Role::Client => Authenticated::Client,
        Role::Peer(peer) => {
            Authenticated::Peer(Claim { id: peer.id, incarnation: peer.incarnation, attempt: peer.attempt, address })
        }
    })
}

/// An operator finds a duplicate id by its address, so the refusal names the address.
fn with_address(mut refusal: Refusal, address: SocketAddr) -> Refusal {
    if refusal.code == RefuseCode::Duplicate {
        refusal.text = format!("{} at {address}", refusal.text);
    }
    refusal
}

async fn send_refusal(
    channel: Channel,
    address: SocketAddr,
    claimed: Option<PeerId>,
    refusal: &Refusal,
    context: &Context,
) {
    log_refusal(context, address, claimed, refusal);
    // A refusal has the same encoding at every step and in every version, so the step that the dialler has reached does
    // not matter.
    if let Ok(frame) = codec::to_vec(&Verdict::Refused(refusal.clone())) {
        let _ = timeout(LINGER, channel.send_last(&frame)).await;
    }
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

impl From<HelloError> for AcceptError {
    fn from(error: HelloError) -> Self {
        let refusal = |code| Refusal::new(code, error.to_string());
        match error {
            HelloError::Foreign => Self::Exchange(error.into()),
            HelloError::First => Self::Refused(refusal(RefuseCode::Version)),
            HelloError::NoCommonVersion(_) | HelloError::NoVersions => {
                Self::NoCommonVersion(refusal(RefuseCode::Version))
            }
            HelloError::Malformed(_) => Self::Refused(refusal(RefuseCode::Malformed)),
        }
    }
}
