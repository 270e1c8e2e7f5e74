//! The address at which a member is asked.

use std::fmt;

use types::InstanceId;

/// An address to ask, and the id of its member where it is known: a config contains ids, a bare list of addresses does
/// not.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Endpoint {
    pub id: Option<u32>,
    pub address: String,
    /// The instance that is asked.
    pub instance: InstanceId,
}

impl Endpoint {
    /// For the cluster's election.
    pub fn new(id: Option<u32>, address: impl Into<String>) -> Self {
        Endpoint { id, address: address.into(), instance: InstanceId::ELECTION }
    }

    pub fn member(id: u32, address: impl Into<String>) -> Self {
        Endpoint::new(Some(id), address)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => write!(f, "{id} at {}", self.address),
            None => self.address.fmt(f),
        }
    }
}
