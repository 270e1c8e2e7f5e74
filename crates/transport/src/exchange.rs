//! Handshake frames over a socket: small, one at a time.

use std::io;

use bytes::BytesMut;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::codec::{Decoder, Encoder};

use crate::codec::{self, CodecError};
use crate::frame::{FrameCodec, FrameError};
use crate::hello::HelloError;

/// Bytes per read; no more are reserved before the far side has authenticated.
const READ_STEP_BYTES: usize = 1 << 10;

/// A connection inside its handshake.
#[derive(Debug)]
pub(crate) struct Channel {
    stream: TcpStream,
    input: BytesMut,
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
}

impl Channel {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, input: BytesMut::new() }
    }

    pub(crate) async fn send<T: Serialize>(&mut self, message: &T) -> Result<(), ExchangeError> {
        let bytes = codec::to_vec(message)?;
        self.send_bytes(&bytes).await
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), ExchangeError> {
        let mut out = BytesMut::new();
        FrameCodec::unauthenticated().encode(bytes, &mut out)?;
        Ok(self.stream.write_all(&out).await?)
    }

    pub(crate) async fn receive<T: DeserializeOwned>(&mut self) -> Result<T, ExchangeError> {
        let bytes = self.receive_bytes().await?;
        Ok(codec::decode(&bytes)?)
    }

    pub(crate) async fn receive_bytes(&mut self) -> Result<bytes::Bytes, ExchangeError> {
        loop {
            if let Some(frame) = FrameCodec::unauthenticated().decode(&mut self.input)? {
                return Ok(frame);
            }
            self.input.reserve(READ_STEP_BYTES);
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(ExchangeError::Closed);
            }
        }
    }

    /// Sends a last frame and waits until the far side has read it: closing a socket with unread input resets it, and a
    /// reset destroys bytes that are still on their way. The caller's deadline bounds the wait.
    pub(crate) async fn send_last(mut self, frame: &[u8]) {
        if self.send_bytes(frame).await.is_err() || self.stream.shutdown().await.is_err() {
            return;
        }
        let mut sink = [0; READ_STEP_BYTES];
        while matches!(self.stream.read(&mut sink).await, Ok(1..)) {}
    }

    /// The socket, and the bytes that the far side sent after its last handshake frame.
    pub(crate) fn into_parts(self) -> (TcpStream, BytesMut) {
        (self.stream, self.input)
    }
}

impl From<FrameError> for ExchangeError {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Io(error) => Self::Io(error),
            other @ FrameError::TooLarge { .. } => Self::Frame(other),
        }
    }
}

/// A fresh challenge.
pub(crate) fn nonce() -> Result<[u8; 32], ExchangeError> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(nonce)
}
