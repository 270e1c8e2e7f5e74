//! The name of a lock.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 256;

/// 1 to 256 bytes of UTF-8 without control characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
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
        match name.chars().find(|c| c.is_control()) {
            Some(control) => Err(NameError::Control(control)),
            None => Ok(LockName(name.into())),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for LockName {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        LockName::new(&name)
    }
}

impl From<LockName> for String {
    fn from(name: LockName) -> Self {
        name.0.as_ref().to_owned()
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
