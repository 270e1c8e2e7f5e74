//! The vocabulary that every crate shares: the same types in the machines, on the wire, on the disk and in JSON.
//!
//! Values only: nothing here decides anything. Enums travel as numbers between processes and are words in JSON alone.
//!
//! - `access`: what an authenticated process may do. `id`: members, epochs. `priority`: which of two members is better. `token`: fencing tokens. `standing`: roles, causes of
//!   a change, kinds of safety.
//! - `cluster_id`: the identity of a cluster's history. `incarnation`: one start of a process. `instance`: the machines
//!   that share one process.
//! - `member_list`: the members of a cluster. `clock`: the clocks of leases and of stamps. `duration`: how durations are
//!   written. `dice`: random words from a seed.

mod access;
mod clock;
mod cluster_id;
mod dice;
mod duration;
mod id;
mod incarnation;
mod instance;
mod member_list;
mod name;
mod priority;
mod standing;
mod token;
mod topology;

pub use access::Access;
pub use clock::{BendError, bent_for_a_test, boot_clock, kernel_moment_after, since_boot};
pub use cluster_id::ClusterId;
pub use dice::Dice;
pub use duration::{DurationError, format_duration, parse_duration};
pub use id::{Epoch, NodeId};
pub use incarnation::Incarnation;
pub use instance::InstanceId;
pub use member_list::{Change, ChangeRefusal, Listed, MemberList, Membership, PeerRole, Stamp};
pub use name::UnknownName;
pub use priority::{Uid, Wins};
pub use standing::{Cause, Role, Safety, Standing};
pub use token::Token;
pub use topology::Topology;
