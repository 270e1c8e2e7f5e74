//! Which machine and which directory a volume belongs to. A copy of a volume has promises that its original goes on
//! making; a process must not vote with it.
//!
//! A directory is recognised by its inode number and, where the file system keeps it, its time of birth: both outlive a
//! remount and a rename, and a copy has others. The machine is recognised by a digest of /etc/machine-id. A snapshot of a
//! whole machine has the same of all three and is not recognised here.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use sha2::{Digest as _, Sha256};

use crate::config::first_word;

const MACHINE_ID: &str = "/etc/machine-id";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Binding {
    /// Digest of the machine's id.
    pub machine: u64,
    /// The inode number of the data directory.
    pub inode: u64,
    /// When the data directory was made, in nanoseconds since 1970; 0 where the file system does not say.
    pub born: u64,
}

impl Binding {
    /// `None` where the machine has no id, as in most containers.
    pub fn of(directory: &Path) -> std::io::Result<Option<Self>> {
        let id = fs::read_to_string(MACHINE_ID).unwrap_or_default();
        if id.trim().is_empty() {
            return Ok(None);
        }
        let machine = first_word(&Sha256::digest(format!("conclave volume {}", id.trim())));
        let metadata = fs::metadata(directory)?;
        let born = metadata.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let born = born.map_or(0, |since| since.as_nanos() as u64);
        Ok(Some(Binding { machine, inode: metadata.ino(), born }))
    }

    /// What is different here, in words; `None` if this is the place the volume belongs to.
    pub(crate) fn difference(&self, here: &Binding) -> Option<&'static str> {
        if self.machine != here.machine {
            return Some("on another machine (/etc/machine-id differs)");
        }
        let unknown = self.born == 0 || here.born == 0;
        let same = self.inode == here.inode && (unknown || self.born == here.born);
        (!same).then_some("in another directory of this machine")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Binding = Binding { machine: 1, inode: 2, born: 3 };

    #[test]
    fn another_machine_inode_or_time_of_birth_is_another_place() {
        assert_eq!(HERE.difference(&HERE), None);
        for elsewhere in [Binding { machine: 9, ..HERE }, Binding { inode: 9, ..HERE }, Binding { born: 9, ..HERE }] {
            assert!(HERE.difference(&elsewhere).is_some(), "{elsewhere:?}");
        }
        assert_eq!(HERE.difference(&Binding { born: 0, ..HERE }), None, "this file system does not say");
    }
}
