//! What the ledgers of all members show together: `conclave.history/1`, `conclave.history.at/1`, `conclave.audit/1` and
//! `conclave.explain/1`.

use std::net::SocketAddr;

use serde::Serialize;
use types::{Access, InstanceId, Safety};

use crate::explain::Explanation;
use crate::history::{self, Cut, Finding, Held, Ledgers, ListNews, Proof};

#[derive(Debug, Serialize)]
pub struct History {
    schema: &'static str,
    reigns: Vec<Reign>,
    orders: Vec<Request>,
    lists: Vec<InForce>,
    missing: Vec<String>,
    flaws: Vec<String>,
}

/// What an operator asked of a member that carried it out.
#[derive(Debug, Serialize)]
struct Request {
    at_ms: u64,
    member: u32,
    instance: InstanceId,
    order: String,
    access: Access,
    from: SocketAddr,
    /// The name that the client gave itself.
    name: Option<String>,
}

impl From<history::OrderEntry<'_>> for Request {
    fn from(entry: history::OrderEntry<'_>) -> Self {
        let ordered = entry.ordered;
        Request {
            at_ms: entry.at_ms,
            member: entry.member,
            instance: ordered.instance,
            order: ordered.order.to_string(),
            access: ordered.access,
            from: ordered.address,
            name: ordered.name.get().map(str::to_owned),
        }
    }
}

/// A member list that was in force.
#[derive(Debug, Serialize)]
struct InForce {
    at_ms: u64,
    /// The leader that put it in force, or the member with which an operator began a new cluster.
    member: u32,
    list: String,
    voters: Vec<u32>,
    forced: bool,
}

impl From<history::ListEntry> for InForce {
    fn from(entry: history::ListEntry) -> Self {
        InForce {
            at_ms: entry.at_ms,
            member: entry.member,
            list: entry.stamp.to_string(),
            voters: entry.voters.into_iter().collect(),
            forced: entry.news == ListNews::Forced,
        }
    }
}

impl History {
    pub fn new(reigns: &[history::Reign], ledgers: &Ledgers) -> Self {
        History {
            schema: "conclave.history/1",
            reigns: reigns.iter().map(Reign::from).collect(),
            orders: history::orders(ledgers).into_iter().map(Request::from).collect(),
            lists: history::lists_in_force(ledgers).into_iter().map(InForce::from).collect(),
            missing: ledgers.missing_names(),
            flaws: ledgers.flaws(),
        }
    }
}

#[derive(Debug, Serialize)]
struct Reign {
    leader: u32,
    epoch: u64,
    from_ms: u64,
    to_earliest_ms: Option<u64>,
    to_latest_ms: Option<u64>,
    cause: &'static str,
    end: Option<&'static str>,
    claimed: bool,
    told_by: Vec<u32>,
}

impl From<&history::Reign> for Reign {
    fn from(reign: &history::Reign) -> Self {
        Reign {
            leader: reign.leader,
            epoch: reign.epoch,
            from_ms: reign.from_ms,
            to_earliest_ms: reign.to.map(|to| to.earliest_ms),
            to_latest_ms: reign.to.map(|to| to.latest_ms),
            cause: reign.cause.name(),
            end: reign.end.map(history::ReignEnd::name),
            claimed: reign.claimed,
            told_by: reign.told_by.clone(),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct WhoLed {
    schema: &'static str,
    at_ms: u64,
    held: &'static str,
    /// Only if it is certain.
    leader: Option<u32>,
    epoch: Option<u64>,
    uncertainty_ms: u64,
    reigns: Vec<Reign>,
    why: Vec<String>,
}

impl WhoLed {
    pub fn new(at_ms: u64, answer: &history::WhoLed) -> Self {
        let certain = answer.reigns.first().filter(|_| answer.held == Held::One);
        WhoLed {
            schema: "conclave.history.at/1",
            at_ms,
            held: answer.held.name(),
            leader: certain.map(|reign| reign.leader),
            epoch: certain.map(|reign| reign.epoch),
            uncertainty_ms: answer.uncertainty_ms,
            reigns: answer.reigns.iter().map(Reign::from).collect(),
            why: answer.why.clone(),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Audit<'a> {
    schema: &'static str,
    outcome: &'static str,
    safety: Safety,
    reigns: usize,
    possible_reigns: usize,
    proofs: &'a [Proof],
    findings: &'a [Finding],
    reasons: &'a [String],
    cuts: &'a [Cut],
    missing: Vec<String>,
    ledgers: Vec<Ledger>,
}

/// How much of one ledger its member has verified.
#[derive(Debug, Serialize)]
struct Ledger {
    member: u32,
    /// The oldest and the newest entry that must be there; null before the first entry.
    first: Option<u64>,
    last: Option<u64>,
    /// Of the newest entry, and by it of all before; hexadecimal.
    hash: Option<String>,
    /// Are all entries there as they were written?
    whole: bool,
}

impl From<&history::MemberLedger> for Ledger {
    fn from(ledger: &history::MemberLedger) -> Self {
        let head = ledger.proof.head;
        Ledger {
            member: ledger.id,
            first: head.map(|head| head.first),
            last: head.map(|head| head.sequence),
            hash: head.map(|head| format!("{:032x}", u128::from_be_bytes(head.hash))),
            whole: ledger.is_unbroken(),
        }
    }
}

impl<'a> Audit<'a> {
    pub fn new(audit: &'a history::Audit, safety: Safety, ledgers: &Ledgers) -> Self {
        Audit {
            schema: "conclave.audit/1",
            outcome: audit.outcome.name(),
            safety,
            reigns: audit.reigns,
            possible_reigns: audit.possible,
            proofs: &audit.proofs,
            findings: &audit.findings,
            reasons: &audit.reasons,
            cuts: &audit.cuts,
            missing: ledgers.missing_names(),
            ledgers: ledgers.members.iter().map(Ledger::from).collect(),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Explain<'a> {
    schema: &'static str,
    verdict: &'static str,
    leader: Option<u32>,
    epoch: Option<u64>,
    since_ms: Option<u64>,
    cause: Option<&'static str>,
    granted_by: &'a [u32],
    unreachable: &'a [history::Missing],
    broken_links: Vec<BrokenLink>,
    sentences: &'a [String],
}

#[derive(Debug, Serialize)]
struct BrokenLink {
    from: u32,
    to: u32,
}

impl<'a> Explain<'a> {
    pub fn new(explanation: &'a Explanation, ledgers: &'a Ledgers) -> Self {
        let leader = explanation.verdict.leader();
        let reign = explanation.reign.as_ref();
        Explain {
            schema: "conclave.explain/1",
            verdict: explanation.verdict.name(),
            leader: leader.map(|(leader, _)| leader),
            epoch: leader.map(|(_, epoch)| epoch),
            since_ms: reign.map(|reign| reign.from_ms),
            cause: reign.map(|reign| reign.cause.name()),
            granted_by: &explanation.granted_by,
            unreachable: &ledgers.missing,
            broken_links: explanation.broken_links.iter().map(|&(from, to)| BrokenLink { from, to }).collect(),
            sentences: &explanation.sentences,
        }
    }
}
