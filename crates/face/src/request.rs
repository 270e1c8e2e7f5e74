//! Bodies of orders: JSON objects without unknown keys.

use hyper::StatusCode;
use serde::{Deserialize, Deserializer, de};

use crate::answer::Problem;

pub(crate) fn parse<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, Problem> {
    // A derived reader takes an array for an object whose keys may all be missing.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(bad("expected an object"));
    }
    serde_json::from_slice(body).map_err(|error| bad(error.to_string()))
}

pub(crate) fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, detail)
}

/// A whole number that is not negative. In JSON 5.0 is one too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Whole(pub(crate) u64);

/// Larger numbers are not whole for certain in JSON.
const LARGEST: f64 = 9_007_199_254_740_992.0;

impl<'d> Deserialize<'d> for Whole {
    fn deserialize<D: Deserializer<'d>>(from: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(from)?;
        let rounded = || number.as_f64().filter(|n| n.fract() == 0.0 && (0.0..=LARGEST).contains(n)).map(|n| n as u64);
        number.as_u64().or_else(rounded).map(Whole).ok_or_else(|| de::Error::custom("expected a whole number"))
    }
}

impl Whole {
    /// As the id of a member; ids that are too large belong to no member.
    pub(crate) fn id(self) -> Result<u32, Problem> {
        u32::try_from(self.0).map_err(|_| bad(format!("{} is no id of a member", self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_in_every_form_and_others_are_refused() {
        for (text, number) in [("5", 5), ("5.0", 5), ("5e2", 500), ("0", 0), ("18446744073709551615", u64::MAX)] {
            assert_eq!(serde_json::from_str::<Whole>(text).ok(), Some(Whole(number)), "{text}");
        }
        for text in ["-1", "1.5", "\"1\"", "null", "1e300", "true"] {
            assert!(serde_json::from_str::<Whole>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_body_is_an_object_even_if_all_its_keys_may_be_missing() {
        #[derive(Deserialize)]
        struct Anything {}
        assert!(parse::<Anything>(b" \n{}").is_ok());
        for text in ["[]", "", "null", "1"] {
            assert!(parse::<Anything>(text.as_bytes()).is_err(), "{text}");
        }
    }
}
