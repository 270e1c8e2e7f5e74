//! The one TOML file that all members share, read and checked as a whole: every problem in it is reported at once, with
//! its line and a remedy. `config/example.toml` explains every key.

mod check;
mod problems;
mod read;
mod section;

use std::fmt;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use algorithms::catalog::Row;
use algorithms::{NodeId, Topology, Uid, View, Wins};
use client::{Access, Secret, SecretFileError, SecretPermissions, read_secret};
use member::{Safety, Settings};
use sha2::{Digest, Sha256};
use types::{InstanceId, format_duration};

pub use problems::{Problem, Problems};

/// An annotated config that names every key; `ctl config --example` prints it.
pub const EXAMPLE: &str = include_str!("../../../config/example.toml");

/// The most members a cluster may have.
pub const PEERS_MAX: usize = 256;

/// A config that was read whole and found free of contradictions.
#[derive(Clone, Debug)]
pub struct Config {
    /// The path of the file, as it was given.
    pub path: PathBuf,
    /// The cluster's name: processes of other names are refused.
    pub name: String,
    pub topology: Topology,
    /// The election algorithm.
    pub row: &'static Row,
    /// Which kind of authority decides who may claim to lead.
    pub safety: Safety,
    pub settings: Settings,
    /// Elections of their own beside the cluster's, over the same connections and disk.
    pub instances: Vec<ConfiguredInstance>,
    /// In the order of the file, which is the order of a ring.
    pub peers: Vec<Peer>,
    /// The edges of a graph; empty for other topologies.
    pub links: Vec<(NodeId, NodeId)>,
    /// Resolved against the directory of the config file.
    pub secret_file: Option<PathBuf>,
    pub secret_permissions: SecretPermissions,
    /// Listens off loopback without a secret, because the operator asked for it.
    pub insecure: bool,
    /// May `ctl chaos` inject faults?
    pub chaos: bool,
    /// Is a volume bound to its machine and directory?
    pub bind_volume: bool,
    /// A client without a stream that sends nothing for this long is closed.
    pub client_idle: Duration,
    /// The command to run when this member's role or leader changes.
    pub on_change: Option<String>,
    /// The mutual exclusion algorithm of locks.
    pub lock_algorithm: Option<String>,
    /// The command that prints this member's priority.
    pub priority_command: Option<String>,
    /// Keys that this version does not support; each gets a warning at the start.
    pub notices: Vec<Problem>,
}

/// One `[[instances]]` table.
#[derive(Clone, Debug)]
pub struct ConfiguredInstance {
    pub id: InstanceId,
    pub row: &'static Row,
    pub wins: Wins,
}

/// One election that this cluster runs.
#[derive(Clone, Debug)]
pub struct ElectionConfig {
    pub instance: InstanceId,
    pub row: &'static Row,
    pub topology: Topology,
    pub settings: Settings,
}

/// One `[[peers]]` table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    pub id: NodeId,
    /// `host:port` that other members dial.
    pub address: String,
    /// `host:port`; [`Config::listen_address`] has the default.
    pub listen: Option<String>,
    pub http: Option<String>,
    pub priority: u32,
    pub role: PeerRole,
    /// Where in the file the table begins.
    pub line: usize,
}

impl Peer {
    pub fn uid(&self) -> Uid {
        Uid { priority: self.priority, id: self.id }
    }
}

/// What a member may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PeerRole {
    /// Stands and votes.
    #[default]
    Member,
    /// Votes, never leads.
    Witness,
    /// Neither votes nor leads.
    Learner,
}

impl PeerRole {
    pub fn name(self) -> &'static str {
        match self {
            PeerRole::Member => "member",
            PeerRole::Witness => "witness",
            PeerRole::Learner => "learner",
        }
    }
}

impl Config {
    /// Reads a file. A file that cannot be read is reported as a problem too.
    pub fn load(path: impl AsRef<Path>) -> Result<Config, Problems> {
        let path = path.as_ref();
        match fs::read_to_string(path) {
            Ok(text) => Config::parse(&text, path),
            Err(error) => {
                let remedy = "name a readable file with --config or CONCLAVE_CONFIG; `ctl config --example` prints one";
                Err(Problems::one(path, 0, format!("cannot read the config: {error}"), remedy))
            }
        }
    }

