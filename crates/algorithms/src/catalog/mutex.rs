//! The registry of mutual exclusions, beside that of elections: every harness iterates it, and the one dispatch from a
//! name to a type is here.

use std::fmt::{self, Debug};

use serde::{Serialize, Serializer};

use super::any::{Listed, start, step};
use super::{LinkNumber, Reader};
use crate::drive::Counts;
use crate::election::bully::Bully;
use crate::mutex::clock::Stamp;
use crate::mutex::{
    Mutex, MutexSettings, Section, Stage, Want, by_election, central, lamport, maekawa, raymond, ricart_agrawala,
    ricart_agrawala_readers, suzuki_kasami, token_ring, zookeeper, zookeeper_herd,
};
use crate::protocol::{Ctx, Input, Kind, Message, Outbox, Protocol};
use crate::theory::mutex::{self as theory, Cost};
use types::Topology;

#[derive(Debug)]
pub struct Row {
    pub name: &'static str,
    /// Author and year.
    pub paper: &'static str,
    pub topology: Topology,
    /// What must hold for the published proof, in a line.
    pub assumes: &'static str,
    pub links: Links,
    /// Does a request that happened before another one enter first? Messages of the application count, if they carry the
    /// machine's clock ([`Mutex::heard`]).
    pub fair: bool,
    /// May readers be inside together?
    pub shared: bool,
    /// Its token moves although no member wants it: a driver without `idle_hold` ends its run itself.
    pub endless: bool,
    pub purpose: Purpose,
    /// What one entry of the member at this position costs in a view of n.
    pub cost: fn(n: usize, at: usize) -> Cost,
}

/// What a machine needs of a link, besides that no message is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Links {
    /// Messages of one link arrive in the order in which they were sent.
    Fifo,
    /// Messages may overtake each other.
    AnyOrder,
}

/// Where a machine may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Everywhere.
    Live,
    /// In simulations and models only: to be counted and compared.
    Simulated,
}

/// Gets the type behind a row.
pub trait Visitor {
    type Output;
    fn mutex<M: Mutex>(self, row: &'static Row) -> Self::Output;
}

pub fn row(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

pub fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name)
}

/// The machine of a row that may run everywhere; `None` for a row of simulations.
pub fn live(row: &Row) -> Option<LiveMutex> {
    let at = ROWS.iter().position(|known| known.name == row.name)?;
    LIVE.get(at).copied()
}

/// Lists a row per line with the type that implements it; live ones have a name in [`LiveMutex`].
macro_rules! catalog {
    (
        live { $($variant:ident: $machine:ty => $row:expr;)* }
        simulated { $($simulated:ty => $simulated_row:expr;)* }
    ) => {
        pub static ROWS: &[Row] = &[
            $(Row { purpose: Purpose::Live, ..$row },)*
            $(Row { purpose: Purpose::Simulated, ..$simulated_row },)*
        ];

        /// Of the first rows, which are the live ones.
        const LIVE: &[LiveMutex] = &[$(LiveMutex::$variant),*];

        any_mutex! { $($variant: $machine;)* }

        /// The only place where a name becomes a type.
        pub fn dispatch<V: Visitor>(row: &'static Row, visitor: V) -> V::Output {
            let at = ROWS.iter().position(|known| known.name == row.name).expect("rows come from this catalog");
            let mut index = 0..;
            $(if index.next() == Some(at) { return visitor.mutex::<$machine>(row); })*
            $(if index.next() == Some(at) { return visitor.mutex::<$simulated>(row); })*
            unreachable!("every row has a type")
        }
    };
}

/// The fields that most rows share.
const MESH: Row = Row {
    name: "",
    paper: "",
    topology: Topology::Mesh,
    assumes: "",
    links: Links::AnyOrder,
    fair: false,
    shared: false,
    endless: false,
    purpose: Purpose::Live,
    cost: theory::ricart_agrawala,
};

