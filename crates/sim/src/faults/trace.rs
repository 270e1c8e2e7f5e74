//! The last lines of a run, kept on request.

use std::collections::VecDeque;

use algorithms::View;

/// Off in ordinary runs: a run is repeated from its seed with the trace on if it broke something.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    keep: usize,
    lines: VecDeque<String>,
}

impl Trace {
    pub(crate) fn keeping(keep: usize) -> Self {
        Trace { keep, lines: VecDeque::new() }
    }

    pub(crate) fn line(&mut self, now: u64, view: &View, node: usize, text: impl FnOnce() -> String) {
        if self.keep > 0 {
            let id = view.members()[node].id;
            self.push(format!("{} {id:>3}  {}", stamp(now), text()));
        }
    }

    /// An event that belongs to no node.
    pub(crate) fn note(&mut self, now: u64, text: impl FnOnce() -> String) {
        if self.keep > 0 {
            self.push(format!("{}      {}", stamp(now), text()));
        }
    }

    fn push(&mut self, line: String) {
        if self.lines.len() == self.keep {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }
}

fn stamp(now: u64) -> String {
    format!("{:>6}.{:06} s", now / 1_000_000_000, now / 1_000 % 1_000_000)
}
