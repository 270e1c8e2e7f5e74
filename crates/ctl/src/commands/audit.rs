//! `ctl audit`: are successive reigns ordered, by all members' ledgers?

use client::history::{Audit, Ledgers, MemberLedger, Outcome, Proof, audit};
use client::{Safety, json};

use super::ledgers::Gathered;
use crate::args::Globals;
use crate::connection_options::Target;
use crate::failure::{Exit, Failure};
use crate::output::{Ink, Output};

/// Show that successive reigns were ordered, or where they overlapped
///
/// Under quorum safety every two successive reigns share a voter, and its own ledger has the end of the first promise
/// before the second grant: no clocks are compared. Classic elections guarantee less, and the audit prints what it
/// checked. Every member also compares its ledger with the hashes that it keeps: entries that were removed or changed
/// are named, and the audit is incomplete.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl audit
  ctl audit -o json

Exit codes: 0 ordered, 1 incomplete (it says why), 3 no member reachable, 7 an overlap was found, 8 refused.")]
pub(crate) struct Args {}

const CLASSIC: &str = "Classic elections guarantee one leader per connected component and no more: the audit checks \
                       only that no epoch had two leaders and that no two members led at once.";

pub(crate) async fn run(_: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    let gathered = Gathered::from(&Target::election_only(globals)?).await?;
    let safety = gathered.safety();
    let quorum = safety == Safety::Quorum;
    let audit = audit(&gathered.ledgers, &gathered.voters, quorum, gathered.now_ms);
    if output.is_json() {
        Output::json(&json::Audit::new(&audit, safety, &gathered.ledgers))?;
    } else {
        Output::line(in_words(&audit, &gathered.ledgers, quorum, output))?;
        if audit.outcome == Outcome::Ordered {
            gathered.say_flaws();
        }
    }
    match audit.outcome {
        Outcome::Ordered => Ok(()),
        Outcome::Overlap => Err(Failure::silent(Exit::Invariant)),
        Outcome::Incomplete => Err(Failure::silent(Exit::Failed)),
    }
}

fn in_words(audit: &Audit, ledgers: &Ledgers, quorum: bool, output: Output) -> String {
    let (ink, verdict) = match audit.outcome {
        Outcome::Ordered => (Ink::Green, "ORDERED"),
        Outcome::Overlap => (Ink::Red, "OVERLAP"),
        Outcome::Incomplete => (Ink::Yellow, "INCOMPLETE"),
    };
    let mut lines: Vec<String> = audit.proofs.iter().map(proof_in_words).collect();
    lines.extend(audit.findings.iter().map(|finding| {
        let entries: Vec<String> =
            finding.entries.iter().map(|entry| format!("{} of {}", entry.sequence, entry.member)).collect();
        let entries = if entries.is_empty() { String::new() } else { format!(" [entries {}]", entries.join(", ")) };
        format!("overlap: {}{entries}", finding.what)
    }));
    lines.extend(audit.reasons.iter().map(|reason| format!("incomplete: {reason}")));
    lines.extend(ledgers.members.iter().filter(|ledger| ledger.is_unbroken()).filter_map(whole_in_words));
    lines.push(format!("{}: {} reigns", output.paint(ink, verdict), audit.reigns));
    if !quorum {
        lines.push(CLASSIC.to_owned());
    }
    lines.join("\n")
}

fn whole_in_words(ledger: &MemberLedger) -> Option<String> {
    let head = ledger.proof.head?;
    Some(format!("member {}: all entries from {} to {} are as they were written", ledger.id, head.first, head.sequence))
}

fn proof_in_words(proof: &Proof) -> String {
    let Proof { epoch, next_epoch, voter, granted, ended, granted_next } = proof;
    let how = match ended {
        Some(ended) => format!("its promise ended (entry {ended})"),
        None => "the holder stayed the same".to_owned(),
    };
    format!(
        "epoch {epoch} before {next_epoch}: voter {voter} granted it (entry {granted}), {how}, then granted the next (entry {granted_next})"
    )
}
