//! The Noise handshake `NNpsk0`: two messages, from the pre-shared key of one kind of connection and two fresh
//! Diffie-Hellman keys to a [`Session`].
//!
//! What each message proves:
//! - The first message has a tag under the pre-shared key and the prologue. A process without the key is rejected after
//!   a few hashes, before any X25519. The message is not fresh: a recorded one is accepted again, and costs the acceptor
//!   two X25519 multiplications (its own key pair, and the shared secret). A replay gets no further.
//! - The second message proves the acceptor to the dialler: it depends on the dialler's fresh key.
//! - The dialler's first frame in the session proves the dialler to the acceptor. Nothing before it does.

use snow::{Builder, HandshakeState, StatelessTransportState};
use thiserror::Error;

use crate::secret::Key;
use crate::secure::Session;

const PROTOCOL: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// A public key and a tag; the payload of the first message is empty.
pub(crate) const MESSAGE_BYTES: usize = 48;

#[derive(Debug, Error)]
pub(crate) enum NoiseError {
    #[error("a message that is not authentic: another key, or changed on its way")]
    NotAuthentic,
    /// Above all: no random numbers.
    #[error("cannot make a key for a connection: {0}")]
    Local(snow::Error),
}

/// A dialler that waits for the second message.
#[derive(Debug)]
pub(crate) struct Dialling(HandshakeState);

impl Dialling {
    /// The first message. Both sides must have the same prologue.
    pub(crate) fn begin(key: &Key, prologue: &[u8]) -> Result<(Self, [u8; MESSAGE_BYTES]), NoiseError> {
        let mut state = builder(key, prologue).and_then(Builder::build_initiator).map_err(NoiseError::Local)?;
        let mut message = [0; MESSAGE_BYTES];
        state.write_message(&[], &mut message).map_err(NoiseError::Local)?;
        Ok((Self(state), message))
    }

    /// Reads the second message and its payload. The acceptor is proven now.
    pub(crate) fn finish(mut self, message: &[u8]) -> Result<(Session, Vec<u8>), NoiseError> {
        let mut payload = vec![0; message.len()];
        let bytes = self.0.read_message(message, &mut payload).map_err(|_| NoiseError::NotAuthentic)?;
        payload.truncate(bytes);
        Ok((session(self.0)?, payload))
    }
}

/// Reads the first message and makes the second one, with a payload.
pub(crate) fn accept(
    key: &Key,
    prologue: &[u8],
    message: &[u8],
    payload: &[u8],
) -> Result<(Session, Vec<u8>), NoiseError> {
    if message.len() != MESSAGE_BYTES {
        return Err(NoiseError::NotAuthentic);
    }
    let mut state = builder(key, prologue).and_then(Builder::build_responder).map_err(NoiseError::Local)?;
    state.read_message(message, &mut []).map_err(|_| NoiseError::NotAuthentic)?;
    let mut answer = vec![0; MESSAGE_BYTES + payload.len()];
    state.write_message(payload, &mut answer).map_err(NoiseError::Local)?;
    Ok((session(state)?, answer))
}

fn builder<'a>(key: &'a Key, prologue: &'a [u8]) -> Result<Builder<'a>, snow::Error> {
    Builder::new(PROTOCOL.parse()?).psk(0, &key.psk)?.prologue(prologue)
}

fn session(state: HandshakeState) -> Result<Session, NoiseError> {
    StatelessTransportState::try_from(state).map(Session::new).map_err(NoiseError::Local)
}
