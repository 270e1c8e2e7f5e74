//! Why a member leads, or why nobody leads, in sentences.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use types::{Cause, Safety, Topology, format_duration};

use crate::history::{Ledgers, MemberLedger, Reign, reigns};
use crate::instant::format_instant;
use crate::ledger::LedgerKind;
use crate::verdict::{Electorate, Verdict, View};
use crate::wire::{Maintenance, MemberStatus};

/// A member that stepped down does not stand for this long after another member leads.
const ABSTAINS_MS: u64 = 10_000;

/// The evidence about the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    pub statuses: &'a [MemberStatus],
    pub ledgers: &'a Ledgers,
    /// All configured members, in the order of the config.
    pub members: &'a [u32],
    pub voters: &'a [u32],
    pub now_ms: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    pub verdict: Verdict,
    /// The present reign, where one is agreed on and the ledgers record it.
    pub reign: Option<Reign>,
    /// Under quorum: the voters that granted it.
    pub granted_by: Vec<u32>,
    /// A member that answers and has no connection to another member that answers: (from, to).
    pub broken_links: Vec<(u32, u32)>,
    pub sentences: Vec<String>,
}

pub fn explain(evidence: &Evidence<'_>) -> Explanation {
    let views: Vec<View> = evidence.statuses.iter().map(View::from).collect();
    let quorum = evidence.statuses.first().is_some_and(|status| status.safety == Safety::Quorum);
    let voters = Electorate::Voters(evidence.voters.to_vec());
    let majority = voters.majority();
    let verdict = Verdict::of(&views, if quorum { &voters } else { &Electorate::Anybody });
    let agreed = verdict.leader();
    let reign = agreed.and_then(|(leader, epoch)| {
        reigns(evidence.ledgers).into_iter().find(|reign| (reign.leader, reign.epoch) == (leader, epoch))
    });
    let granted_by = agreed.map(|reign| granted_by(evidence.ledgers, reign)).unwrap_or_default();
    let broken_links = broken_links(evidence);
    let mut sentences = vec![headline(evidence, verdict, reign.as_ref())];
    if !granted_by.is_empty() {
        let known = if evidence.ledgers.missing.is_empty() { "" } else { ", as far as the available ledgers show" };
        sentences.push(format!("Its epoch was granted by {}{known}; a majority is {majority}.", list(&granted_by)));
    }
    let voting = voters.counted(evidence.statuses.iter().map(|status| status.id));
    if quorum && voting < majority {
        let n = evidence.voters.len();
        sentences.push(format!("No majority is reachable: {voting} of {n} voters answer, {majority} are needed."));
    }
    sentences.extend(evidence.ledgers.missing.iter().map(|missing| {
        let who = missing.id.map_or_else(|| missing.address.clone(), |id| format!("{id} at {}", missing.address));
        format!("{who} is unreachable: {}.", missing.why)
    }));
    sentences.extend(links_in_words(&broken_links));
    sentences.extend(refusals(evidence.statuses));
    let blank: Vec<u32> = evidence.statuses.iter().filter(|status| status.blank).map(|status| status.id).collect();
    if !blank.is_empty() {
        sentences.push(format!(
            "{} cannot vote yet: the disk is new or was lost. A new cluster needs all its voters once (or `node \
             --bootstrap` on the voters that run). After a lost disk a \
             majority of all voters must answer, this voter not counted.",
            list(&blank)
        ));
    }
    sentences.extend(identities(evidence));
    sentences.extend(
        evidence
            .statuses
            .iter()
            .filter(|status| !status.faults.is_empty())
            .map(|status| format!("Faults are injected at {}: {}.", status.id, status.faults.join(", "))),
    );
    sentences.extend(evidence.statuses.iter().filter_map(|status| {
        let end = expiry_in_words(status.expires_ms?, evidence.now_ms)?;
        Some(format!("The certificate of {} {end}.", status.id))
    }));
    sentences.extend(attached(evidence.statuses));
    sentences.extend(orders(evidence.statuses));
    if agreed.is_none() {
        sentences.extend(evidence.statuses.iter().map(|status| standing(evidence, status)));
    }
    sentences.extend(evidence.statuses.iter().filter_map(|status| abstains(evidence, status, agreed.is_some())));
    Explanation { verdict, reign, granted_by, broken_links, sentences }
}

