//! `ctl sim step` of a mutual exclusion: the user chooses the next request, delivery or exit.

use algorithms::Uid;
use algorithms::catalog::mutex::Row;
use sim::{MutexChoice, MutexSteps};

use super::super::ring::RingArgs;
use super::super::step::User;
use super::MutexArgs;
use crate::failure::Failure;
use crate::output::Output;

pub(in super::super) fn step(row: &'static Row, ring: &RingArgs, args: &MutexArgs) -> Result<(), Failure> {
    let plan = args.experiment(row, ring, 0, |_| 1)?;
    let mut user = User::new(&plan.ids, plan.seed);
    let ended = sim::step_mutex(&plan, |steps| drive(steps, &mut user));
    ended.map_err(|error| Failure::usage(error).hint("ctl algorithms"))?
}

fn drive(steps: &mut dyn MutexSteps, user: &mut User<'_>) -> Result<(), Failure> {
    loop {
        let choices: Vec<String> = steps.choices().iter().map(|choice| describe(choice, user.ids)).collect();
        let Some(choice) = user.choose(&choices, || steps.states())? else { return Ok(()) };
        steps.take(choice);
        inside(steps, user.ids)?;
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
