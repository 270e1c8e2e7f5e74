//! `ctl sim draw` and `ctl sim export`: one run, recorded.

use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;
use sim::{Experiment, Recording, Report};

use super::mutex::{self, MutexArgs};
use super::ring::RingArgs;
use super::run::verdict;
use crate::failure::Failure;
use crate::output::Output;

/// The longest trace that viewers can open.
pub(super) const EXPORTED_MAX_MESSAGES: usize = 1_000_000;

/// Draw a run as a space-time diagram (SVG)
///
/// A run with too many nodes or messages to read is drawn as a summary per round.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl sim draw --ids 5,3,8,1 --out run.svg
  ctl sim draw --nodes 12 --schedule random --seed 7 > run.svg
  ctl sim draw --algorithm bully --ids 1,2,3,4,5 --crash 5 --initiators 2 --animate --out election.svg
  ctl sim draw --algorithm ricart-agrawala --ids 1,2,3 --clock 3=6,2=14 --request 3,2 --out example.svg")]
pub(crate) struct DrawArgs {
    #[command(flatten)]
    ring: RingArgs,
    #[command(flatten)]
    mutex: MutexArgs,
    /// Nodes on a circle and messages that move, instead of a diagram; elections only
    #[arg(long)]
    animate: bool,
    /// The output file [default: stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Export a run for other viewers
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl sim export --format shiviz --ids 5,3,8,1 --out run.log
  ctl sim export --format chrome --nodes 12 --out trace.json")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    ring: RingArgs,
    #[command(flatten)]
    mutex: MutexArgs,
    /// ShiViz reads logs with vector clocks; Chrome's tracing page and Perfetto read trace events
    #[arg(long, value_enum)]
    format: Format,
    /// The output file [default: stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Format {
    Shiviz,
    Chrome,
}

pub(crate) fn draw(args: &DrawArgs) -> Result<(), Failure> {
    if let Some(row) = args.mutex.row(&args.ring)? {
        if args.animate {
            return Err(Failure::usage("only elections are animated").hint("the same without --animate"));
        }
        return mutex::draw(row, &args.ring, &args.mutex, args.out.as_ref());
    }
    let (experiment, report, recording) = record(&args.ring, sim::MAX_DRAWN_MESSAGES)?;
    let picture = if args.animate {
        sim::animate(&title(&report), &experiment.ids, &recording)
            .map_err(|why| Failure::usage(why).hint("fewer --nodes, or the same without --animate"))?
    } else {
        sim::draw(&title(&report), &experiment.ids, &recording)
    };
    write(args.out.as_ref(), &picture)?;
    verdict(&report.violations, report.stuck)
}

pub(crate) fn export(args: &ExportArgs) -> Result<(), Failure> {
    if let Some(row) = args.mutex.row(&args.ring)? {
        return mutex::export(row, &args.ring, &args.mutex, args.format, args.out.as_ref());
    }
    let (experiment, report, recording) = record(&args.ring, EXPORTED_MAX_MESSAGES)?;
    if recording.dropped > 0 {
        return Err(Failure::usage(format!("more than {EXPORTED_MAX_MESSAGES} messages"))
            .because("no viewer opens a trace of that size")
            .hint("fewer --nodes"));
    }
    let text = match args.format {
        Format::Shiviz => sim::shiviz(&experiment.ids, &recording),
        Format::Chrome => sim::chrome(&title(&report), &experiment.ids, &recording),
    };
    write(args.out.as_ref(), &text)?;
    verdict(&report.violations, report.stuck)
}

/// A run that breaks an invariant or is stuck is recorded like any other: that is the run that people want to see.
fn record(ring: &RingArgs, limit: usize) -> Result<(Experiment, Report, Recording), Failure> {
    let experiment = ring.experiment(0)?;
    let (report, recording) =
        experiment.observe(Recording::new(limit)).map_err(|why| Failure::usage(why).hint("ctl algorithms"))?;
    Ok((experiment, report, recording))
}

fn title(report: &Report) -> String {
    let broken = if report.violations.is_empty() { "" } else { ", BROKEN" };
    let stuck = if report.stuck.is_none() { "" } else { ", stuck" };
    let Report { algorithm, nodes, schedule, seed, .. } = report;
    format!("{algorithm}, {nodes} nodes, {schedule}, seed {seed}{broken}{stuck}")
}

pub(super) fn write(path: Option<&PathBuf>, text: &str) -> Result<(), Failure> {
    match path {
        None => Ok(Output::line(text.trim_end())?),
        Some(path) => Ok(std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?),
    }
}
