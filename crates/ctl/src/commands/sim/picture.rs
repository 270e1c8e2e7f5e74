//! `ctl sim draw` and `ctl sim export`: one run, recorded.

use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;
use sim::{Experiment, Recording};

use super::ring::RingArgs;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// The longest trace that viewers can open.
const EXPORTED_MAX_MESSAGES: usize = 1_000_000;

/// Draw a run as a space-time diagram (SVG)
///
/// A run with too many nodes or messages to read is drawn as a summary per round.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl sim draw --ids 5,3,8,1 --out run.svg
  ctl sim draw --nodes 12 --schedule random --seed 7 > run.svg")]
pub(crate) struct DrawArgs {
    #[command(flatten)]
    ring: RingArgs,
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
    /// ShiViz reads logs with vector clocks; Chrome's tracing page and Perfetto read trace events
    #[arg(long, value_enum)]
    format: Format,
    /// The output file [default: stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    Shiviz,
    Chrome,
}

pub(crate) fn draw(args: &DrawArgs) -> Result<(), Failure> {
    let (experiment, title, recording) = record(&args.ring, sim::MAX_DRAWN_MESSAGES)?;
    write(args.out.as_ref(), &sim::draw(&title, &experiment.ids, &recording))
}

pub(crate) fn export(args: &ExportArgs) -> Result<(), Failure> {
    let (experiment, title, recording) = record(&args.ring, EXPORTED_MAX_MESSAGES)?;
    if recording.dropped > 0 {
        return Err(Failure::usage(format!("more than {EXPORTED_MAX_MESSAGES} messages"))
            .because("no viewer opens a trace of that size")
            .hint("fewer --nodes"));
    }
    let text = match args.format {
        Format::Shiviz => sim::shiviz(&experiment.ids, &recording),
        Format::Chrome => sim::chrome(&title, &experiment.ids, &recording),
    };
    write(args.out.as_ref(), &text)
}

fn record(ring: &RingArgs, limit: usize) -> Result<(Experiment, String, Recording), Failure> {
    let experiment = ring.experiment(0)?;
    let (report, recording) =
        experiment.observe(Recording::new(limit)).map_err(|why| Failure::usage(why).hint("ctl algorithms"))?;
    if let Some(broken) = report.violations.first() {
        return Err(Failure::new(Exit::Invariant, broken));
    }
    let title = format!("{}, {} nodes, {}, seed {}", report.algorithm, report.nodes, report.schedule, report.seed);
    Ok((experiment, title, recording))
}

pub(super) fn write(path: Option<&PathBuf>, text: &str) -> Result<(), Failure> {
    match path {
        None => Ok(Output::line(text.trim_end())?),
        Some(path) => Ok(std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?),
    }
}
