//! Clocks bent on purpose, for tests with real processes. Only in builds with debug assertions: no setting bends a lease
//! of a release build.

use std::env::{self, VarError};
use std::sync::LazyLock;
use std::time::Duration;

use thiserror::Error;

/// `slew:PPM` bends what NTP can bend, CLOCK_BOOTTIME and CLOCK_MONOTONIC with the timers on them. `drift:PPM` bends
/// CLOCK_MONOTONIC_RAW too, as a bad oscillator does.
const VARIABLE: &str = "CONCLAVE_TEST_CLOCK";
const MILLION: i64 = 1_000_000;
/// Twice as far as the kernel lets NTP slew.
const LARGEST: i64 = MILLION / 5;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Bend {
    /// By how many millionths the clocks run fast.
    slewed_ppm: i64,
    raw_ppm: i64,
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "CONCLAVE_TEST_CLOCK is `{0}`, not `slew:PPM` or `drift:PPM` with -200000 to 200000 millionths. It bends clocks in \
     tests: unset it"
)]
pub struct BendError(String);

static BEND: LazyLock<Result<Bend, BendError>> = LazyLock::new(|| match env::var(VARIABLE) {
    Err(VarError::NotPresent) => Ok(Bend::default()),
    Err(VarError::NotUnicode(text)) => Err(BendError(text.to_string_lossy().into_owned())),
    Ok(text) => parse(&text).ok_or(BendError(text)),
});

/// How `CONCLAVE_TEST_CLOCK` bends the clocks of this process, as text. `None`: they are not bent.
pub fn bent_for_a_test() -> Result<Option<String>, BendError> {
    if !cfg!(debug_assertions) {
        return Ok(None);
    }
    let bend = BEND.clone()?;
    let Bend { slewed_ppm, raw_ppm } = bend;
    Ok((bend != Bend::default()).then(|| format!("slewed clocks by {slewed_ppm} ppm, the raw clock by {raw_ppm} ppm")))
}

fn parse(text: &str) -> Option<Bend> {
    let (what, ppm) = text.split_once(':')?;
    let slewed_ppm: i64 = ppm.parse().ok().filter(|ppm: &i64| ppm.abs() <= LARGEST)?;
    match what {
        "slew" => Some(Bend { slewed_ppm, raw_ppm: 0 }),
        "drift" => Some(Bend { slewed_ppm, raw_ppm: slewed_ppm }),
        _ => None,
    }
}

fn bend() -> Bend {
    if cfg!(debug_assertions) { BEND.as_ref().copied().unwrap_or_default() } else { Bend::default() }
}

pub(super) fn raw(nanos: i64) -> i64 {
    bent(nanos, bend().raw_ppm)
}

pub(super) fn slewed(nanos: i64) -> i64 {
    bent(nanos, bend().slewed_ppm)
}

/// How long the machine's own CLOCK_BOOTTIME takes for a span of the bent one.
pub(super) fn true_span(span: Duration) -> Duration {
    match bend().slewed_ppm {
        0 => span,
        ppm => span.mul_f64(1e6 / (MILLION + ppm) as f64),
    }
}

fn bent(nanos: i64, ppm: i64) -> i64 {
    // Whole millions apart: the product of two large numbers would not fit.
    nanos + nanos / MILLION * ppm + nanos % MILLION * ppm / MILLION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ntp_bends_all_clocks_but_the_raw_one() {
        assert_eq!(parse("slew:-80000"), Some(Bend { slewed_ppm: -80_000, raw_ppm: 0 }));
        assert_eq!(parse("drift:20000"), Some(Bend { slewed_ppm: 20_000, raw_ppm: 20_000 }));
        for text in ["", "slew", "slew:", "slew:8%", "slew:200001", "drift:-200001", "raw:5"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_bent_clock_advances_at_its_rate_from_any_moment_on() {
        let ten_years = 315_360_000_000_000_000;
        for start in [0, 999_999, ten_years] {
            let advance = bent(start + 1_000_000_000, -80_000) - bent(start, -80_000);
            assert!((advance - 920_000_000).abs() <= 1, "{advance} from {start}");
        }
    }
}
