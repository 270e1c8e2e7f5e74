//! The registry of elections: every harness (counts, model, faults, live cluster, docs) iterates it, and the one
//! dispatch from a name to a type is here. `docs/adding-an-algorithm.md` lists the steps to a new row. Mutual exclusions
//! have a registry of their own, [`mutex`].

#[macro_use]
mod any;
#[macro_use]
mod any_mutex;
pub mod mutex;

use std::collections::BTreeSet;
use std::fmt::{self, Debug};

use serde::{Serialize, Serializer};

use crate::drive::Counts;
use crate::election::{
    bully, bully_1982, by_lock, chang_roberts, chang_roberts_substitute, dfs, dolev_klawe_rodeh, dolev_klawe_rodeh_b,
    echo, franklin, hirschberg_sinclair, hirschberg_sinclair_reply, improved_bully, invitation, itai_rodeh, le_lann,
    modified_bully, modified_ring, modified_ring_literal, peterson, raft, ring_list, time_slice, variable_speeds,
};
use crate::mutex::ricart_agrawala::RicartAgrawala;
use crate::protocol::{
    Campaign, Ctx, Election, Features, Input, Kind, Message, Outbox, Outcome, Protocol, Rounds, StateVector,
};
use crate::settings::Settings;
use crate::synchroniser::Synchronised;
use crate::theory::{self, Bounds, Case, Expectation};
use crate::view::{TypedLink, View};
use any::{Listed, Typed, start, step, vote};
use types::{Epoch, NodeId, Topology, Uid, Wins};

pub use any::{LinkNumber, Reader};

/// The algorithm of a config that names none.
pub const DEFAULT: &str = "bully";

#[derive(Debug)]
pub struct Row {
    pub name: &'static str,
    pub algorithm: Algorithm,
    /// Author and year.
    pub paper: &'static str,
    pub topology: Topology,
    /// The uid that wins, unless the config overrides it.
    pub wins: Wins,
    pub elects: Elects,
    /// What must hold for the published proof, in a line.
    pub assumes: &'static str,
    /// Can it be told not to replace a healthy worse leader (`preempt = false`)?
    pub can_wait: bool,
    /// In a mesh: does an election with a dead member wait until the next one begins without it? Other algorithms of a
    /// mesh find out by timeouts. (On a ring all of them wait.)
    pub needs_all: bool,
    /// The largest cluster it is fit for live; simulations may go further.
    pub max_nodes: usize,
    /// T' as a multiple of T where the algorithm has the two; the config check and the default come from it.
    pub coordinator_factor: u32,
    /// Can it run with these members at all? Returns the reason if not.
    pub check: fn(&View, Wins) -> Result<(), String>,
    /// Messages of a fault-free election without announcement, over all rings or start sets of n nodes.
    pub bounds: fn(usize) -> Bounds,
    /// The exact cost of one fault-free run; `None` if theory has no statement about such a run.
    pub expect: fn(&Case<'_>) -> Option<Expectation>,
}

/// Which member wins a fault-free election.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Elects {
    /// The best member, whichever member started.
    Best,
    /// The best of the members that started an election.
    BestCandidate,
    /// The member that started first, as far as the members can tell.
    FirstCandidate,
    /// A candidate with the votes of a majority. Without a living majority no member wins.
    Majority,
    /// Any member: chance decides.
    Anyone,
}

