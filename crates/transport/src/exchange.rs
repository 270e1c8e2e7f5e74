//! Handshake frames over a socket: small, one at a time. In clear first, then inside the session.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use types::Access;

use crate::certificate::Holder;
use crate::codec::{self, CodecError};
use crate::frame::{self, FLIGHT_MAX_BYTES, FrameError, HANDSHAKE_FRAME_MAX_BYTES};
use crate::hello::HelloError;
use crate::key_handshake::NoiseError;
use crate::kind::Kind;
use crate::secure::Session;

/// Bytes per read; no more are reserved before the far side has authenticated.
const READ_STEP_BYTES: usize = 1 << 10;

/// A connection without a session.
#[derive(Debug)]
pub(crate) struct Channel {
    stream: TcpStream,
    input: BytesMut,
}

/// A connection with a session. It becomes a link when both sides keep it.
#[derive(Debug)]
pub(crate) struct SecureChannel {
    pub(crate) stream: TcpStream,
    /// Received, and not opened yet.
    pub(crate) input: BytesMut,
    pub(crate) session: Session,
    /// Which key the session was made with: what the dialler may do.
    pub(crate) access: Access,
    /// Whom the far side's certificate names, where there are certificates.
    pub(crate) holder: Option<Holder>,
    /// The highest version that the far side speaks.
    pub(crate) highest: u16,
}

/// Why a handshake ended without a refusal.
#[derive(Debug, Error)]
pub(crate) enum ExchangeError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the connection was closed inside the handshake")]
    Closed,
    #[error(transparent)]
    Hello(#[from] HelloError),
    #[error("{0}")]
    Frame(FrameError),
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error(transparent)]
    Noise(#[from] NoiseError),
}

impl Channel {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, input: BytesMut::new() }
    }

    pub(crate) async fn send(&mut self, payload: &[u8]) -> Result<(), ExchangeError> {
        let mut out = BytesMut::new();
        frame::put(payload, FLIGHT_MAX_BYTES, &mut out)?;
        Ok(self.stream.write_all(&out).await?)
    }

    pub(crate) async fn receive(&mut self) -> Result<Bytes, ExchangeError> {
        self.receive_up_to(HANDSHAKE_FRAME_MAX_BYTES).await
    }

    pub(crate) async fn receive_up_to(&mut self, max_bytes: usize) -> Result<Bytes, ExchangeError> {
        loop {
            if let Some(frame) = frame::take(&mut self.input, max_bytes)? {
                return Ok(frame);
            }
            read_more(&mut self.stream, &mut self.input).await?;
        }
    }

    /// Sends a last frame; see [`finish`]. The caller's deadline bounds the wait.
    pub(crate) async fn send_last(mut self, payload: &[u8]) {
        if self.send(payload).await.is_ok() {
            finish(self.stream).await;
        }
    }

    pub(crate) fn secure(self, session: Session, access: Access) -> SecureChannel {
        SecureChannel { stream: self.stream, input: self.input, session, access, holder: None, highest: 0 }
    }
}

impl SecureChannel {
    pub(crate) async fn send<T: Serialize>(&mut self, message: &T) -> Result<(), ExchangeError> {
        self.send_bytes(&codec::to_vec(message)?).await
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), ExchangeError> {
        let mut out = BytesMut::new();
        self.session.sealer.seal(bytes, &mut out)?;
        Ok(self.stream.write_all(&out).await?)
    }

    pub(crate) async fn receive<T: DeserializeOwned>(&mut self) -> Result<T, ExchangeError> {
        Ok(codec::decode(&self.receive_bytes().await?)?)
    }

    pub(crate) async fn receive_bytes(&mut self) -> Result<BytesMut, ExchangeError> {
        let mut opened = BytesMut::new();
        loop {
            let taken = self.session.opener.open(&mut self.input, HANDSHAKE_FRAME_MAX_BYTES, &mut opened)?;
            if let Some((bytes, kind)) = taken {
                self.input.advance(bytes);
                // No link is probed before it exists.
                return if kind == Kind::Data { Ok(opened) } else { Err(FrameError::NoKind.into()) };
            }
            read_more(&mut self.stream, &mut self.input).await?;
        }
    }

    /// Sends a last frame; see [`finish`]. The caller's deadline bounds the wait.
    pub(crate) async fn send_last<T: Serialize>(mut self, message: &T) {
        if self.send(message).await.is_ok() {
            finish(self.stream).await;
        }
    }
}

async fn read_more(stream: &mut TcpStream, input: &mut BytesMut) -> Result<(), ExchangeError> {
    input.reserve(READ_STEP_BYTES);
    match stream.read_buf(input).await? {
        0 => Err(ExchangeError::Closed),
        _ => Ok(()),
    }
}

/// Closes a socket when the far side has read all: closing a socket with unread input resets it, and a reset destroys
/// bytes that are still on their way.
async fn finish(mut stream: TcpStream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut sink = [0; READ_STEP_BYTES];
    while matches!(stream.read(&mut sink).await, Ok(1..)) {}
}

impl From<FrameError> for ExchangeError {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Io(error) => Self::Io(error),
            other => Self::Frame(other),
        }
    }
}
