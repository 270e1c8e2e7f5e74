//! Requests of operators to the leader. A member that does not lead answers which member does.

use std::time::Duration;

use algorithms::NodeId;
use client::{FailCode, REST_MAX, Response, format_duration};
use member::{Command, Role, Safety};
use types::InstanceId;

use super::{Daemon, failed};

impl Daemon {
    pub(super) fn transfer(&mut self, instance: InstanceId, to: NodeId, hold: bool) -> Response {
        let able = self.roster.list().may_lead(to);
        let Some(running) = self.instances.get(&instance) else { return unknown(instance) };
        if !running.machine.hands_over() {
            let why = "under safety = \"classic\" this algorithm cannot hand over to a chosen member; `ctl step-down` lets \
                       the other members elect one";
            failed(FailCode::Failed, why.into())
        } else if to == self.id && self.leads(instance) {
            // A hold of the present leader, or its end.
            self.command_leader(instance, Command::Transfer { to, hold })
        } else if !able {
            failed(FailCode::Failed, format!("{to} is no member that may lead"))
        } else if !self.net.is_connected(to.0) {
            failed(FailCode::Failed, format!("member {} has no connection to {to}", self.id))
        } else {
            self.command_leader(instance, Command::Transfer { to, hold })
        }
    }

    /// Under quorum an election of other members does not disturb the leader: the leader alone opens the next epoch.
    pub(super) fn elect(&mut self, instance: InstanceId) -> Response {
        let Some(running) = self.instances.get_mut(&instance) else { return unknown(instance) };
        if self.config.safety == Safety::Quorum && running.shown.standing().leader.is_some() {
            return self.command_leader(instance, Command::Elect);
        }
        if running.machine.is_paused() && running.shown.standing().leader.is_none() {
            return failed(FailCode::Failed, PAUSED.into());
        }
        running.machine.command(Command::Elect);
        Response::Done
    }

    /// The member stops its children first, and then hands over or resigns.
    pub(super) fn step_down(&mut self, instance: InstanceId, rest_ms: Option<u64>) -> Response {
        let rest = rest_ms.map(Duration::from_millis);
        if rest.is_some_and(|rest| rest.is_zero() || rest > REST_MAX) {
            let why = format!("a member rests for 1ms to {}", format_duration(REST_MAX));
            return failed(FailCode::BadRequest, why);
        }
        self.must_stay(instance).unwrap_or_else(|| self.command_leader(instance, Command::StepDown(rest)))
    }

    /// Any member takes the order and tells the others.
    pub(super) fn pause(&mut self, instance: InstanceId, paused: bool) -> Response {
        let Some(running) = self.instances.get_mut(&instance) else { return unknown(instance) };
        running.machine.command(Command::Pause(paused));
        Response::Done
    }

    /// Under quorum a leader without a possible successor does not step down; no leader of a paused cluster does.
    fn must_stay(&self, instance: InstanceId) -> Option<Response> {
        let running = self.instances.get(&instance)?;
        if running.machine.is_paused() {
            return Some(failed(FailCode::Failed, PAUSED.into()));
        }
        let alone = self.config.safety == Safety::Quorum && !running.machine.has_successor();
        let why = "none of the other members can take over now: they have stepped down less than ten seconds ago, have \
                   just started, or are not connected. Try again in ten seconds, or `ctl transfer ID`";
        (alone && self.leads(instance)).then(|| failed(FailCode::Failed, why.into()))
    }

    pub(super) fn command_leader(&mut self, instance: InstanceId, command: Command) -> Response {
        let Some(running) = self.instances.get_mut(&instance) else { return unknown(instance) };
        let standing = running.shown.standing();
        match standing.leader {
            _ if standing.role == Role::Leader => {
                running.machine.command(command);
                Response::Done
            }
            Some(leader) => failed(FailCode::Failed, format!("member {leader} leads, not {}", self.id)),
            None => failed(FailCode::NoLeader, "no member leads".into()),
        }
    }

    fn leads(&self, instance: InstanceId) -> bool {
        self.instances.get(&instance).is_some_and(|running| running.shown.standing().role == Role::Leader)
    }
}

const PAUSED: &str = "the cluster is paused, and no other member stands: `ctl resume` ends the pause, `ctl transfer ID` moves the leader";

/// The answer to a call for an instance that this member does not run.
pub(super) fn unknown(instance: InstanceId) -> Response {
    let why =
        format!("this cluster has no instance {instance}: [[instances]] of its config lists them, 0 is the election");
    failed(FailCode::BadRequest, why)
}
