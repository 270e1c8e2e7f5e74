//! Shared by `history`, `audit` and `explain`: all members' status and ledgers.

use std::path::{Path, PathBuf};

use client::history::{Ledgers, MemberLedger};
use client::{ClusterFile, Gathered, LedgerEntry, LedgerKind};
use node::offline::{self, Volume};

use crate::args::Globals;
use crate::connection_options::{Target, failures, find_file, no_member_answered};
use crate::failure::Failure;

/// `--data-dir`
#[derive(clap::Args, Debug)]
pub(crate) struct DirectoriesArg {
    /// Data directories of members that do not run, instead of asking members; all of them for a complete answer
    #[arg(long = "data-dir", value_name = "DIR", num_args = 1..)]
    directories: Vec<PathBuf>,
}

impl DirectoriesArg {
    /// From the running members, or from these directories where any are named.
    pub(super) async fn gather(&self, globals: &Globals) -> Result<Gathered, Failure> {
        if self.directories.is_empty() {
            return gather(&Target::election_only(globals)?).await;
        }
        from_directories(&self.directories, find_file(globals)?.as_ref())
    }
}

pub(super) async fn gather(target: &Target) -> Result<Gathered, Failure> {
    Gathered::from(target).await.map_err(|answers| no_member_answered(&failures(&answers)))
}

/// Of members that do not run.
fn from_directories(directories: &[PathBuf], file: Option<&ClusterFile>) -> Result<Gathered, Failure> {
    let mut ledgers = Ledgers::default();
    for directory in directories {
        let volume = read_directory(directory)?;
        if ledgers.members.iter().any(|known| known.id == volume.id.0) {
            let what = format!("{} is a second directory of member {}", directory.display(), volume.id);
            return Err(Failure::usage(what).hint("name one directory for each member"));
        }
        ledgers.lists.extend(volume.list.clone());
        ledgers.members.push(ended(volume));
    }
    Ok(Gathered::of_stopped(ledgers, file))
}

/// Prints what is missing, beside an answer.
pub(super) fn say_flaws(ledgers: &Ledgers) {
    for flaw in ledgers.flaws() {
        eprintln!("incomplete: {flaw}");
    }
}

/// The ledger of a process that has ended. The next start of the member would record when it was last alive: so does this.
fn ended(volume: Volume) -> MemberLedger {
    let mut ledger = MemberLedger::new(volume.id.0, volume.ledger);
    if let Some(last) = ledger.entries.last() {
        let kind = LedgerKind::Started { incarnation: 0, last_alive_ms: volume.last_alive_ms };
        let (sequence, boot_id) = (last.sequence + 1, node::ledger::boot_id());
        let entry = LedgerEntry { sequence, wall_ms: client::now_ms(), boot_id, kind, ..last.clone() };
        ledger.entries.push(entry);
    }
    ledger
}

/// The data directory of a member that does not run.
fn read_directory(directory: &Path) -> Result<Volume, Failure> {
    offline::read(directory).map_err(|error| {
        Failure::usage(format!("cannot read the data directory {}", directory.display()))
            .because(error.to_string())
            .hint("name the directory that `node` was given with --data-dir, as a user that may read it")
    })
}
