//! Conditions that hold between several values of a config.

use std::time::Duration;

use algorithms::Topology;
use algorithms::catalog::{self, Row};
use member::Safety;
use types::format_duration;

use super::problems::{Problem, Problems};
use super::read::{Cluster, Draft, InstanceDraft, PeerDraft, TlsDraft, fitting};
use super::section::{Found, closest};
use super::{Config, Host, PEERS_MAX, PeerRole, locks, priority, split_address};
use crate::log;

const NAME_BYTES_MAX: usize = 64;
const TIME_MIN: Duration = Duration::from_millis(1);
/// A command asks its next question within less time than this.
const CLIENT_IDLE_MIN: Duration = Duration::from_secs(1);
pub(super) const TIME_MAX: Duration = Duration::from_hours(1);

/// The row of the configured algorithm. Without a usable name it is the default row, so that the other checks can run.
pub(super) fn algorithm(cluster: &Cluster, problems: &mut Problems) -> &'static Row {
    // The catalog tests that its default is one of its rows.
    let default = catalog::row(catalog::DEFAULT).unwrap_or(&catalog::ROWS[0]);
    let Some(named) = &cluster.algorithm else {
        return fit(default, cluster, cluster.topology.map_or(cluster.line, |topology| topology.line), problems);
    };
    if let Some(row) = catalog::row(&named.value) {
        return fit(row, cluster, named.line, problems);
    }
    unknown_algorithm(named, problems);
    default
}

fn unknown_algorithm(named: &Found<String>, problems: &mut Problems) {
    let names = catalog::names().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    let remedy = match closest(&named.value, catalog::names()) {
        Some(name) => format!("did you mean {name:?}? The algorithms are {names}"),
        None => format!("write one of {names}"),
    };
    problems.push(named.line, format!("unknown algorithm {:?}", named.value), remedy);
}