/// Where commands run or wait under a leadership (`ctl lead`), and which members stand only then. Nothing where no
/// command is attached and no member asks for one.
fn attached(statuses: &[MemberStatus]) -> Vec<String> {
    let at: Vec<u32> = statuses.iter().filter(|status| status.attached > 0).map(|status| status.id).collect();
    let idle = |status: &&MemberStatus| status.stands_attached && status.attached == 0;
    let idle: Vec<u32> = statuses.iter().filter(idle).map(|status| status.id).collect();
    let mut sentences = Vec::new();
    if let Some(leader) = statuses.iter().find(|status| status.leader == Some(status.id)) {
        match leader.attached {
            0 if !at.is_empty() => sentences.push(format!(
                "Nothing is attached to the leader {}, so no command of `ctl lead` runs; commands wait at {}.",
                leader.id,
                list(&at)
            )),
            0 => {}
            n => sentences.push(format!("Attached to the leader {}: {n} (`ctl lead`).", leader.id)),
        }
    }
    if !idle.is_empty() {
        sentences.push(format!(
            "{} does not stand for election: stand = \"attached\", and no command of `ctl lead` waits there.",
            list(&idle)
        ));
    }
    sentences
}

/// Orders of operators that last for a while: a pause, a held leader, members that do not stand.
fn orders(statuses: &[MemberStatus]) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some(pause) = Maintenance::newest(statuses).filter(|orders| orders.paused) {
        let who = pause.keeps.map_or_else(
            || "nobody led when the pause began, and nobody stands".to_owned(),
            |keeps| format!("only {keeps} stands, and no member takes over from it"),
        );
        sentences.push(format!("The cluster is PAUSED: {who}, until `ctl resume`."));
        let unaware: Vec<u32> = statuses.iter().filter(|status| !status.maintenance.paused).map(|s| s.id).collect();
        if !unaware.is_empty() {
            sentences.push(format!("{} has not heard of the pause yet.", list(&unaware)));
        }
    }
    for status in statuses.iter().filter(|status| status.maintenance.held) {
        sentences.push(format!(
            "{} is held (`ctl transfer --hold`): no better member takes over from it until it ceases to lead, or `ctl \
             elect`.",
            status.id
        ));
    }
    for (id, until) in statuses.iter().filter_map(|status| Some((status.id, status.maintenance.rests_until_ms?))) {
        let until = format_instant(until);
        sentences.push(format!("{id} does not stand until {until} (`ctl step-down --for`), unless no other can lead."));
    }
    sentences
}

/// A certificate that ends within this time is worth a warning.
const EXPIRES_SOON: Duration = Duration::from_hours(30 * 24);

/// `None` unless the end of a certificate is near or past.
pub fn expiry_in_words(expires_ms: u64, now_ms: u64) -> Option<String> {
    let at = format_instant(expires_ms);
    match expires_ms.checked_sub(now_ms).map(Duration::from_millis) {
        None => Some(format!("has expired at {at}")),
        Some(left) if left < EXPIRES_SOON => Some(format!("expires in {} days, at {at}", left.as_secs() / 86_400)),
        Some(_) => None,
    }
}

/// The present time of the wall clock, in milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Disks that are old, or belong to another cluster.
fn identities(evidence: &Evidence<'_>) -> Vec<String> {
    let old: Vec<u32> = evidence.statuses.iter().filter(|status| status.old_volume).map(|status| status.id).collect();
    let mut sentences = Vec::new();
    if !old.is_empty() {
        sentences.push(format!(
            "{} does not vote: a majority has seen later runs of it, so its disk is old or a copy. Restore its newer \
             volume, or empty its data directory.",
            list(&old)
        ));
    }
    let ids: BTreeSet<&String> = evidence.statuses.iter().filter_map(|status| status.cluster_id.as_ref()).collect();
    if ids.len() > 1 {
        let of = |id: &&String| {
            let has = |status: &&MemberStatus| status.cluster_id.as_ref() == Some(*id);
            format!(
                "{id} at {}",
                list(&evidence.statuses.iter().filter(has).map(|status| status.id).collect::<Vec<_>>())
            )
        };
        sentences.push(format!(
            "Members have the disks of different clusters ({}): empty the data directories of those that do not belong.",
            ids.iter().map(of).collect::<Vec<_>>().join(", ")
        ));
    }
    sentences
}

