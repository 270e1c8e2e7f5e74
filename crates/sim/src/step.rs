//! A run by hand: the caller chooses which message is delivered next.

use algorithms::catalog::{self, Row, Visitor};
use algorithms::{Election, Rounds};

use crate::bare::queue::{Flight, Queue};
use crate::bare::{Engine, Setup, Verdict};
use crate::experiment::Experiment;
use crate::observe::Recording;

/// A run that waits for the next choice.
pub trait Steps {
    /// The possible next events: for each link the oldest message on it; when nothing is in flight, the next timer.
    fn choices(&self) -> Vec<Choice>;
    /// Carries out one of them; false if there is no such choice.
    fn take(&mut self, choice: usize) -> bool;
    /// All machines, as text, in the order of the ids.
    fn states(&self) -> Vec<String>;
    fn verdicts(&self) -> &[Verdict];
    fn recording(&self) -> &Recording;
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Positions, the kind's name and the message as text.
    Deliver { from: usize, to: usize, kind: &'static str, text: String },
    /// A timer of this position fires.
    Timer { node: usize },
}

/// Runs an experiment step by step; its schedule is ignored.
pub fn step_through<R>(experiment: &Experiment, drive: impl FnOnce(&mut dyn Steps) -> R) -> Result<R, String> {
    let (mut drive, mut result) = (Some(drive), None);
    by_hand(experiment, &mut |steps| result = drive.take().map(|drive| drive(steps)))?;
    Ok(result.expect("it was driven"))
}

/// Whatever drives it, every machine of the catalog is compiled once.
fn by_hand(experiment: &Experiment, drive: &mut dyn FnMut(&mut dyn Steps)) -> Result<(), String> {
    experiment.check()?;
    let setup = experiment.setup();
    experiment.fits(&setup)?;
    catalog::dispatch(experiment.row, ByHand { setup: &setup, drive })
}

struct ByHand<'a> {
    setup: &'a Setup,
    drive: &'a mut dyn FnMut(&mut dyn Steps),
}

impl Visitor for ByHand<'_> {
    type Output = Result<(), String>;

    fn election<E: Election>(self, _: &'static Row) -> Self::Output {
        let mut engine: Engine<'_, E, Pending<_, _>, Recording> =
            Engine::new(self.setup, Pending(Vec::new()), Recording::new(usize::MAX));
        engine.crash_due();
        for nth in 0..self.setup.initiators.count(self.setup.view.len()) {
            engine.wake(self.setup.initiators.get(nth));
        }
        (self.drive)(&mut engine);
        Ok(())
    }

    fn rounds<R: Rounds>(self, row: &'static Row) -> Self::Output {
        Err(format!("{} is synchronous: its rounds leave nothing to choose", row.name))
    }
}

/// In the order of sending; taken out from anywhere.
pub(crate) struct Pending<L, M>(Vec<Flight<L, M, usize>>);

impl<L, M> Queue<L, M, usize> for Pending<L, M> {
    fn push(&mut self, _: u64, flight: Flight<L, M, usize>) {
        self.0.push(flight);
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Flight<L, M, usize>>()
    }
}

impl<L: Copy + PartialEq, M> Pending<L, M> {
    /// The oldest of each link: links are FIFO.
    fn first_of_each_link(&self) -> Vec<usize> {
        (0..self.0.len())
            .filter(|&nth| {
                let this = &self.0[nth];
                self.0[..nth].iter().all(|other| (other.to, other.link) != (this.to, this.link))
            })
            .collect()
    }
}

impl<E: Election> Steps for Engine<'_, E, Pending<E::Link, E::Message>, Recording> {
    fn choices(&self) -> Vec<Choice> {
        let messages = self.net.queue.first_of_each_link().into_iter().map(|nth| {
            let sent = &self.net.observer.messages[self.net.queue.0[nth].tag];
            Choice::Deliver { from: sent.from, to: sent.to, kind: sent.kind.name, text: sent.text.clone() }
        });
        let mut choices: Vec<Choice> = messages.collect();
        if choices.is_empty() && self.net.undecided > 0 {
            choices.extend(self.net.timers.next().map(|(node, _)| Choice::Timer { node: node as usize }));
        }
        choices
    }

    fn take(&mut self, choice: usize) -> bool {
        // Each choice takes one tick, so that the recording keeps their order.
        match self.net.queue.first_of_each_link().get(choice) {
            Some(&nth) => {
                self.net.now += 1;
                let flight = self.net.queue.0.remove(nth);
                self.deliver(flight);
            }
            None if choice < self.choices().len() => {
                let due = self.net.timers.next_at().unwrap_or(0);
                self.net.now = self.net.now.max(due);
                self.fire_next();
            }
            None => return false,
        }
        true
    }

    fn states(&self) -> Vec<String> {
        (0..self.net.verdicts.len()).map(|node| format!("{:?}", self.machine(node))).collect()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.net.verdicts
    }

    fn recording(&self) -> &Recording {
        &self.net.observer
    }
}
