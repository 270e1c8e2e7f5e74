//! From the document to a draft, from the draft to a [`Config`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use ::toml::de::DeTable;
use algorithms::catalog::{self, Row};
use algorithms::{NodeId, Topology, Wins};
use client::{SecretPermissions, TlsFiles};
use member::{Bootstrap, Founding, OnClose, Safety, Settings, Stand, Timing};
use types::InstanceId;

use super::locks::{self, LocksDraft};
use super::priority::{self, PriorityDraft};
use super::problems::Problems;
use super::section::{Found, Pairs, Reader, Section};
use super::{Config, ConfiguredInstance, ID_MAX, Peer, PeerRole, check};
use crate::log;

const TOPOLOGIES: [(&str, Topology); 3] =
    [("mesh", Topology::Mesh), ("ring", Topology::Ring), ("graph", Topology::Graph)];
const SAFETIES: [(&str, Safety); 2] = [("classic", Safety::Classic), ("quorum", Safety::Quorum)];
const WINS: [(&str, Wins); 2] = [("highest", Wins::Highest), ("lowest", Wins::Lowest)];
const ON_CLOSE: [(&str, OnClose); 2] = [("wait-lease", OnClose::WaitLease), ("immediate", OnClose::Immediate)];
const BOOTSTRAPS: [(&str, Bootstrap); 2] = [("auto", Bootstrap::Auto), ("manual", Bootstrap::Manual)];
const STANDS: [(&str, Stand); 2] = [("always", Stand::Always), ("attached", Stand::Attached)];
const ROLES: [(&str, PeerRole); 3] =
    [("member", PeerRole::Member), ("witness", PeerRole::Witness), ("learner", PeerRole::Learner)];

const CLIENT_IDLE: Duration = Duration::from_mins(5);

/// The file as it is written: a missing key is `None`.
pub(super) struct Draft {
    pub(super) cluster: Cluster,
    pub(super) timing: Times,
    pub(super) peers: Vec<PeerDraft>,
    /// Is `peers` present but not a list? Then the reported problem is that, not an empty list.
    pub(super) peers_unreadable: bool,
    pub(super) instances: Vec<InstanceDraft>,
    pub(super) tls: Option<TlsDraft>,
    pub(super) links: Option<Found<Pairs>>,
    pub(super) on_change: Option<Found<String>>,
    pub(super) log_level: Option<Found<String>>,
    pub(super) locks: LocksDraft,
    pub(super) priority: PriorityDraft,
}

pub(super) struct Cluster {
    pub(super) line: usize,
    pub(super) name: Option<Found<String>>,
    pub(super) topology: Option<Found<Topology>>,
    pub(super) algorithm: Option<Found<String>>,
    pub(super) safety: Option<Found<Safety>>,
    pub(super) wins: Option<Found<Wins>>,
    pub(super) stand: Option<Found<Stand>>,
    pub(super) preempt: Option<Found<bool>>,
    pub(super) preempt_after: Option<Found<Duration>>,
    pub(super) secret_file: Option<Found<String>>,
    pub(super) secret_permissions: Option<Found<SecretPermissions>>,
    pub(super) insecure: Option<Found<bool>>,
    pub(super) chaos: Option<Found<bool>>,
    pub(super) bind_volume: Option<Found<bool>>,
    pub(super) bootstrap: Option<Found<Bootstrap>>,
    pub(super) join: Option<Found<Vec<Found<String>>>>,
    pub(super) listen: Option<Found<String>>,
    pub(super) http: Option<Found<String>>,
    pub(super) http_token_file: Option<Found<String>>,
    /// Is the key present, readable or not?
    pub(super) says_name: bool,
}

pub(super) struct Times {
    pub(super) heartbeat: Option<Found<Duration>>,
    pub(super) suspect_after: Option<Found<Duration>>,
    pub(super) answer_timeout: Option<Found<Duration>>,
    pub(super) coordinator_timeout: Option<Found<Duration>>,
    pub(super) start_grace: Option<Found<Duration>>,
    pub(super) lease: Option<Found<Duration>>,
    pub(super) max_drift: Option<Found<f64>>,
    pub(super) client_idle: Option<Found<Duration>>,
    pub(super) on_close: Option<Found<OnClose>>,
}

