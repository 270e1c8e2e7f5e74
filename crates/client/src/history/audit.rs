//! Are successive reigns ordered? The judgement is one of three: shown, refuted, or not decidable from these ledgers.

use serde::Serialize;
use types::names;

use super::{Cut, Ledgers, classic, quorum};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Audit {
    pub outcome: Outcome,
    /// The number of reigns that the ledgers tell: those of [`reigns`](super::reigns()).
    pub reigns: usize,
    /// Under quorum: reigns that no ledger at hand tells, which a majority may have granted. They are examined as well.
    pub possible: usize,
    /// Under quorum: where each two successive reigns are ordered.
    pub proofs: Vec<Proof>,
    /// What contradicts the order.
    pub findings: Vec<Finding>,
    /// Why it is incomplete.
    pub reasons: Vec<String>,
    /// Where an operator began a new cluster. The reigns before and after it are judged apart.
    pub cuts: Vec<Cut>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Ordered,
    Overlap,
    Incomplete,
}

names!(Outcome { Ordered: "ordered", Overlap: "overlap", Incomplete: "incomplete" });

/// A voter granted both epochs, and its own ledger has the end of the first promise before the second grant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Proof {
    pub epoch: u64,
    pub next_epoch: u64,
    pub voter: u32,
    /// Sequence numbers in the voter's ledger.
    pub granted: u64,
    /// `None`: one holder, whose promise continued.
    pub ended: Option<u64>,
    pub granted_next: u64,
}

/// A contradiction.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    pub what: String,
    pub epochs: Vec<u64>,
    pub entries: Vec<EntryRef>,
}

/// One entry of one member's ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct EntryRef {
    pub member: u32,
    pub sequence: u64,
}

/// `voters` are those of the config, which is the first member list unless the ledgers tell otherwise; under classic safety no member votes. `now_ms` is when the ledgers were read.
pub fn audit(ledgers: &Ledgers, voters: &[u32], is_quorum: bool, now_ms: u64) -> Audit {
    let mut audit = Audit {
        outcome: Outcome::Ordered,
        reigns: 0,
        possible: 0,
        proofs: Vec::new(),
        findings: Vec::new(),
        reasons: Vec::new(),
        cuts: Vec::new(),
    };
    if is_quorum {
        quorum::judge(ledgers, voters, &mut audit);
    } else {
        classic::judge(ledgers, now_ms, &mut audit);
    }
    audit.outcome = match (audit.findings.is_empty(), audit.reasons.is_empty()) {
        (false, _) => Outcome::Overlap,
        (true, false) => Outcome::Incomplete,
        (true, true) => Outcome::Ordered,
    };
    audit
}
