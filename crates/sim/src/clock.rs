//! How long a computation took, as exactly as a busy machine permits.

use std::fs;
use std::time::{Duration, Instant};

/// Runs from its creation. Reads the time that this thread has been on a processor, if the system reports it, so that a
/// measurement does not contain other processes' work; else the wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch {
    wall: Instant,
    on_cpu: Option<Duration>,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Stopwatch { wall: Instant::now(), on_cpu: on_cpu() }
    }

    pub(crate) fn wall(&self) -> Duration {
        self.wall.elapsed()
    }

    /// Time on a processor; a tick of the scheduler (some milliseconds) is its grain.
    pub(crate) fn busy(&self) -> Duration {
        let spent = on_cpu().zip(self.on_cpu).and_then(|(now, then)| now.checked_sub(then));
        spent.filter(|spent| !spent.is_zero()).unwrap_or_else(|| self.wall())
    }
}

fn on_cpu() -> Option<Duration> {
    let line = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    line.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}
