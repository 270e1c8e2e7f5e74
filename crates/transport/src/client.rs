//! The client's side of a connection: what `ctl` and library clients use.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::codec::{Decoder, Encoder};

use crate::codec::CodecError;
use crate::dial;
use crate::exchange::{Channel, ExchangeError, nonce};
use crate::frame::{FrameCodec, FrameError};
use crate::handshake::{
    AcceptorHello, Answer, Facts, Hello, Incarnation, PeerId, Refusal, RefuseCode, Reply, Role, Transcript, Verdict,
    check_cluster,
};
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
    #[error("the far side is no conclave node: {0}")]
    Protocol(String),
    #[error("no answer in time")]
    Timeout,
}

/// Why a connection is of no further use.
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
    stream: TcpStream,
    input: BytesMut,
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
        self.stream.as_fd()
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
        let stream = Arc::new(self.stream);
        let sender = ClientSender { stream: Arc::clone(&stream), output: BytesMut::new() };
        (sender, ClientReceiver { stream, input: self.input })
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
        FrameCodec::authenticated().encode(payload, &mut self.output)?;
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
                return Ok(Some(frame));
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
    let mut channel = Channel::new(stream);
    let hello = Hello { cluster: settings.cluster.clone(), nonce: nonce()?, role: Role::Client };
    let hello_bytes = hello.to_bytes()?;
    channel.send_bytes(&hello_bytes).await?;
    let (acceptor_bytes, proof) = match channel.receive().await? {
        Answer::Refused(refusal) => return Err(refusal.into()),
        Answer::Challenge { hello, proof } => (hello, proof),
    };
    let member: AcceptorHello = crate::codec::decode(&acceptor_bytes)?;
    let transcript = Transcript { dialler: &hello_bytes, acceptor: &acceptor_bytes };
    let checked = check_cluster(&settings.cluster, &member.cluster)
        .and_then(|()| transcript.check_acceptor(settings.secret.as_ref(), &proof));
    if let Err(refusal) = checked {
        // The member logs the same text; whether it hears it changes nothing here.
        let _ = channel.send(&Reply::Refused(refusal.clone())).await;
        return Err(refusal.into());
    }
    channel.send(&Reply::Proof(transcript.dialler_proof(settings.secret.as_ref()))).await?;
    match channel.receive().await? {
        Verdict::Refused(refusal) => Err(refusal.into()),
        Verdict::Welcome { .. } => {
            let (stream, input) = channel.into_parts();
            Ok(ClientConnection { stream, input, member })
        }
    }
}

impl From<Refusal> for ConnectError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused { code: refusal.code, text: refusal.text }
    }
}

impl From<CodecError> for ConnectError {
    fn from(error: CodecError) -> Self {
        Self::Protocol(error.to_string())
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