    /// Reads the text of a file; `path` names it in problems and anchors its relative paths.
    pub fn parse(text: &str, path: &Path) -> Result<Config, Problems> {
        read::config(text, path)
    }

    /// The cluster's secret; `None` for a cluster without one.
    pub fn secret(&self) -> Result<Option<Secret>, Problems> {
        let Some(path) = &self.secret_file else { return Ok(None) };
        let secret = read_secret(path, self.secret_permissions)
            .map_err(|error| Problems::one(&self.path, 0, error.to_string(), error.remedy()))?;
        if secret.access() == Access::Member {
            return Ok(Some(secret));
        }
        let message = format!("{} has the secret of {}s, not of members", path.display(), secret.access());
        let remedy = "name the cluster's own secret with secret_file: `ctl init` calls it `secret`";
        Err(Problems::one(&self.path, 0, message, remedy))
    }

    /// As [`Config::secret`], where the secret may be missing: a config is also checked on machines that run no member.
    pub fn check_secret(&self) -> Result<(), Problems> {
        let present = |path: &PathBuf| {
            !matches!(read_secret(path, self.secret_permissions), Err(SecretFileError::Unreadable { .. }))
        };
        if self.secret_file.as_ref().is_some_and(present) { self.secret().map(drop) } else { Ok(()) }
    }

    /// The cluster's own election first, then those of `[[instances]]`. Safety, timing and members are the same for all
    /// elections.
    pub fn elections(&self) -> Vec<ElectionConfig> {
        let (row, topology) = (self.row, self.topology);
        let own = ElectionConfig { instance: InstanceId::ELECTION, row, topology, settings: self.settings.clone() };
        let another = |configured: &ConfiguredInstance| {
            let (instance, row) = (configured.id, configured.row);
            let mut settings = self.settings.clone();
            settings.election.wins = configured.wins;
            settings.election.coordinator_timeout =
                settings.election.answer_timeout.saturating_mul(row.coordinator_factor);
            ElectionConfig { instance, row, topology: row.topology, settings }
        };
        std::iter::once(own).chain(self.instances.iter().map(another)).collect()
    }

    /// All configured members, in the order of the file, with the links of the cluster's election.
    pub fn view(&self) -> View {
        self.view_as(self.topology)
    }

    /// All configured members, in the order of the file.
    pub fn view_as(&self, topology: Topology) -> View {
        let members: Vec<Uid> = self.peers.iter().map(Peer::uid).collect();
        match topology {
            Topology::Ring => View::ring(members),
            Topology::Mesh => View::mesh(members),
            Topology::Graph => {
                let at = |id: NodeId| self.peers.iter().position(|peer| peer.id == id);
                let links: Vec<_> = self.links.iter().filter_map(|&(a, b)| Some((at(a)?, at(b)?))).collect();
                View::graph(members, &links)
            }
        }
    }

