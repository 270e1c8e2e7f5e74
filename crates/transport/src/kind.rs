//! What a frame of a session is for: its first byte, which is sealed with its payload.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A payload for the owner of the connection, or a message of the handshake.
    Data = 0,
    /// Asks the far side for a sign of life.
    Ping = 1,
    /// The answer to one or more pings.
    Pong = 2,
}

impl Kind {
    /// `None` for a byte that no correct far side sends.
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        [Kind::Data, Kind::Ping, Kind::Pong].into_iter().find(|kind| *kind as u8 == byte)
    }
}
