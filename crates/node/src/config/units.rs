//! Durations as people write them.

use std::fmt;
use std::time::Duration;

/// The units, longest first; nanoseconds are what they have in common.
const UNITS: [(&str, u64); 5] =
    [("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];

/// Reads `50ms`, `1s`, `1.5s`, `2m`, `1h` or `0`. The error says what would be right.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration: write a number and a unit, like \"50ms\", \"1.5s\" or \"2m\"");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = (text[..split].trim_end(), &text[split..]);
    let &(_, unit_ns) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| !part.is_empty() && part.len() <= 9 && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let scale = 10_u64.pow(fraction.len() as u32);
    let fraction: u64 = fraction.parse().map_err(|_| wrong())?;
    let fraction_ns = u128::from(fraction) * u128::from(unit_ns) / u128::from(scale);
    let ns = u128::from(whole) * u128::from(unit_ns) + fraction_ns;
    u64::try_from(ns).map(Duration::from_nanos).map_err(|_| wrong())
}

/// Prints a duration the way [`parse_duration`] reads it, in the largest unit that leaves no fraction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Human(pub Duration);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.as_nanos();
        let fits = |&&(_, unit_ns): &&(&str, u64)| ns >= u128::from(unit_ns) && ns.is_multiple_of(u128::from(unit_ns));
        match UNITS.iter().find(fits) {
            Some(&(name, unit_ns)) => write!(f, "{}{name}", ns / u128::from(unit_ns)),
            None if ns == 0 => f.write_str("0"),
            None => write!(f, "{}us", ns / 1_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_in_every_unit() {
        let millis = |text| parse_duration(text).map(|duration| duration.as_micros() as f64 / 1e3);
        assert_eq!(millis("50ms"), Ok(50.0));
        assert_eq!(millis("1s"), Ok(1_000.0));
        assert_eq!(millis("1.5s"), Ok(1_500.0));
        assert_eq!(millis("2m"), Ok(120_000.0));
        assert_eq!(millis("1h"), Ok(3_600_000.0));
        assert_eq!(millis("250us"), Ok(0.25));
        assert_eq!(millis("10 ms"), Ok(10.0));
        assert_eq!(millis("0"), Ok(0.0));
    }

    #[test]
    fn what_is_no_duration_says_what_would_be() {
        for text in ["", "50", "ms", "-1s", "1..5s", "1.s", ".5s", "5 parsecs", "1e3s", "99999999999h", "５s", "1S"] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.contains("50ms"), "{text}: {error}");
        }
        assert!(parse_duration("999999999h").is_err(), "beyond what a clock counts");
    }

    #[test]
    fn a_printed_duration_reads_back_as_itself() {
        for text in ["50ms", "1s", "2m", "1h", "250us", "1500ms", "0"] {
            assert_eq!(Human(parse_duration(text).unwrap()).to_string(), text);
        }
    }
}