pub(super) struct PeerDraft {
    pub(super) line: usize,
    pub(super) id: Option<Found<u32>>,
    pub(super) address: Option<Found<String>>,
    pub(super) listen: Option<Found<String>>,
    pub(super) http: Option<Found<String>>,
    pub(super) priority: Option<Found<u32>>,
    pub(super) role: Option<Found<PeerRole>>,
    pub(super) stand: Option<Found<Stand>>,
}

pub(super) struct InstanceDraft {
    pub(super) line: usize,
    pub(super) id: Option<Found<u32>>,
    pub(super) algorithm: Option<Found<String>>,
    pub(super) wins: Option<Found<Wins>>,
}

pub(super) struct TlsDraft {
    pub(super) line: usize,
    pub(super) ca: Option<Found<String>>,
    pub(super) certificate: Option<Found<String>>,
    pub(super) key: Option<Found<String>>,
    pub(super) client_certificate: Option<Found<String>>,
    pub(super) client_key: Option<Found<String>>,
}

pub(super) fn config(text: &str, path: &Path) -> Result<Config, Problems> {
    let mut reader = Reader::new(text, path);
    let document = reader.document();
    if !reader.problems.list.is_empty() {
        // The values of a broken document are not worth checking.
        return Err(reader.problems.sorted());
    }
    let draft = draft(&mut reader, document.get_ref());
    let mut problems = reader.problems;
    let row = check::algorithm(&draft.cluster, &mut problems);
    let config = resolve(&draft, row, path);
    check::all(&draft, &config, &mut problems);
    problems.none_or(config)
}

fn draft<'a>(reader: &mut Reader<'a>, document: &'a DeTable<'a>) -> Draft {
    reader.tables(document);
    let graph = reader.section(document, "graph");
    let hooks = reader.section(document, "hooks");
    let log = reader.section(document, "log");
    let locks_section = reader.section(document, "locks");
    let priority_section = reader.section(document, "priority");
    let tls_section = document.contains_key("tls").then(|| reader.section(document, "tls"));
    let cluster_section = reader.section(document, "cluster");
    let timing_section = reader.section(document, "timing");
    let peer_sections = reader.sections(document, "peers");
    let instance_sections = reader.sections(document, "instances");
    Draft {
        cluster: cluster(reader, &cluster_section),
        timing: times(reader, &timing_section),
        peers: peer_sections.iter().map(|section| peer(reader, section)).collect(),
        peers_unreadable: document.get("peers").is_some_and(|peers| peers.get_ref().as_array().is_none()),
        instances: instance_sections.iter().map(|section| instance(reader, section)).collect(),
        tls: tls_section.map(|section| tls(reader, &section)),
        links: reader.pairs(&graph, "links"),
        on_change: reader.string(&hooks, "on_change"),
        log_level: reader.string(&log, "level"),
        locks: locks::draft(reader, &locks_section),
        priority: priority::draft(reader, &priority_section),
    }
}

fn cluster(reader: &mut Reader<'_>, section: &Section<'_>) -> Cluster {
    Cluster {
        line: section.line,
        name: reader.string(section, "name"),
        topology: reader.choice(section, "topology", &TOPOLOGIES),
        algorithm: reader.string(section, "algorithm"),
        safety: reader.choice(section, "safety", &SAFETIES),
        wins: reader.choice(section, "wins", &WINS),
        stand: reader.choice(section, "stand", &STANDS),
        preempt: reader.boolean(section, "preempt"),
        preempt_after: reader.duration(section, "preempt_after"),
        secret_file: reader.string(section, "secret_file"),
        secret_permissions: reader.choice(section, "secret_permissions", &SecretPermissions::NAMES),
        insecure: reader.boolean(section, "insecure"),
        chaos: reader.boolean(section, "chaos"),
        bind_volume: reader.boolean(section, "bind_volume"),
        bootstrap: reader.choice(section, "bootstrap", &BOOTSTRAPS),
        join: reader.strings(section, "join"),
        listen: reader.string(section, "listen"),
        http: reader.string(section, "http"),
        http_token_file: reader.string(section, "http_token_file"),
        says_name: section.has("name"),
    }
}