fn headline(evidence: &Evidence<'_>, verdict: Verdict, reign: Option<&Reign>) -> String {
    match (verdict, reign) {
        (Verdict::Agreed { leader, epoch }, Some(reign)) => {
            let since = format_instant(reign.from_ms);
            let ago = ago(reign.from_ms, evidence.now_ms);
            let why = match reign.cause {
                Cause::HandedOver => "the leader before it handed over to it",
                cause => cause_in_words(cause),
            };
            format!("{leader} leads in epoch {epoch} since {since} ({ago}): {why}.")
        }
        (Verdict::Agreed { leader, epoch }, None) => {
            format!("{leader} leads in epoch {epoch}; no ledger records since when.")
        }
        (Verdict::Split, _) => "Members name different leaders: parts of the cluster are not connected to each \
                                other, or were connected just now."
            .to_owned(),
        (Verdict::NoQuorum, _) => "Nobody leads: too few members answer.".to_owned(),
        (Verdict::Unreachable, _) => "No member answers.".to_owned(),
        (Verdict::Electing, _) => {
            let named: BTreeSet<u32> = evidence.statuses.iter().filter_map(|status| status.leader).collect();
            match named.first() {
                Some(named) => {
                    format!(
                        "No leader is agreed on: {named} is named, but not by all members, or does not claim to lead."
                    )
                }
                None => "Nobody leads: no member names a leader.".to_owned(),
            }
        }
    }
}

fn granted_by(ledgers: &Ledgers, (holder, epoch): (u32, u64)) -> Vec<u32> {
    let grants = |ledger: &&MemberLedger| ledger.entries.iter().any(|entry| entry.kind.grants(epoch, holder));
    let granted = ledgers.members.iter().filter(grants);
    granted.map(|ledger| ledger.id).collect()
}

/// Connections that should exist: in a mesh between all members, on a ring to the next member that answers. The answers
/// do not contain the links of a graph, so there a link counts as broken only if one side has it and the other lacks
/// it.
fn broken_links(evidence: &Evidence<'_>) -> Vec<(u32, u32)> {
    let answering: Vec<u32> = order(evidence);
    let topology = evidence.statuses.first().map(|status| status.topology);
    let mut broken = Vec::new();
    for (at, &a) in answering.iter().enumerate() {
        for (to, &b) in answering.iter().enumerate().skip(at + 1) {
            let next = to == at + 1 || (at == 0 && to + 1 == answering.len());
            let there = connected(evidence, a, b);
            let back = connected(evidence, b, a);
            let mesh = topology == Some(Topology::Mesh);
            let wanted = mesh || (topology == Some(Topology::Ring) && next) || there != back;
            broken.extend([(a, b)].iter().filter(|_| wanted && !there));
            broken.extend([(b, a)].iter().filter(|_| wanted && !back));
        }
    }
    broken
}

/// The members that answer, in the order of the config.
fn order(evidence: &Evidence<'_>) -> Vec<u32> {
    let answers = |id: &u32| evidence.statuses.iter().any(|status| status.id == *id);
    let listed: Vec<u32> = evidence.members.iter().copied().filter(answers).collect();
    if listed.len() == evidence.statuses.len() {
        return listed;
    }
    evidence.statuses.iter().map(|status| status.id).collect()
}

fn connected(evidence: &Evidence<'_>, from: u32, to: u32) -> bool {
    let status = evidence.statuses.iter().find(|status| status.id == from);
    status.is_some_and(|status| status.peers.iter().any(|peer| peer.id == to && peer.connected))
}

fn links_in_words(broken: &[(u32, u32)]) -> Vec<String> {
    let both = |(a, b): (u32, u32)| broken.contains(&(b, a));
    let said = broken.iter().filter(|&&(a, b)| a < b || !both((a, b)));
    said.map(|&(a, b)| {
        if both((a, b)) {
            format!("{a} and {b} have no connection to each other.")
        } else {
            format!("{a} has no connection to {b}, though {b} reports one to {a}.")
        }
    })
    .collect()
}

/// Members that refuse each other, and why. Both sides of a pair know it: one of them tells.
fn refusals(statuses: &[MemberStatus]) -> Vec<String> {
    let mut told = BTreeSet::new();
    let mut sentences = Vec::new();
    for status in statuses {
        for (peer, why) in status.peers.iter().filter_map(|peer| Some((peer.id, peer.refusal.as_ref()?))) {
            if told.insert((status.id.min(peer), status.id.max(peer))) {
                sentences.push(format!("{} and {peer} refuse each other: {why}.", status.id));
            }
        }
    }
    sentences
}

