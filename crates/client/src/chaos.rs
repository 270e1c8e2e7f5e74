//! Faults on purpose, as requested of one member.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The longest pause and the longest delay: a test cluster should recover by itself.
pub const CHAOS_MAX: Duration = Duration::from_mins(1);

/// One member's part of a fault. A fault between two members is requested of both. Faults are kept in memory only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Chaos {
    /// No byte passes; nothing is closed.
    Cut { peer: u32, way: Way },
    /// Frames arrive this much later; 0 ends the delay.
    Delay { peer: u32, way: Way, ms: u64 },
    /// Ends every cut and every delay.
    Heal,
    /// The whole process hangs for this long, after it has answered.
    Pause { ms: u64 },
    /// The process dies as by `kill -9`, after it has answered.
    Kill,
}

impl Chaos {
    /// A fault between every member of `a` and every member of `b`: what is asked of each. One way: from `a` to `b`.
    pub fn between(a: &[u32], b: &[u32], one_way: bool, part: impl Fn(u32, Way) -> Chaos) -> Vec<(u32, Vec<Chaos>)> {
        let (out, back) = if one_way { (Way::Out, Way::In) } else { (Way::Both, Way::Both) };
        let half = |ids: &[u32], others: &[u32], way: Way| {
            let one = |&id: &u32| (id, others.iter().map(|&peer| part(peer, way)).collect());
            ids.iter().map(one).collect::<Vec<_>>()
        };
        [half(a, b, out), half(b, a, back)].concat()
    }
}

/// The direction, seen from the member that is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Way {
    Both,
    /// From this member to the peer.
    Out,
    /// From the peer to this member.
    In,
}

impl Way {
    pub fn is_out(self) -> bool {
        self != Way::In
    }

    pub fn is_in(self) -> bool {
        self != Way::Out
    }
}
