//! `ctl sim draw` and `ctl sim export` of a mutual exclusion.

use std::path::PathBuf;

use algorithms::catalog::mutex::Row;
use sim::{MutexExperiment, MutexRecording, MutexReport};

use super::super::picture::{EXPORTED_MAX_MESSAGES, Format, write};
use super::super::ring::RingArgs;
use super::super::run::verdict;
use super::MutexArgs;
use crate::failure::Failure;

/// A run that breaks something is drawn before the command fails: the picture shows how.
pub(in super::super) fn draw(
    row: &'static Row,
    ring: &RingArgs,
    args: &MutexArgs,
    out: Option<&PathBuf>,
) -> Result<(), Failure> {
    let (plan, report, recording) = record(row, ring, args, sim::MAX_DRAWN_MESSAGES)?;
    let picture = sim::draw_mutex(&title(&report), &plan.ids, &recording);
    write(out, &picture.map_err(|why| Failure::usage(why).hint("fewer --nodes or --requests"))?)?;
    verdict(&report.violations, None)
}

pub(in super::super) fn export(
    row: &'static Row,
    ring: &RingArgs,
    args: &MutexArgs,
    format: Format,
    out: Option<&PathBuf>,
) -> Result<(), Failure> {
    let (plan, report, recording) = record(row, ring, args, EXPORTED_MAX_MESSAGES)?;
    if recording.dropped > 0 {
        return Err(Failure::usage(format!("more than {EXPORTED_MAX_MESSAGES} messages"))
            .because("no viewer opens a trace of that size")
            .hint("fewer --nodes or --requests"));
    }
    let text = match format {
        Format::Shiviz => sim::shiviz_mutex(&plan.ids, &recording),
        Format::Chrome => sim::chrome_mutex(&title(&report), &plan.ids, &recording),
    };
    write(out, &text)?;
    verdict(&report.violations, None)
}

fn record(
    row: &'static Row,
    ring: &RingArgs,
    args: &MutexArgs,
    limit: usize,
) -> Result<(MutexExperiment, MutexReport, MutexRecording), Failure> {
    let plan = args.experiment(row, ring, 0, |nodes| nodes as u64)?;
    let (report, recording) =
        plan.observe(MutexRecording::new(limit)).map_err(|why| Failure::usage(why).hint("ctl algorithms"))?;
    Ok((plan, report, recording))
}

fn title(report: &MutexReport) -> String {
    let broken = if report.violations.is_empty() { "" } else { ", BROKEN" };
    let MutexReport { algorithm, members, contention, schedule, seed, .. } = report;
    format!("{algorithm}, {members} nodes, {contention}, {schedule}, seed {seed}{broken}")
}
