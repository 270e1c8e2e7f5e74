//! The one TOML file that all members share, read and checked as a whole: every problem in it is reported at once, with
//! its line and a remedy. `config/example.toml` explains every key.

mod check;
mod locks;
pub(crate) mod priority;
mod problems;
mod read;
pub(crate) mod reload;
mod section;

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use algorithms::catalog::Row;
use algorithms::{NodeId, Topology, Uid, View, Wins};
use client::{
    Access, Holder, Keyring, Secret, SecretFileError, SecretPermissions, TlsFiles, read_certificate, read_secrets,
    read_tokens,
};
use member::{Bootstrap, Safety, Settings, Stand};
use sha2::{Digest, Sha256};
use types::{InstanceId, Listed, MemberList, Stamp, format_duration};

pub use locks::Locks;
pub use priority::PriorityCommand;
pub use problems::{Problem, Problems};
pub use types::PeerRole;

/// An annotated config that names every key; `ctl config --example` prints it.
pub const EXAMPLE: &str = include_str!("../../../config/example.toml");

/// The most members a cluster may have.
pub const PEERS_MAX: usize = 256;
/// The largest id; `config/example.toml` documents it.
pub const ID_MAX: u32 = 0xffff;

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
    /// In the order of the file, which is the order of a ring. Empty for a member that is to be added to a cluster.
    pub peers: Vec<Peer>,
    /// May a new cluster begin without an operator's word?
    pub bootstrap: Bootstrap,
    /// Instead of the peers: addresses of members of the cluster to which this member is to be added.
    pub join: Vec<String>,
    /// Where a member that is to be added accepts connections.
    pub listen: Option<String>,
    /// Where its HTTP face is.
    pub http: Option<String>,
    /// The edges of a graph; empty for other topologies.
    pub links: Vec<(NodeId, NodeId)>,
    /// Resolved against the directory of the config file.
    pub secret_file: Option<PathBuf>,
    pub secret_permissions: SecretPermissions,
    /// The tokens that HTTP clients show; resolved like the secret.
    pub http_token_file: Option<PathBuf>,
    /// The files of certificates, resolved like the secret; instead of a secret.
    pub tls: Option<TlsFiles>,
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
    /// Which log lines are written, unless CONCLAVE_LOG says so.
    pub log_level: String,
    /// The lock service.
    pub locks: Locks,
    /// The command that prints this member's priority.
    pub priority_command: Option<PriorityCommand>,
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
    /// When it stands for election; `None`: as `[cluster]` says.
    pub stand: Option<Stand>,
    /// Where in the file the table begins.
    pub line: usize,
}

