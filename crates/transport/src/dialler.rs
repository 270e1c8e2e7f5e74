//! The dialler's side of a handshake, the same for members and clients: [`challenge`], then
//! [`prove`](Challenge::prove). A member decides between the two whether it keeps its dial.

use std::io;

use bytes::BytesMut;
use thiserror::Error;
use tokio::net::TcpStream;

use crate::codec::{self, CodecError};
use crate::exchange::{Channel, ExchangeError, nonce};
use crate::handshake::{Answer, Refusal, RefuseCode, Reply, Transcript, Verdict, key_id};
use crate::hello::{AcceptorHello, FIRST, Hello, Role, SPOKEN, Versions};
use crate::secret::Secret;

/// Why the dialler has no connection.
#[derive(Debug, Error)]
pub(crate) enum HandshakeError {
    /// The acceptor refused, or its answer was refused. `proved`: whether the acceptor had proved that it knows the
    /// secret.
    #[error("{refusal}")]
    Refused { refusal: Refusal, proved: bool },
    /// Not authenticated: it may be reported, but no decision may depend on it.
    #[error("the acceptor speaks {0}, this side speaks {SPOKEN}: use the same release on both sides")]
    Version(Versions),
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
}

/// The acceptor has proved that it knows the secret, and waits for the dialler's proof.
#[derive(Debug)]
pub(crate) struct Challenge<'a> {
    channel: Channel,
    secret: Option<&'a Secret>,
    hello_bytes: Vec<u8>,
    acceptor_bytes: Vec<u8>,
    pub(crate) acceptor: AcceptorHello,
}

/// A connection that the acceptor keeps.
#[derive(Debug)]
pub(crate) struct Welcomed {
    pub(crate) parts: (TcpStream, BytesMut),
    pub(crate) acceptor: AcceptorHello,
    /// The acceptor's own dials before this connection; see [`mod@crate::admit`].
    pub(crate) floor: u64,
}

/// Sends the hello and receives the acceptor's challenge. `check` compares the acceptor's values with this side's.
pub(crate) async fn challenge<'a>(
    stream: TcpStream,
    cluster: &str,
    role: Role,
    secret: Option<&'a Secret>,
    check: impl FnOnce(&AcceptorHello) -> Result<(), Refusal>,
) -> Result<Challenge<'a>, HandshakeError> {
    let mut channel = Channel::new(stream);
    let hello = Hello { key_id: key_id(secret), cluster: cluster.to_owned(), nonce: nonce()?, role };
    let hello_bytes = hello.to_bytes()?;
    channel.send_bytes(&hello_bytes).await?;
    let (acceptor_bytes, proof) = read_answer(&channel.receive_bytes().await?)?;
    let acceptor = AcceptorHello::from_bytes(&acceptor_bytes).map_err(ExchangeError::from)?;
    let transcript = Transcript { dialler: &hello_bytes, acceptor: &acceptor_bytes };
    let checked = check(&acceptor).and_then(|()| transcript.check_acceptor(secret, &proof));
    let challenge = Challenge { channel, secret, hello_bytes, acceptor_bytes, acceptor };
    match checked {
        Ok(()) => Ok(challenge),
        Err(refusal) => {
            challenge.refuse(&refusal).await;
            Err(HandshakeError::Refused { refusal, proved: false })
        }
    }
}

/// The acceptor's hello and proof, unless the answer is a refusal or a range of versions.
pub(crate) fn read_answer(frame: &[u8]) -> Result<(Vec<u8>, Vec<u8>), HandshakeError> {
    if let Some(theirs) = Versions::from_bytes(frame) {
        return Err(HandshakeError::Version(theirs));
    }
    match codec::decode(frame)? {
        Answer::Challenge { hello, proof } => Ok((hello, proof)),
        // Later versions answer with their range, so this acceptor speaks version 1.
        Answer::Refused(Refusal { code: RefuseCode::Version, .. }) => Err(HandshakeError::Version(FIRST)),
        Answer::Refused(refusal) => Err(HandshakeError::Refused { refusal, proved: false }),
    }
}

impl Challenge<'_> {
    /// Sends the reason to the acceptor, so that it logs the same text. It does not matter here whether it arrives.
    pub(crate) async fn refuse(mut self, refusal: &Refusal) {
        let _ = self.channel.send(&Reply::Refused(refusal.clone())).await;
    }

    /// Sends the proof and awaits the verdict.
    pub(crate) async fn prove(mut self) -> Result<Welcomed, HandshakeError> {
        let transcript = Transcript { dialler: &self.hello_bytes, acceptor: &self.acceptor_bytes };
        self.channel.send(&Reply::Proof(transcript.dialler_proof(self.secret))).await?;
        match self.channel.receive().await? {
            Verdict::Refused(refusal) => Err(HandshakeError::Refused { refusal, proved: true }),
            Verdict::Welcome { floor } => {
                Ok(Welcomed { parts: self.channel.into_parts(), acceptor: self.acceptor, floor })
            }
        }
    }
}

impl From<CodecError> for HandshakeError {
    fn from(error: CodecError) -> Self {
        Self::Exchange(error.into())
    }
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        Self::Exchange(error.into())
    }
}
