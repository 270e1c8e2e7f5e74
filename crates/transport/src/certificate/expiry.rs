//! The end of a certificate's validity. rustls checks it inside a handshake and tells it to nobody; here it is read in
//! order to warn in time, from files of the own process only.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// `None` if these bytes are no certificate.
pub(super) fn not_after(certificate: &[u8]) -> Option<SystemTime> {
    let (_, certificate, _) = value(certificate)?;
    let (_, signed, _) = value(certificate)?;
    let mut rest = signed;
    if rest.first() == Some(&VERSION) {
        rest = value(rest)?.2;
    }
    // The serial number, the algorithm of the signature, the issuer.
    for _ in 0..3 {
        rest = value(rest)?.2;
    }
    let (SEQUENCE, validity, _) = value(rest)? else { return None };
    let (_, _, after_begin) = value(validity)?;
    let (tag, text, _) = value(after_begin)?;
    time(tag, std::str::from_utf8(text).ok()?)
}

/// The first value of some DER: its tag, its content, and the bytes behind it.
fn value(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, short], rest) = der.split_first_chunk()?;
    let (length, rest) = match short {
        0..=0x7f => (usize::from(short), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
            (digits.iter().fold(0, |length, &digit| length << 8 | usize::from(digit)), rest)
        }
        _ => return None,
    };
    let (content, behind) = rest.split_at_checked(length)?;
    Some((tag, content, behind))
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`, as certificates write them.
fn time(tag: u8, text: &str) -> Option<SystemTime> {
    let digits = text.strip_suffix('Z')?;
    let (year, rest) = digits.split_at_checked(if tag == GENERALIZED_TIME { 4 } else { 2 })?;
    if !(tag == UTC_TIME || tag == GENERALIZED_TIME) || rest.len() != 10 || !digits.bytes().all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let year: i64 = year.parse().ok()?;
    let year = match tag {
        UTC_TIME if year < 50 => year + 2000,
        UTC_TIME => year + 1900,
        _ => year,
    };
    let part = |at: usize| rest[at..at + 2].parse::<i64>().ok();
    let (month, day) = (part(0)?, part(2)?);
    let seconds = days_since_1970(year, month, day) * 86_400 + part(4)? * 3600 + part(6)? * 60 + part(8)?;
    Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).ok()?))
}

/// Of the Gregorian calendar, counted in years that begin in March: the leap day is the last of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_certificates_are_read() {
        let at = |tag, text| time(tag, text).map(|time| time.duration_since(UNIX_EPOCH).unwrap().as_secs());
        assert_eq!(at(UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(at(UTC_TIME, "240229123456Z"), Some(1_709_210_096));
        assert_eq!(at(UTC_TIME, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(at(GENERALIZED_TIME, "20500101000000Z"), Some(2_524_608_000));
        assert_eq!(at(GENERALIZED_TIME, "21000301000000Z"), Some(4_107_542_400));
        for (tag, wrong) in
            [(UTC_TIME, "500101000000Z"), (UTC_TIME, "24022912345Z"), (UTC_TIME, "2402291234567"), (4, "240229123456Z")]
        {
            assert_eq!(at(tag, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn no_cut_or_invented_bytes_are_read_as_a_certificate() {
        for bytes in [&b""[..], b"\x30", b"\x30\x84\xff\xff\xff\xff", b"\x30\x80\x00", b"\x30\x03\x02\x01\x01"] {
            assert_eq!(not_after(bytes), None);
        }
    }
}
