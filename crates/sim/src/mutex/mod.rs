//! Mutual exclusions of the catalog under a workload: counted, timed and checked.
//!
//! [`MutexExperiment`] describes a run and [`MutexReport`] is what came out. [`MutexRecording`] records one for
//! [`draw_mutex`], [`shiviz_mutex`] and [`chrome_mutex`]; [`compare`] runs all rows; [`dine`] lets members take two locks.

mod audit;
mod check;
mod compare;
mod deadlock;
mod draw;
mod driver;
mod export;
mod knowledge;
mod recording;
mod report;
mod step;
mod watch;
mod wire;
mod world;

use algorithms::catalog::mutex::{self as catalog, Row, Visitor};
use algorithms::{Mutex, Uid};
use types::names;

use crate::experiment::Schedule;
use crate::observe::Blind;

pub use audit::{Observed, Times};
pub use compare::{Comparison, compare};
pub use deadlock::{Dinner, Table, Wait, dine};
pub use draw::draw_mutex;
pub use export::{chrome_mutex, shiviz_mutex};
pub use recording::{MutexEvent, MutexRecording, MutexWhat};
pub use report::{MutexReport, MutexTheory};
pub use step::{MutexChoice, MutexSteps, step_mutex};
pub use watch::MutexObserver;

/// Every pair of members has a clock and a link in memory.
pub const MUTEX_MEMBERS_MAX: usize = 2000;

/// The description of a run.
#[derive(Clone, Debug)]
pub struct MutexExperiment {
    pub row: &'static Row,
    /// In clockwise order on a ring.
    pub ids: Vec<Uid>,
    pub contention: Contention,
    /// How many requests are made in total; a script has its own.
    pub requests: u64,
    /// The positions that make requests; `None`: all.
    pub requesters: Option<Vec<usize>>,
    pub schedule: Schedule,
    pub seed: u64,
    /// Messages of one link arrive in the order of sending.
    pub fifo: bool,
    /// How many of 100 requests are those of readers.
    pub readers: u8,
    /// After how many of 100 requests the member tells another member by a message of the application.
    pub tells: u8,
    /// Happens to the first token after half of the requests were served.
    pub fault: Option<TokenFault>,
    /// Where the Lamport clocks of these positions begin; 0 for all others.
    pub clocks: Vec<(usize, u64)>,
    /// Positions and the round in which they die.
    pub crashes: Vec<(usize, u64)>,
}

/// When members make their requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Contention {
    /// Every requester asks again the moment it is out.
    Saturated,
    /// Every requester waits a random time between its requests.
    Random,
    /// One request at a time, of a random requester.
    Single,
    /// These positions ask once, in these rounds.
    Script(Vec<(usize, u64)>),
}

impl Contention {
    pub fn name(&self) -> &'static str {
        match self {
            Contention::Saturated => "saturated",
            Contention::Random => "random",
            Contention::Single => "single",
            Contention::Script(_) => "script",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenFault {
    Lose,
    Duplicate,
}

names!(TokenFault { Lose: "lose-token", Duplicate: "duplicate-token" });

impl MutexExperiment {
    /// All members ask all the time; nothing fails.
    pub fn new(row: &'static Row, ids: Vec<Uid>, requests: u64) -> Self {
        MutexExperiment {
            row,
            ids,
            contention: Contention::Saturated,
            requests,
            requesters: None,
            schedule: Schedule::Sync,
            seed: 1,
            fifo: true,
            readers: if row.shared { 50 } else { 0 },
            tells: 0,
            fault: None,
            clocks: Vec::new(),
            crashes: Vec::new(),
        }
    }

    /// Reports an experiment that cannot be run.
    pub fn check(&self) -> Result<(), String> {
        let members = self.ids.len();
        if members == 0 || members > MUTEX_MEMBERS_MAX {
            return Err(format!("a mutual exclusion is simulated with 1 to {MUTEX_MEMBERS_MAX} members"));
        }
        let mut sorted: Vec<_> = self.ids.iter().map(|uid| uid.id).collect();
        sorted.sort_unstable();
        if let Some((twice, _)) = sorted.iter().zip(sorted.iter().skip(1)).find(|(a, b)| a == b) {
            return Err(format!("id {twice} is there twice"));
        }
        let script = match &self.contention {
            Contention::Script(script) => script.as_slice(),
            _ => &[],
        };
        let named = self.requesters.iter().flatten().copied().chain(script.iter().map(|ask| ask.0));
        let named =
            named.chain(self.clocks.iter().map(|clock| clock.0)).chain(self.crashes.iter().map(|crash| crash.0));
        if let Some(at) = named.into_iter().find(|&at| at >= members) {
            return Err(format!("no member at position {at}"));
        }
        if self.requesters.as_ref().is_some_and(Vec::is_empty) {
            return Err("no member makes requests".into());
        }
        if !self.fifo && self.schedule == Schedule::Sync {
            return Err("messages cannot overtake each other if all take one round".into());
        }
        Ok(())
    }

    pub fn run(&self) -> Result<MutexReport, String> {
        self.run_with(Blind).map(|(report, Blind)| report)
    }

    /// Runs with a recording; of one type, as [`Experiment::observe`](crate::Experiment::observe).
    pub fn observe(&self, recording: MutexRecording) -> Result<(MutexReport, MutexRecording), String> {
        self.run_with(recording)
    }

    fn run_with<O: MutexObserver>(&self, observer: O) -> Result<(MutexReport, O), String> {
        catalog::dispatch(self.row, Run { experiment: self, observer })
    }

    /// Runs another machine than that of the row: a machine with a planted mistake.
    pub fn run_as<M: Mutex>(&self) -> Result<MutexReport, String> {
        driver::run::<M, Blind>(self, Blind).map(|(report, Blind)| report)
    }
}

struct Run<'a, O> {
    experiment: &'a MutexExperiment,
    observer: O,
}

impl<O: MutexObserver> Visitor for Run<'_, O> {
    type Output = Result<(MutexReport, O), String>;

    fn mutex<M: Mutex>(self, _: &'static Row) -> Self::Output {
        driver::run::<M, O>(self.experiment, self.observer)
    }
}