fn tls(reader: &mut Reader<'_>, section: &Section<'_>) -> TlsDraft {
    for (key, example) in [("ca", "ca.pem"), ("certificate", "n{id}.pem"), ("key", "n{id}.key")] {
        if !section.has(key) {
            let remedy = format!("write {key} = {example:?}; `ctl init --tls` makes such files");
            reader.problems.push(section.line, format!("[tls] has no {key}"), remedy);
        }
    }
    TlsDraft {
        line: section.line,
        ca: reader.string(section, "ca"),
        certificate: reader.string(section, "certificate"),
        key: reader.string(section, "key"),
        client_certificate: reader.string(section, "client_certificate"),
        client_key: reader.string(section, "client_key"),
    }
}

fn times(reader: &mut Reader<'_>, section: &Section<'_>) -> Times {
    Times {
        heartbeat: reader.duration(section, "heartbeat"),
        suspect_after: reader.duration(section, "suspect_after"),
        answer_timeout: reader.duration(section, "answer_timeout"),
        coordinator_timeout: reader.duration(section, "coordinator_timeout"),
        start_grace: reader.duration(section, "start_grace"),
        lease: reader.duration(section, "lease"),
        max_drift: reader.fraction(section, "max_drift", 0.5),
        client_idle: reader.duration(section, "client_idle"),
        on_close: reader.choice(section, "on_close", &ON_CLOSE),
    }
}

fn peer(reader: &mut Reader<'_>, section: &Section<'_>) -> PeerDraft {
    for key in ["id", "address"].into_iter().filter(|key| !section.has(key)) {
        let remedy = if key == "id" { "write id = 1, unique in the list" } else { "write address = \"host:7400\"" };
        reader.problems.push(section.line, format!("a [[peers]] table has no {key}"), remedy);
    }
    PeerDraft {
        line: section.line,
        id: reader.integer(section, "id", 1, ID_MAX),
        address: reader.string(section, "address"),
        listen: reader.string(section, "listen"),
        http: reader.string(section, "http"),
        priority: reader.integer(section, "priority", 0, u32::MAX),
        role: reader.choice(section, "role", &ROLES),
        stand: reader.choice(section, "stand", &STANDS),
    }
}

fn instance(reader: &mut Reader<'_>, section: &Section<'_>) -> InstanceDraft {
    let first = u32::from(InstanceId::FIRST_CONFIGURED.0);
    for key in ["id", "algorithm"].into_iter().filter(|key| !section.has(key)) {
        let remedy = if key == "id" { "write id = 256 or above" } else { "write algorithm = \"bully\"" };
        reader.problems.push(section.line, format!("an [[instances]] table has no {key}"), remedy);
    }
    InstanceDraft {
        line: section.line,
        id: reader.integer(section, "id", first, u32::from(u16::MAX)),
        algorithm: reader.string(section, "algorithm"),
        wins: reader.choice(section, "wins", &WINS),
    }
}

/// `None` if the instance cannot be resolved; the problem is noted already.
fn resolve_instance(draft: &InstanceDraft) -> Option<ConfiguredInstance> {
    let row = catalog::row(&draft.algorithm.as_ref()?.value)?;
    let wins = draft.wins.map_or(row.wins, |found| found.value);
    Some(ConfiguredInstance { id: InstanceId(draft.id?.value as u16), row, wins })
}

