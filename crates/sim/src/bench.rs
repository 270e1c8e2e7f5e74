//! The speed of the simulator, compared with the minimum: moving its records through a queue.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Duration;

use algorithms::catalog::{self, Row, Visitor};
use algorithms::{Election, Rounds, Topology};

use crate::bare::{self, queue::Flight};
use crate::clock::Stopwatch;
use crate::experiment::{Experiment, Report};
use crate::order::Order;

/// A run of the simulator beside a bare queue that moves as many records of the same type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BenchReport {
    pub algorithm: &'static str,
    pub nodes: usize,
    pub repetitions: usize,
    /// Median over the repetitions, of time on a processor: other load does not count.
    pub ns_per_message: f64,
    /// Median; pushing and popping the run's record type, as many in the queue as the run's peak in flight.
    pub ns_per_message_bare_queue: f64,
    pub ratio: f64,
    pub messages: u64,
    pub peak_in_flight: usize,
    pub record_bytes: usize,
    pub bytes_per_node: f64,
}

/// The default row: the first on a ring that is cheap enough for millions of nodes.
pub fn bench_row() -> &'static Row {
    let cheap = |row: &&Row| {
        let bounds = (row.bounds)(1024);
        row.topology == Topology::Ring && bounds.mean.unwrap_or(bounds.worst) <= 32.0 * 1024.0 * 10.0
    };
    catalog::ROWS.iter().filter(cheap).find(|row| catalog::dispatch(row, IsElection)).expect("the catalog has one")
}

/// Measures a row on a random ring, both sides in each repetition; rows of synchronous machines have no queue.
pub fn bench_sim(row: &'static Row, nodes: usize, repetitions: usize) -> Result<BenchReport, String> {
    if !catalog::dispatch(row, IsElection) {
        return Err(format!("{} is synchronous: it runs by rounds, without a queue to compare with", row.name));
    }
    let mut experiment = Experiment::new(row, Order::Random.ids(nodes, 1));
    let mut simulated = Vec::new();
    let mut bare = Vec::new();
    let mut last: Option<Report> = None;
    for repetition in 0..repetitions.max(1) {
        experiment.seed = repetition as u64;
        let report = experiment.run()?;
        if let Some(broken) = report.violations.first() {
            return Err(format!("{}: {broken}", row.name));
        }
        let (peak, messages) = (report.peak_in_flight, report.messages.total);
        simulated.push(nanoseconds(report.busy, messages));
        bare.push(nanoseconds(catalog::dispatch(row, BareQueue { peak, messages }), messages));
        last = Some(report);
    }
    let report = last.expect("at least one repetition");
    let (ns_per_message, ns_per_message_bare_queue) = (median(&mut simulated), median(&mut bare));
    Ok(BenchReport {
        algorithm: row.name,
        nodes,
        repetitions: simulated.len(),
        ns_per_message,
        ns_per_message_bare_queue,
        ratio: ns_per_message / ns_per_message_bare_queue,
        messages: report.messages.total,
        peak_in_flight: report.peak_in_flight,
        record_bytes: catalog::dispatch(row, RecordBytes),
        bytes_per_node: report.bytes_per_node,
    })
}

fn nanoseconds(time: Duration, messages: u64) -> f64 {
    time.as_nanos() as f64 / messages as f64
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

struct IsElection;

impl Visitor for IsElection {
    type Output = bool;
    fn election<E: Election>(self, _: &'static Row) -> bool {
        true
    }
    fn rounds<R: Rounds>(self, _: &'static Row) -> bool {
        false
    }
}

struct RecordBytes;

impl Visitor for RecordBytes {
    type Output = usize;
    fn election<E: Election>(self, _: &'static Row) -> usize {
        size_of::<Flight<E::Link, E::Message, ()>>()
    }
    fn rounds<R: Rounds>(self, _: &'static Row) -> usize {
        0
    }
}

struct BareQueue {
    peak: usize,
    messages: u64,
}

impl Visitor for BareQueue {
    type Output = Duration;

    fn election<E: Election>(self, row: &'static Row) -> Duration {
        let setup = Experiment::new(row, Order::Increasing.ids(2, 0)).setup();
        let record = bare::first_message::<E>(&setup).expect("an election of two sends something");
        move_records(&record, self.peak, self.messages)
    }

    fn rounds<R: Rounds>(self, _: &'static Row) -> Duration {
        Duration::ZERO
    }
}

fn move_records<F: Clone>(record: &F, peak: usize, messages: u64) -> Duration {
    let mut queue: VecDeque<F> = VecDeque::with_capacity(peak);
    let started = Stopwatch::start();
    queue.extend(std::iter::repeat_n(record, peak).cloned());
    for _ in 0..messages {
        let record = queue.pop_front().expect("as many as at the peak");
        queue.push_back(black_box(record));
    }
    started.busy()
}
