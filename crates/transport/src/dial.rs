//! One attempt to connect to a peer: wait, resolve, connect, authenticate.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};
use types::Access;

use crate::accept::Context;
use crate::dial_log::Urgency;
use crate::dialler::{HandshakeError, Welcomed, introduce};
use crate::exchange::{ExchangeError, SecureChannel};
use crate::handshake::{ANYBODY, Identity, Incarnation, PeerId, Refusal, RefuseCode};
use crate::hello::{DiallerHello, PeerHello};
use crate::resolver::resolve;
use crate::socket;

/// The parameters of one attempt.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    pub(crate) peer: PeerId,
    pub(crate) address: String,
    pub(crate) attempt: u64,
    pub(crate) delay: Duration,
    pub(crate) connect_timeout: Duration,
}

/// A connection that both sides have agreed to keep.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) channel: SecureChannel,
    pub(crate) address: SocketAddr,
    pub(crate) incarnation: Incarnation,
    /// The far side's own dials before this connection; see [`mod@crate::admit`].
    pub(crate) floor: u64,
}

#[derive(Debug)]
pub(crate) enum DialError {
    Unreachable(String),
    Refused(Refusal),
    /// The far side's connection was admitted instead.
    Cancelled,
}

/// The progress of an attempt. Shared with the event loop, which may cancel the attempt until it is committed.
#[derive(Debug, Default)]
pub(crate) struct Stage(AtomicU8);

const WAITING: u8 = 0;
const DIALLING: u8 = 1;
const COMMITTED: u8 = 2;
const CANCELLED: u8 = 3;

impl Stage {
    pub(crate) fn is_waiting(&self) -> bool {
        self.0.load(Ordering::Acquire) == WAITING
    }

    /// True unless the attempt is committed already.
    pub(crate) fn cancel(&self) -> bool {
        self.advance(WAITING, CANCELLED) || self.advance(DIALLING, CANCELLED) || !self.is_committed()
    }

    fn is_committed(&self) -> bool {
        self.0.load(Ordering::Acquire) == COMMITTED
    }

    fn begin(&self) -> bool {
        self.advance(WAITING, DIALLING)
    }

    fn commit(&self) -> bool {
        self.advance(DIALLING, COMMITTED)
    }

