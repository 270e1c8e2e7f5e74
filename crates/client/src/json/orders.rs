//! What became of orders: `conclave.change/1`, `conclave.chaos/1` and `conclave.pause/1`.

use serde::Serialize;
use types::Role;

use crate::ask::Answer;
use crate::connection::ClientError;
use crate::endpoint::Endpoint;
use crate::wire::{Maintenance, MemberStatus};

/// The outcome of a change of leadership.
#[derive(Serialize, Debug)]
pub struct Change {
    pub schema: &'static str,
    pub action: &'static str,
    /// The member that was asked to act.
    pub member: u32,
    pub was: Option<u32>,
    pub leader: u32,
    pub epoch: u64,
}

impl Change {
    pub const SCHEMA: &'static str = "conclave.change/1";
}

/// A fault that was injected.
#[derive(Serialize, Debug)]
pub struct Fault {
    pub schema: &'static str,
    pub action: &'static str,
    pub a: Vec<u32>,
    pub b: Vec<u32>,
    pub one_way: bool,
    pub ms: Option<u64>,
    /// The members that have applied their part, and those that have not.
    pub applied: Vec<u32>,
    pub failed: Vec<FaultLack>,
}

impl Default for Fault {
    fn default() -> Self {
        let (a, b, applied, failed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Fault { schema: "conclave.chaos/1", action: "", a, b, one_way: false, ms: None, applied, failed }
    }
}

/// A member that has not applied its part.
#[derive(Serialize, Debug)]
pub struct FaultLack {
    pub id: Option<u32>,
    pub address: String,
    pub why: String,
}

impl FaultLack {
    pub fn new(endpoint: &Endpoint, error: &ClientError) -> Self {
        FaultLack { id: endpoint.id, address: endpoint.address.clone(), why: error.to_string() }
    }
}

/// A pause of the cluster, or its end.
#[derive(Serialize, Debug)]
pub struct Paused {
    pub schema: &'static str,
    pub paused: bool,
    /// The member that took the order.
    pub member: u32,
    pub leader: Option<u32>,
    /// The one member that may lead during the pause.
    pub keeps: Option<u32>,
    /// The members that know the order, and those that did not answer.
    pub members: Vec<u32>,
    pub unreachable: Vec<String>,
}

impl Paused {
    pub(crate) fn new(member: u32, answers: &[Answer]) -> Self {
        let statuses: Vec<&MemberStatus> = answers.iter().filter_map(|answer| answer.result.as_ref().ok()).collect();
        let newest = Maintenance::newest(statuses.iter().copied()).unwrap_or_default();
        let silent = answers.iter().filter(|answer| answer.result.is_err());
        Paused {
            schema: "conclave.pause/1",
            paused: newest.paused,
            member,
            leader: statuses.iter().find(|status| status.role == Role::Leader).map(|status| status.id),
            keeps: newest.keeps,
            members: statuses.iter().map(|status| status.id).collect(),
            unreachable: silent.map(|answer| answer.endpoint.to_string()).collect(),
        }
    }
}
