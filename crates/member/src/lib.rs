//! What real life adds to a textbook algorithm, still pure: a failure detector, rounds, and who leads.
//!
//! [`Member`] is itself a [`Protocol`](algorithms::Protocol), so the daemon, the simulator and the model checker drive
//! it exactly as they drive the bare algorithm inside it. It never looks inside a message of the algorithm.
//!
//! - `failure_detector`: which members are up, and which to keep a connection to.
//! - `rounds`: the present election, repeated until one meets no failure.
//! - `authority`: which member may claim to lead; `classic` and `quorum` are two kinds, `reign` is the machine of
//!   `quorum`.
//! - `attempts`: how elections and classic epochs are numbered.
//! - `priorities`: priorities that change while members run.
//! - `setbacks`: how long a better member waits before it takes over.
//! - `maintenance`: pauses of the cluster, and leaders that are held.
//! - `candidacy`: whether this member takes part; `children`: processes that depend on its leadership.
//! - `member`: passes the output of each part to the other parts.

mod attempts;
mod authority;
mod candidacy;
mod children;
mod failure_detector;
mod maintenance;
mod member;
mod messages;
mod positions;
mod priorities;
pub mod reign;
mod ring_neighbours;
mod rounds;
mod setbacks;
mod settings;

pub use attempts::{Attempt, Attempts, Reservation};
pub use authority::{
    Authority, AuthorityCommand, AuthorityEvent, Belief, BeliefRecord, Classic, Guarantee, Heard, Quorum, QuorumRecord,
    Reach,
};
pub use candidacy::{ABSTAIN, FORGIVE};
pub use maintenance::Mode;
pub use member::Member;
pub use messages::{Beat, Claim, Command, Context, Envelope, Event, LeaseTimer, News, Record, Round, Timer};
pub use positions::{FullPos, NodeSet};
pub use reign::ListEvent;
pub use settings::{Bootstrap, Founding, FromDriver, OnClose, Settings, Stand, Timing};
pub use types::{Cause, ClusterId, Incarnation, Role, Safety, Standing};
