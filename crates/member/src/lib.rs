//! What real life adds to a textbook algorithm, still pure: a failure detector, rounds, and who leads.
//!
//! [`Member`] is itself a [`Protocol`](algorithms::Protocol), so the daemon, the simulator and the model checker drive
//! it exactly as they drive the bare algorithm inside it.

mod types;

pub use types::{Beat, Cause, Claim, Command, Envelope, Event, NodeSet, Record, Role, Round, Standing, Timer};