/// Gets the type behind a row. A synchronous algorithm arrives as [`Rounds`], to be run bare or synchronised.
pub trait Visitor {
    type Output;
    fn election<E: Election>(self, row: &'static Row) -> Self::Output;
    fn rounds<R: Rounds>(self, row: &'static Row) -> Self::Output;
}

pub fn row(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

pub fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name)
}

/// Lists a row per line, with its [`Algorithm`] and the type that implements it: `election` for machines, `rounds` for
/// synchronous ones.
macro_rules! catalog {
    ($($method:ident $variant:ident: $machine:ty => $row:expr;)*) => {
        pub static ROWS: &[Row] = &[$(Row { algorithm: Algorithm::$variant, ..$row }),*];

        any_election! { $($method $variant: $machine;)* }

        /// The only place where a name becomes a type.
        pub fn dispatch<V: Visitor>(row: &'static Row, visitor: V) -> V::Output {
            match row.algorithm { $(Algorithm::$variant => visitor.$method::<$machine>(row)),* }
        }
    };
}

/// The fields that most rows share; each row sets its own names and costs.
const RING: Row = Row {
    name: "",
    algorithm: Algorithm::Bully,
    paper: "",
    topology: Topology::Ring,
    wins: Wins::Highest,
    elects: Elects::Best,
    assumes: "unidirectional ring, unique ids",
    can_wait: true,
    needs_all: false,
    max_nodes: 256,
    coordinator_factor: 3,
    check: |_, _| Ok(()),
    bounds: theory::lap_per_initiator_bounds,
    expect: |_| None,
};

const GRAPH: Row = Row { topology: Topology::Graph, bounds: theory::graph_bounds, expect: theory::echo, ..RING };

catalog! {
    election Bully: bully::Bully => Row {
        name: "bully",
        paper: "textbook form of Garcia-Molina 1982",
        topology: Topology::Mesh,
        assumes: "an answer takes at most T",
        bounds: theory::bully_bounds,
        expect: theory::bully,
        ..RING
    };
    election ImprovedBully: improved_bully::ImprovedBully => Row {
        name: "improved-bully",
        paper: "Arghavani, Ahmadi & Haghighat 2011",
        topology: Topology::Mesh,
        assumes: "an answer takes at most T",
        bounds: theory::bully_bounds,
        expect: theory::improved_bully,
        ..RING
    };
    election ModifiedBully: modified_bully::ModifiedBully => Row {
        name: "modified-bully",
        paper: "Kordafshari, Gholipour, Jahanshahi & Haghighat 2005",
        topology: Topology::Mesh,
        assumes: "an answer takes at most T",
        bounds: theory::modified_bully_bounds,
        expect: theory::modified_bully,
        ..RING
    };
    election Bully1982: bully_1982::Bully1982 => Row {
        name: "bully-1982",
        paper: "Garcia-Molina 1982",
        topology: Topology::Mesh,
        assumes: "delivery and processing within T, no false timeouts",
        can_wait: false,
        coordinator_factor: 6,
        bounds: theory::bully_1982_bounds,
        expect: theory::bully_1982,
        ..RING
    };
    election ByLock: by_lock::ByLock<RicartAgrawala> => Row {
        name: "by-lock",
        paper: "reduction to mutual exclusion (Ricart & Agrawala 1981)",
        topology: Topology::Mesh,
        elects: Elects::FirstCandidate,
        assumes: "no failure inside an election",
        needs_all: true,
        bounds: theory::by_lock_bounds,
        expect: theory::by_lock,
        ..RING
    };
    election Invitation: invitation::Invitation => Row {
        name: "invitation",
        paper: "Garcia-Molina 1982, second environment",
        topology: Topology::Mesh,
        assumes: "nothing for safety within a group; progress when answers take at most T",
        can_wait: false,
        coordinator_factor: 6,
        bounds: theory::invitation_bounds,
        expect: theory::invitation,
        ..RING
    };
    election Raft: raft::Raft => Row {
        name: "raft",
        paper: "Ongaro & Ousterhout 2014",
        topology: Topology::Mesh,
        elects: Elects::Majority,
        assumes: "a majority lives; progress when messages are fast compared with T'",
        coordinator_factor: 10,
        bounds: theory::raft_bounds,
        expect: theory::raft,
        ..RING
    };
    election ChangRoberts: chang_roberts::OwnProbeFirst => Row {
        name: "chang-roberts",
        paper: "Chang & Roberts 1979, own probe first",
        bounds: theory::chang_roberts_bounds,
        expect: theory::chang_roberts,
        ..RING
    };
    election ChangRobertsSubstitute: chang_roberts_substitute::Substitute => Row {
        name: "chang-roberts-substitute",
        paper: "Chang & Roberts 1979, substituting wake rule",
        bounds: theory::chang_roberts_substitute_bounds,
        expect: theory::chang_roberts_substitute,
        ..RING
    };
    election LeLann: le_lann::LeLann => Row {
        name: "le-lann",
        paper: "Le Lann 1977",
        assumes: "unidirectional FIFO ring, unique ids",
        bounds: theory::le_lann_bounds,
        expect: theory::le_lann,
        ..RING
    };
    election HirschbergSinclair: hirschberg_sinclair::HirschbergSinclair => Row {
        name: "hirschberg-sinclair",
        paper: "Hirschberg & Sinclair 1980, phases and hops",
        assumes: "bidirectional ring, unique ids",
        bounds: theory::hirschberg_sinclair_bounds,
        expect: theory::hirschberg_sinclair,
        ..RING
    };
    election HirschbergSinclairReply: hirschberg_sinclair_reply::HirschbergSinclairReply => Row {
        name: "hirschberg-sinclair-reply",
        paper: "Hirschberg & Sinclair 1980, from, ok and no",
        assumes: "bidirectional ring, unique ids",
        bounds: theory::hirschberg_sinclair_reply_bounds,
        expect: theory::hirschberg_sinclair_reply,
        ..RING
    };
    election Franklin: franklin::Franklin => Row {
        name: "franklin",
        paper: "Franklin 1982",
        assumes: "bidirectional FIFO ring, unique ids",
        bounds: theory::franklin_bounds,
        expect: theory::franklin,
        ..RING
    };
    election Peterson: peterson::Peterson => Row {
        name: "peterson",
        paper: "Peterson 1982",
        assumes: "unidirectional FIFO ring, unique ids",
        bounds: theory::peterson_bounds,
        expect: theory::peterson,
        ..RING
    };
    election DolevKlaweRodeh: dolev_klawe_rodeh::DolevKlaweRodeh => Row {
        name: "dolev-klawe-rodeh",
        paper: "Dolev, Klawe & Rodeh 1982",
        assumes: "unidirectional FIFO ring, unique ids",
        bounds: theory::dolev_klawe_rodeh_bounds,
        expect: theory::dolev_klawe_rodeh,
        ..RING
    };
    election DolevKlaweRodehB: dolev_klawe_rodeh_b::DolevKlaweRodehB => Row {
        name: "dolev-klawe-rodeh-b",
        paper: "Dolev, Klawe & Rodeh 1982, Algorithm B",
        assumes: "unidirectional FIFO ring, unique ids",
        bounds: theory::dolev_klawe_rodeh_b_bounds,
        expect: theory::dolev_klawe_rodeh_b,
        ..RING
    };
    election RingList: ring_list::RingList => Row {
        name: "ring-list",
        paper: "textbook ring with the list in the message",
        expect: theory::ring_list,
        ..RING
    };
    election ModifiedRing: modified_ring::Suppressing => Row {
        name: "modified-ring",
        paper: "textbook ring with the best id in the message, worse origins suppressed",
        expect: theory::modified_ring,
        ..RING
    };
    election ModifiedRingPlain: modified_ring::Plain => Row {
        name: "modified-ring-plain",
        paper: "textbook ring with the best id in the message",
        expect: theory::modified_ring_plain,
        ..RING
    };
    election ModifiedRingLiteral: modified_ring_literal::ModifiedRingLiteral => Row {
        name: "modified-ring-literal",
        paper: "textbook ring with the best id in the message, read literally",
        bounds: theory::modified_ring_literal_bounds,
        expect: theory::modified_ring_literal,
        ..RING
    };
    rounds TimeSlice: time_slice::TimeSlice => Row {
        name: "time-slice",
        paper: "TimeSlice, Lynch 1996",
        wins: Wins::Lowest,
        assumes: "synchronous unidirectional ring, n known, small ids",
        check: time_slice::check,
        bounds: theory::time_slice_bounds,
        expect: theory::time_slice,
        ..RING
    };
    rounds VariableSpeeds: variable_speeds::VariableSpeeds => Row {
        name: "variable-speeds",
        paper: "Frederickson & Lynch 1987",
        wins: Wins::Lowest,
        elects: Elects::BestCandidate,
        assumes: "synchronous unidirectional ring, small ids",
        max_nodes: 16,
        check: variable_speeds::check,
        bounds: theory::variable_speeds_bounds,
        expect: theory::variable_speeds,
        ..RING
    };
    election ItaiRodeh: itai_rodeh::ItaiRodeh => Row {
        name: "itai-rodeh",
        paper: "Itai & Rodeh 1981",
        elects: Elects::Anyone,
        assumes: "anonymous unidirectional FIFO ring, n known",
        bounds: theory::itai_rodeh_bounds,
        expect: theory::itai_rodeh,
        ..RING
    };
    election Echo: echo::Echo => Row {
        name: "echo",
        paper: "Chang 1982, Segall 1983, with extinction",
        assumes: "connected graph, unique ids",
        ..GRAPH
    };
    election Dfs: dfs::Dfs => Row {
        name: "dfs",
        paper: "depth-first search, Lynch 1996",
        wins: Wins::Lowest,
        assumes: "connected graph, unique ids, FIFO links",
        expect: theory::dfs,
        ..GRAPH
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_the_default_is_among_them() {
        let mut names: Vec<_> = names().collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
        assert!(row(DEFAULT).is_some());
    }

    #[test]
    fn every_row_has_a_machine_of_its_topology() {
        for row in ROWS {
            assert_eq!(row.algorithm.topology(), row.topology, "{}", row.name);
        }
    }
}