fn standing(evidence: &Evidence<'_>, status: &MemberStatus) -> String {
    let id = status.id;
    let ledger = evidence.ledgers.member(id);
    let last = ledger.and_then(|ledger| {
        ledger.entries.iter().rev().find_map(|entry| match &entry.kind {
            LedgerKind::Became(transition) => Some((entry.wall_ms, transition.cause)),
            _ => None,
        })
    });
    let since = last.map_or_else(String::new, |(at, cause)| {
        format!(" since {} ({}): {}", format_instant(at), ago(at, evidence.now_ms), cause_in_words(cause))
    });
    match status.leader {
        Some(leader) if leader == id => format!("{id} claims to lead in epoch {}{since}.", status.epoch),
        Some(leader) => format!("{id} follows {leader} in epoch {}{since}.", status.epoch),
        None => format!("{id} is {} and knows no leader{since}.", status.role),
    }
}

/// A member that resigned is not elected for a while.
fn abstains(evidence: &Evidence<'_>, status: &MemberStatus, agreed: bool) -> Option<String> {
    if status.maintenance.rests_until_ms.is_some() {
        return None;
    }
    let entries = &evidence.ledgers.member(status.id)?.entries;
    let resigned = entries.iter().rev().take_while(|entry| !matches!(entry.kind, LedgerKind::Started { .. }));
    let stepped_down =
        |kind: &LedgerKind| matches!(kind, LedgerKind::Became(became) if became.cause == Cause::SteppedDown);
    let resigned = resigned.filter(|entry| stepped_down(&entry.kind));
    let at = resigned.map(|entry| entry.wall_ms).next()?;
    let stands_again = status.leader == Some(status.id) || (agreed && evidence.now_ms > at + ABSTAINS_MS);
    (!stands_again).then(|| {
        let ago = ago(at, evidence.now_ms);
        format!(
            "{} stepped down {ago} and does not stand until another member leads, and for 10 s after that.",
            status.id
        )
    })
}

/// A cause as text.
pub fn cause_in_words(cause: Cause) -> &'static str {
    match cause {
        Cause::Started => "it has just started",
        Cause::Elected => "it won the election",
        Cause::OtherElected => "it was elected",
        Cause::Heard => "a heartbeat named the leader",
        Cause::LeaderLost => "the leader's connection closed or it fell silent",
        Cause::LeaderResigned => "the leader resigned",
        Cause::SteppedDown => "it was told to step down",
        Cause::Bumped => {
            "it already led and moved its epoch past those that a restarted member had reserved (64 attempts at a time)"
        }
        Cause::Halted => "the members reorganise",
        Cause::LeaseEnded => "its lease ended before a majority of the voters granted the next one",
        Cause::HandedOver => "it handed over to another member",
        Cause::SupportersLost => "too few voters stayed connected to it",
        Cause::Superseded => "its own vote went to another candidate",
        Cause::Present => "so it was when it was asked",
    }
}

fn ago(then_ms: u64, now_ms: u64) -> String {
    let elapsed = now_ms.saturating_sub(then_ms);
    // Milliseconds of an event long ago are noise.
    let rounded = if elapsed < 1000 { elapsed } else { elapsed / 1000 * 1000 };
    format!("{} ago", format_duration(Duration::from_millis(rounded)))
}

