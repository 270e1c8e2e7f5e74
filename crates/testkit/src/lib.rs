//! What tests of real processes share: clusters, scratch directories, `ctl` and its output, a command under `ctl lead`,
//! data directories, `strace`, and the judgement over everything that members claimed.
//!
//! Events are awaited, never slept for. The variables of the environment that tests read are in `docs/testing.md`.

mod binaries;
pub mod browser;
mod change;
pub mod claims;
pub mod client_log;
mod cluster;
mod commands;
pub mod gate;
pub mod golden;
pub mod http;
pub mod lead;
pub mod lock_history;
mod machine;
pub mod namespaces;
pub mod register;
pub mod strace;
pub mod volume;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use binaries::{ctl_binary, node_binary, register_client_binary};
pub use change::Change;
pub use cluster::Live;
pub use commands::{ctl, done, refused, stderr, stdout};
pub use ctl::cluster::{Cluster, Plan, Scratch, certificates, free_ports_elsewhere, write_secret};

/// Far more than anything here takes on an idle machine; tests share two cores.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A number from the environment, for tests that may run longer than by default.
pub fn number(variable: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(variable) else { return default };
    text.parse().unwrap_or_else(|error| panic!("{variable} = {text:?}: {error}"))
}

/// Looks repeatedly: files and other processes have no event to wait for.
pub async fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("not in time: {what}"))
}

/// The resident memory of a process.
pub fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a living process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a resident size");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}
