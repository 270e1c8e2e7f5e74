//! The dialler's side of a handshake, the same for members and clients: [`introduce`], then
//! [`commit`](Introduced::commit) for a member and [`verdict`](Introduced::verdict) for a client. A member decides
//! between the two whether it keeps its dial.

use std::time::Duration;

use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;
use types::Access;

use crate::certificate::Certificate;
use crate::exchange::{Channel, ExchangeError, SecureChannel};
use crate::frame::{FLIGHT_MAX_BYTES, FrameError};
use crate::handshake::{Answer, Refusal, RefuseCode, Reply, Verdict, check_acceptors_holder, check_key_id};
use crate::handshake_thread;
use crate::hello::{AcceptorHello, DiallerHello, FIRST, HEADER_BYTES, Header, HelloError, SPOKEN, Versions, spoken};
use crate::key_handshake::{Dialling, NoiseError};
use crate::keyring::Proof;
use crate::secret::{BY_CERTIFICATE, Keys};
use crate::tls;

/// How long an acceptor has to read why its certificate is refused.
const LINGER: Duration = Duration::from_millis(500);
/// How a refusal of version 1 for another version begins.
const FIRST_REFUSAL: &[u8] = &[0, 1];

/// Why the dialler has no connection.
#[derive(Debug, Error)]
pub(crate) enum HandshakeError {
    /// The acceptor refused, or its hello was refused. The acceptor has proved the key.
    #[error("{0}")]
    Refused(Refusal),
    /// The secrets differ, as far as the key ids in clear tell, or the acceptor's certificate is not accepted. Not
    /// authenticated: no decision may depend on it.
    #[error("{0}")]
    Secret(Refusal),
    /// Not authenticated: no decision may depend on it.
    #[error("the acceptor speaks {0}, this side speaks {SPOKEN}: use the same release on both sides")]
    Version(Versions),
    #[error(transparent)]
    Exchange(ExchangeError),
}

impl From<ExchangeError> for HandshakeError {
    fn from(error: ExchangeError) -> Self {
        match error {
            // An alert inside the session: the acceptor has proved itself, and does not accept this side's certificate.
            ExchangeError::Frame(FrameError::Refused(text)) => {
                Self::Refused(Refusal::new(RefuseCode::Certificate, text))
            }
            other => Self::Exchange(other),
        }
    }
}

/// Both sides have proved the key, and the acceptor has introduced itself.
#[derive(Debug)]
pub(crate) struct Introduced {
    pub(crate) channel: SecureChannel,
    pub(crate) acceptor: AcceptorHello,
}

/// A connection that the acceptor keeps.
#[derive(Debug)]
pub(crate) struct Welcomed {
    pub(crate) channel: SecureChannel,
    pub(crate) acceptor: AcceptorHello,
    /// The acceptor's own dials before this connection; see [`mod@crate::admit`].
    pub(crate) floor: u64,
}

/// Makes a session, sends the hello and receives the acceptor's. `check` compares the acceptor's values with this
/// side's.
pub(crate) async fn introduce(
    stream: TcpStream,
    proof: &Proof,
    access: Access,
    hello: &DiallerHello,
    check: impl FnOnce(&AcceptorHello) -> Result<(), Refusal>,
) -> Result<Introduced, HandshakeError> {
    let mut channel = secure(Channel::new(stream), proof, access).await?;
    channel.send(hello).await?;
    let acceptor = match channel.receive().await? {
        Answer::Refused(refusal) => return Err(HandshakeError::Refused(refusal)),
        Answer::Hello(acceptor) => acceptor,
    };
    acceptor.check_size().map_err(ExchangeError::from)?;
    let checked = check_acceptors_holder(channel.holder, acceptor.id).and_then(|()| check(&acceptor));
    let introduced = Introduced { channel, acceptor };
    match checked {
        Ok(()) => Ok(introduced),
        Err(refusal) => {
            introduced.refuse(&refusal).await;
            Err(HandshakeError::Refused(refusal))
        }
    }
}

async fn secure(channel: Channel, proof: &Proof, access: Access) -> Result<SecureChannel, HandshakeError> {
    match proof {
        Proof::Secret { keys, .. } => secure_by_secret(channel, keys, access).await,
        Proof::Certificate(own) => secure_by_certificate(channel, own, access).await,
    }
}

