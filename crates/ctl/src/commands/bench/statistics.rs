//! Order statistics of a few samples.

/// Summarises samples; `None` for no samples.
pub(super) fn summary(samples: &[f64]) -> Option<Summary> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let middle = sorted.len() / 2;
    let median = if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) };
    // Nearest rank: the smallest sample that 95 % of all do not exceed.
    let rank = (sorted.len() * 95).div_ceil(100);
    Some(Summary { min, median, p95: sorted[rank - 1], max })
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Summary {
    pub(super) min: f64,
    pub(super) median: f64,
    pub(super) p95: f64,
    pub(super) max: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_thirty_the_95th_percentile_is_the_29th() {
        let samples: Vec<f64> = (1..=30).rev().map(f64::from).collect();
        assert_eq!(summary(&samples), Some(Summary { min: 1.0, median: 15.5, p95: 29.0, max: 30.0 }));
        assert_eq!(summary(&[7.0]), Some(Summary { min: 7.0, median: 7.0, p95: 7.0, max: 7.0 }));
        assert_eq!(summary(&[]), None);
    }
}
