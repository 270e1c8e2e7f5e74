//! `ctl priority`: an operator chooses a member's priority.

use std::str::FromStr;

use client::{PriorityBy, within};
use serde::Serialize;

use super::leadership_change::Scene;
use crate::args::Globals;
use crate::connection_options::{Target, request_failed};
use crate::failure::Failure;
use crate::output::Output;

/// Change a member's priority from the next election on
///
/// Elections compare the priority first and the id second. The leader stays: a better member takes over after preempt_after
/// where preempt = true, and else wins the next election (`ctl elect`). A leader keeps the priority with which it was elected
/// until the next election. The member keeps its priority over restarts, until it is given another one or `default`: then the
/// number of its [priority] command counts again, or that of the member list. The order is recorded (`ctl history`).
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl priority 3 100
  ctl priority 3 100 && ctl elect
  ctl priority 3 default

Exit codes: 0 done, 1 the algorithm compares no priorities, 2 no such member, 3 the member is not reachable, 8 refused.")]
pub(crate) struct Args {
    /// The member
    #[arg(value_name = "ID")]
    member: u32,

    /// 0 to 4294967295, or `default`
    #[arg(value_name = "VALUE")]
    value: Value,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Value {
    Number(u32),
    Default,
}

impl FromStr for Value {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(number) => Ok(Value::Number(number)),
            Err(_) if text == "default" => Ok(Value::Default),
            Err(_) => Err(format!("write a number from 0 to {}, or `default`", u32::MAX)),
        }
    }
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    member: u32,
    priority: u32,
    priority_by: PriorityBy,
}

pub(crate) async fn run(args: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    let target = Target::resolve_listed(globals).await?;
    let scene = Scene::open(&target).await?;
    let client = scene.connect(&target, args.member).await?;
    let value = match args.value {
        Value::Number(number) => Some(number),
        Value::Default => None,
    };
    let refused = |error| request_failed(&format!("member {} keeps its priority", args.member), &error);
    // The order is on the member's disk before the member answers.
    within(target.timeout, client.priority(value)).await.map_err(refused)?;
    let status = within(target.timeout, client.status()).await.map_err(refused)?;
    let (member, priority, priority_by) = (args.member, status.priority, status.priority_by);
    let by = match priority_by {
        PriorityBy::Operator => "",
        PriorityBy::Command => " by its command",
        PriorityBy::List => " by the member list",
    };
    let document = Document { schema: "conclave.priority/1", member, priority, priority_by };
    Ok(output
        .show(&document, || format!("member {member} has the priority {priority}{by} from the next election on"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_is_a_number_of_32_bits_or_the_default() {
        assert_eq!("4294967295".parse(), Ok(Value::Number(u32::MAX)));
        assert_eq!("default".parse(), Ok(Value::Default));
        for wrong in ["4294967296", "-1", "1.5", "", "Default"] {
            assert!(wrong.parse::<Value>().is_err_and(|why| why.contains("0 to 4294967295")), "{wrong}");
        }
    }
}
