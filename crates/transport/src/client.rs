//! The client's side of a connection, for `ctl` and library clients.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::codec::Decoder;

use crate::dial;
use crate::dialler::{HandshakeError, Welcomed, challenge};
use crate::exchange::ExchangeError;
use crate::frame::{FrameCodec, FrameError};
use crate::handshake::{Facts, Incarnation, PeerId, RefuseCode, check_cluster};
use crate::hello::{AcceptorHello, Role, SPOKEN, Versions};
use crate::kind::{self, Kind};
use crate::secret::Secret;

const READ_STEP_BYTES: usize = 8 << 10;

/// How a client introduces itself.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    pub cluster: String,
    pub secret: Option<Secret>,
    /// Resolution, connect and handshake together.
    pub deadline: Duration,
}

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum ConnectError {
    #[error("cannot connect: {0}")]
    Unreachable(#[source] io::Error),
    #[error("refused: {text}")]
    Refused { code: RefuseCode, text: String },
    /// The range is not authenticated, like every refusal before the member's proof.
    #[error("the member speaks {theirs}, this program speaks {ours}: use the same release on both sides")]
    Version { theirs: Versions, ours: Versions },
    #[error("the far side is no conclave node: {0}")]
    Protocol(String),
    #[error("no answer in time")]
    Timeout,
}

/// Why a connection cannot be used any more.
#[derive(Debug, Error)]
pub enum RecvError {
    #[error("connection lost: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("the connection ended inside a frame")]
    Truncated,
    #[error("the member sent a frame that this program does not know: use the same release on both sides")]
    Kind,
}

/// An authenticated connection to one member.
#[derive(Debug)]
pub struct ClientConnection {
    sender: ClientSender,
    receiver: ClientReceiver,
    member: AcceptorHello,
}

/// Connects to `host:port` and authenticates both ways.
pub async fn connect_client(address: &str, settings: &ClientSettings) -> Result<ClientConnection, ConnectError> {
    match timeout(settings.deadline, connect(address, settings)).await {
        Ok(result) => result,
        Err(_) => Err(ConnectError::Timeout),
    }
}

impl AsFd for ClientConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sender.stream.as_fd()
    }
}

impl ClientConnection {
    /// The id of the member that answered.
    pub fn member_id(&self) -> PeerId {
        self.member.id
    }

    pub fn member_incarnation(&self) -> Incarnation {
        self.member.incarnation
    }

    /// The facts the member's cluster agrees on.
    pub fn member_facts(&self) -> &Facts {
        &self.member.facts
    }

    /// Two halves that may be used at the same time. The connection closes when both are dropped.
    pub fn split(self) -> (ClientSender, ClientReceiver) {
        (self.sender, self.receiver)
    }

    /// See [`ClientSender::send`].
    pub async fn send(&mut self, payload: &[u8]) -> Result<(), FrameError> {
        self.sender.send(payload).await
    }

    /// See [`ClientReceiver::recv`].
    pub async fn recv(&mut self) -> Result<Option<Bytes>, RecvError> {
        self.receiver.recv().await
    }
}

/// The half of a connection that sends.
#[derive(Debug)]
pub struct ClientSender {
    stream: Arc<TcpStream>,
    output: BytesMut,
}

impl ClientSender {
    /// Sends one frame. A send that was dropped half-way is finished by the next one.
    pub async fn send(&mut self, payload: &[u8]) -> Result<(), FrameError> {
        kind::encode(Kind::Data, payload, &mut self.output)?;
        while !self.output.is_empty() {
            self.stream.writable().await?;
            match self.stream.try_write(&self.output) {
                Ok(written) => self.output.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// The half of a connection that receives.
#[derive(Debug)]
pub struct ClientReceiver {
    stream: Arc<TcpStream>,
    input: BytesMut,
}

impl ClientReceiver {
    /// The next frame; `None` once the member has closed the connection. Cancel-safe.
    pub async fn recv(&mut self) -> Result<Option<Bytes>, RecvError> {
        loop {
            if let Some(frame) = FrameCodec::authenticated().decode(&mut self.input)? {
                match kind::split(frame).ok_or(RecvError::Kind)? {
                    (Kind::Data, payload) => return Ok(Some(payload)),
                    (Kind::Ping | Kind::Pong, _) => continue,
                }
            }
            self.stream.readable().await?;
            self.input.reserve(READ_STEP_BYTES);
            match self.stream.try_read_buf(&mut self.input) {
                Ok(0) => return if self.input.is_empty() { Ok(None) } else { Err(RecvError::Truncated) },
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

async fn connect(address: &str, settings: &ClientSettings) -> Result<ClientConnection, ConnectError> {
    let stream = dial::connect(address, 0).await.map_err(ConnectError::Unreachable)?;
    let check = |member: &AcceptorHello| check_cluster(&settings.cluster, &member.cluster);
    let challenge = challenge(stream, &settings.cluster, Role::Client, settings.secret.as_ref(), check).await?;
    let Welcomed { parts: (stream, input), acceptor: member, .. } = challenge.prove().await?;
    let stream = Arc::new(stream);
    let sender = ClientSender { stream: Arc::clone(&stream), output: BytesMut::new() };
    Ok(ClientConnection { sender, receiver: ClientReceiver { stream, input }, member })
}

impl From<HandshakeError> for ConnectError {
    fn from(error: HandshakeError) -> Self {
        match error {
            HandshakeError::Refused { refusal, .. } => Self::Refused { code: refusal.code, text: refusal.text },
            HandshakeError::Version(theirs) => Self::Version { theirs, ours: SPOKEN },
            HandshakeError::Exchange(error) => error.into(),
        }
    }
}

impl From<ExchangeError> for ConnectError {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::Io(error) => Self::Unreachable(error),
            other => Self::Protocol(other.to_string()),
        }
    }
}
