//! Logs go to stderr and never block: when the pipe is not read, lines are dropped and counted.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::TrySendError;
use std::sync::{Arc, OnceLock};
use std::thread;

use client::Programs;
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, reload};

use crate::{bounded, descriptors};

/// Lines that were dropped since the start of the process.
static DROPPED: AtomicU64 = AtomicU64::new(0);

pub fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Lines that may wait for a slow reader.
const QUEUE: usize = 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Format {
    Text,
    Json,
}

/// What is logged where neither the environment nor the config says so.
pub const LEVEL: &str = "info";
/// Counts instead of `[log] level` of the config.
pub const VARIABLE: &str = "CONCLAVE_LOG";

/// Replaces the filter of the log.
static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// Is it a level, or a list such as `info,transport=trace`?
pub fn check(level: &str) -> Result<(), String> {
    level.parse::<Targets>().map(drop).map_err(|error| error.to_string())
}

/// From now on these lines are written. False if the environment decides which.
pub fn set_level(level: &str) -> bool {
    if std::env::var_os(VARIABLE).is_some() {
        return false;
    }
    if let (Some(filter), Ok(targets)) = (FILTER.get(), level.parse::<Targets>()) {
        // Fails only after the subscriber is gone, and it stays until the process ends.
        let _ = filter.reload(targets);
    }
    true
}

/// Starts logging; the filter comes from `CONCLAVE_LOG` (such as `debug` or `transport=trace`), else it is `level`. Called
/// before the first socket is opened: the log's thread must hold none open.
pub fn init(format: Format, level: &str) -> io::Result<()> {
    let (lines, queue) = bounded::channel(QUEUE);
    let dropped = Arc::new(AtomicU64::new(0));
    let sink = Sink { lines, dropped: dropped.clone() };
    descriptors::spawn("log", move || print_all(&queue, &dropped))?;
    let wanted = std::env::var(VARIABLE).ok().and_then(|wanted| wanted.parse().ok());
    let targets = wanted.or_else(|| level.parse().ok()).unwrap_or_else(|| Targets::new().with_default(Level::INFO));
    let (filter, handle) = reload::Layer::new(targets);
    let _ = FILTER.set(handle);
    let subscriber = tracing_subscriber::registry().with(filter);
    let lines = fmt::layer().with_writer(sink).with_ansi(false);
    let result = match format {
        Format::Text => subscriber.with(lines.with_target(false)).try_init(),
        Format::Json => subscriber.with(lines.json().flatten_event(true)).try_init(),
    };
    result.map_err(io::Error::other)
}

/// Gives the log thread a moment to print the queued lines: called once, before the process ends.
pub fn drain() {
    thread::sleep(std::time::Duration::from_millis(5));
}

#[derive(Clone, Debug)]
struct Sink {
    lines: bounded::Sender<Vec<u8>>,
    dropped: Arc<AtomicU64>,
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for Sink {
    /// The formatter passes one whole line per call.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let programs = Programs::called();
        let named = match std::str::from_utf8(line) {
            Ok(text) if !programs.are_plain() => programs.in_words(text).into_bytes(),
            _ => line.to_vec(),
        };
        if let Err(TrySendError::Full(_)) = self.lines.try_send(named) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn print_all(queue: &bounded::Receiver<Vec<u8>>, dropped: &AtomicU64) {
    for line in queue.iter() {
        let lost = dropped.swap(0, Ordering::Relaxed);
        let mut err = io::stderr().lock();
        if lost > 0 {
            let _ = writeln!(err, "{lost} log lines dropped: stderr was not read");
        }
        let _ = err.write_all(&line);
    }
}