impl Peer {
    pub fn uid(&self) -> Uid {
        Uid { priority: self.priority, id: self.id }
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

    /// What this member proves itself by, read from its files: secrets, a certificate, or nothing.
    pub fn keyring(&self, id: NodeId) -> Result<Keyring, Problems> {
        let wrong = |error: SecretFileError| Problems::one(&self.path, 0, error.to_string(), error.remedy());
        if let Some(tls) = &self.tls {
            let files = tls.of_member(id.0);
            let own = read_certificate(&files, self.secret_permissions).map_err(wrong)?;
            if own.holder() == Holder::Member(id.0) {
                return Ok(own.into());
            }
            let message =
                format!("{} is the certificate of {}, not of n{id}", files.certificate.display(), own.holder());
            let remedy = "name the member's own files in [tls]: certificate = \"n{id}.pem\", key = \"n{id}.key\"";
            return Err(Problems::one(&self.path, 0, message, remedy));
        }
        let Some(path) = &self.secret_file else { return Ok(Keyring::default()) };
        let secrets = read_secrets(path, self.secret_permissions).map_err(wrong)?;
        match secrets.first().map(Secret::access).filter(|access| *access != Access::Member) {
            None => Ok(secrets.into()),
            Some(access) => {
                let message = format!("{} has the secret of {access}s, not of members", path.display());
                let remedy = "name the cluster's own secret with secret_file: `ctl init` calls it `secret`";
                Err(Problems::one(&self.path, 0, message, remedy))
            }
        }
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
        view(self.peers.iter().map(Peer::uid).collect(), topology, &self.links)
    }

    /// The list of this file: the first one of its cluster. Empty for a member that is to be added to a cluster.
    pub fn first_list(&self) -> MemberList {
        let listed = |peer: &Peer| Listed { uid: peer.uid(), role: peer.role, address: peer.address.clone() };
        MemberList { stamp: Stamp::FIRST, members: self.peers.iter().map(listed).collect() }
    }

    /// When this member stands for election.
    pub fn stand(&self, id: NodeId) -> Stand {
        self.peer(id).and_then(|peer| peer.stand).unwrap_or(self.settings.stand)
    }

    pub fn peer(&self, id: NodeId) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.id == id)
    }

    /// Checks what matters only at a start: the id is in the list or is to be added to it, and other members can dial every
    /// port.
    pub fn start_as(&self, id: NodeId) -> Result<(), Problems> {
        if !self.join.is_empty() {
            let remedy = format!("give it an id from 1 to {ID_MAX} that no member of the cluster ever had");
            let valid = (1..=ID_MAX).contains(&id.0);
            return if valid { Ok(()) } else { Err(Problems::one(&self.path, 0, format!("no id {id}"), remedy)) };
        }
        if self.peer(id).is_none() {
            let ids: Vec<String> = self.peers.iter().map(|peer| peer.id.to_string()).collect();
            let remedy = format!(
                "start it with one of the ids {}; a member that is to be added to a running cluster needs join instead of \
                 [[peers]]",
                ids.join(", ")
            );
            return Err(Problems::one(&self.path, 0, format!("no peer has the id {id}"), remedy));
        }
        let mut problems = Problems::new(&self.path);
        for peer in self.peers.iter().filter(|peer| split_address(&peer.address).is_none_or(|(_, port)| port == 0)) {
            let message = format!("peer {} has port 0 in its address {:?}", peer.id, peer.address);
            problems.push(peer.line, message, "write the port that other members dial");
        }
        problems.none_or(())
    }

    /// Where this peer accepts connections: `listen` if it is set; the address itself if it is an IP literal or
    /// `localhost`; else the port of the address on all interfaces.
    pub fn listen_address(&self, id: NodeId) -> Option<String> {
        if !self.join.is_empty() {
            return self.listen.clone();
        }
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

    /// `http` of this member and where its HTTP face listens; `None` if it has no face. A name means all interfaces, as for
    /// [`Config::listen_address`].
    pub fn http_addresses(&self, id: NodeId) -> Option<(String, String)> {
        let http = if self.join.is_empty() { self.peer(id)?.http.clone() } else { self.http.clone() }?;
        let listen = match split_address(&http)? {
            (Host::Name("localhost"), port) => format!("127.0.0.1:{port}"),
            (Host::Name(_), port) => format!("0.0.0.0:{port}"),
            (Host::Ip(_), _) => http.clone(),
        };
        Some((http, listen))
    }

    /// The tokens that HTTP clients show, read from their file; none without a file.
    pub fn http_tokens(&self) -> Result<Vec<String>, Problems> {
        let Some(path) = &self.http_token_file else { return Ok(Vec::new()) };
        read_tokens(path, self.secret_permissions)
            .map_err(|error| Problems::one(&self.path, 0, error.to_string(), error.remedy()))
    }

    /// Values that must be equal between peers; the handshake compares and names them. The member list is no part of it:
    /// it changes.
    pub fn facts(&self) -> Vec<(String, String)> {
        let timing = &self.settings.timing;
        let fact = |name: &str, value: String| (name.to_owned(), value);
        vec![
            fact("algorithm", self.row.name.to_owned()),
            fact("topology", self.topology.name().to_owned()),
            fact("safety", self.safety.name().to_owned()),
            fact("wins", format!("{:?}", self.settings.election.wins).to_lowercase()),
            fact("lease", format_duration(timing.lease)),
            fact("max_drift", timing.max_drift.to_string()),
            fact("on_close", self.settings.on_close.name().to_owned()),
            fact("instances", self.instances_fact()),
            fact("locks", self.locks.row.name.to_owned()),
            fact("max_ttl", format_duration(self.locks.max_ttl)),
        ]
    }

    /// Every instance that the config adds, with all values that must be equal between members.
    fn instances_fact(&self) -> String {
        let wins = |wins: Wins| format!("{wins:?}").to_lowercase();
        let one =
            |instance: &ConfiguredInstance| format!("{} {} {}", instance.id, instance.row.name, wins(instance.wins));
        self.instances.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Digest of the conditions of the votes on disk: the lease and the drift. A process with another digest must not use
    /// these votes unless the operator asks for it.
    pub fn votes_digest(&self) -> u64 {
        first_word(&self.hash_of_timing().finalize())
    }

    /// The same in a state file whose record has no member list: with the ids and roles of the config.
    pub fn votes_digest_with_list(&self) -> u64 {
        let mut hash = self.hash_of_timing();
        let mut peers: Vec<&Peer> = self.peers.iter().collect();
        peers.sort_by_key(|peer| peer.id);
        for peer in peers {
            hash.update(format!("{} {}\n", peer.id, peer.role));
        }
        first_word(&hash.finalize())
    }

    fn hash_of_timing(&self) -> Sha256 {
        let timing = &self.settings.timing;
        let mut hash = Sha256::new();
        hash.update(format!("{} {}\n", format_duration(timing.lease), timing.max_drift));
        hash
    }

    /// What members with one list must have in common, an entry for each member and each link of the file. Under quorum the
    /// list is the cluster's own, with addresses and priorities. Under classic safety these concern each file alone: members
    /// tell their priorities, and an address is what the others dial.
    pub fn list_entries(&self, list: &MemberList) -> Vec<String> {
        let entry = |Listed { uid, role, address }: &Listed| match self.safety {
            Safety::Quorum => format!("{}={address},{},{role}", uid.id, uid.priority),
            Safety::Classic => format!("{}={role}", uid.id),
        };
        let links = self.links.iter().map(|(a, b)| format!("{a}-{b}"));
        list.members.iter().map(entry).chain(links).collect()
    }

    /// Equal lists in one order have equal digests.
    pub fn list_digest(entries: &[String]) -> u64 {
        first_word(&Sha256::digest(entries.join("\n")))
    }
}

/// These members, in this order. `links`: of a graph.
pub(crate) fn view(members: Vec<Uid>, topology: Topology, links: &[(NodeId, NodeId)]) -> View {
    let at = |id: NodeId| members.iter().position(|member| member.id == id);
    let links: Vec<_> = links.iter().filter_map(|&(a, b)| Some((at(a)?, at(b)?))).collect();
    View::of(topology, members, &links)
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