/// Fills in the defaults. An unreadable value gets a default too: its problem is noted, so this config is never used.
fn resolve(draft: &Draft, row: &'static Row, path: &Path) -> Config {
    let cluster = &draft.cluster;
    let value = |found: &Option<Found<String>>| found.as_ref().map(|found| found.value.clone());
    let pair = |link: &Found<(u32, u32)>| (NodeId(link.value.0), NodeId(link.value.1));
    let peers: Vec<Peer> = draft.peers.iter().map(resolve_peer).collect();
    let with_role = |role| peers.iter().filter(|peer| peer.role == role).map(|peer| peer.id).collect();
    let timing = timing(&draft.timing);
    // A member that is to be added to a cluster never begins one.
    let joins = cluster.join.is_some();
    let bootstrap =
        if joins { Bootstrap::Manual } else { cluster.bootstrap.map_or(Bootstrap::Auto, |found| found.value) };
    Config {
        path: path.to_path_buf(),
        name: value(&cluster.name).unwrap_or_default(),
        topology: cluster.topology.map_or(row.topology, |found| found.value),
        row,
        safety: cluster.safety.map_or(Safety::Quorum, |found| found.value),
        settings: Settings {
            election: algorithms::Settings { learners: with_role(PeerRole::Learner), ..election(draft, row) },
            preempt: cluster.preempt.is_none_or(|found| found.value),
            stand: cluster.stand.map_or(Stand::default(), |found| found.value),
            preempt_after: or(cluster.preempt_after, Settings::default().preempt_after.max(2 * timing.lease)),
            founding: Founding { bootstrap, ..Founding::default() },
            timing,
            on_close: draft.timing.on_close.map_or(OnClose::default(), |found| found.value),
            witnesses: with_role(PeerRole::Witness),
            ..Settings::default()
        },
        instances: draft.instances.iter().filter_map(resolve_instance).collect(),
        peers,
        bootstrap,
        join: cluster.join.iter().flat_map(|join| join.value.iter().map(|address| address.value.clone())).collect(),
        listen: value(&cluster.listen),
        links: draft.links.iter().flat_map(|links| links.value.iter().map(pair)).collect(),
        secret_file: cluster.secret_file.as_ref().map(|file| beside(path, &file.value)),
        http: value(&cluster.http),
        http_token_file: cluster.http_token_file.as_ref().map(|file| beside(path, &file.value)),
        secret_permissions: cluster.secret_permissions.map(|found| found.value).unwrap_or_default(),
        tls: draft.tls.as_ref().map(|tls| {
            let files = TlsFiles {
                ca: value(&tls.ca).unwrap_or_default(),
                certificate: value(&tls.certificate).unwrap_or_default(),
                key: value(&tls.key).unwrap_or_default(),
                client_certificate: value(&tls.client_certificate),
                client_key: value(&tls.client_key),
            };
            files.beside(path.parent().unwrap_or(Path::new("")))
        }),
        insecure: cluster.insecure.is_some_and(|found| found.value),
        chaos: cluster.chaos.is_some_and(|found| found.value),
        bind_volume: cluster.bind_volume.is_none_or(|found| found.value),
        client_idle: or(draft.timing.client_idle, CLIENT_IDLE),
        on_change: value(&draft.on_change),
        log_level: value(&draft.log_level).unwrap_or_else(|| log::LEVEL.to_owned()),
        locks: locks::resolve(&draft.locks),
        priority_command: priority::resolve(&draft.priority),
        notices: check::notices(draft, row),
    }
}

/// Settings that the textbook machine may know.
fn election(draft: &Draft, row: &Row) -> algorithms::Settings {
    let default = algorithms::Settings::default();
    let answer_timeout = or(draft.timing.answer_timeout, default.answer_timeout);
    let coordinator_timeout = answer_timeout.saturating_mul(row.coordinator_factor);
    algorithms::Settings {
        wins: draft.cluster.wins.map_or(row.wins, |found| found.value),
        answer_timeout,
        coordinator_timeout: or(draft.timing.coordinator_timeout, coordinator_timeout),
        ..default
    }
}

fn timing(times: &Times) -> Timing {
    let default = Timing::default();
    Timing {
        heartbeat: or(times.heartbeat, default.heartbeat),
        suspect_after: or(times.suspect_after, default.suspect_after),
        start_grace: or(times.start_grace, default.start_grace),
        lease: or(times.lease, default.lease),
        max_drift: times.max_drift.map_or(default.max_drift, |found| found.value),
        ..default
    }
}

pub(super) fn or(found: Option<Found<Duration>>, default: Duration) -> Duration {
    found.map_or(default, |found| found.value)
}

fn resolve_peer(peer: &PeerDraft) -> Peer {
    let value = |found: &Option<Found<String>>| found.as_ref().map(|found| found.value.clone());
    Peer {
        id: NodeId(peer.id.map_or(0, |found| found.value)),
        address: value(&peer.address).unwrap_or_default(),
        listen: value(&peer.listen),
        http: value(&peer.http),
        priority: peer.priority.map_or(0, |found| found.value),
        role: peer.role.map_or(PeerRole::default(), |found| found.value),
        stand: peer.stand.map(|found| found.value),
        line: peer.line,
    }
}

/// A path that the file names, relative to the file's own directory.
fn beside(config: &Path, named: &str) -> PathBuf {
    config.parent().unwrap_or(Path::new("")).join(named)
}

/// The rows that fit a topology, as a config writes them.
pub(super) fn fitting(topology: Topology, keep: impl Fn(&Row) -> bool) -> String {
    let fit = catalog::ROWS.iter().filter(|row| row.topology == topology && keep(row));
    fit.map(|row| format!("{:?}", row.name)).collect::<Vec<_>>().join(", ")
}
