//! `ctl sim step` of a mutual exclusion: the user chooses the next request, delivery or exit.

use std::io::{BufRead, Write as _};

use algorithms::Uid;
use algorithms::catalog::mutex::Row;
use sim::{MutexChoice, MutexSteps, Rng};

use super::super::ring::RingArgs;
use super::MutexArgs;
use crate::failure::Failure;
use crate::output::Output;

pub(in super::super) fn step(row: &'static Row, ring: &RingArgs, args: &MutexArgs) -> Result<(), Failure> {
    let plan = args.experiment(row, ring, 0, |_| 1)?;
    let mut dice = Rng::new(plan.seed);
    let ended = sim::step_mutex(&plan, |steps| drive(steps, &plan.ids, &mut dice));
    ended.map_err(|error| Failure::usage(error).hint("ctl algorithms"))?
}

fn drive(steps: &mut dyn MutexSteps, ids: &[Uid], dice: &mut Rng) -> Result<(), Failure> {
    let mut lines = std::io::stdin().lock().lines();
    loop {
        let choices = steps.choices();
        for (number, choice) in (1..).zip(&choices) {
            Output::line(format!("{number:>3}  {}", describe(choice, ids)))?;
        }
        print!("> ");
        std::io::stdout().flush()?;
        let Some(line) = lines.next().transpose()? else { return Ok(()) };
        let wanted = match line.trim() {
            "q" => return Ok(()),
            "s" => {
                for (id, state) in ids.iter().zip(steps.states()) {
                    Output::line(format!("     {id}  {state}"))?;
                }
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
                inside(steps, ids)?;
            }
            None => Output::line(format!("a number from 1 to {}, nothing, r, s or q", choices.len()))?,
        }
    }
}

fn inside(steps: &dyn MutexSteps, ids: &[Uid]) -> Result<(), Failure> {
    let names: Vec<String> = steps.inside().into_iter().map(|at| ids[at].to_string()).collect();
    match names.as_slice() {
        [] => Ok(()),
        names => Ok(Output::line(format!("   inside: {}", names.join(", ")))?),
    }
}

fn describe(choice: &MutexChoice, ids: &[Uid]) -> String {
    match choice {
        MutexChoice::Deliver { from, to, text } => format!("{} -> {}  {text}", ids[*from], ids[*to]),
        MutexChoice::Ask(at) => format!("{} asks", ids[*at]),
        MutexChoice::Exit(at) => format!("{} leaves", ids[*at]),
    }
}
