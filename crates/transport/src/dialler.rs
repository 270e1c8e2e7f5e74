//! The dialler's side of a handshake, the same for members and clients: [`introduce`], then
//! [`commit`](Introduced::commit) for a member and [`verdict`](Introduced::verdict) for a client. A member decides
//! between the two whether it keeps its dial.

use thiserror::Error;
use tokio::net::TcpStream;
use types::Access;

use crate::exchange::{Channel, ExchangeError, SecureChannel};
use crate::handshake::{Answer, Refusal, RefuseCode, Reply, Verdict, check_key_id};
use crate::hello::{AcceptorHello, DiallerHello, FIRST, HEADER_BYTES, Header, HelloError, SPOKEN, Versions};
use crate::noise::{Dialling, NoiseError};
use crate::secret::Keys;

/// How a refusal of version 1 for another version begins.
const FIRST_REFUSAL: &[u8] = &[0, 1];

/// Why the dialler has no connection.
#[derive(Debug, Error)]
pub(crate) enum HandshakeError {
    /// The acceptor refused, or its hello was refused. The acceptor has proved the key.
    #[error("{0}")]
    Refused(Refusal),
    /// The secrets differ, as far as the key ids in clear tell. Not authenticated: no decision may depend on it.
    #[error("{0}")]
    Secret(Refusal),
    /// Not authenticated: no decision may depend on it.
    #[error("the acceptor speaks {0}, this side speaks {SPOKEN}: use the same release on both sides")]
    Version(Versions),
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
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
    keys: &Keys,
    access: Access,
    hello: &DiallerHello,
    check: impl FnOnce(&AcceptorHello) -> Result<(), Refusal>,
) -> Result<Introduced, HandshakeError> {
    let mut channel = secure(Channel::new(stream), keys, access).await?;
    channel.send(hello).await?;
    let acceptor = match channel.receive().await? {
        Answer::Refused(refusal) => return Err(HandshakeError::Refused(refusal)),
        Answer::Hello(acceptor) => acceptor,
    };
    acceptor.check_size().map_err(ExchangeError::from)?;
    let checked = check(&acceptor);
    let introduced = Introduced { channel, acceptor };
    match checked {
        Ok(()) => Ok(introduced),
        Err(refusal) => {
            introduced.refuse(&refusal).await;
            Err(HandshakeError::Refused(refusal))
        }
    }
}

/// Exchanges the headers and the two messages of Noise.
async fn secure(mut channel: Channel, keys: &Keys, access: Access) -> Result<SecureChannel, HandshakeError> {
    let Some(key) = keys.of(access) else {
        let text = format!("this secret is not for a {access}");
        return Err(HandshakeError::Secret(Refusal::new(RefuseCode::Secret, text)));
    };
    let header = Header { versions: SPOKEN, access, key_id: key.id };
    let (dialling, message) = Dialling::begin(key, &header.to_bytes()).map_err(ExchangeError::from)?;
    channel.send(&[&header.to_bytes()[..], &message].concat()).await?;
    let answer = channel.receive().await?;
    let (session, bound) = dialling.finish(read_answer(&answer, &header)?).map_err(ExchangeError::from)?;
    if answer[..HEADER_BYTES] != bound {
        return Err(ExchangeError::from(NoiseError::NotAuthentic).into());
    }
    Ok(channel.secure(session, access))
}

/// The second message of Noise, unless the answer is a hint why there is none.
pub(crate) fn read_answer<'a>(answer: &'a [u8], ours: &Header) -> Result<&'a [u8], HandshakeError> {
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
    Ok(message)
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