    pub fn peer(&self, id: NodeId) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.id == id)
    }

    /// The peer that this process runs as. Checks what matters only at a start: the id is in the list, and other
    /// members can dial every port.
    pub fn start_as(&self, id: NodeId) -> Result<&Peer, Problems> {
        let Some(me) = self.peer(id) else {
            let ids: Vec<String> = self.peers.iter().map(|peer| peer.id.to_string()).collect();
            let remedy = format!("start it with one of the ids {}, or add a [[peers]] table", ids.join(", "));
            return Err(Problems::one(&self.path, 0, format!("no peer has the id {id}"), remedy));
        };
        let mut problems = Problems::new(&self.path);
        for peer in self.peers.iter().filter(|peer| split_address(&peer.address).is_none_or(|(_, port)| port == 0)) {
            let message = format!("peer {} has port 0 in its address {:?}", peer.id, peer.address);
            problems.push(peer.line, message, "write the port that other members dial");
        }
        problems.none_or(me)
    }

    /// Where this peer accepts connections: `listen` if it is set; the address itself if it is an IP literal or
    /// `localhost`; else the port of the address on all interfaces.
    pub fn listen_address(&self, id: NodeId) -> Option<String> {
        let peer = self.peer(id)?;
        if let Some(listen) = &peer.listen {
            return Some(listen.clone());
        }
        let (host, port) = split_address(&peer.address)?;
        Some(match host {
            Host::Name("localhost") => format!("127.0.0.1:{port}"),
            Host::Name(_) => format!("0.0.0.0:{port}"),
            Host::Ip(_) => peer.address.clone(),
        })
    }

    /// Values that must be equal between peers; the handshake compares and names them.
    pub fn facts(&self) -> Vec<(String, String)> {
        let timing = &self.settings.timing;
        let fact = |name: &str, value: String| (name.to_owned(), value);
        vec![
            fact("algorithm", self.row.name.to_owned()),
            fact("topology", self.topology.name().to_owned()),
            fact("members", format!("{:016x}", self.members_digest())),
            fact("safety", self.safety.name().to_owned()),
            fact("wins", format!("{:?}", self.settings.election.wins).to_lowercase()),
            fact("lease", format_duration(timing.lease)),
            fact("max_drift", timing.max_drift.to_string()),
            fact("on_close", self.settings.on_close.name().to_owned()),
            fact("instances", self.instances_fact()),
        ]
    }

    /// Every instance that the config adds, with all values that must be equal between members.
    fn instances_fact(&self) -> String {
        let wins = |wins: Wins| format!("{wins:?}").to_lowercase();
        let one =
            |instance: &ConfiguredInstance| format!("{} {} {}", instance.id, instance.row.name, wins(instance.wins));
        self.instances.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Digest of the conditions of the votes on disk: the voters and the lease. A process with another digest must not
    /// use these votes unless the operator asks for it: two halves of a cluster could each have a majority of their
    /// own.
    pub fn votes_digest(&self) -> u64 {
        let mut hash = Sha256::new();
        let timing = &self.settings.timing;
        hash.update(format!("{} {}\n", format_duration(timing.lease), timing.max_drift));
        let mut peers: Vec<&Peer> = self.peers.iter().collect();
        peers.sort_by_key(|peer| peer.id);
        for peer in peers {
            hash.update(format!("{} {}\n", peer.id, peer.role));
        }
        first_word(&hash.finalize())
    }

    /// Digest of the member list, its order and its links: equal lists have equal digests.
    pub fn members_digest(&self) -> u64 {
        let mut hash = Sha256::new();
        for peer in &self.peers {
            hash.update(format!("{} {} {} {}\n", peer.id, peer.address, peer.priority, peer.role));
        }
        for (a, b) in &self.links {
            hash.update(format!("{a}-{b}\n"));
        }
        first_word(&hash.finalize())
    }
}

pub(crate) fn first_word(hash: &[u8]) -> u64 {
    hash.iter().take(8).fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// The host of a `host:port`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Host<'a> {
    Ip(IpAddr),
    Name(&'a str),
}

impl Host<'_> {
    fn is_loopback(self) -> bool {
        match self {
            Host::Ip(ip) => ip.is_loopback(),
            Host::Name(name) => name == "localhost",
        }
    }
}

/// Splits `host:port`; an IPv6 literal is in brackets.
pub(crate) fn split_address(address: &str) -> Option<(Host<'_>, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let port = port.parse().ok()?;
    if let Some(inside) = host.strip_prefix('[') {
        let ip: IpAddr = inside.strip_suffix(']')?.parse().ok()?;
        return ip.is_ipv6().then_some((Host::Ip(ip), port));
    }
    if let Ok(ip) = host.parse::<IpAddr>() {
        return ip.is_ipv4().then_some((Host::Ip(ip), port));
    }
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (!host.is_empty() && host.chars().all(letter)).then_some((Host::Name(host), port))
}

impl fmt::Display for PeerRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
