//! Counts of durations in fixed buckets, kept by the one task that observes them.

use std::time::Duration;

/// Observations by bucket; no allocation after its creation.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// The upper ends of the buckets, in seconds, rising.
    bounds: &'static [f64],
    /// One more than bounds: the last one has no upper end.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    /// For writes to disk: from 100 microseconds to a second.
    pub const DISK: &'static [f64] =
        &[0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0];
    /// For elections and waits: from a millisecond to a minute.
    pub const WAIT: &'static [f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

    pub fn new(bounds: &'static [f64]) -> Self {
        Histogram { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    pub fn observe(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        let at = self.bounds.partition_point(|&bound| bound < seconds);
        self.counts[at] += 1;
        self.sum += seconds;
    }

    pub(crate) fn sum(&self) -> f64 {
        self.sum
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Each bucket with its upper end and the observations in it alone.
    pub(crate) fn buckets(&self) -> Vec<(f64, u64)> {
        self.bounds.iter().copied().chain([f64::INFINITY]).zip(self.counts.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observation_is_in_the_first_bucket_that_is_large_enough() {
        let mut histogram = Histogram::new(&[0.001, 0.01]);
        for us in [500, 1000, 1001, 10_000, 10_001] {
            histogram.observe(Duration::from_micros(us));
        }
        assert_eq!(histogram.buckets(), [(0.001, 2), (0.01, 2), (f64::INFINITY, 1)]);
        assert_eq!(histogram.count(), 5);
        assert!((histogram.sum() - 0.022_502).abs() < 1e-9);
    }
}
