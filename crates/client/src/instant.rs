//! Instants as operators write them: RFC 3339, `-5m` for five minutes ago, or milliseconds since the Unix epoch.

use thiserror::Error;

use types::parse_duration;

const DAY_MS: u64 = 86_400_000;

#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "`{text}` is no instant: write 2026-05-04T13:30:00Z (or with +02:00), -5m for five minutes ago, or milliseconds \
     since the Unix epoch"
)]
pub struct InstantError {
    text: String,
}

/// Milliseconds since the Unix epoch.
pub fn parse_instant(text: &str, now_ms: u64) -> Result<u64, InstantError> {
    let text = text.trim();
    let parsed = if let Some(ago) = text.strip_prefix('-') {
        parse_duration(ago).ok().map(|ago| now_ms.saturating_sub(ago.as_millis() as u64))
    } else if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok()
    } else {
        parse_rfc3339(text)
    };
    parsed.ok_or_else(|| InstantError { text: text.to_owned() })
}

/// RFC 3339 in UTC, to the millisecond.
pub fn format_instant(ms: u64) -> String {
    let (year, month, day) = civil(ms / DAY_MS);
    let (seconds, ms) = (ms % DAY_MS / 1000, ms % 1000);
    let [hour, minute, second] = [seconds / 3600, seconds / 60 % 60, seconds % 60];
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// `YYYY-MM-DDTHH:MM:SS[.fraction](Z|+HH:MM|-HH:MM)`.
fn parse_rfc3339(text: &str) -> Option<u64> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let zone_at = time.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = time.split_at(zone_at);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    let digits = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let ms: u64 = format!("{fraction:0<3}").get(..3).filter(|_| digits)?.parse().ok()?;
    if year < 1970 || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let local = (days(year, month, day)? * DAY_MS + (hour * 3600 + minute * 60 + second) * 1000 + ms).cast_signed();
    u64::try_from(local - offset_ms(zone)?).ok()
}

fn offset_ms(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let [hours, minutes] = numbers(&zone[1..], ':', [2, 2])?;
    let ms = ((hours * 60 + minutes) * 60_000).cast_signed();
    (hours < 24 && minutes < 60).then_some(if zone.starts_with('-') { -ms } else { ms })
}

/// Exactly the requested number of digits in each part.
fn numbers<const N: usize>(text: &str, separator: char, widths: [usize; N]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    let mut parts = text.split(separator);
    for (number, width) in numbers.iter_mut().zip(widths) {
        let part = parts.next().filter(|part| part.len() == width && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

/// Days from 1970-01-01; `None` if there is no such day.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    // Years that begin in March end with the leap day.
    let shifted = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day.checked_sub(1)?;
    let days = shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + of_year - 719_468;
    (civil(days) == (year, month, day)).then_some(days)
}

/// Year, month and day of a number of days since 1970-01-01, by the 400-year cycle of the calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (cycle, of_cycle) = (days / 146_097, days % 146_097);
    let year_of_cycle = (of_cycle - of_cycle / 1460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let of_year = of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let shifted = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    (cycle * 400 + year_of_cycle + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_in_every_form() {
        let cases = [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600_000),
            ("2023-11-14T22:13:20.123Z", 1_700_000_000_123),
            ("2023-11-15T00:13:20.1+02:00", 1_700_000_000_100),
            ("2023-11-14 17:13:20-05:00", 1_700_000_000_000),
            ("1700000000123", 1_700_000_000_123),
            ("-5m", 10_000_000 - 300_000),
            ("-0", 10_000_000),
        ];
        for (text, ms) in cases {
            assert_eq!(parse_instant(text, 10_000_000), Ok(ms), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_and_named() {
        let cases =
            ["", "yesterday", "2023-02-29T00:00:00Z", "2023-11-14", "2023-11-14T22:13Z", "2023-13-01T00:00:00Z"];
        for text in cases.into_iter().chain(["2023-11-14T25:00:00Z", "2023-00-10T00:00:00Z", "-5", "5m", "1e3"]) {
            let error = parse_instant(text, 0).unwrap_err();
            assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn what_is_printed_is_read_back() {
        assert_eq!(format_instant(1_700_000_000_123), "2023-11-14T22:13:20.123Z");
        for day in 0..80_000 {
            let ms = day * DAY_MS + day * 7919 % DAY_MS;
            assert_eq!(parse_instant(&format_instant(ms), 0), Ok(ms), "{}", format_instant(ms));
        }
    }
}
