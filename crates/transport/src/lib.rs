//! Encrypted frames over TCP between the members of a cluster and their clients.
//!
//! The crate carries opaque bytes and knows nothing about elections. One [`Net`] per process owns every authenticated
//! connection; the task that owns the `Net` reads and writes the sockets itself, so a frame costs no task switch.
//! Connections that are not authenticated yet are handled by tasks of their own, under a deadline and a cap.
//!
//! What must stay absent:
//! - No byte from the wire is trusted: lengths are checked before anything is reserved, every value is decoded under a
//!   limit, and nothing here panics on input.
//! - Nothing is believed before it is proven, and nothing but a header is ever sent in clear: the module `handshake` has
//!   the steps, `key_handshake` and `tls` what each of them proves, `secure` what a frame looks like.
//! - No peer delays another: queues are bounded per connection, reads are bounded per turn, and dials run in their own
//!   tasks.
//! - No second connection between two members is ever reported: the module `admit` has the argument.
//! - No encoding of values outside [`codec`]: swapping it touches one file. The header, which never changes, is
//!   a layout of its own in the module `hello`.

mod accept;
mod admit;
mod certificate;
mod chaos;
mod client;
pub mod codec;
mod dial;
mod dial_log;
mod dialler;
mod event;
mod exchange;
mod frame;
#[cfg(test)]
mod fuzz_tests;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod handshake_thread;
mod hello;
mod key_handshake;
mod keyring;
mod keys;
mod kind;
mod link;
mod list_fact;
mod loglimit;
mod net;
mod peer;
mod ready;
mod resolver;
mod secret;
mod secure;
mod seen;
mod settings;
mod socket;
mod sources;
mod tls;

pub use certificate::{Certificate, CertificateError, Holder, certificate_ids};
pub use chaos::Faults;
pub use client::{
    ClientConnection, ClientReceiver, ClientSender, ClientSettings, ConnectError, RecvError, connect_client,
};
pub use codec::CodecError;
pub use event::{ClientId, DownReason, Event};
pub use frame::{FRAME_MAX_BYTES, FrameError, HANDSHAKE_FRAME_MAX_BYTES};
pub use handshake::{Facts, Incarnation, PeerId, RefuseCode};
pub use hello::{SPOKEN, Versions, WITH_HEIRS, is_next_for_a_test};
pub use keyring::Keyring;
pub use net::{Counters, Net};
pub use secret::{Secret, SecretError};
pub use settings::Settings;
