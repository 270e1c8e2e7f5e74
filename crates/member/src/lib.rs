//! What real life adds to a textbook algorithm, still pure: a failure detector, rounds, and who leads.
//!
//! [`Member`] is itself a [`Protocol`](algorithms::Protocol), so the daemon, the simulator and the model checker drive
//! it exactly as they drive the bare algorithm inside it. It never looks inside a message of the algorithm.
//!
//! - `contacts`: the failure detector and whom to keep a connection to.
//! - `rounds`: opening, joining and ending election attempts.
//! - `claims`: heartbeats, and whom to believe when they disagree.
//! - `epochs`: how attempts and claims are numbered.
//! - `member`: the machine itself, its timers and the epochs it reserves.
//! - `reign`: quorum leases and fencing epochs around whatever the election says.
//! - `quorum`: the reign inside a member; `upkeep`: the timers every step ends with.
//! - `synchroniser`: runs synchronous algorithms; `live`: the catalog with them behind it.

mod claims;
mod contacts;
mod epochs;
mod inner;
mod live;
mod member;
mod quorum;
pub mod reign;
mod rounds;
mod synchroniser;
mod types;
mod upkeep;

pub use live::{MemberVisitor, dispatch};
pub use member::{ABSTAIN, Member};
pub use quorum::FORGIVE;
pub use synchroniser::{Frame, Synchronised};
pub use types::{Beat, Cause, Claim, Command, Envelope, Event, NodeSet, Record, Role, Round, Standing, Timer};