catalog! {
    live {
        Central: central::Central => Row {
            name: "central",
            paper: "textbook queue at one member",
            assumes: "reliable links in any order, no failure",
            cost: theory::central,
            ..MESH
        };
        TokenRing: token_ring::TokenRing => Row {
            name: "token-ring",
            paper: "Le Lann 1977",
            topology: Topology::Ring,
            assumes: "unidirectional ring, one token, no failure",
            endless: true,
            cost: theory::token_ring,
            ..MESH
        };
        Lamport: lamport::Lamport => Row {
            name: "lamport",
            paper: "Lamport 1978",
            assumes: "FIFO links, no failure",
            links: Links::Fifo,
            fair: true,
            cost: theory::lamport,
            ..MESH
        };
        RicartAgrawala: ricart_agrawala::RicartAgrawala => Row {
            name: "ricart-agrawala",
            paper: "Ricart & Agrawala 1981",
            assumes: "reliable links in any order, no failure",
            fair: true,
            cost: theory::ricart_agrawala,
            ..MESH
        };
        RicartAgrawalaReaders: ricart_agrawala_readers::RicartAgrawalaReaders => Row {
            name: "ricart-agrawala-readers",
            paper: "Ricart & Agrawala 1981, readers and writers",
            assumes: "reliable links in any order, no failure",
            fair: true,
            shared: true,
            cost: theory::ricart_agrawala,
            ..MESH
        };
        Maekawa: maekawa::Maekawa => Row {
            name: "maekawa",
            paper: "Maekawa 1985, repaired by Sanders 1987",
            assumes: "FIFO links, no failure",
            links: Links::Fifo,
            cost: theory::maekawa,
            ..MESH
        };
        SuzukiKasami: suzuki_kasami::SuzukiKasami => Row {
            name: "suzuki-kasami",
            paper: "Suzuki & Kasami 1985",
            assumes: "reliable links in any order, no failure",
            cost: theory::suzuki_kasami,
            ..MESH
        };
        Raymond: raymond::Raymond => Row {
            name: "raymond",
            paper: "Raymond 1989",
            assumes: "a tree of reliable links in any order, no failure",
            cost: theory::raymond,
            ..MESH
        };
    }
    simulated {
        by_election::ByElection<Bully> => Row {
            name: "by-election",
            paper: "reduction to election (textbook form of Garcia-Molina 1982)",
            assumes: "FIFO links, an answer takes at most T, no failure",
            links: Links::Fifo,
            cost: theory::by_election,
            ..MESH
        };
        zookeeper::Predecessor => Row {
            name: "zookeeper",
            paper: "lock recipe of Hunt, Konar, Junqueira & Reed 2010",
            assumes: "FIFO links, no failure",
            links: Links::Fifo,
            cost: theory::zookeeper,
            ..MESH
        };
        zookeeper_herd::Herd => Row {
            name: "zookeeper-herd",
            paper: "lock recipe with a herd, as Hunt, Konar, Junqueira & Reed 2010 warn of",
            assumes: "FIFO links, no failure",
            links: Links::Fifo,
            cost: theory::zookeeper_herd,
            ..MESH
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog as elections;

    #[test]
    fn names_are_unique_in_both_catalogs() {
        let mut names: Vec<_> = names().chain(elections::names()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len() + elections::ROWS.len());
    }

    struct Facts;
    impl Visitor for Facts {
        type Output = (Topology, bool);
        fn mutex<M: Mutex>(self, _: &'static Row) -> (Topology, bool) {
            (<M::Link as crate::view::TypedLink>::TOPOLOGY, M::SHARED)
        }
    }

    #[test]
    fn any_machine_has_the_links_and_modes_of_the_machine_that_its_settings_name() {
        for row in ROWS {
            let live = live(row);
            assert_eq!(live.is_some(), row.purpose == Purpose::Live, "{}", row.name);
            if live.is_some() {
                assert_eq!(
                    (AnyMutex::topology(live), AnyMutex::shares(live)),
                    (row.topology, row.shared),
                    "{}",
                    row.name
                );
            }
        }
    }

    #[test]
    fn the_dispatch_gives_each_row_a_machine_of_its_topology_and_modes() {
        for row in ROWS {
            assert_eq!(dispatch(row, Facts), (row.topology, row.shared), "{}", row.name);
        }
    }
}
