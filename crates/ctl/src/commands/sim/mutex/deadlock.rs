//! `ctl sim deadlock`: two locks, taken in opposite order.

use algorithms::catalog::mutex::{ROWS, row};
use serde::Serialize;
use sim::{Dinner, Order, Table};

use super::super::super::shared_args;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Let nodes take two locks each until they wait for each other in a circle
///
/// Node i takes lock i and then lock i+1, the last node takes the last lock and then the first: with two nodes these
/// are two locks in opposite order. Every lock by itself is right, and still all can wait for ever. With --ordered
/// every node takes the lock with the smaller number first, and none ever waits for ever.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl sim deadlock
  ctl sim deadlock --ordered
  ctl sim deadlock --nodes 5 --seed 7 -o json

Exit codes: 0 all nodes had both locks as often as they wanted, 7 they wait for ever.")]
pub(crate) struct DeadlockArgs {
    /// The mutual exclusion behind every lock [default: the first of `ctl algorithms`]
    #[arg(long, value_name = "NAME", value_parser = shared_args::mutex_names(), hide_possible_values = true)]
    algorithm: Option<String>,
    /// The number of nodes, and of locks
    #[arg(short = 'n', long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=100))]
    nodes: u32,
    /// How often each node takes its two locks
    #[arg(long, value_name = "K", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    times: u64,
    /// Take the lock with the smaller number first
    #[arg(long)]
    ordered: bool,
    /// Determines everything that is random
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    algorithm: &'static str,
    nodes: u32,
    ordered: bool,
    seed: u64,
    wanted: u64,
    done: u64,
    circle: Vec<Wait>,
}

#[derive(Serialize)]
struct Wait {
    node: u32,
    holds: usize,
    wants: usize,
    held_by: u32,
}

pub(in super::super) fn deadlock(args: &DeadlockArgs, output: Output) -> Result<(), Failure> {
    let named = args.algorithm.as_deref().and_then(row);
    let row = named.or(ROWS.first()).ok_or_else(|| Failure::usage("there is no mutual exclusion"))?;
    let ids = Order::Increasing.ids(args.nodes as usize, args.seed);
    let table = Table { row, ids, meals: args.times, ordered: args.ordered, seed: args.seed };
    let dinner = sim::dine(&table).map_err(Failure::usage)?;
    let id = |at: usize| table.ids[at].id.0;
    if output.is_json() {
        let circle = dinner.circle.iter();
        let circle = circle.map(|wait| Wait {
            node: id(wait.member),
            holds: wait.holds + 1,
            wants: wait.wants + 1,
            held_by: id(wait.held_by),
        });
        Output::json(&Document {
            schema: "conclave.sim.deadlock/1",
            algorithm: row.name,
            nodes: args.nodes,
            ordered: args.ordered,
            seed: args.seed,
            wanted: dinner.wanted,
            done: dinner.meals,
            circle: circle.collect(),
        })?;
    } else {
        Output::line(text(&table, &dinner))?;
    }
    if dinner.meals == dinner.wanted {
        return Ok(());
    }
    Err(Failure::new(Exit::Invariant, "deadlock: nodes wait for each other in a circle")
        .because("nodes take the same locks in different orders")
        .hint("ctl sim deadlock --ordered"))
}

fn text(table: &Table, dinner: &Dinner) -> String {
    let order = if table.ordered { "the smaller number first" } else { "its own lock first" };
    let mut lines = vec![format!(
        "{}, {} nodes, {} locks, {order}, seed {}: both locks held {} of {} times",
        table.row.name,
        table.ids.len(),
        table.ids.len(),
        table.seed,
        dinner.meals,
        dinner.wanted
    )];
    for wait in &dinner.circle {
        lines.push(format!(
            "node {} holds lock {} and waits for lock {}, which node {} holds",
            table.ids[wait.member],
            wait.holds + 1,
            wait.wants + 1,
            table.ids[wait.held_by]
        ));
    }
    lines.join("\n")
}
