//! `ctl sim step`: the user chooses the next delivery.

use std::io::{BufRead, Write as _};

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
    let mut dice = Rng::new(experiment.seed);
    let ended = sim::step_through(&experiment, |steps| drive(steps, &experiment.ids, &mut dice));
    ended.map_err(|error| Failure::usage(error).hint("ctl algorithms"))?
}

fn drive(steps: &mut dyn Steps, ids: &[Uid], dice: &mut Rng) -> Result<(), Failure> {
    let mut lines = std::io::stdin().lock().lines();
    loop {
        let choices = steps.choices();
        if choices.is_empty() {
            states(steps, ids)?;
            return Ok(Output::line(format!("no message is left to deliver: {}", outcome(steps.verdicts(), ids)))?);
        }
        for (number, choice) in (1..).zip(&choices) {
            Output::line(format!("{number:>3}  {}", describe(choice, ids)))?;
        }
        print!("> ");
        std::io::stdout().flush()?;
        let Some(line) = lines.next().transpose()? else { return Ok(()) };
        let wanted = match line.trim() {
            "q" => return Ok(()),
            "s" => {
                states(steps, ids)?;
                continue;
            }
            "" => Some(1),
            "r" => Some(dice.index(choices.len()) + 1),
            number => number.parse().ok(),
        };
        match wanted.filter(|number| (1..=choices.len()).contains(number)) {
            Some(number) => {
                Output::line(format!("-- {}", describe(&choices[number - 1], ids)))?;
                steps.take(number - 1);
            }
            None => Output::line(format!("a number from 1 to {}, nothing, r, s or q", choices.len()))?,
        }
    }
}

fn describe(choice: &Choice, ids: &[Uid]) -> String {
    match choice {
        Choice::Deliver { from, to, text, .. } => format!("{} -> {}  {text}", ids[*from], ids[*to]),
        Choice::Timer { node } => format!("a timer of {}", ids[*node]),
    }
}

fn states(steps: &dyn Steps, ids: &[Uid]) -> Result<(), Failure> {
    for (id, state) in ids.iter().zip(steps.states()) {
        Output::line(format!("     {id}  {state}"))?;
    }
    Ok(())
}

fn outcome(verdicts: &[Verdict], ids: &[Uid]) -> String {
    let said: Vec<String> = ids.iter().zip(verdicts).map(|(id, verdict)| format!("{id} {verdict:?}")).collect();
    said.join(", ")
}
