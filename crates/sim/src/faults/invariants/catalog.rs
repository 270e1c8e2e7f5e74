//! The catalog of invariants: the number of each, what must hold in one sentence, and the files that check it.
//!
//! The sentences are defined here and nowhere else; `docs/invariants.md` repeats them and a test compares the two.

/// A row of the catalog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvariantInfo {
    pub name: &'static str,
    pub sentence: &'static str,
    /// Every file that checks it, as a path from the root of the repository.
    pub checkers: &'static [&'static str],
}

// Files that check several of them.
const MODEL_OF_MEMBERS: &str = "crates/model/src/members/properties.rs";
const MODEL_OF_REIGNS: &str = "crates/model/src/reign/properties.rs";
const MODEL_OF_ELECTIONS: &str = "crates/model/src/bare/properties.rs";
const QUORUM_AUDIT: &str = "crates/client/src/history/quorum.rs";
const TESTS_OF_LISTS: &str = "crates/member/tests/members/lists.rs";

pub const INVARIANTS: &[InvariantInfo] = &[
    InvariantInfo {
        name: "E1",
        sentence: "At most one member ever announces itself leader of one epoch.",
        checkers: &[
            "crates/sim/src/faults/invariants/one_leader_per_epoch.rs",
            MODEL_OF_MEMBERS,
            MODEL_OF_REIGNS,
            "crates/testkit/src/claims.rs",
            "crates/client/src/history/classic.rs",
            QUORUM_AUDIT,
        ],
    },
    InvariantInfo {
        name: "E2",
        sentence: "The epoch of a member never decreases, restarts that kept the state file included.",
        checkers: &[
            "crates/sim/src/faults/invariants/epoch_never_decreases.rs",
            MODEL_OF_MEMBERS,
            MODEL_OF_REIGNS,
            "crates/node/tests/cluster/quorum/lists.rs",
        ],
    },
    InvariantInfo {
        name: "E3",
        sentence: "Under quorum safety the leases of two leaders never overlap, and while a lease runs a majority of the \
                   voters can grant no other holder anything.",
        checkers: &[
            "crates/sim/src/faults/invariants/one_reign_at_a_time.rs",
            MODEL_OF_REIGNS,
            "crates/testkit/src/claims.rs",
            QUORUM_AUDIT,
        ],
    },
    InvariantInfo {
        name: "E4",
        sentence: "A voter grants an epoch to at most one holder for as long as it keeps its disk.",
        checkers: &["crates/sim/src/faults/invariants/one_grant_per_epoch.rs", MODEL_OF_REIGNS, QUORUM_AUDIT],
    },
    InvariantInfo {
        name: "E5",
        sentence: "Every quorum leader holds the grants of a majority of the voters of its list.",
        checkers: &[
            "crates/sim/src/faults/invariants/majority_granted.rs",
            MODEL_OF_REIGNS,
            "crates/node/tests/cluster/quorum/roles.rs",
        ],
    },
    InvariantInfo {
        name: "E6",
        sentence: "No voter grants an epoch below its own, and no member follows a claim of an epoch below one it has \
                   followed since its start.",
        checkers: &[
            "crates/sim/src/faults/invariants/no_older_claim.rs",
            "crates/sim/src/faults/invariants/one_grant_per_epoch.rs",
            QUORUM_AUDIT,
        ],
    },
    InvariantInfo {
        name: "E7",
        sentence: "A quorum leader with healthy links to a majority of the voters continues to lead, unless it hands \
                   over or an operator stops it.",
        checkers: &["crates/sim/src/faults/invariants/healthy_leader_stays.rs", "crates/node/tests/cluster/quorum.rs"],
    },
    InvariantInfo {
        name: "E8",
        sentence: "After the last fault is healed all members report one leader and keep it.",
        checkers: &[
            "crates/sim/src/faults/invariants/agreement.rs",
            MODEL_OF_MEMBERS,
            "crates/node/tests/cluster/catalog.rs",
            "crates/node/tests/cluster/live.rs",
        ],
    },
    InvariantInfo {
        name: "E9",
        sentence: "After a leader fails, all survivors report a new leader within the time that the safety, the failure \
                   detector and the lease allow for.",
        checkers: &["crates/ctl/src/commands/bench/failover.rs"],
    },
    InvariantInfo {
        name: "E10",
        sentence: "A leader without contact to a majority of the voters makes no claim after its lease has ended.",
        checkers: &[MODEL_OF_REIGNS, "crates/node/tests/cluster/quorum.rs"],
    },
    InvariantInfo {
        name: "E11",
        sentence: "Once nothing changes any more there is exactly one leader, and it is the member that the algorithm \
                   specifies.",
        checkers: &[
            "crates/sim/src/faults/invariants/specified_leader.rs",
            MODEL_OF_MEMBERS,
            "crates/node/tests/cluster/catalog.rs",
            "crates/node/tests/cluster/live.rs",
        ],
    },
    InvariantInfo {
        name: "E12",
        sentence: "A fault-free election costs exactly the messages and rounds that theory says.",
        checkers: &[
            "crates/algorithms/tests/elections/audit.rs",
            "crates/algorithms/tests/elections/counts.rs",
            "crates/sim/src/check_run.rs",
        ],
    },
    InvariantInfo {
        name: "E13",
        sentence: "Leadership is given away only when no child process acts on it any more, or the children were given up.",
        checkers: &["crates/sim/src/faults/invariants/children_stop_first.rs", MODEL_OF_MEMBERS],
    },
    InvariantInfo {
        name: "E14",
        sentence: "No two voters of a quorum cluster ever agree on different ids of the cluster.",
        checkers: &[
            "crates/sim/src/faults/invariants/one_cluster_id.rs",
            MODEL_OF_REIGNS,
            "crates/node/tests/cluster/identity.rs",
        ],
    },
    InvariantInfo {
        name: "E15",
        sentence: "No two lists of members have the same stamp.",
        checkers: &["crates/sim/src/faults/invariants/one_list_per_stamp.rs", MODEL_OF_REIGNS, TESTS_OF_LISTS],
    },
    InvariantInfo {
        name: "E16",
        sentence: "No voter grants an epoch under a list older than its own, and no list on a disk is replaced by an \
                   older one.",
        checkers: &["crates/sim/src/faults/invariants/no_older_list.rs", MODEL_OF_REIGNS, TESTS_OF_LISTS],
    },
    InvariantInfo {
        name: "E17",
        sentence: "Two lists of members that are in force one after the other differ by at most one voter.",
        checkers: &["crates/sim/src/faults/invariants/one_voter_apart.rs", MODEL_OF_REIGNS],
    },
    InvariantInfo {
        name: "E18",
        sentence: "A list of members that is in force is on the disks of a majority of its own voters.",
        checkers: &[MODEL_OF_REIGNS, TESTS_OF_LISTS],
    },
    InvariantInfo {
        name: "assertion 1",
        sentence: "At every instant two nodes in Reorganization or Normal have the same coordinator, and two nodes in \
                   Normal have the same task.",
        checkers: &["crates/sim/src/faults/invariants/garcia_molina_assertion_1.rs", MODEL_OF_ELECTIONS],
    },
    InvariantInfo {
        name: "assertion 2",
        sentence: "If no node fails for long enough, one node is Normal with itself as the coordinator and all others are \
                   Normal with that same coordinator.",
        checkers: &["crates/sim/src/faults/invariants/garcia_molina_end.rs", MODEL_OF_ELECTIONS],
    },
    InvariantInfo {
        name: "assertion 3",
        sentence: "At every instant two nodes of the same group in Reorganization or Normal have the same coordinator, and \
                   two nodes of the same group in Normal have the same task.",
        checkers: &["crates/sim/src/faults/invariants/garcia_molina_assertion_3.rs", MODEL_OF_ELECTIONS],
    },
    InvariantInfo {
        name: "assertion 4",
        sentence: "If no node of a component fails for long enough, one group holds all nodes of the component.",
        checkers: &["crates/sim/src/faults/invariants/garcia_molina_end.rs"],
    },
];

/// The row of a checker.
///
/// # Panics
///
/// If there is no such row: a checker and its row are written together.
pub(crate) fn info(name: &str) -> &'static InvariantInfo {
    INVARIANTS.iter().find(|info| info.name == name).expect("every checker has a row in the catalog")
}
