//! What each fuzz target does with its bytes: every parser of bytes from the wire, from the disk and from operators.
//! A target fails by a panic; a value that was read must be written as the same value again.

mod cluster;
mod configs;
mod seed_values;

use client::{Call, Reply};
use transport::codec;

pub use cluster::{envelope, transcripts};
pub use configs::dictionary;
pub use seed_values::seeds;

/// Every target by its name.
pub const TARGETS: &[(&str, fn(&[u8]))] = &[
    ("config", configs::config),
    ("envelope", envelope),
    ("frame", transport::fuzzing::frames),
    ("hello", transport::fuzzing::hello),
    ("ledger", node::ledger::fuzz),
    ("request", request),
    ("state", node::storage::fuzz),
];

/// A frame of a client, or of a member to its client.
pub fn request(bytes: &[u8]) {
    if let Ok(call) = codec::decode::<Call>(bytes) {
        let again = codec::to_vec(&call).expect("what was read can be written");
        assert_eq!(codec::decode::<Call>(&again).expect("and read again"), call);
    }
    if let Ok(reply) = codec::decode::<Reply>(bytes) {
        let again = codec::to_vec(&reply).expect("what was read can be written");
        assert_eq!(codec::decode::<Reply>(&again).expect("and read again"), reply);
    }
}
