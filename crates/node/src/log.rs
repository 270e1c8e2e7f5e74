//! Logs go to stderr and never block: when the pipe is not read, lines are dropped and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::descriptors;

/// Lines that may wait for a slow reader.
const QUEUE: usize = 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Format {
    Text,
    Json,
}

/// Starts logging; the filter comes from `CONCLAVE_LOG` (such as `debug` or `transport=trace`), else `info`. Called
/// before the first socket is opened: the log's thread must hold none open.
pub fn init(format: Format) -> io::Result<()> {
    let (lines, queue) = sync_channel(QUEUE);
    let dropped = Arc::new(AtomicU64::new(0));
    let sink = Sink { lines, dropped: dropped.clone() };
    descriptors::spawn("log", move || print_all(&queue, &dropped))?;
    let filter = EnvFilter::try_from_env("CONCLAVE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(sink).with_ansi(false);
    let result = match format {
        Format::Text => builder.with_target(false).try_init(),
        Format::Json => builder.json().flatten_event(true).try_init(),
    };
    result.map_err(io::Error::other)
}

/// Gives the log thread a moment to print the queued lines: called once, before the process ends.
pub fn drain() {
    thread::sleep(std::time::Duration::from_millis(5));
}

#[derive(Clone, Debug)]
struct Sink {
    lines: SyncSender<Vec<u8>>,
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
        if let Err(TrySendError::Full(_)) = self.lines.try_send(line.to_vec()) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn print_all(queue: &Receiver<Vec<u8>>, dropped: &AtomicU64) {
    for line in queue {
        let lost = dropped.swap(0, Ordering::Relaxed);
        let mut err = io::stderr().lock();
        if lost > 0 {
            let _ = writeln!(err, "{lost} log lines dropped: stderr was not read");
        }
        let _ = err.write_all(&line);
    }
}
