//! How far a measurement is, on stderr: one line that is overwritten on a terminal; elsewhere a line now and then, so that a log
//! shows that it goes on and does not fill.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(super) struct Progress(Option<Instant>);

impl Progress {
    pub(super) fn say(&mut self, line: &str) {
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K{line}\r");
        } else if self.is_due(Instant::now()) {
            eprintln!("{line}");
        }
    }

    /// The first line always is.
    fn is_due(&mut self, now: Instant) -> bool {
        let due = self.0.is_none_or(|said| now.duration_since(said) >= EVERY);
        if due {
            self.0 = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_gets_the_first_line_and_then_one_now_and_then() {
        let (mut progress, start) = (Progress::default(), Instant::now());
        let told = (0..100).filter(|tenths| progress.is_due(start + Duration::from_millis(100 * tenths))).count();
        assert_eq!(told, 5, "in ten seconds");
    }
}
