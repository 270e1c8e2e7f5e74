//! Durations as people write them: `300ms`, `5s`, `1.5s`, `2m`, `1h`.

use std::time::Duration;

use thiserror::Error;

/// Unit suffixes, longest first where one ends another, and their length in seconds.
const UNITS: &[(&str, f64)] = &[("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("`{text}` is no duration: write a number and a unit, as in 300ms, 5s, 2m or 1h")]
pub struct DurationError {
    text: String,
}

/// Reads a number directly followed by its unit. A bare `0` needs none.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let error = || DurationError { text: text.to_owned() };
    let trimmed = text.trim();
    if trimmed == "0" {
        return Ok(Duration::ZERO);
    }
    let (number, unit) = UNITS
        .iter()
        .find_map(|(suffix, seconds)| trimmed.strip_suffix(suffix).map(|number| (number, *seconds)))
        .ok_or_else(error)?;
    // Only digits and a point: `f64` would also read `inf`, `1e9` and `-1`.
    let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value: f64 = number.parse().ok().filter(|_| plain).ok_or_else(error)?;
    Duration::try_from_secs_f64(value * unit).map_err(|_| error())
}

/// The shortest form that [`parse_duration`] reads back, to the microsecond.
pub fn format_duration(duration: Duration) -> String {
    let micros = duration.as_micros();
    if micros.is_multiple_of(1_000_000) {
        format!("{}s", micros / 1_000_000)
    } else if micros.is_multiple_of(1_000) {
        format!("{}ms", micros / 1_000)
    } else {
        format!("{micros}us")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_fractions_are_read() {
        let cases = [
            ("300ms", 300_000),
            ("5s", 5_000_000),
            ("1.5s", 1_500_000),
            ("2m", 120_000_000),
            ("1h", 3_600_000_000),
            ("250us", 250),
            ("0", 0),
            ("0s", 0),
        ];
        for (text, micros) in cases {
            assert_eq!(parse_duration(text), Ok(Duration::from_micros(micros)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_and_named() {
        for text in ["", "5", "s", "-1s", "1e3s", "infs", "5 s", "5x", "1..2s", "99999999999999999999h"] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn what_is_printed_is_read_back() {
        for micros in [0, 1, 250, 1_000, 1_500, 300_000, 5_000_000, 61_000_000] {
            let duration = Duration::from_micros(micros);
            assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
    }
}
