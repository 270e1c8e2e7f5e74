//! `ctl member`: which members count, and how that changes.

mod goal;
#[cfg(test)]
mod goal_tests;
mod list;
pub(super) mod overview;
mod reach;
mod survey;

use std::path::PathBuf;

use types::{NodeId, PeerRole};

use self::goal::{Candidate, Goal};
use crate::args::Globals;
use crate::connection_options::{Target, check_address};
use crate::failure::Failure;
use crate::output::Output;

/// Show and change the list of members while the cluster runs
///
/// A change goes through the leader, one voter at a time, and counts once a majority of the new voters has it on disk. Each
/// command names a goal ("6 votes") and repeats it to the present leader until it is reached: the same command again is
/// always safe. Needs safety = "quorum".
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl member list
  ctl member add 6 n6:7400          then start node 6 with join = [\"n1:7400\"]
  ctl member replace 3 6 n6:7400    the machine of 3 is dead
  ctl member abort                  give up a change that does not come into force

Exit codes: 0 the goal is reached, or was already; 1 undecided after --timeout (it says what is pending); 2 refused, or
another change is pending; 3 no member reachable, 4 no leader, 8 refused (no or wrong secret).")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Show the list of members: its stamp, whether it is in force, and who has it on disk
    #[command(after_help = "Examples:
  ctl member list
  ctl member list -o json

A stamp is the epoch of the leader that made the list, and its number in that epoch. Exit codes: 0 shown, 2 the cluster
is classic, 3 no member reachable, 4 no leader, so it is not known which list is in force; 8 refused.")]
    List,
    /// Add a member: list it, wait until it has joined, let it vote
    ///
    /// Start the new node with `join = [\"HOST:PORT\", ...]` in its config and this id, before or after this command. Until it
    /// votes nothing counts on it, and `ctl member remove ID` undoes the rest.
    #[command(after_help = "Examples:
  ctl member add 6 n6:7400 --timeout 1m
  ctl member add 6 n6:7400 --role witness
  ctl member add 6 n6:7400 --learner       it hears everything and does not vote")]
    Add {
        /// The new member's id: one that no member of this cluster ever had
        #[arg(value_name = "ID")]
        id: u32,
        /// Where other members dial it
        #[arg(value_name = "HOST:PORT")]
        address: String,
        /// member: votes and may lead; witness: votes and never leads
        #[arg(long, value_name = "ROLE", value_parser = voting_role, default_value = "member", conflicts_with = "learner")]
        role: PeerRole,
        /// Only list it: it neither votes nor leads
        #[arg(long)]
        learner: bool,
        /// Elections compare it before the id [default: 0]
        #[arg(long, value_name = "N")]
        priority: Option<u32>,
    },
    /// Remove a member from the list
    ///
    /// A leader hands over first. The removed node ends by itself and does not start again before its data directory is
    /// emptied. Keep its ledger: `ctl audit --ledger` may need it.
    #[command(after_help = "Examples:
  ctl member remove 3
  ctl member remove 3 --yes    also if only two voters remain")]
    Remove {
        /// The member
        #[arg(value_name = "ID")]
        id: u32,
        /// Remove it even if two voters remain: without either of them nobody can lead
        #[arg(long)]
        yes: bool,
    },
    /// Let a learner vote
    #[command(after_help = "Examples:
  ctl member promote 6
  ctl member promote 6 --role witness")]
    Promote {
        /// The learner
        #[arg(value_name = "ID")]
        id: u32,
        /// member: votes and may lead; witness: votes and never leads [default: member, or the role that it has]
        #[arg(long, value_name = "ROLE", value_parser = voting_role)]
        role: Option<PeerRole>,
    },
    /// Put a new member in the place of another: add it, then remove the other
    ///
    /// Never the other way round. While the old member is dead, all other voters must live until it is removed.
    #[command(after_help = "Examples:
  ctl member replace 3 6 n6:7400 --timeout 1m")]
    Replace {
        /// The member that goes
        #[arg(value_name = "OLD")]
        old: u32,
        /// The id of the member that comes
        #[arg(value_name = "NEW")]
        new: u32,
        /// Where other members dial the new one
        #[arg(value_name = "HOST:PORT")]
        address: String,
    },
    /// Change the address at which other members dial a member
    #[command(after_help = "Examples:
  ctl member move 3 n3b:7400")]
    Move {
        /// The member
        #[arg(value_name = "ID")]
        id: u32,
        /// Its new address
        #[arg(value_name = "HOST:PORT")]
        address: String,
    },
    /// Give up the pending change: the list in force is proposed again, under a later stamp
    #[command(after_help = "Examples:
  ctl member abort

Exit codes: 0 nothing is pending (any more), 1 undecided; 3, 4 and 8 as for the other commands.")]
    Abort,
    /// Read the data directories of stopped members, when a majority is lost for ever
    ///
    /// Prints what each survivor knows, and the one on which to run `node --force-voters`. Reads only. First make sure that
    /// the lost members are off and stay off.
    #[command(after_help = "Examples:
  ctl member survey /var/lib/conclave/n2 /tmp/copy-of-n4

Exit codes: 0 read and judged, 1 a directory cannot be read, 2 usage.")]
    Survey {
        /// The data directories of all survivors, or copies of them
        #[arg(value_name = "DIR", required = true)]
        dirs: Vec<PathBuf>,
    },
}

pub(crate) async fn run(args: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    let goal = match &args.what {
        What::List => return list::run(&Target::election_only(globals)?, output).await,
        What::Survey { dirs } => return survey::run(dirs, globals, output),
        What::Add { id, address, role, learner, priority } => {
            let (id, address) = (NodeId(*id), Some(checked(address)?));
            if *learner {
                Goal::Learns(Candidate { id, address, role: None, priority: *priority })
            } else {
                Goal::Votes(Candidate { id, address, role: Some(*role), priority: *priority })
            }
        }
        What::Promote { id, role } => {
            Goal::Votes(Candidate { id: NodeId(*id), address: None, role: *role, priority: None })
        }
        What::Remove { id, yes } => Goal::Gone { id: NodeId(*id), yes: *yes },
        What::Replace { old, new, .. } if old == new => {
            return Err(Failure::usage(format!("a member cannot replace itself: {old}"))
                .because("a new disk or machine is a new member, with an id that no member ever had")
                .hint("ctl member replace OLD NEW HOST:PORT; a new address alone: ctl member move ID HOST:PORT"));
        }
        What::Replace { old, new, address } => {
            Goal::Replaced { old: NodeId(*old), new: NodeId(*new), address: checked(address)? }
        }
        What::Move { id, address } => Goal::At { id: NodeId(*id), address: checked(address)? },
        What::Abort => Goal::Settled,
    };
    reach::run(&goal, &Target::election_only(globals)?, output).await
}

fn checked(address: &str) -> Result<String, Failure> {
    check_address(address)?;
    Ok(address.to_owned())
}

fn voting_role(word: &str) -> Result<PeerRole, String> {
    match word.parse() {
        Ok(role) if role != PeerRole::Learner => Ok(role),
        Ok(_) => Err("a learner does not vote: write --learner".to_owned()),
        Err(_) => Err("write member or witness".to_owned()),
    }
}