    fn advance(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Dial {
    /// Runs the attempt and logs a refusal.
    pub(crate) async fn run(&self, context: &Context, stage: &Stage) -> Result<Connected, DialError> {
        sleep(self.delay).await;
        if !stage.begin() {
            return Err(DialError::Cancelled);
        }
        let result = self.connect_and_authenticate(context, stage).await;
        match &result {
            Err(DialError::Refused(refusal)) => self.log_refusal(context, refusal),
            Err(DialError::Unreachable(why)) => self.log_unreachable(context, why),
            Ok(_) | Err(DialError::Cancelled) => {}
        }
        result
    }

    async fn connect_and_authenticate(&self, context: &Context, stage: &Stage) -> Result<Connected, DialError> {
        let unreachable = |why: &str| DialError::Unreachable(format!("{}: {why}", self.address));
        let connecting = async {
            context.faults.connect_delay(self.peer).await;
            connect(&self.address, self.attempt).await
        };
        let stream = match timeout(self.connect_timeout, connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(unreachable(&error.to_string())),
            Err(_) => return Err(unreachable("connect timed out")),
        };
        let handshake = async {
            let result = self.handshake(context, stage, stream).await;
            // Under a cut no result would have arrived.
            context.faults.uncut(self.peer).await;
            result
        };
        match timeout(context.handshake_deadline, handshake).await {
            Ok(Err(DialError::Unreachable(why))) => Err(unreachable(&why)),
            Ok(result) => result,
            Err(_) => Err(unreachable("handshake timed out")),
        }
    }

    async fn handshake(&self, context: &Context, stage: &Stage, stream: TcpStream) -> Result<Connected, DialError> {
        let me = &context.identity;
        let address = stream.peer_addr().map_err(ExchangeError::from)?;
        let hello = hello(me, self.peer, self.attempt);
        let check = |acceptor: &_| me.check_acceptor(acceptor, self.peer);
        let introduced = match introduce(stream, &me.keyring.current(), Access::Member, &hello, check).await {
            Err(error @ HandshakeError::Version(_)) => {
                self.log_refusal(context, &Refusal::new(RefuseCode::Version, error.to_string()));
                return Err(error.into());
            }
            introduced => introduced?,
        };
        if let Err(refusal) = context.seen.check(me.id, self.peer, introduced.acceptor.incarnation) {
            // This member refuses the far side: the dial counts as not reached.
            introduced.refuse(&refusal).await;
            self.log_refusal(context, &refusal);
            return Err(DialError::Unreachable(refusal.text));
        }
        if me.id > self.peer && !stage.commit() {
            return Err(DialError::Cancelled);
        }
        // A committed dial blocks the far side's own dials, so its last step gets less time than a stranger's
        // handshake.
        let welcomed = timeout(self.connect_timeout, introduced.commit()).await;
        let Welcomed { channel, acceptor, floor } =
            welcomed.map_err(|_| DialError::Unreachable("no verdict in time".to_owned()))??;
        Ok(Connected { channel, address, incarnation: acceptor.incarnation, floor })
    }

    fn log_refusal(&self, context: &Context, refusal: &Refusal) {
        let Refusal { code, text } = refusal;
        if *code != RefuseCode::AlreadyConnected && context.dial_log.failed(self.peer, text, Urgency::Lasting) {
            warn!(peer = self.peer, address = %self.address, ?code, ?text, "no connection: refused");
        }
    }

    fn log_unreachable(&self, context: &Context, why: &str) {
        // A refusal that counts as not reached has its line already.
        let cause = why.strip_prefix(&self.address).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(why);
        if context.dial_log.failed(self.peer, cause, Urgency::Passing) {
            warn!(peer = self.peer, address = %self.address, cause, "no connection; dialling on");
        } else {
            debug!(peer = self.peer, address = %self.address, cause, "dial failed");
        }
    }
}

/// Asks the process at this address for its id, and logs why it tells none.
pub(crate) async fn ask(context: &Context, address: &str, attempt: u64, connect_timeout: Duration) -> Option<PeerId> {
    let (cause, urgency) = match ask_once(context, address, attempt, connect_timeout).await {
        Ok(id) => {
            if context.dial_log.ended(ANYBODY) {
                info!(address, id, "introduced");
            }
            return Some(id);
        }
        Err(DialError::Refused(refusal)) => (format!("{address}: {}", refusal.text), Urgency::Lasting),
        Err(DialError::Unreachable(why)) => (why, Urgency::Passing),
        Err(DialError::Cancelled) => return None,
    };
    if context.dial_log.failed(ANYBODY, &cause, urgency) {
        warn!(address, cause, "no introduction; dialling on");
    }
    None
}

async fn ask_once(
    context: &Context,
    address: &str,
    attempt: u64,
    connect_timeout: Duration,
) -> Result<PeerId, DialError> {
    let me = &context.identity;
    let unreachable = |why: &str| DialError::Unreachable(format!("{address}: {why}"));
    let stream = match timeout(connect_timeout, connect(address, attempt)).await {
        Ok(connected) => connected.map_err(|error| unreachable(&error.to_string()))?,
        Err(_) => return Err(unreachable("connect timed out")),
    };
    let hello = hello(me, ANYBODY, attempt);
    let proof = me.keyring.current();
    let asking = introduce(stream, &proof, Access::Member, &hello, |acceptor| me.check_acceptor(acceptor, ANYBODY));
    let introduced =
        timeout(context.handshake_deadline, asking).await.map_err(|_| unreachable("handshake timed out"))?;
    introduced.map(|introduced| introduced.acceptor.id).map_err(DialError::from)
}

/// How this process introduces itself to a peer.
pub(crate) fn hello(me: &Identity, to: PeerId, attempt: u64) -> DiallerHello {
    let peer = PeerHello { id: me.id, to, incarnation: me.incarnation, attempt, facts: me.told_facts() };
    DiallerHello { cluster: me.cluster.clone(), peer: Some(peer) }
}

/// Resolves `host:port` and connects to the first address that answers.
///
/// An address literal is not resolved, so that a cluster configured by addresses never starts a resolver thread.
pub(crate) async fn connect(address: &str, attempt: u64) -> io::Result<TcpStream> {
    let mut addresses: Vec<SocketAddr> = match address.parse() {
        Ok(literal) => vec![literal],
        Err(_) => resolve(address).await?,
    };
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    // An address that does not answer takes the whole timeout; the next attempt begins with another address.
    let first = (attempt % addresses.len() as u64) as usize;
    addresses.rotate_left(first);
    let stream = TcpStream::connect(addresses.as_slice()).await?;
    // A dial of an unused local port can connect to itself, and would then hold the port that the peer wants to listen
    // on.
    if stream.local_addr()? == stream.peer_addr()? {
        stream.set_zero_linger()?;
        return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "no process listens"));
    }
    socket::prepare(&stream)?;
    Ok(stream)
}

impl From<ExchangeError> for DialError {
    fn from(error: ExchangeError) -> Self {
        Self::Unreachable(error.to_string())
    }
}

impl From<HandshakeError> for DialError {
    fn from(error: HandshakeError) -> Self {
        match error {
            // The second one is a hint in clear. Its code says only that the secrets differ, and causes nothing but words.
            HandshakeError::Refused(refusal) | HandshakeError::Secret(refusal) => Self::Refused(refusal),
            other => Self::Unreachable(other.to_string()),
        }
    }
}

/// A running attempt as the event loop sees it; dropping it ends the attempt.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) attempt: u64,
    pub(crate) stage: Arc<Stage>,
    pub(crate) task: tokio::task::AbortHandle,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dial_is_committed_or_cancelled_never_both() {
        let committed = Stage::default();
        assert!(committed.begin() && committed.commit());
        assert!(!committed.cancel());
        for begun in [false, true] {
            let cancelled = Stage::default();
            assert!(!begun || cancelled.begin());
            assert!(cancelled.cancel());
            assert!(!cancelled.begin() && !cancelled.commit());
            assert!(cancelled.cancel());
        }
    }
}
