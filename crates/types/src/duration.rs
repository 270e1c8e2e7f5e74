//! The notation of durations in configs, options and answers: `300ms`, `5s`, `1.5s`, `2m`, `1h`, `0`.

use std::time::Duration;

use thiserror::Error;

/// The units in nanoseconds, longest first.
const UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];
/// More digits than any duration has, and few enough that no product overflows.
const DIGITS_MAX: usize = 9;

#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("`{text}` is not a duration: write a number and a unit, like 50ms, 1.5s, 2m or 1h")]
pub struct DurationError {
    text: String,
}

/// Reads a number and its unit; a space between them is allowed, and 0 needs no unit.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    parse(text.trim()).ok_or_else(|| DurationError { text: text.to_owned() })
}

fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = (text[..split].trim_end(), &text[split..]);
    let &(_, unit_ns) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let (whole, fraction_value) = (digits(whole)?, digits(fraction)?);
    let scale = 10_u64.pow(fraction.len() as u32);
    let fraction_ns = u128::from(fraction_value) * u128::from(unit_ns) / u128::from(scale);
    let ns = u128::from(whole) * u128::from(unit_ns) + fraction_ns;
    u64::try_from(ns).ok().map(Duration::from_nanos)
}

fn digits(part: &str) -> Option<u64> {
    let plain = part.len() <= DIGITS_MAX && part.bytes().all(|byte| byte.is_ascii_digit());
    part.parse().ok().filter(|_| plain)
}

/// The duration in the largest unit that leaves no fraction; [`parse_duration`] reads it back.
pub fn format_duration(duration: Duration) -> String {
    let ns = duration.as_nanos();
    let fits = |&&(_, unit_ns): &&(&str, u64)| ns >= u128::from(unit_ns) && ns.is_multiple_of(u128::from(unit_ns));
    match UNITS.iter().find(fits) {
        Some(&(name, unit_ns)) => format!("{}{name}", ns / u128::from(unit_ns)),
        None => "0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_in_every_unit_and_with_fractions() {
        let cases = [
            ("50ms", 50_000),
            ("1s", 1_000_000),
            ("1.5s", 1_500_000),
            ("2m", 120_000_000),
            ("1h", 3_600_000_000),
            ("250us", 250),
            ("3000ns", 3),
            ("10 ms", 10_000),
            (" 5s ", 5_000_000),
            ("0", 0),
            ("0s", 0),
        ];
        for (text, micros) in cases {
            assert_eq!(parse_duration(text), Ok(Duration::from_micros(micros)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_and_named() {
        let huge = "99999999999999999999h";
        for text in ["", "50", "ms", "-1s", "1..5s", "1.s", ".5s", "5 parsecs", "1e3s", "infs", "５s", "1S", huge] {
            let error = parse_duration(text).unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("50ms"), "{error}");
        }
        assert!(parse_duration("999999999h").is_err(), "beyond what a clock counts");
    }

    #[test]
    fn a_printed_duration_reads_back_as_itself() {
        for text in ["50ms", "1s", "2m", "1h", "250us", "1500ms", "61s", "7ns", "0"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
    }
}
