//! Where a member is asked.

use std::fmt;

/// An address to ask, and whose it is, where that is known: a config says so, a bare list of addresses does not.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Endpoint {
    pub id: Option<u32>,
    pub address: String,
}

impl Endpoint {
    pub fn member(id: u32, address: impl Into<String>) -> Self {
        Endpoint { id: Some(id), address: address.into() }
    }

    pub fn unnamed(address: impl Into<String>) -> Self {
        Endpoint { id: None, address: address.into() }
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
