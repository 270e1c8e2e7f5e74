//! The name of a lock.

use std::fmt;
use std::sync::Arc;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 256;

/// 1 to 256 bytes of UTF-8 without control characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LockName(Arc<str>);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum NameError {
    #[error("the name of a lock is empty: it has 1 to {NAME_BYTES_MAX} bytes")]
    Empty,
    #[error("the name of a lock has {0} bytes: it has at most {NAME_BYTES_MAX}")]
    Long(usize),
    #[error("the name of a lock has a control character, {0:?}: use printable characters")]
    Control(char),
}

impl LockName {
    pub fn new(name: &str) -> Result<Self, NameError> {
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(NameError::Long(name.len()));
        }
        // Most names need no look at their characters one by one.
        let plain = name.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if !plain && let Some(control) = name.chars().find(|c| c.is_control()) {
            return Err(NameError::Control(control));
        }
        Ok(LockName(name.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// As a string, in both directions without another string in between: voters read two names for each grant.
impl Serialize for LockName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for LockName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Name)
    }
}

struct Name;

impl Visitor<'_> for Name {
    type Value = LockName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a lock")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<LockName, E> {
        LockName::new(name).map_err(E::custom)
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_1_to_256_bytes_and_no_control_character() {
        assert_eq!(LockName::new(""), Err(NameError::Empty));
        assert_eq!(LockName::new(&"ä".repeat(129)), Err(NameError::Long(258)));
        assert_eq!(LockName::new("a\nb"), Err(NameError::Control('\n')));
        assert_eq!(LockName::new(&"ä".repeat(128)).map(|name| name.as_str().len()), Ok(256));
    }
}