fn list(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use types::Role;

    use super::*;
    use crate::history::testing::*;
    use crate::wire::PeerStatus;

    fn status(id: u32, leader: impl Into<Option<u32>>, connected: &[u32]) -> MemberStatus {
        let leader = leader.into();
        let role = if leader == Some(id) { Role::Leader } else { Role::Follower };
        let peers = (1..=3).filter(|peer| *peer != id);
        MemberStatus {
            id,
            role,
            leader,
            epoch: 4,
            peers: peers
                .map(|id| PeerStatus { id, connected: connected.contains(&id), ..PeerStatus::default() })
                .collect(),
            ..MemberStatus::example()
        }
    }

    fn said(statuses: &[MemberStatus], ledgers: &Ledgers) -> String {
        let members = &[1, 2, 3];
        explain(&Evidence { statuses, ledgers, members, voters: members, now_ms: 12_000 }).sentences.join("\n")
    }

    #[test]
    fn a_leader_is_explained_by_its_ledger_and_its_grants() {
        let statuses = [status(1, 3, &[2, 3]), status(2, 3, &[1, 3]), status(3, 3, &[1, 2])];
        let mut ledgers = cluster([ledger(3, [(2000, granted(4, 3)), (2000, leads(3, 4))])]);
        let text = said(&statuses, &ledgers);
        assert!(text.starts_with("3 leads in epoch 4 since 1970-01-01T00:00:02.000Z (10s ago): it won"), "{text}");
        assert!(text.contains("granted by 3"), "{text}");
        ledgers.members.clear();
        assert!(said(&statuses, &ledgers).contains("no ledger records since when"));
    }

    #[test]
    fn links_are_named_in_their_direction() {
        let statuses = [status(1, None, &[3]), status(2, None, &[1, 3]), status(3, None, &[1])];
        let text = said(&statuses, &Ledgers::default());
        assert!(text.contains("1 has no connection to 2, though 2 reports"), "{text}");
        assert!(text.contains("3 has no connection to 2, though 2 reports"), "{text}");
        assert!(!text.contains("2 has no connection"), "{text}");
        let apart = [status(1, 1, &[]), status(2, 2, &[])];
        let text = said(&apart, &Ledgers::default());
        assert!(text.contains("different leaders") && text.contains("1 and 2 have no connection"), "{text}");
    }

    #[test]
    fn a_refusal_names_the_values_once() {
        let why = "lease: n1 has \"500ms\", n2 has \"1s\"";
        let mut apart = [status(1, 1, &[]), status(2, 2, &[])];
        for (status, other) in apart.iter_mut().zip([2, 1]) {
            status
                .peers
                .iter_mut()
                .filter(|peer| peer.id == other)
                .for_each(|peer| peer.refusal = Some(why.to_owned()));
        }
        let text = said(&apart, &Ledgers::default());
        assert!(text.contains("1 and 2 refuse each other: lease: n1 has \"500ms\", n2 has \"1s\"."), "{text}");
        assert_eq!(text.matches("refuse each other").count(), 1, "{text}");
    }

    #[test]
    fn a_ring_needs_only_its_neighbours() {
        let mut ring: Vec<MemberStatus> =
            [status(1, None, &[2]), status(2, None, &[1]), status(3, None, &[])].into_iter().collect();
        ring.push(MemberStatus { id: 4, ..status(3, None, &[]) });
        for status in &mut ring {
            status.topology = Topology::Ring;
        }
        let evidence =
            Evidence { statuses: &ring, ledgers: &Ledgers::default(), members: &[1, 2, 3, 4], voters: &[], now_ms: 0 };
        let broken = explain(&evidence).broken_links;
        assert_eq!(broken, [(1, 4), (4, 1), (2, 3), (3, 2), (3, 4), (4, 3)]);
    }

    #[test]
    fn nobody_leads_without_a_majority_and_the_missing_are_named() {
        let mut alone = status(1, None, &[]);
        alone.safety = Safety::Quorum;
        alone.role = Role::Candidate;
        let mut ledgers = cluster([ledger(1, [(1000, follows(3, 4)), (2000, lost(5))])]);
        ledgers.missing = vec![missing(2), missing(3)];
        let text = said(&[alone], &ledgers);
        assert!(text.starts_with("Nobody leads: too few members answer."), "{text}");
        assert!(text.contains("No majority is reachable: 1 of 3 voters answer, 2 are needed."), "{text}");
        assert!(text.contains("3 at n3:7400 is unreachable: no answer in time."), "{text}");
        assert!(text.contains("1 is candidate and knows no leader since"), "{text}");
        assert!(text.contains("the leader's connection closed"), "{text}");
    }

    #[test]
    fn orders_that_last_are_told_by_the_newest_of_them() {
        let mut statuses = [status(1, 3, &[2, 3]), status(2, 3, &[1, 3]), status(3, 3, &[1, 2])];
        assert!(!said(&statuses, &Ledgers::default()).contains("PAUSED"));
        let paused = Maintenance { order: (2, 1), paused: true, keeps: Some(3), ..Maintenance::default() };
        statuses[0].maintenance = paused;
        statuses[2].maintenance = Maintenance { held: true, ..paused };
        statuses[1].maintenance.rests_until_ms = Some(60_000);
        let text = said(&statuses, &Ledgers::default());
        assert!(text.contains("The cluster is PAUSED: only 3 stands"), "{text}");
        assert!(text.contains("2 has not heard of the pause yet"), "{text}");
        assert!(text.contains("3 is held") && text.contains("2 does not stand until 1970-01-01T00:01:00"), "{text}");
        statuses[1].maintenance.order = (3, 1);
        assert!(!said(&statuses, &Ledgers::default()).contains("PAUSED"), "2 knows of its end");
    }

    #[test]
    fn who_stepped_down_does_not_stand() {
        let resigned = became(Role::Candidate, None, 5, Cause::SteppedDown);
        let ledgers = cluster([ledger(3, [(2000, leads(3, 4)), (9000, resigned)])]);
        let text = said(&[status(3, None, &[])], &ledgers);
        assert!(text.contains("3 stepped down 3s ago and does not stand"), "{text}");
    }
}
