//! `conclave.status/1`, made of the answers of all members.

use algorithms::catalog;
use algorithms::theory::Before;

use crate::ask::Answer;
use crate::election::ElectionSummary;
use crate::json::{Drifting, Election, Status, StatusMember, Theory};
use crate::members::Members;
use crate::theory::theory_of;
use crate::verdict::{Verdict, View};
use crate::wire::{Maintenance, MemberStatus};

impl Members {
    /// The document of `ctl status`, from the answers of all members.
    pub fn status(&self, answers: &[Answer]) -> Status {
        document(self, answers)
    }
}

fn document(members: &Members, answers: &[Answer]) -> Status {
    let statuses: Vec<&MemberStatus> = answers.iter().filter_map(|answer| answer.result.as_ref().ok()).collect();
    let views: Vec<View> = statuses.iter().map(|status| View::from(*status)).collect();
    let file = members.file.as_ref();
    let first = statuses.first();
    let safety = first.map(|status| status.safety).or_else(|| file.map(|file| file.safety));
    let ids = whose(members, answers);
    let asked = |id| ids.iter().any(|asked| asked.is_none_or(|asked| asked == id));
    let verdict = Verdict::of_some(&views, &members.electorate(safety), asked);
    let rows = answers.iter().zip(ids).map(|(answer, id)| row(answer, id, &statuses));
    let algorithm = first.map(|s| s.algorithm.clone()).or_else(|| file.and_then(|f| f.algorithm.clone()));
    // A member knows the size of the cluster, even if only some members are asked.
    let size = first.map(|s| s.peers.len() + 1).or_else(|| file.map(|f| f.peers.len()));
    let known = algorithm.as_deref().and_then(catalog::row).zip(size);
    let election = ElectionSummary::newest(&statuses);
    let pause = Maintenance::newest(statuses.iter().copied()).filter(|orders| orders.paused);
    Status {
        schema: Status::SCHEMA,
        cluster: first.map_or_else(|| members.settings.cluster.clone(), |status| status.cluster.clone()),
        instance: members.instance.0,
        algorithm,
        topology: first.map(|status| status.topology).or_else(|| file.and_then(|file| file.topology)),
        safety,
        verdict: verdict.name(),
        leader: verdict.leader().map(|(leader, _)| leader),
        epoch: views.iter().map(|view| view.epoch).max().unwrap_or(0),
        paused: pause.is_some(),
        keeps: pause.and_then(|orders| orders.keeps),
        members: rows.collect(),
        election_messages: first.map(|_| statuses.iter().map(|status| status.election_messages).sum()),
        theory: known.map(|(row, size)| Theory::from((row.bounds)(size))),
        election: election.map(|election| Election::new(&election, theory_of(&election, Before::Unknown))),
        drifting: drifting(&statuses),
    }
}

/// Every pair of members once: if one clock runs fast against another, the other runs slow against the first.
fn drifting(statuses: &[&MemberStatus]) -> Vec<Drifting> {
    let mut found: Vec<Drifting> = Vec::new();
    for status in statuses {
        let max_ppm = status.max_drift_ppm;
        let measured = status.peers.iter().filter_map(|peer| Some((peer.id, peer.drift_ppm?)));
        for (member, ppm) in measured.filter(|(_, ppm)| ppm.unsigned_abs() > max_ppm / 2) {
            let known = |other: &Drifting| (other.member, other.against) == (status.id, member);
            if !found.iter().any(known) {
                found.push(Drifting { member, against: status.id, ppm, max_ppm });
            }
        }
    }
    found
}

/// The member of each endpoint. An endpoint that was given only as an address and does not answer is identified by its
/// place, if all other endpoints are in the config's order too.
fn whose(members: &Members, answers: &[Answer]) -> Vec<Option<u32>> {
    let known = |answer: &Answer| answer.result.as_ref().ok().map(|status| status.id).or(answer.endpoint.id);
    let ids: Vec<Option<u32>> = answers.iter().map(known).collect();
    let listed: Vec<Option<u32>> = members.file.iter().flat_map(|file| &file.peers).map(|peer| peer.id).collect();
    let in_order = ids.len() == listed.len() && ids.iter().zip(&listed).all(|(id, place)| id.is_none() || id == place);
    if in_order { listed } else { ids }
}

fn row(answer: &Answer, id: Option<u32>, statuses: &[&MemberStatus]) -> StatusMember {
    let heard_by = |other: &&MemberStatus| {
        let peer = other.peers.iter().find(|peer| Some(peer.id) == id)?;
        peer.last_heard_ms
    };
    let measured_by = |other: &&MemberStatus| {
        let peer = other.peers.iter().find(|peer| Some(peer.id) == id)?;
        peer.drift_ppm
    };
    let status = answer.result.as_ref().ok();
    StatusMember {
        id,
        address: answer.endpoint.address.clone(),
        up: status.is_some(),
        role: status.map(|status| status.role),
        leader: status.and_then(|status| status.leader),
        epoch: status.map(|status| status.epoch),
        incarnation: status.map(|status| status.incarnation),
        lease_ms: status.and_then(|status| status.lease_ms),
        sent: status.map(|status| status.sent),
        received: status.map(|status| status.received),
        last_heard_ms: statuses.iter().filter_map(heard_by).min(),
        faults: status.map(|status| status.faults.clone()),
        blank: status.map(|status| status.blank),
        cluster_id: status.and_then(|status| status.cluster_id.clone()),
        old_volume: status.map(|status| status.old_volume),
        drift_ppm: statuses.iter().filter_map(measured_by).max_by_key(|ppm| ppm.unsigned_abs()),
        key_ids: status.map(|status| status.key_ids.clone()),
        expires_ms: status.and_then(|status| status.expires_ms),
        priority: status.map(|status| status.priority),
        priority_by: status.map(|status| status.priority_by),
        active_list: status.and_then(|status| status.active_list.clone()),
        attached: status.map(|status| status.attached),
        stands_attached: status.map(|status| status.stands_attached),
        load: status.and_then(|status| Some(status.work?.load.value())),
        capacity: status.and_then(|status| Some(status.work?.capacity.value())),
        held: status.map(|status| status.maintenance.held),
        rests_until_ms: status.and_then(|status| status.maintenance.rests_until_ms),
        paused: status.map(|status| status.maintenance.paused),
        version: status.map(|status| status.version.clone()),
        trouble: answer.result.as_ref().err().map(ToString::to_string),
    }
}
