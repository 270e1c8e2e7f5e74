//! What a process that authenticated may do.

use serde::{Deserialize, Serialize};

use crate::names;

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

names!(Access { Reader: "reader", Operator: "operator", Member: "member" });
