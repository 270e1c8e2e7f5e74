//! The JSON of Conclave, defined once: `ctl -o json` prints it, and every other interface serves the same. Keys are
//! only ever added; `docs/json.md` lists them.

mod catalog;
mod event;
mod locks;
mod orders;
mod reports;
mod status;

pub use catalog::{CatalogRow, ElectionRow, MutexRow, catalog};
pub use event::Event;
pub use locks::{Holder as LockHolder, Lock, Locks};
pub use orders::{Change, Fault, FaultLack, Paused};
pub use reports::{Audit, Explain, History, WhoLed};
pub use status::{Drifting, Election, Messages, Range, Status, StatusMember, Theory};
