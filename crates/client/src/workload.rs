//! How much a worker does, and how much it could do: what a process under `ctl lead` says of its work.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// An amount of work, in any unit that the worker counts in: jobs, requests a second, processors. In thousandths, so that no
/// value of the wire is anything but a number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Amount {
    thousandths: u64,
}

/// What a worker does now, and the most that it could do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Workload {
    pub load: Amount,
    pub capacity: Amount,
}

/// A text is no amount or no workload.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{0:?} is not LOAD CAPACITY: two numbers from 0 to {max}, with at most three decimals", max = Amount::MAX)]
pub struct WorkloadError(pub String);

impl Amount {
    /// A trillion: thousandths of it, and sums of thousands of them, are exact in the floating point numbers of JSON and metrics.
    pub const MAX: Amount = Amount { thousandths: 1_000_000_000_000_000 };

    pub const ZERO: Amount = Amount { thousandths: 0 };

    /// `None` above [`Amount::MAX`].
    pub fn new(thousandths: u64) -> Option<Self> {
        Some(Amount { thousandths }).filter(|amount| *amount <= Amount::MAX)
    }

    pub fn value(self) -> f64 {
        self.thousandths as f64 / 1e3
    }

    /// Never above [`Amount::MAX`].
    fn plus(self, other: Amount) -> Self {
        Amount { thousandths: self.thousandths.saturating_add(other.thousandths) }.min(Amount::MAX)
    }

    fn parse(text: &str) -> Option<Self> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(part) || part.len() > 3 {
            return None;
        }
        let thousandths = whole.parse::<u64>().ok()?.checked_mul(1000)?;
        Amount::new(thousandths.checked_add(format!("{part:0<3}").parse().ok()?)?)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.thousandths / 1000, self.thousandths % 1000);
        match format!("{part:03}").trim_end_matches('0') {
            "" => write!(f, "{whole}"),
            part => write!(f, "{whole}.{part}"),
        }
    }
}

impl Workload {
    /// Whatever a client has sent: is it within bounds?
    pub fn is_valid(self) -> bool {
        self.load <= Amount::MAX && self.capacity <= Amount::MAX
    }

    /// Of several workers together; `None` of none.
    pub fn sum(all: impl IntoIterator<Item = Workload>) -> Option<Workload> {
        all.into_iter()
            .reduce(|sum, next| Workload { load: sum.load.plus(next.load), capacity: sum.capacity.plus(next.capacity) })
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.load, self.capacity)
    }
}

/// `LOAD CAPACITY`, with any white space around them.
impl FromStr for Workload {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let mut words = text.split_whitespace().map(Amount::parse);
        match (words.next().flatten(), words.next().flatten(), words.next()) {
            (Some(load), Some(capacity), None) => Ok(Workload { load, capacity }),
            _ => Err(WorkloadError(text.trim().chars().take(80).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_two_numbers_within_bounds_and_nothing_else() {
        let shown = |text: &str| text.parse::<Workload>().map(|work| work.to_string()).ok();
        assert_eq!(shown("3 10").as_deref(), Some("3 of 10"));
        assert_eq!(shown(" 0.75\t1.5\r\n").as_deref(), Some("0.75 of 1.5"));
        assert_eq!(shown("12 0").as_deref(), Some("12 of 0"), "more than it can do, or nothing");
        assert_eq!(shown("1000000000000 0.001").as_deref(), Some("1000000000000 of 0.001"));
        for wrong in
            ["", "3", "3 10 1", "-1 1", "NaN 1", "inf 1", "1e3 1", "1.0001 1", "1. 1", ".5 1", "1000000000000.001 1"]
        {
            assert_eq!(shown(wrong), None, "{wrong:?}");
        }
        assert_eq!(shown("18446744073709551615 1"), None);
    }

    #[test]
    fn what_a_hostile_client_claims_is_neither_valid_nor_able_to_overflow_a_sum() {
        let claimed = Workload { load: Amount { thousandths: u64::MAX }, capacity: Amount::MAX };
        assert!(!claimed.is_valid() && Workload { load: Amount::MAX, ..claimed }.is_valid());
        let sum = Workload::sum([claimed, claimed]).unwrap();
        assert!(sum.is_valid() && sum.capacity == Amount::MAX);
        assert_eq!(Workload::sum([]), None);
    }
}