/// Exchanges the headers and the two messages of Noise.
async fn secure_by_secret(mut channel: Channel, keys: &Keys, access: Access) -> Result<SecureChannel, HandshakeError> {
    let Some(key) = keys.of(access) else {
        let text = format!("this secret is not for a {access}");
        return Err(HandshakeError::Secret(Refusal::new(RefuseCode::Secret, text)));
    };
    let header = Header { versions: spoken(), access, key_id: key.id };
    let (dialling, message) = Dialling::begin(key, &header.to_bytes()).map_err(ExchangeError::from)?;
    channel.send(&[&header.to_bytes()[..], &message].concat()).await?;
    let answer = channel.receive().await?;
    let (theirs, message) = read_answer(&answer, &header)?;
    let (session, bound) = dialling.finish(message).map_err(ExchangeError::from)?;
    if answer[..HEADER_BYTES] != bound {
        return Err(ExchangeError::from(NoiseError::NotAuthentic).into());
    }
    let mut channel = channel.secure(session, access);
    channel.highest = theirs.versions.max;
    Ok(channel)
}

/// Exchanges the headers and the three flights of TLS, and repeats both headers inside the session.
async fn secure_by_certificate(
    mut channel: Channel,
    own: &Certificate,
    access: Access,
) -> Result<SecureChannel, HandshakeError> {
    let header = Header { versions: spoken(), access, key_id: BY_CERTIFICATE };
    let refused = |refusal| HandshakeError::Secret(refusal);
    let dialling = own.clone();
    let begun = handshake_thread::run(move || tls::dial(&dialling)).await.ok_or(ExchangeError::Closed)?;
    let (shaking, flight) = begun.map_err(|no| refused(no.refusal))?;
    channel.send(&[&header.to_bytes()[..], &flight].concat()).await?;
    let answer = channel.receive_up_to(FLIGHT_MAX_BYTES).await?;
    let (acceptors, flight) = read_answer(&answer, &header)?;
    let (mut flight, theirs) = (flight.to_vec(), answer[..HEADER_BYTES].to_vec());
    let finished = handshake_thread::run(move || shaking.finish(&mut flight)).await.ok_or(ExchangeError::Closed)?;
    let (session, holder, flight) = match finished {
        Ok(finished) => finished,
        Err(tls::NoSession { refusal, alert }) => {
            // The acceptor logs the same reason. It does not matter here whether it arrives.
            let _ = timeout(LINGER, channel.send_last(&alert)).await;
            return Err(refused(refusal));
        }
    };
    channel.send(&flight).await?;
    let mut channel = channel.secure(session, access);
    (channel.holder, channel.highest) = (Some(holder), acceptors.versions.max);
    channel.send_bytes(&[&header.to_bytes()[..], &theirs].concat()).await?;
    Ok(channel)
}

/// The acceptor's header, and the second message of Noise or the flight of TLS, unless the answer is a hint why there is
/// none.
pub(crate) fn read_answer<'a>(answer: &'a [u8], ours: &Header) -> Result<(Header, &'a [u8]), HandshakeError> {
    if answer.starts_with(FIRST_REFUSAL) {
        return Err(HandshakeError::Version(FIRST));
    }
    let (theirs, message) = match Header::from_bytes(answer) {
        Err(HelloError::NoCommonVersion(versions)) => return Err(HandshakeError::Version(versions)),
        read => read.map_err(ExchangeError::from)?,
    };
    if theirs.access != ours.access {
        let text = format!("it answers a {} as a {}", ours.access, theirs.access);
        return Err(ExchangeError::from(HelloError::Malformed(text)).into());
    }
    check_key_id(ours.key_id, theirs.key_id).map_err(HandshakeError::Secret)?;
    Ok((theirs, message))
}

impl Introduced {
    /// A member sends the reason to the acceptor, so that it logs the same text. It does not matter here whether it
    /// arrives.
    pub(crate) async fn refuse(mut self, refusal: &Refusal) {
        if self.channel.access == Access::Member {
            let _ = self.channel.send(&Reply::Refused(refusal.clone())).await;
        }
    }

    /// A member: says that it keeps its dial, and awaits the verdict.
    pub(crate) async fn commit(mut self) -> Result<Welcomed, HandshakeError> {
        self.channel.send(&Reply::Commit).await?;
        self.verdict().await
    }

    pub(crate) async fn verdict(mut self) -> Result<Welcomed, HandshakeError> {
        match self.channel.receive().await? {
            Verdict::Refused(refusal) => Err(HandshakeError::Refused(refusal)),
            Verdict::Welcome { floor } => Ok(Welcomed { channel: self.channel, acceptor: self.acceptor, floor }),
        }
    }
}
