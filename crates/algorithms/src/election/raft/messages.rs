//! What nodes say to each other.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    /// Would the receiver vote for the sender in this term, which is the sender's next one?
    PreVote {
        term: u64,
    },
    /// If granted, the term of the question; else the sender's term.
    PreVoteReply {
        term: u64,
        granted: bool,
    },
    /// `transfer`: the leader wants the sender to take over.
    Vote {
        term: u64,
        transfer: bool,
    },
    VoteReply {
        term: u64,
        granted: bool,
    },
    Heartbeat {
        term: u64,
        number: u64,
    },
    HeartbeatReply {
        term: u64,
        number: u64,
    },
    TimeoutNow {
        term: u64,
    },
}

impl Msg {
    pub(super) fn term(self) -> u64 {
        match self {
            Msg::PreVote { term }
            | Msg::PreVoteReply { term, .. }
            | Msg::Vote { term, .. }
            | Msg::VoteReply { term, .. }
            | Msg::Heartbeat { term, .. }
            | Msg::HeartbeatReply { term, .. }
            | Msg::TimeoutNow { term } => term,
        }
    }
}

kinds!(Msg {
    PreVote: candidacy("pre-vote"),
    PreVoteReply: election("pre-vote-reply"),
    Vote: candidacy("vote"),
    VoteReply: election("vote-reply"),
    Heartbeat: announcement("heartbeat"),
    HeartbeatReply: announcement("heartbeat-reply"),
    TimeoutNow: election("timeout-now"),
});
