//! `ctl sim` for mutual exclusions: the options of a workload, and what the commands do with them.

mod compare;
mod deadlock;
mod picture;
mod run;
mod step;

use std::str::FromStr;

use algorithms::Uid;
use algorithms::catalog::mutex::Row;
use clap::ValueEnum;
use sim::{Contention, MutexExperiment, Schedule, TokenFault};

use super::ring::{AtRound, RingArgs, places};
use crate::failure::Failure;

pub(super) use compare::{CompareArgs, compare};
pub(super) use deadlock::{DeadlockArgs, deadlock};
pub(super) use picture::{draw, export};
pub(super) use run::run;
pub(super) use step::step;

/// The options that only a mutual exclusion has.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Options of mutual exclusions")]
pub(super) struct MutexArgs {
    /// The number of requests in total [default: 1000; one of each node in a picture or an export]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    requests: Option<u64>,
    /// When nodes ask: again the moment they are out, after a random time, or one node at a time [default: saturated]
    #[arg(long, value_enum)]
    contention: Option<ContentionArg>,
    /// The nodes that ask [default: all]
    #[arg(long, value_name = "ID,...", value_delimiter = ',')]
    requesters: Vec<u32>,
    /// Exactly these requests, one of each node, and in which round each asks
    #[arg(long, value_name = "ID[@ROUND],...", value_delimiter = ',', conflicts_with_all = ["requests", "contention", "requesters"])]
    request: Vec<AtRound>,
    /// Where the Lamport clocks of these nodes begin [default: 0]
    #[arg(long, value_name = "ID=TIME,...", value_delimiter = ',')]
    clock: Vec<ClockArg>,
    /// How many of 100 requests are of readers [default: 50 where readers may be inside together, else 0]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    readers: Option<u8>,
    /// After how many of 100 requests a node tells another node, which then asks too [default: 50 with --contention random]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    tell: Option<u8>,
    /// Messages of one link may overtake each other; implies --schedule random
    #[arg(long)]
    no_fifo: bool,
    /// The token is lost after half of the requests
    #[arg(long, conflicts_with = "duplicate_token")]
    lose_token: bool,
    /// The token arrives twice after half of the requests
    #[arg(long)]
    duplicate_token: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum ContentionArg {
    Saturated,
    Random,
    Single,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ClockArg {
    id: u32,
    time: u64,
}

impl FromStr for ClockArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').and_then(|(id, time)| Some((id.parse().ok()?, time.parse().ok()?)));
        parts.map(|(id, time)| ClockArg { id, time }).ok_or_else(|| "write id=time as in 3=6".to_owned())
    }
}

impl MutexArgs {
    /// The row of a mutual exclusion. `None` for an election, which has none of these options.
    pub(super) fn row(&self, ring: &RingArgs) -> Result<Option<&'static Row>, Failure> {
        match (ring.mutex(), self.given()) {
            (None, Some(option)) => Err(Failure::usage(format!("{option} is an option of mutual exclusions"))
                .because(format!("{} is an election", ring.algorithm))
                .hint("ctl algorithms")),
            (row, _) => Ok(row),
        }
    }

    /// The first option that was given.
    fn given(&self) -> Option<&'static str> {
        let options = [
            ("--requests", self.requests.is_some()),
            ("--contention", self.contention.is_some()),
            ("--requesters", !self.requesters.is_empty()),
            ("--request", !self.request.is_empty()),
            ("--clock", !self.clock.is_empty()),
            ("--readers", self.readers.is_some()),
            ("--tell", self.tell.is_some()),
            ("--no-fifo", self.no_fifo),
            ("--lose-token", self.lose_token),
            ("--duplicate-token", self.duplicate_token),
        ];
        options.into_iter().find(|option| option.1).map(|option| option.0)
    }

    fn experiment(
        &self,
        row: &'static Row,
        ring: &RingArgs,
        nth: u64,
        requests: impl Fn(usize) -> u64,
    ) -> Result<MutexExperiment, Failure> {
        let mut plan = ring.mutex_experiment(row, 0, nth)?;
        plan.requests = self.requests.unwrap_or_else(|| requests(plan.ids.len()));
        plan.contention = self.contention(&plan.ids)?;
        if !self.requesters.is_empty() {
            plan.requesters = Some(places(&plan.ids, self.requesters.iter().copied(), "--requesters")?);
        }
        let clocks = places(&plan.ids, self.clock.iter().map(|clock| clock.id), "--clock")?;
        plan.clocks = clocks.into_iter().zip(self.clock.iter().map(|clock| clock.time)).collect();
        if self.no_fifo {
            plan.fifo = false;
            plan.schedule = Schedule::Random;
        }
        plan.readers = self.readers.unwrap_or(plan.readers);
        if plan.readers > 0 && !row.shared {
            return Err(Failure::usage(format!("{} has no readers", row.name)).hint("ctl algorithms"));
        }
        plan.tells = self.tell.unwrap_or(if plan.contention == Contention::Random { 50 } else { 0 });
        plan.fault = match (self.lose_token, self.duplicate_token) {
            (true, _) => Some(TokenFault::Lose),
            (_, true) => Some(TokenFault::Duplicate),
            (false, false) => None,
        };
        plan.check().map_err(|why| Failure::usage(why).hint("ctl sim run --help"))?;
        Ok(plan)
    }

    fn contention(&self, ids: &[Uid]) -> Result<Contention, Failure> {
        if !self.request.is_empty() {
            let at = places(ids, self.request.iter().map(|request| request.id), "--request")?;
            return Ok(Contention::Script(
                at.into_iter().zip(self.request.iter().map(|request| request.round)).collect(),
            ));
        }
        Ok(match self.contention.unwrap_or(ContentionArg::Saturated) {
            ContentionArg::Saturated => Contention::Saturated,
            ContentionArg::Random => Contention::Random,
            ContentionArg::Single => Contention::Single,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_clocks_are_read_as_written() {
        assert_eq!("5".parse(), Ok(AtRound { id: 5, round: 0 }));
        assert_eq!("5@3".parse(), Ok(AtRound { id: 5, round: 3 }));
        assert_eq!("3=6".parse(), Ok(ClockArg { id: 3, time: 6 }));
        assert!("3".parse::<ClockArg>().is_err() && "3=".parse::<ClockArg>().is_err());
    }
}
