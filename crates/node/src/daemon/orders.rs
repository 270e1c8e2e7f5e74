//! What operators may ask of the leader. Who does not lead says who does.

use algorithms::NodeId;
use client::{FailCode, Response};
use member::{Command, Role, Safety};

use super::{Daemon, failed};
use crate::config::PeerRole;

impl Daemon {
    pub(super) fn transfer(&mut self, to: NodeId) -> Response {
        let able = self.config.peer(to).is_some_and(|peer| peer.role == PeerRole::Member);
        if self.config.safety == Safety::Classic {
            let why = "a chosen successor needs safety = \"quorum\"; `ctl step-down` lets the others elect one";
            failed(FailCode::Failed, why.into())
        } else if to == self.id && self.outside.face.standing().role == Role::Leader {
            Response::Done
        } else if !able {
            failed(FailCode::Failed, format!("{to} is no member that may lead"))
        } else if !self.outside.net.is_connected(to.0) {
            failed(FailCode::Failed, format!("member {} has no connection to {to}", self.id))
        } else {
            self.command_leader(Command::Transfer(to))
        }
    }

    /// Whoever reigns by quorum is not disturbed by an election: it alone opens the next epoch.
    pub(super) fn elect(&mut self) -> Response {
        let reigned = self.config.safety == Safety::Quorum && self.outside.face.standing().leader.is_some();
        if reigned {
            return self.command_leader(Command::Elect);
        }
        self.instance.command(Command::Elect);
        Response::Done
    }

    /// The member stops its children first, and then hands over or resigns.
    pub(super) fn step_down(&mut self) -> Response {
        self.must_stay().unwrap_or_else(|| self.command_leader(Command::StepDown))
    }

    /// Under quorum a leader without a member to take over does not step down.
    fn must_stay(&self) -> Option<Response> {
        let leads = self.outside.face.standing().role == Role::Leader;
        let alone = leads && self.config.safety == Safety::Quorum && !self.instance.has_successor();
        let why = "nobody else stands: the others have stepped down less than ten seconds ago, have just started, or are \
                   not connected. Again in a while, or `ctl transfer ID`";
        alone.then(|| failed(FailCode::Failed, why.into()))
    }

    fn command_leader(&mut self, command: Command) -> Response {
        let standing = self.outside.face.standing();
        match standing.leader {
            _ if standing.role == Role::Leader => {
                self.instance.command(command);
                Response::Done
            }
            Some(leader) => failed(FailCode::Failed, format!("member {leader} leads, not {}", self.id)),
            None => failed(FailCode::NoLeader, "nobody leads".into()),
        }
    }
}
