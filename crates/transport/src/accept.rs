//! The accepting side until a connection is authenticated: many strangers, little memory, short patience.

use std::collections::{HashSet, VecDeque};
use std::net::SocketAddr;
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
use crate::handshake::{
    AcceptorHello, Answer, Hello, HelloError, Identity, PeerId, Refusal, RefuseCode, Reply, Role, Transcript, Verdict,
};
use crate::loglimit::{LogLimit, Topic};
use crate::seen::Seen;

/// How long a refused dialler has to read why.
const LINGER: Duration = Duration::from_millis(500);
/// Pause after a failed accept: out of file descriptors is not cured by asking again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What handshakes need to know, shared by all of them.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) identity: Identity,
    pub(crate) known: HashSet<PeerId>,
    pub(crate) handshake_deadline: Duration,
    pub(crate) unauthenticated_max: usize,
    pub(crate) log_limit: LogLimit,
    pub(crate) faults: FaultMap,
    pub(crate) seen: Seen,
}

/// What handshake tasks hand to the event loop.
#[derive(Debug)]
pub(crate) enum Arrival {
    Dialled {
        peer: PeerId,
        attempt: u64,
        result: Result<Connected, DialError>,
    },
    Accepted(Accepted),
    /// The far side says that it is this peer, and calls our incarnation an old one.
    Doubted(PeerId),
}

/// An authenticated connection that waits to be admitted.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) parts: (TcpStream, BytesMut),
    pub(crate) address: SocketAddr,
    pub(crate) guest: Guest,
    /// Takes the socket back with the reason if it is not admitted: telling the dialler takes time the loop has not.
    pub(crate) refuse: oneshot::Sender<(TcpStream, Refusal)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Guest {
    Peer(Claim),
    Client,
}

/// Accepts for ever. Dropping the future ends every handshake it started.
pub(crate) async fn listen(listener: TcpListener, context: Arc<Context>, arrivals: mpsc::Sender<Arrival>) {
    let mut tasks = JoinSet::new();
    let mut by_age: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                if context.log_limit.allows(Topic::Listener) {
                    warn!(%error, "cannot accept connections");
                }
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        while tasks.try_join_next().is_some() {}
        by_age.retain(|task| !task.is_finished());
        // The oldest goes, not the newest: an honest handshake takes milliseconds, so the oldest is the least honest.
        while by_age.len() >= context.unauthenticated_max.max(1) {
            if let Some(oldest) = by_age.pop_front() {
                oldest.abort();
            }
        }
        by_age.push_back(tasks.spawn(serve(stream, address, Arc::clone(&context), arrivals.clone())));
    }
}

async fn serve(stream: TcpStream, address: SocketAddr, context: Arc<Context>, arrivals: mpsc::Sender<Arrival>) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let mut channel = Channel::new(stream);
    let mut claimed = None;
    let greeted = timeout(context.handshake_deadline, greet(&mut channel, address, &context, &mut claimed)).await;
    match greeted {
        Ok(Ok(guest)) => {
            let (refuse, refused) = oneshot::channel();
            let accepted = Accepted { parts: channel.into_parts(), address, guest, refuse };
            if arrivals.send(Arrival::Accepted(accepted)).await.is_err() {
                return;
            }
            if let Ok((stream, refusal)) = refused.await {
                part(Channel::new(stream), address, claimed, &refusal, &context).await;
            }
        }
        Ok(Err(GreetError::Refused(refusal))) => part(channel, address, claimed, &refusal, &context).await,
        Ok(Err(GreetError::RefusedByDialler(refusal))) => {
            log_refusal(&context, address, claimed, &refusal);
            if let (RefuseCode::Stale { .. }, Some(peer)) = (refusal.code, claimed) {
                let _ = arrivals.send(Arrival::Doubted(peer)).await;
            }
        }
        Ok(Err(GreetError::Exchange(error))) => log_garbage(&context, address, &error.to_string()),
        Err(_) => log_garbage(&context, address, "handshake deadline passed"),
    }
}

/// Why a stranger did not become a guest.
#[derive(Debug, Error)]
enum GreetError {
    #[error(transparent)]
    Refused(Refusal),
    #[error(transparent)]
    RefusedByDialler(Refusal),
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
}

async fn greet(
    channel: &mut Channel,
    address: SocketAddr,
    context: &Context,
    claimed: &mut Option<PeerId>,
) -> Result<Guest, GreetError> {
    let me = &context.identity;
    let hello_bytes = channel.receive_bytes().await?;
    let hello = Hello::from_bytes(&hello_bytes)?;
    if let Role::Peer(peer) = &hello.role {
        *claimed = Some(peer.id);
        // A cut keeps the hello from arriving; the handshake's deadline goes on.
        context.faults.uncut(peer.id).await;
    }
    me.check_hello(&hello, |id| context.known.contains(&id))
        .map_err(|refusal| GreetError::Refused(with_address(refusal, address)))?;
    let acceptor = AcceptorHello {
        cluster: me.cluster.clone(),
        id: me.id,
        incarnation: me.incarnation,
        facts: me.facts.clone(),
        nonce: nonce()?,
    };
    let acceptor_bytes = codec::to_vec(&acceptor).map_err(ExchangeError::from)?;
    let transcript = Transcript { dialler: &hello_bytes, acceptor: &acceptor_bytes };
    let proof = transcript.acceptor_proof(me.secret.as_ref());
    channel.send(&Answer::Challenge { hello: acceptor_bytes.clone(), proof }).await?;
    let proof = match channel.receive().await? {
        Reply::Refused(refusal) => return Err(GreetError::RefusedByDialler(refusal)),
        Reply::Proof(proof) => proof,
    };
    transcript.check_dialler(me.secret.as_ref(), &proof).map_err(GreetError::Refused)?;
    if let Some(peer) = *claimed {
        context.faults.uncut(peer).await;
    }
    Ok(match hello.role {
        Role::Client => Guest::Client,
        Role::Peer(peer) => {
            Guest::Peer(Claim { id: peer.id, incarnation: peer.incarnation, attempt: peer.attempt, address })
        }
    })
}

/// A duplicate id is found by its address, so the refusal names it.
fn with_address(mut refusal: Refusal, address: SocketAddr) -> Refusal {
    if refusal.code == RefuseCode::Duplicate {
        refusal.text = format!("{} at {address}", refusal.text);
    }
    refusal
}

async fn part(channel: Channel, address: SocketAddr, claimed: Option<PeerId>, refusal: &Refusal, context: &Context) {
    log_refusal(context, address, claimed, refusal);
    // A refusal reads the same at every step, so it need not be known which answer the dialler waits for.
    let _ = timeout(LINGER, channel.part(&Verdict::Refused(refusal.clone()))).await;
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

impl From<HelloError> for GreetError {
    fn from(error: HelloError) -> Self {
        match error {
            HelloError::Refused(refusal) => Self::Refused(refusal),
            HelloError::Codec(error) => Self::Exchange(error.into()),
            HelloError::Magic => Self::Exchange(ExchangeError::Foreign),
        }
    }
}
