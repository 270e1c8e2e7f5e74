//! The client's side of a connection, for `ctl` and library clients.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;
use tokio::io::AsyncReadExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;
use types::Access;

use crate::dial;
use crate::dialler::{HandshakeError, Welcomed, introduce};
use crate::exchange::{ExchangeError, SecureChannel};
use crate::frame::{FRAME_MAX_BYTES, FrameError};
use crate::handshake::{Facts, PeerId, RefuseCode, check_cluster};
use crate::hello::{AcceptorHello, DiallerHello, SPOKEN, Versions, is_newer};
use crate::keyring::Keyring;
use crate::kind::Kind;
use crate::secure::{Opener, Sealer, Session};

const READ_STEP_BYTES: usize = 8 << 10;

/// How a client introduces itself.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    pub cluster: String,
    /// The secret or the certificate of an operator or a reader. With those of a member a client is an operator.
    pub keyring: Keyring,
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
    /// The range is not authenticated, like a refusal for the secret.
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
        self.sender.stream.as_ref().as_fd()
    }
}

impl ClientConnection {
    /// The id of the member that answered.
    pub fn member_id(&self) -> PeerId {
        self.member.id
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
    stream: OwnedWriteHalf,
    sealer: Sealer,
    output: BytesMut,
}

impl ClientSender {
    /// Sends one frame. A send that was dropped half-way is finished by the next one.
    pub async fn send(&mut self, payload: &[u8]) -> Result<(), FrameError> {
        if !self.try_send(payload)? {
            self.finish().await?;
        }
        Ok(())
    }

    /// Sends as much of one frame as the socket takes now. False if a part of it waits for [`ClientSender::finish`].
    pub fn try_send(&mut self, payload: &[u8]) -> Result<bool, FrameError> {
        self.sealer.seal(payload, &mut self.output)?;
        self.write()
    }

    /// Sends what a [`ClientSender::try_send`] left over. Cancel-safe.
    pub async fn finish(&mut self) -> Result<(), FrameError> {
        while !self.write()? {
            self.stream.writable().await?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<bool, FrameError> {
        while !self.output.is_empty() {
            match self.stream.try_write(&self.output) {
                Ok(written) => self.output.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}

/// The half of a connection that receives.
#[derive(Debug)]
pub struct ClientReceiver {
    stream: OwnedReadHalf,
    opener: Opener,
    input: BytesMut,
    newer: bool,
}

impl ClientReceiver {
    /// Does the member speak a version that this process does not know?
    pub fn speaks_newer(&self) -> bool {
        self.newer
    }

    /// The next frame; `None` once the member has closed the connection. Cancel-safe.
    pub async fn recv(&mut self) -> Result<Option<Bytes>, RecvError> {
        let mut frame = BytesMut::new();
        Ok(self.recv_into(&mut frame).await?.then(|| frame.freeze()))
    }

    /// Puts the next frame into `frame`, in the place of what it held: for callers that use one buffer for many frames. False
    /// once the member has closed the connection. Cancel-safe.
    pub async fn recv_into(&mut self, frame: &mut BytesMut) -> Result<bool, RecvError> {
        loop {
            frame.clear();
            if let Some((bytes, kind)) = self.opener.open(&mut self.input, FRAME_MAX_BYTES, frame)? {
                self.input.advance(bytes);
                match kind {
                    Kind::Data => return Ok(true),
                    Kind::Ping | Kind::Pong => continue,
                }
            }
            self.input.reserve(READ_STEP_BYTES);
            // A read that does not fill the buffer has emptied the socket: the runtime knows that, and does not read once more.
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return if self.input.is_empty() { Ok(false) } else { Err(RecvError::Truncated) };
            }
        }
    }
}

async fn connect(address: &str, settings: &ClientSettings) -> Result<ClientConnection, ConnectError> {
    let stream = dial::connect(address, 0).await.map_err(ConnectError::Unreachable)?;
    let check = |member: &AcceptorHello| check_cluster(&settings.cluster, &member.cluster);
    let hello = DiallerHello { cluster: settings.cluster.clone(), peer: None };
    let access = settings.keyring.access().map_or(Access::Operator, |access| access.min(Access::Operator));
    let introduced = introduce(stream, &settings.keyring.current(), access, &hello, check).await?;
    let Welcomed { channel, acceptor: member, .. } = introduced.verdict().await?;
    let SecureChannel { stream, input, session: Session { sealer, opener }, highest, .. } = channel;
    let (reading, writing) = stream.into_split();
    let sender = ClientSender { stream: writing, sealer, output: BytesMut::new() };
    Ok(ClientConnection {
        sender,
        receiver: ClientReceiver { stream: reading, opener, input, newer: is_newer(highest) },
        member,
    })
}

impl From<HandshakeError> for ConnectError {
    fn from(error: HandshakeError) -> Self {
        match error {
            HandshakeError::Refused(refusal) | HandshakeError::Secret(refusal) => {
                Self::Refused { code: refusal.code, text: refusal.text }
            }
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
