//! A run by hand: the caller chooses what happens next.

use algorithms::catalog::mutex::{self as catalog, Row, Visitor};
use algorithms::{Access, Mutex, Stage};

use super::MutexExperiment;
use super::driver::settings;
use super::recording::MutexRecording;
use super::world::{Links, Parcel, World, view};
use crate::experiment::Schedule;

/// A run that waits for the next choice.
pub trait MutexSteps {
    /// A request of every member that is outside, an exit of every member that is inside, and the messages under way:
    /// of each link the oldest one, or all of them if links are not FIFO.
    fn choices(&self) -> Vec<MutexChoice>;
    /// Carries out one of them; false if there is no such choice.
    fn take(&mut self, choice: usize) -> bool;
    /// All machines, as text, in the order of the ids.
    fn states(&self) -> Vec<String>;
    /// The members that are inside.
    fn inside(&self) -> Vec<usize>;
}

/// Members are positions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MutexChoice {
    Deliver { from: usize, to: usize, text: String },
    Ask(usize),
    Exit(usize),
}

/// Runs an experiment step by step; its workload and schedule are ignored.
pub fn step_mutex<R>(plan: &MutexExperiment, drive: impl FnOnce(&mut dyn MutexSteps) -> R) -> Result<R, String> {
    let (mut drive, mut result) = (Some(drive), None);
    by_hand(plan, &mut |steps| result = drive.take().map(|drive| drive(steps)))?;
    Ok(result.expect("it was driven"))
}

/// Whatever drives it, every machine of the catalog is compiled once.
fn by_hand(plan: &MutexExperiment, drive: &mut dyn FnMut(&mut dyn MutexSteps)) -> Result<(), String> {
    plan.check()?;
    catalog::dispatch(plan.row, ByHand { plan, drive });
    Ok(())
}

struct ByHand<'a> {
    plan: &'a MutexExperiment,
    drive: &'a mut dyn FnMut(&mut dyn MutexSteps),
}

impl Visitor for ByHand<'_> {
    type Output = ();

    fn mutex<M: Mutex>(self, _: &'static Row) {
        let view = view::<M>(self.plan.ids.clone());
        let settings = (0..view.len()).map(|at| settings(self.plan, at)).collect();
        let links = Links { schedule: Schedule::Sync, fifo: self.plan.fifo };
        let world = World::new(&view, settings, links, self.plan.seed, MutexRecording::new(usize::MAX));
        (self.drive)(&mut Hand::<M> { world, fifo: self.plan.fifo, members: view.len() });
    }
}

struct Hand<'a, M: Mutex> {
    world: World<'a, M, MutexRecording>,
    fifo: bool,
    members: usize,
}

impl<M: Mutex> Hand<'_, M> {
    /// The numbers of the messages that may arrive next.
    fn deliverable(&self) -> Vec<(u64, MutexChoice)> {
        let flights = self.world.under_way();
        let first = |nth: usize| {
            let this = flights[nth].1;
            flights[..nth].iter().all(|(_, other)| (other.from, other.to) != (this.from, this.to))
        };
        (0..flights.len())
            .filter(|&nth| !self.fifo || first(nth))
            .map(|nth| {
                let (seq, flight) = &flights[nth];
                let text = match &flight.parcel {
                    Parcel::Machine(_, message) => format!("{message:?}"),
                    Parcel::Application(_) => "a message of the application".into(),
                };
                (*seq, MutexChoice::Deliver { from: flight.from as usize, to: flight.to as usize, text })
            })
            .collect()
    }

    fn commands(&self) -> impl Iterator<Item = MutexChoice> + '_ {
        (0..self.members).filter_map(|at| match self.world.machine(at).stage() {
            Stage::Released => Some(MutexChoice::Ask(at)),
            Stage::Held => Some(MutexChoice::Exit(at)),
            Stage::Wanted => None,
        })
    }
}

impl<M: Mutex> MutexSteps for Hand<'_, M> {
    fn choices(&self) -> Vec<MutexChoice> {
        self.deliverable().into_iter().map(|(_, choice)| choice).chain(self.commands()).collect()
    }

    fn take(&mut self, choice: usize) -> bool {
        self.world.net.now += 1;
        let messages = self.deliverable();
        if let Some((seq, _)) = messages.get(choice) {
            self.world.pick(*seq);
            return true;
        }
        let command = self.commands().nth(choice - messages.len());
        match command {
            Some(MutexChoice::Ask(at)) => self.world.request(at, Access::Exclusive),
            Some(MutexChoice::Exit(at)) => self.world.exit(at),
            Some(MutexChoice::Deliver { .. }) | None => return false,
        }
        true
    }

    fn states(&self) -> Vec<String> {
        (0..self.members).map(|at| format!("{:?}", self.world.machine(at))).collect()
    }

    fn inside(&self) -> Vec<usize> {
        (0..self.members).filter(|&at| self.world.machine(at).stage() == Stage::Held).collect()
    }
}
