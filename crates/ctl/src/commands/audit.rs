//! `ctl audit`: are successive reigns ordered, by all members' ledgers?

use std::path::{Path, PathBuf};

use client::history::{Audit, Cut, Ledgers, MemberLedger, Outcome, Proof};
use client::{Safety, json};

use super::ledgers::{DirectoriesArg, say_flaws};
use crate::args::Globals;
use crate::failure::{Exit, Failure};
use crate::output::{Ink, Output};

/// Show that successive reigns were ordered, or where they overlapped
///
/// Under quorum safety every two successive reigns share a voter, whether or not the member list changed between them,
/// and its own ledger has the end of the first promise before the second grant: no clocks are compared.
/// Classic elections guarantee less, and the audit prints what it checked. Every member also compares its ledger with the
/// hashes that it keeps: entries that were removed or changed are named, and the audit is incomplete.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl audit
  ctl audit -o json
  ctl audit --data-dir /backup/n1 /backup/n2 /backup/n3       of a cluster that is down
  ctl audit --ledger /var/lib/conclave/n3    a removed member's data directory, or its ledger file
  ctl audit --ledger 3=/tmp/ledger           without its state file: the id must be given

Exit codes: 0 ordered, 1 incomplete (it says why), 3 no member reachable, 7 an overlap was found, 8 refused.")]
pub(crate) struct Args {
    /// The ledger of a member that does not run any more: its data directory, or the file `ledger` in it
    #[arg(long, value_name = "[ID=]PATH")]
    ledger: Vec<String>,
    #[command(flatten)]
    directories: DirectoriesArg,
}

const CLASSIC: &str = "Classic elections guarantee one leader per connected component and no more: the audit checks \
                       only that no epoch had two leaders, and that no two members led at once for longer than a second (and \
                       the difference of their clocks): for that long an old leader may not know of the new one. `ctl \
                       history` shows such times.";

pub(crate) async fn run(args: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    let offline: Vec<MemberLedger> = args.ledger.iter().map(|word| read(word)).collect::<Result<_, _>>()?;
    let mut gathered = args.directories.gather(globals).await?;
    for ledger in offline {
        gathered.add(ledger);
    }
    let safety = gathered.safety();
    let quorum = safety == Safety::Quorum;
    let audit = gathered.audit();
    if output.is_json() {
        Output::json(&json::Audit::new(&audit, safety, &gathered.ledgers))?;
    } else {
        Output::words(in_words(&audit, &gathered.ledgers, quorum, output))?;
        if audit.outcome == Outcome::Ordered {
            say_flaws(&gathered.ledgers);
        }
    }
    match audit.outcome {
        Outcome::Ordered => Ok(()),
        Outcome::Overlap => Err(Failure::silent(Exit::Invariant)),
        Outcome::Incomplete => Err(Failure::silent(Exit::Failed)),
    }
}

/// A ledger from a disk. Its id is in the state file beside it, unless it is given.
fn read(word: &str) -> Result<MemberLedger, Failure> {
    let (id, path) = match word.split_once('=').and_then(|(id, path)| Some((id.parse().ok()?, path))) {
        Some((id, path)) => (Some(id), PathBuf::from(path)),
        None => (None, PathBuf::from(word)),
    };
    let dir = if path.is_dir() { path.as_path() } else { path.parent().unwrap_or(Path::new("")) };
    let read = match id {
        Some(id) if !dir.join("state").exists() => node::offline::read_ledger(dir, None).map(|page| (id, page)),
        _ => node::offline::read(dir).map(|volume| (volume.id.0, volume.ledger)),
    };
    let (id, page) = read.map_err(|error| {
        Failure::usage(format!("cannot read the ledger {word}"))
            .because(error.to_string())
            .hint("ctl audit --ledger DIR, or ctl audit --ledger ID=FILE without a state file beside it")
    })?;
    Ok(MemberLedger::new(id, page))
}

fn in_words(audit: &Audit, ledgers: &Ledgers, quorum: bool, output: Output) -> String {
    let (ink, verdict) = match audit.outcome {
        Outcome::Ordered => (Ink::Green, "ORDERED"),
        Outcome::Overlap => (Ink::Red, "OVERLAP"),
        Outcome::Incomplete => (Ink::Yellow, "INCOMPLETE"),
    };
    let mut lines: Vec<String> = audit.proofs.iter().map(proof_in_words).collect();
    lines.extend(audit.cuts.iter().map(cut_in_words));
    lines.extend(audit.findings.iter().map(|finding| {
        let entries: Vec<String> =
            finding.entries.iter().map(|entry| format!("{} of {}", entry.sequence, entry.member)).collect();
        let entries = if entries.is_empty() { String::new() } else { format!(" [entries {}]", entries.join(", ")) };
        format!("overlap: {}{entries}", finding.what)
    }));
    lines.extend(audit.reasons.iter().map(|reason| format!("incomplete: {reason}")));
    lines.extend(ledgers.members.iter().filter(|ledger| ledger.is_unbroken()).filter_map(whole_in_words));
    let reigns = if audit.reigns == 1 { "reign" } else { "reigns" };
    let possible = match audit.possible {
        0 => String::new(),
        more => format!(", and {more} more that may have been granted and that no ledger tells"),
    };
    lines.push(format!("{}: {} {reigns}{possible}", output.paint(ink, verdict), audit.reigns));
    if !quorum {
        lines.push(CLASSIC.to_owned());
    }
    lines.join("\n")
}

fn cut_in_words(cut: &Cut) -> String {
    let voters: Vec<String> = cut.voters.iter().map(u32::to_string).collect();
    format!(
        "cut: by an operator's word a new cluster began at member {} in epoch {} with the voters {} (entry {}); the reigns \
         before it and after it are judged apart",
        cut.member,
        cut.epoch,
        voters.join(", "),
        cut.sequence
    )
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
