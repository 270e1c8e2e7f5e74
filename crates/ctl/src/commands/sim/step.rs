//! `ctl sim step`: the user chooses the next delivery.

use std::io::{BufRead, Lines, StdinLock, Write as _};

use algorithms::Uid;
use sim::{Choice, Rng, Steps, Verdict};

use super::mutex::{self, MutexArgs};
use super::ring::RingArgs;
use crate::failure::Failure;
use crate::output::Output;

/// Run an election or a mutual exclusion by hand: choose what happens next
///
/// Every line of input is a choice: its number, nothing for the first one, `r` for any, `s` to see the state of all
/// nodes, `q` to stop. Links keep their order, so each offers its oldest message only.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl sim step --ids 5,3,8,1
  yes r | ctl sim step --nodes 5
  ctl sim step --algorithm ricart-agrawala --ids 1,2,3 --clock 3=6,2=14")]
pub(crate) struct Args {
    #[command(flatten)]
    ring: RingArgs,
    #[command(flatten)]
    mutex: MutexArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(row) = args.mutex.row(&args.ring)? {
        return mutex::step(row, &args.ring, &args.mutex);
    }
    let experiment = args.ring.experiment(0)?;
    let mut user = User::new(&experiment.ids, experiment.seed);
    let ended = sim::step_through(&experiment, |steps| drive(steps, &mut user));
    ended.map_err(|error| Failure::usage(error).hint("ctl algorithms"))?
}

/// Who chooses.
pub(super) struct User<'a> {
    pub(super) ids: &'a [Uid],
    lines: Lines<StdinLock<'static>>,
    dice: Rng,
}

impl<'a> User<'a> {
    pub(super) fn new(ids: &'a [Uid], seed: u64) -> Self {
        User { ids, lines: std::io::stdin().lock().lines(), dice: Rng::new(seed) }
    }

    /// The position of the chosen one; `None` at the end. `states` are those of all nodes.
    pub(super) fn choose(
        &mut self,
        choices: &[String],
        states: impl Fn() -> Vec<String>,
    ) -> Result<Option<usize>, Failure> {
        loop {
            for (number, choice) in (1..).zip(choices) {
                Output::line(format!("{number:>3}  {choice}"))?;
            }
            print!("> ");
            std::io::stdout().flush()?;
            let Some(line) = self.lines.next().transpose()? else { return Ok(None) };
            let wanted = match line.trim() {
                "q" => return Ok(None),
                "s" => {
                    self.show(&states())?;
                    continue;
                }
                "" => Some(1),
                "r" => Some(self.dice.index(choices.len()) + 1),
                number => number.parse().ok(),
            };
            match wanted.filter(|number| (1..=choices.len()).contains(number)) {
                Some(number) => {
                    Output::line(format!("-- {}", choices[number - 1]))?;
                    return Ok(Some(number - 1));
                }
                None => Output::line(format!("a number from 1 to {}, nothing, r, s or q", choices.len()))?,
            }
        }
    }

    fn show(&self, states: &[String]) -> Result<(), Failure> {
        for (id, state) in self.ids.iter().zip(states) {
            Output::line(format!("     {id}  {state}"))?;
        }
        Ok(())
    }
}

fn drive(steps: &mut dyn Steps, user: &mut User<'_>) -> Result<(), Failure> {
    loop {
        let choices: Vec<String> = steps.choices().iter().map(|choice| describe(choice, user.ids)).collect();
        if choices.is_empty() {
            user.show(&steps.states())?;
            let outcome = outcome(steps.verdicts(), user.ids);
            return Ok(Output::line(format!("no message is left to deliver: {outcome}"))?);
        }
        let Some(choice) = user.choose(&choices, || steps.states())? else { return Ok(()) };
        steps.take(choice);
    }
}

fn describe(choice: &Choice, ids: &[Uid]) -> String {
    match choice {
        Choice::Deliver { from, to, text, .. } => format!("{} -> {}  {text}", ids[*from], ids[*to]),
        Choice::Timer { node } => format!("a timer of {}", ids[*node]),
    }
}

fn outcome(verdicts: &[Verdict], ids: &[Uid]) -> String {
    let said: Vec<String> = ids.iter().zip(verdicts).map(|(id, verdict)| format!("{id} {verdict:?}")).collect();
    said.join(", ")
}