fn fit(row: &'static Row, cluster: &Cluster, line: usize, problems: &mut Problems) -> &'static Row {
    let Some(topology) = cluster.topology.map(|topology| topology.value).filter(|&wanted| wanted != row.topology)
    else {
        return row;
    };
    let own = row.topology.name();
    let others = fitting(topology, |_| true);
    let remedy = if others.is_empty() {
        format!("no algorithm here runs on a {}: write topology = \"{own}\"", topology.name())
    } else {
        format!("write topology = \"{own}\", or an algorithm for a {}: {others}", topology.name())
    };
    problems.push(line, format!("{} runs on a {own}, not on a {}", row.name, topology.name()), remedy);
    row
}

pub(super) fn all(draft: &Draft, config: &Config, problems: &mut Problems) {
    name(&draft.cluster, problems);
    preemption(&draft.cluster, config, problems);
    times(draft, config, problems);
    if let Some(join) = &draft.cluster.join {
        joining(draft, join, config, problems);
    } else {
        peers(draft, config, problems);
    }
    for (key, found) in [("listen", &draft.cluster.listen), ("http", &draft.cluster.http)] {
        if let Some(found) = found.as_ref().filter(|_| draft.cluster.join.is_none()) {
            let message = format!("{key} in [cluster] is for a member with join");
            problems.push(found.line, message, "write it in a [[peers]] table");
        }
    }
    addresses(&draft.peers, problems);
    secret(draft, config, problems);
    links(draft, config, problems);
    hooks(draft, problems);
    log_level(draft, problems);
    priority::check(&draft.priority, config, problems);
    instances(draft, config, problems);
    locks::check(&draft.locks, config, problems);
    if problems.list.is_empty() && draft.cluster.join.is_none() {
        members(&draft.cluster, config, problems);
    }
}

/// A member that is to be added knows addresses of the cluster instead of its list.
fn joining(draft: &Draft, join: &Found<Vec<Found<String>>>, config: &Config, problems: &mut Problems) {
    if let Some(peer) = draft.peers.first() {
        let message = "join and [[peers]]: a member is either to be added to a cluster, or is in its first list";
        problems.push(peer.line, message, "remove the [[peers]] tables, or join");
    }
    if config.safety == Safety::Classic {
        let message = "join needs safety = \"quorum\": a classic cluster has the list of its config file";
        problems.push(join.line, message, "write a [[peers]] table for every member instead");
    }
    if let Some(bootstrap) = &draft.cluster.bootstrap {
        let message = "join and bootstrap: a member that is added to a cluster never begins one";
        problems.push(bootstrap.line, message, "remove bootstrap");
    }
    if config.topology == Topology::Graph {
        let message = "join and a graph: the links of a graph are in the config files of its members";
        problems.push(join.line, message, "take an algorithm for a mesh or a ring");
    }
    if join.value.is_empty() {
        problems.push(join.line, "join names no member", "write join = [\"host:7400\"]");
    }
    for address in &join.value {
        if split_address(&address.value).is_none_or(|(_, port)| port == 0) {
            let message = format!("{:?} in join is not a host and a port", address.value);
            problems.push(address.line, message, "write it like \"host:7400\" (IPv6: \"[::1]:7400\")");
        }
    }
    match &draft.cluster.listen {
        None => {
            let remedy = "write listen = \"0.0.0.0:7400\" below [cluster]: where this member accepts connections";
            problems.push(join.line, "join without listen", remedy);
        }
        Some(listen) if split_address(&listen.value).is_none_or(|(_, port)| port == 0) => {
            let message = format!("listen = {:?} is not a host and a port", listen.value);
            problems.push(listen.line, message, "write listen = \"0.0.0.0:7400\"");
        }
        Some(_) => {}
    }
    if let Some(http) = draft.cluster.http.as_ref().filter(|http| split_address(&http.value).is_none()) {
        let message = format!("http = {:?} is not a host and a port", http.value);
        problems.push(http.line, message, "write http = \"host:8400\" (IPv6: \"[::1]:8400\")");
    }
}

fn instances(draft: &Draft, config: &Config, problems: &mut Problems) {
    for (at, instance) in draft.instances.iter().enumerate() {
        if let Some(named) = &instance.algorithm {
            match catalog::row(&named.value) {
                None => unknown_algorithm(named, problems),
                Some(row) => instance_row(instance, row, config, problems),
            }
        }
        let Some(id) = instance.id else { continue };
        let same = |earlier: &&InstanceDraft| earlier.id.is_some_and(|earlier| earlier.value == id.value);
        if let Some(earlier) = draft.instances[..at].iter().find(same) {
            let message = format!("two [[instances]] have the id {} (the first in line {})", id.value, earlier.line);
            problems.push(id.line, message, "give each its own number, 256 or above");
        }
    }
}

/// Can this algorithm run beside the other instances, with these members and settings?
fn instance_row(instance: &InstanceDraft, row: &'static Row, config: &Config, problems: &mut Problems) {
    if !config.settings.preempt && !row.can_wait {
        let message = format!("preempt = false, but {} cannot leave a worse leader alone", row.name);
        problems.push(instance.line, message, "write preempt = true in [cluster], or take another algorithm");
    }
    if config.peers.len() > row.max_nodes {
        let message = format!("{} is fit for at most {} members", row.name, row.max_nodes);
        problems.push(instance.line, message, "take another algorithm");
    }
    if row.topology == Topology::Graph && config.topology != Topology::Graph {
        let message = format!("{} runs on a graph, but this cluster is a {}", row.name, config.topology.name());
        problems.push(instance.line, message, "take an algorithm for a ring or a mesh, or write topology = \"graph\"");
    }
    let wins = instance.wins.map_or(row.wins, |found| found.value);
    if problems.list.is_empty()
        && let Err(why) = (row.check)(&config.view_as(row.topology), wins)
    {
        let message = format!("{} cannot run with these members: {why}", row.name);
        problems.push(instance.line, message, "take another algorithm");
    }
}

/// The algorithm's own requirements on the members, checked after the list itself is valid.
fn members(cluster: &Cluster, config: &Config, problems: &mut Problems) {
    if let Err(why) = (config.row.check)(&config.view(), config.settings.election.wins) {
        let line = cluster.algorithm.as_ref().map_or(cluster.line, |algorithm| algorithm.line);
        let remedy = format!("change that, or take another algorithm: {}", fitting(config.topology, |_| true));
        problems.push(line, format!("{} cannot run with these members: {why}", config.row.name), remedy);
    }
}

/// Settings that this version does not support: not wrong, but they have no effect.
pub(super) fn notices(draft: &Draft, row: &Row) -> Vec<Problem> {
    let mut notices = Problems { path: std::path::PathBuf::new(), list: Vec::new() };
    if let (Some(short), Some(answer)) = (draft.timing.coordinator_timeout, draft.timing.answer_timeout) {
        let proven = answer.value.saturating_mul(row.coordinator_factor);
        if short.value > answer.value && short.value < proven {
            let message = format!("coordinator_timeout is less than {} answer_timeouts", row.coordinator_factor);
            notices.push(
                short.line,
                message,
                format!("{} may elect twice; {} would be safe", row.name, format_duration(proven)),
            );
        }
    }
    notices.list
}

fn name(cluster: &Cluster, problems: &mut Problems) {
    match &cluster.name {
        None if cluster.says_name => {}
        None => problems.push(cluster.line, "[cluster] has no name", "write name = \"demo\" below [cluster]"),
        Some(name) => {
            let usable = !name.value.is_empty() && name.value.len() <= NAME_BYTES_MAX;
            if !usable || name.value.chars().any(char::is_control) {
                let message = format!("the cluster name {:?} is empty, too long or has control characters", name.value);
                problems.push(name.line, message, format!("write 1 to {NAME_BYTES_MAX} printable characters"));
            }
        }
    }
}

fn preemption(cluster: &Cluster, config: &Config, problems: &mut Problems) {
    let Some(preempt) = cluster.preempt.filter(|preempt| !preempt.value && !config.row.can_wait) else { return };
    let message = format!("preempt = false, but {} cannot leave a worse leader alone", config.row.name);
    let patient = fitting(config.row.topology, |row| row.can_wait);
    problems.push(preempt.line, message, format!("write preempt = true, or one of the algorithms {patient}"));
}

fn times(draft: &Draft, config: &Config, problems: &mut Problems) {
    let (said, timing) = (&draft.timing, &config.settings.timing);
    let bounded = [
        ("heartbeat", said.heartbeat, TIME_MIN),
        ("suspect_after", said.suspect_after, TIME_MIN),
        ("answer_timeout", said.answer_timeout, TIME_MIN),
        ("coordinator_timeout", said.coordinator_timeout, TIME_MIN),
        ("lease", said.lease, TIME_MIN),
        ("client_idle", said.client_idle, CLIENT_IDLE_MIN),
        ("start_grace", said.start_grace, Duration::ZERO),
        ("preempt_after", draft.cluster.preempt_after, Duration::ZERO),
    ];
    for (key, found, min) in bounded {
        let Some(found) = found.filter(|found| found.value < min || found.value > TIME_MAX) else { continue };
        let message = format!("{key} = \"{}\" cannot work", format_duration(found.value));
        problems.push(found.line, message, format!("write {} to {}", format_duration(min), format_duration(TIME_MAX)));
    }
    let twice = timing.heartbeat.saturating_mul(2);
    if let Some(line) = blame(said.suspect_after, said.heartbeat).filter(|_| timing.suspect_after < twice) {
        let (suspect, beat) = (format_duration(timing.suspect_after), format_duration(timing.heartbeat));
        let message = format!("suspect_after ({suspect}) is less than two heartbeats ({beat} each)");
        let remedy = format!("write suspect_after = \"{}\" or more, or a shorter heartbeat", format_duration(twice));
        problems.push(line, message, remedy);
    }
    if config.safety == Safety::Quorum {
        leases(draft, config, problems);
    }
    let (short, long) = (config.settings.election.answer_timeout, config.settings.election.coordinator_timeout);
    if let Some(line) = blame(said.coordinator_timeout, said.answer_timeout).filter(|_| long <= short) {
        let message = format!(
            "coordinator_timeout (T', {}) is not longer than answer_timeout (T, {})",
            format_duration(long),
            format_duration(short)
        );
        let factor = config.row.coordinator_factor;
        let enough = format_duration(short.saturating_mul(factor));
        let remedy = format!("write coordinator_timeout = \"{enough}\" ({factor} T, as {} needs)", config.row.name);
        problems.push(line, message, remedy);
    }
}

/// A lease must outlast an attempt to get one, and a better member must give a new leader time to settle.
fn leases(draft: &Draft, config: &Config, problems: &mut Problems) {
    let (said, timing) = (&draft.timing, &config.settings.timing);
    let answer_timeout = config.settings.election.answer_timeout;
    let shortest = answer_timeout.saturating_mul(2);
    if let Some(line) = blame(said.lease, said.answer_timeout).filter(|_| timing.lease < shortest) {
        let (lease, answer) = (format_duration(timing.lease), format_duration(answer_timeout));
        let message = format!("lease ({lease}) is less than two answer_timeouts ({answer} each)");
        problems.push(line, message, format!("write lease = \"{}\" or more", format_duration(shortest)));
    }
    let patient = timing.lease.saturating_mul(2);
    let hasty = draft.cluster.preempt_after.filter(|found| found.value < patient);
    if let Some(found) = hasty {
        let message = format!("preempt_after ({}) is less than two leases", format_duration(found.value));
        problems.push(found.line, message, format!("write preempt_after = \"{}\" or more", format_duration(patient)));
    }
}

/// The line to name when two values contradict each other; `None` if both are defaults.
fn blame(first: Option<Found<Duration>>, second: Option<Found<Duration>>) -> Option<usize> {
    first.or(second).map(|found| found.line)
}

fn peers(draft: &Draft, config: &Config, problems: &mut Problems) {
    if draft.peers.is_empty() {
        if !draft.peers_unreadable {
            let remedy = "write a [[peers]] table with id and address for each";
            problems.push(draft.cluster.line, "the config lists no members", remedy);
        }
        return;
    }
    let most = PEERS_MAX.min(config.row.max_nodes);
    if let Some(first_too_many) = draft.peers.get(most) {
        let message = format!("{} peers; {} is fit for at most {most}", draft.peers.len(), config.row.name);
        problems.push(first_too_many.line, message, format!("remove all [[peers]] tables after the first {most}"));
    }
    for (at, peer) in draft.peers.iter().enumerate() {
        let Some(id) = peer.id else { continue };
        let earlier = draft.peers[..at].iter().filter_map(|peer| peer.id).find(|earlier| earlier.value == id.value);
        if let Some(earlier) = earlier {
            let free =
                (1..=u32::from(u16::MAX)).find(|free| config.peers.iter().all(|peer| peer.id.0 != *free)).unwrap_or(1);
            let message = format!("id {} is already taken in line {}", id.value, earlier.line);
            problems.push(id.line, message, format!("write an id of its own, like id = {free}"));
        }
    }
    if config.peers.iter().all(|peer| peer.role != PeerRole::Member) {
        let message = "no peer may lead: all are witnesses or learners";
        problems.push(draft.peers[0].line, message, "write role = \"member\" for each peer that may lead");
    }
}

fn addresses(peers: &[PeerDraft], problems: &mut Problems) {
    let mut seen: Vec<(&'static str, &Found<String>)> = Vec::new();
    for peer in peers {
        let keys = [("address", &peer.address), ("listen", &peer.listen), ("http", &peer.http)];
        for (key, found) in keys.into_iter().filter_map(|(key, found)| Some((key, found.as_ref()?))) {
            match split_address(&found.value) {
                None => {
                    let message = format!("{key} = {:?} is not a host and a port", found.value);
                    problems.push(found.line, message, format!("write {key} = \"host:7400\" (IPv6: \"[::1]:7400\")"));
                }
                Some((Host::Ip(ip), _)) if ip.is_unspecified() && key == "address" => {
                    let message = format!("no member can dial the address {:?}", found.value);
                    let remedy = "write the host by which other members reach it as address, and this as listen";
                    problems.push(found.line, message, remedy);
                }
                // Port 0 means any free port, so several peers may use it; several hosts may listen on the same
                // wildcard.
                Some((_, 0)) => {}
                Some(_) if key == "listen" => {}
                Some((Host::Ip(ip), _)) if key == "http" && ip.is_unspecified() => {}
                Some(_) => {
                    let same = |(_, earlier): &&(_, &Found<String>)| earlier.value.eq_ignore_ascii_case(&found.value);
                    if let Some((_, earlier)) = seen.iter().find(same) {
                        let message = format!("{key} {:?} is already taken in line {}", found.value, earlier.line);
                        problems.push(found.line, message, "write another host or port");
                    }
                    seen.push((key, found));
                }
            }
        }
    }
}

fn secret(draft: &Draft, config: &Config, problems: &mut Problems) {
    if let Some(file) = draft.cluster.secret_file.as_ref().filter(|file| file.value.is_empty()) {
        problems.push(file.line, "secret_file is empty", "write the name of a file, like secret_file = \"secret\"");
    }
    if let (Some(file), Some(tls)) = (&draft.cluster.secret_file, &draft.tls) {
        let message = "the cluster has a secret_file and [tls]: its members prove themselves by one of the two";
        problems.push(file.line.max(tls.line), message, "remove secret_file, or the whole table [tls]");
    }
    let named = |tls: &TlsDraft| [&tls.ca, &tls.certificate, &tls.key].map(Clone::clone);
    for empty in draft.tls.iter().flat_map(named).flatten().filter(|found| found.value.is_empty()) {
        problems.push(empty.line, "a file in [tls] has no name", "write the name of a file, like ca = \"ca.pem\"");
    }
    if config.secret_file.is_some() || config.tls.is_some() || config.insecure {
        return;
    }
    let off_loopback =
        |found: &&Found<String>| split_address(&found.value).is_some_and(|(host, _)| !host.is_loopback());
    let peers = draft.peers.iter().flat_map(|peer| [&peer.address, &peer.listen]).flatten();
    let join = draft.cluster.join.iter().flat_map(|join| &join.value).chain(&draft.cluster.listen);
    let exposed = peers.chain(join).find(off_loopback);
    if let Some(exposed) = exposed {
        let message = format!("{:?} is reachable from other machines and the cluster has no secret", exposed.value);
        let remedy = "write secret_file = \"secret\" below [cluster] and put 16 or more random bytes into that file \
                      (or insecure = true, if any process may take part)";
        problems.push(exposed.line, message, remedy);
    }
}

fn links(draft: &Draft, config: &Config, problems: &mut Problems) {
    let Some(links) = &draft.links else {
        if config.topology == Topology::Graph && draft.cluster.join.is_none() {
            let line = draft.cluster.topology.map_or(draft.cluster.line, |topology| topology.line);
            problems.push(line, "a graph without links", "write [graph] and below it links = [[1, 2], [2, 3]]");
        }
        return;
    };
    if config.topology != Topology::Graph {
        let message = format!("links in [graph], but the topology is a {}", config.topology.name());
        problems.push(links.line, message, "remove [graph], or write topology = \"graph\"");
        return;
    }
    let ids: Vec<u32> = config.peers.iter().map(|peer| peer.id.0).collect();
    for Found { value: (a, b), line } in &links.value {
        if let Some(unknown) = [a, b].into_iter().find(|id| !ids.contains(id)) {
            let known = ids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            let message = format!("the link [{a}, {b}] names the unknown id {unknown}");
            problems.push(*line, message, format!("write two of {known}"));
        } else if a == b {
            problems.push(*line, format!("the link [{a}, {b}] joins a member to itself"), "remove it");
        }
    }
    if let Some(alone) = unreachable(&ids, &links.value) {
        let message = format!("no path of links leads from {} to {alone}", ids[0]);
        problems.push(links.line, message, format!("add a link to {alone}: a graph must be connected"));
    }
}

fn hooks(draft: &Draft, problems: &mut Problems) {
    if let Some(hook) = draft.on_change.as_ref().filter(|hook| hook.value.trim().is_empty()) {
        problems.push(hook.line, "on_change is empty", "write a command for `sh -c`, or remove the line");
    }
}

fn log_level(draft: &Draft, problems: &mut Problems) {
    let Some(level) = &draft.log_level else { return };
    if let Err(why) = log::check(&level.value) {
        let remedy = "write error, warn, info, debug or trace, or part=level, like \"info,transport=debug\"";
        problems.push(level.line, format!("level = {:?} in [log]: {why}", level.value), remedy);
    }
}

/// An id that no path of links joins to the first.
fn unreachable(ids: &[u32], links: &[Found<(u32, u32)>]) -> Option<u32> {
    let mut reached: Vec<u32> = ids.first().copied().into_iter().collect();
    let mut at = 0;
    while let Some(&from) = reached.get(at) {
        for &(a, b) in links.iter().map(|link| &link.value) {
            let to = if a == from { b } else { a };
            if (a == from || b == from) && !reached.contains(&to) {
                reached.push(to);
            }
        }
        at += 1;
    }
    ids.iter().copied().find(|id| !reached.contains(id))
}
