//! The standing of a member, and its cause.

use serde::{Deserialize, Serialize};

use crate::id::{Epoch, NodeId};
use crate::name::parsed_names;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Leader,
    Follower,
    /// The member knows no leader.
    Candidate,
    Witness,
    Learner,
}

parsed_names!(Role {
    Leader: "leader",
    Follower: "follower",
    Candidate: "candidate",
    Witness: "witness",
    Learner: "learner",
});

/// The standing of a member after a transition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Standing {
    pub role: Role,
    pub leader: Option<NodeId>,
    /// The leader's epoch; without a leader the smallest epoch that the next one may have.
    pub epoch: Epoch,
}

/// Why a member changed its standing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    Started,
    /// Won an election.
    Elected,
    /// Another member won the election that this member took part in.
    OtherElected,
    /// A heartbeat named the leader.
    Heard,
    /// The leader's connection closed or it fell silent.
    LeaderLost,
    /// The leader resigned.
    LeaderResigned,
    /// The member itself resigned.
    SteppedDown,
    /// A restarted member was ahead: the leader moved its epoch past it.
    Bumped,
    /// The algorithm halted to reorganise.
    Halted,
    /// The lease ended without a majority for the next one.
    LeaseEnded,
    /// Handed over to another member.
    HandedOver,
    /// Too few voters stayed connected, where a closed connection frees a voter.
    SupportersLost,
    /// Its own vote went to another candidate.
    Superseded,
    /// No change: the standing that a stream of announcements begins with.
    Present,
}

parsed_names!(Cause {
    Started: "started",
    Elected: "elected",
    OtherElected: "other-elected",
    Heard: "heard",
    LeaderLost: "leader-lost",
    LeaderResigned: "leader-resigned",
    SteppedDown: "stepped-down",
    Bumped: "bumped",
    Halted: "halted",
    LeaseEnded: "lease-ended",
    HandedOver: "handed-over",
    SupportersLost: "supporters-lost",
    Superseded: "superseded",
    Present: "present",
});

/// Which kind of authority decides who may claim to lead. Each is an authority of the crate `member`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Safety {
    /// The winner of the election: one leader per connected component, as in the papers.
    Classic,
    /// The winner of the election, once a majority of the voters has granted it a lease.
    Quorum,
}

parsed_names!(Safety { Classic: "classic", Quorum: "quorum" });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_are_refused() {
        assert!(Role::ALL.iter().all(|role| role.name().parse() == Ok(*role)));
        assert!(Cause::ALL.iter().all(|cause| cause.name().parse() == Ok(*cause)));
        assert!(Safety::ALL.iter().all(|safety| safety.name().parse() == Ok(*safety)));
        let error = "quorums".parse::<Safety>().unwrap_err().to_string();
        assert_eq!(error, "`quorums` is unknown: write one of classic, quorum");
    }

    #[test]
    fn names_are_what_json_shows() {
        fn shown(value: impl Serialize) -> String {
            serde_json::to_string(&value).unwrap().trim_matches('"').to_owned()
        }
        assert!(Role::ALL.iter().all(|role| shown(role) == role.name()));
        assert!(Cause::ALL.iter().all(|cause| shown(cause) == cause.name()));
        assert!(Safety::ALL.iter().all(|safety| shown(safety) == safety.name()));
    }
}
