//! What a process that authenticated may do.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Ordered: each may do what the ones before it may.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Ask what the cluster does.
    Reader,
    /// Change what the cluster does.
    Operator,
    /// Be a member: the cluster's own secret.
    Member,
}

impl Access {
    pub const ALL: [Access; 3] = [Access::Reader, Access::Operator, Access::Member];

    pub fn name(self) -> &'static str {
        match self {
            Access::Reader => "reader",
            Access::Operator => "operator",
            Access::Member => "member",
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
