//! `ctl chaos`: faults on purpose.

mod act;

use std::collections::BTreeSet;
use std::time::Duration;

use client::{CHAOS_MAX, Chaos, Way, format_duration};

use self::act::Order;
use crate::args::Globals;
use crate::connection_options::Target;
use crate::failure::Failure;
use crate::output::Output;

/// Inject faults into a running cluster: cut, delay, pause, kill; and heal
///
/// Needs no root: the members apply the faults themselves, and only if their config has `chaos = true`. Cuts and delays
/// last until `ctl chaos heal` or a restart; `ctl status` shows them.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl up --chaos               a local cluster that allows it
  ctl chaos cut 5 1,2,3,4
  ctl chaos heal")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Block all traffic between two members, or two groups of members
    ///
    /// Like a network that loses every packet: no connection is closed, new connections time out. Frames sent during the
    /// cut are held (up to the limit of a connection's queue) and arrive after `ctl chaos heal`.
    #[command(after_help = "Examples:
  ctl chaos cut 1 2
  ctl chaos cut 5 1,2,3,4       all links of one member
  ctl chaos cut 1,2 3,4,5       a partition
  ctl chaos cut 5 1 --one-way   5 is not heard by 1, but hears it")]
    Cut {
        #[command(flatten)]
        between: Between,
    },
    /// Delay the frames between two members, or two groups of members
    ///
    /// The order stays. A delay of 0 ends it.
    #[command(after_help = "Examples:
  ctl chaos delay 1 2 50ms
  ctl chaos delay 5 1,2,3,4 1s --one-way")]
    Delay {
        #[command(flatten)]
        between: Between,
        /// The delay in each direction; at most 60s
        #[arg(value_name = "TIME", value_parser = bounded)]
        time: Duration,
    },
    /// End every cut and every delay, at all members
    #[command(after_help = "Examples:
  ctl chaos heal")]
    Heal,
    /// Make a member's whole process hang for a while
    ///
    /// It sends no heartbeat and no answer, but its connections stay open; then it continues.
    #[command(after_help = "Examples:
  ctl chaos pause 5
  ctl chaos pause 5 --for 10s")]
    Pause {
        /// The member
        #[arg(value_name = "A")]
        member: u32,
        /// The length of the pause; at most 60s
        #[arg(long = "for", value_name = "TIME", value_parser = bounded, default_value = "2s")]
        time: Duration,
    },
    /// End a member's process as `kill -9` does
    #[command(after_help = "Examples:
  ctl chaos kill 5")]
    Kill {
        /// The member
        #[arg(value_name = "A")]
        member: u32,
    },
}

#[derive(clap::Args, Debug)]
struct Between {
    /// A member, or several
    #[arg(value_name = "A[,A...]", value_parser = group)]
    a: Group,
    /// The other member, or several
    #[arg(value_name = "B[,B...]", value_parser = group)]
    b: Group,
    /// Only from A to B: frames of B still reach A
    #[arg(long)]
    one_way: bool,
}

/// Members on one side of a fault. A type of its own: clap would take a list for many arguments.
#[derive(Clone, Debug)]
struct Group(Vec<u32>);

fn group(text: &str) -> Result<Group, String> {
    let id = |word: &str| word.parse().map_err(|_| format!("`{word}` is no member: write ids, as in 3 or 1,2"));
    let ids: BTreeSet<u32> = text.split(',').map(id).collect::<Result<_, _>>()?;
    Ok(Group(ids.into_iter().collect()))
}

fn bounded(text: &str) -> Result<Duration, String> {
    let time = client::parse_duration(text).map_err(|error| error.to_string())?;
    if time > CHAOS_MAX {
        return Err(format!("at most {}", format_duration(CHAOS_MAX)));
    }
    Ok(time)
}

/// Rounded up, so that no fault is rounded to none.
fn milliseconds(time: Duration) -> u64 {
    time.as_micros().div_ceil(1000) as u64
}

pub(crate) async fn run(args: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    let order = match &args.what {
        What::Cut { between } => between.order("cut", None, |peer, way| Chaos::Cut { peer, way })?,
        What::Delay { between, time } => {
            let ms = milliseconds(*time);
            between.order("delay", Some(ms), |peer, way| Chaos::Delay { peer, way, ms })?
        }
        What::Heal => return act::heal(Target::election_only(globals)?, output).await,
        What::Pause { member, time } => {
            let ms = milliseconds(*time);
            Order { ms: Some(ms), ..Order::alone("pause", *member, Chaos::Pause { ms }) }
        }
        What::Kill { member } => Order::alone("kill", *member, Chaos::Kill),
    };
    order.carry_out(&Target::election_only(globals)?, output).await
}

impl Between {
    /// Every pair, and both ends of every pair: each end applies its half.
    fn order(&self, action: &'static str, ms: Option<u64>, part: impl Fn(u32, Way) -> Chaos) -> Result<Order, Failure> {
        let (Group(a), Group(b)) = (&self.a, &self.b);
        if let Some(both) = a.iter().find(|id| b.contains(id)) {
            return Err(Failure::usage(format!("member {both} is on both sides"))
                .because("a fault is between two different members")
                .hint(format!("ctl chaos {action} --help")));
        }
        let parts = Chaos::between(a, b, self.one_way, part);
        Ok(Order { action, a: a.clone(), b: b.clone(), one_way: self.one_way, ms, parts })
    }
}
