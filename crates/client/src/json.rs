//! The JSON of Conclave, defined once: `ctl -o json` prints it, and every other interface serves the same. Keys are
//! only ever added; `docs/json.md` lists them.

mod event;
mod locks;
mod reports;
mod status;

pub use event::Event;
pub use locks::{Holder as LockHolder, Lock, Locks};
pub use reports::{Audit, Explain, History, WhoLed};
pub use status::{Drifting, Election, Messages, Range, Status, StatusMember, Theory};
