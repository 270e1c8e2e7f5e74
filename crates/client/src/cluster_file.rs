//! The part of a cluster's config that a client needs. Tolerant on purpose: the daemon checks the other keys, and an
//! older `ctl` must work with a newer file.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;
use types::{Safety, Topology};

use crate::endpoint::Endpoint;
use crate::secret_file::{CertificateFiles, SecretPermissions};

/// Where `ctl up` writes the file. Every command searches for it from the current directory upward.
pub const DEFAULT_CONFIG: &str = ".conclave/cluster.toml";

/// The safety of a config without a `safety` key.
const DEFAULT_SAFETY: Safety = Safety::Quorum;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterFile {
    pub name: String,
    pub topology: Option<Topology>,
    pub algorithm: Option<String>,
    /// The `safety` of the file, or the default.
    pub safety: Safety,
    /// Resolved against the file's own directory.
    pub secret_file: Option<PathBuf>,
    pub secret_permissions: SecretPermissions,
    /// The files of certificates, resolved like the secret.
    pub tls: Option<TlsFiles>,
    pub peers: Vec<Endpoint>,
    /// The ids of the voters: a quorum reign needs a majority of them.
    pub voters: Vec<u32>,
}

/// The `[tls]` table: the files of all members and of clients. `{id}` in a name stands for the member's id.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct TlsFiles {
    pub ca: String,
    pub certificate: String,
    pub key: String,
    /// What `ctl` shows; a name beside the authorities by default.
    pub client_certificate: Option<String>,
    pub client_key: Option<String>,
}

impl TlsFiles {
    /// What stands for the member's id in the name of a file.
    pub const ID: &'static str = "{id}";
    /// The certificate of clients where the table names none, and its key.
    pub const CLIENT: [&'static str; 2] = ["operator.pem", "operator.key"];

    /// All names relative to this directory.
    #[must_use]
    pub fn beside(self, directory: &Path) -> Self {
        let beside = |name: String| directory.join(name).to_string_lossy().into_owned();
        let [client_certificate, client_key] = Self::CLIENT;
        TlsFiles {
            ca: beside(self.ca),
            certificate: beside(self.certificate),
            key: beside(self.key),
            client_certificate: Some(beside(self.client_certificate.unwrap_or_else(|| client_certificate.to_owned()))),
            client_key: Some(beside(self.client_key.unwrap_or_else(|| client_key.to_owned()))),
        }
    }

    /// The files of a member.
    pub fn of_member(&self, id: u32) -> CertificateFiles {
        let named = |name: &str| PathBuf::from(name.replace(Self::ID, &id.to_string()));
        CertificateFiles { ca: named(&self.ca), certificate: named(&self.certificate), key: named(&self.key) }
    }

    /// The files of a client.
    pub fn of_client(&self) -> CertificateFiles {
        let named = |name: &Option<String>| PathBuf::from(name.clone().unwrap_or_default());
        CertificateFiles {
            ca: PathBuf::from(&self.ca),
            certificate: named(&self.client_certificate),
            key: named(&self.client_key),
        }
    }
}

#[derive(Debug, Error)]
pub enum ClusterFileError {
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} is no cluster config: {reason}", path.display())]
    Invalid { path: PathBuf, reason: String },
}

impl ClusterFile {
    pub fn read(path: &Path) -> Result<Self, ClusterFileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ClusterFileError::Unreadable { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// The file at `.conclave/cluster.toml` in `start` or the nearest directory above it.
    pub fn find_upward(start: &Path) -> Option<PathBuf> {
        start.ancestors().map(|directory| directory.join(DEFAULT_CONFIG)).find(|path| path.is_file())
    }

    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self, ClusterFileError> {
        let invalid = |reason: String| ClusterFileError::Invalid { path: path.to_owned(), reason };
        let document: Document = toml::from_str(text).map_err(|error| invalid(error.to_string()))?;
        let mut ids: Vec<u32> = document.peers.iter().map(|peer| peer.id).collect();
        ids.sort_unstable();
        if let Some([twice, ..]) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(invalid(format!("two [[peers]] have the id {twice}")));
        }
        let cluster = document.cluster;
        let directory = path.parent().unwrap_or(Path::new(""));
        let voters = document.peers.iter().filter(|peer| peer.role.as_deref() != Some("learner")).map(|peer| peer.id);
        Ok(ClusterFile {
            voters: voters.collect(),
            name: cluster.name,
            topology: cluster.topology.and_then(|name| name.parse().ok()),
            algorithm: cluster.algorithm,
            safety: cluster.safety.and_then(|name| name.parse().ok()).unwrap_or(DEFAULT_SAFETY),
            secret_file: cluster.secret_file.map(|file| directory.join(file)),
            secret_permissions: permissions(cluster.secret_permissions.as_deref()),
            tls: document.tls.map(|table| table.beside(directory)),
            peers: document.peers.into_iter().map(|peer| Endpoint::member(peer.id, peer.address)).collect(),
        })
    }
}

/// A word that is not known means the careful choice.
fn permissions(word: Option<&str>) -> SecretPermissions {
    let known = SecretPermissions::NAMES.into_iter().find(|(name, _)| Some(*name) == word);
    known.map(|(_, permissions)| permissions).unwrap_or_default()
}

#[derive(Deserialize)]
struct Document {
    cluster: Cluster,
    #[serde(default)]
    peers: Vec<Peer>,
    tls: Option<TlsFiles>,
}

#[derive(Deserialize)]
struct Cluster {
    name: String,
    topology: Option<String>,
    algorithm: Option<String>,
    safety: Option<String>,
    secret_file: Option<PathBuf>,
    secret_permissions: Option<String>,
}

#[derive(Deserialize)]
struct Peer {
    id: u32,
    address: String,
    role: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        [cluster]
        name = "demo"
        topology = "mesh"
        secret_file = "secret"
        not_yet_invented = [1, 2]
        [timing]
        heartbeat = "50ms"
        [[peers]]
        id = 1
        address = "n1:7400"
        listen = "0.0.0.0:7400"
        [[peers]]
        id = 2
        address = "n2:7400"
        role = "learner"
    "#;

    #[test]
    fn known_keys_are_read_and_others_ignored() {
        let file = ClusterFile::parse(FILE, Path::new("some/where/cluster.toml")).unwrap();
        assert_eq!(file.name, "demo");
        assert_eq!(file.topology, Some(Topology::Mesh));
        assert_eq!(file.algorithm, None);
        assert_eq!(file.safety, Safety::Quorum, "as members read a file without it");
        assert_eq!(file.secret_file, Some(PathBuf::from("some/where/secret")));
        assert_eq!(file.secret_permissions, SecretPermissions::Owner);
        let any = FILE.replace("secret_file", "secret_permissions = 'any'\nsecret_file");
        let any = ClusterFile::parse(&any, Path::new("c.toml")).unwrap();
        assert_eq!(any.secret_permissions, SecretPermissions::Any);
        assert_eq!(file.voters, [1], "a learner does not vote");
        assert_eq!(file.peers, [Endpoint::member(1, "n1:7400"), Endpoint::member(2, "n2:7400")]);
    }

    #[test]
    fn the_files_of_certificates_are_beside_the_config_and_each_member_has_its_own() {
        let tls = "[tls]\nca = 'ca.pem'\ncertificate = 'n{id}.pem'\nkey = '/keys/n{id}.key'\n";
        let file = ClusterFile::parse(&format!("{FILE}\n{tls}"), Path::new("some/where/c.toml")).unwrap();
        let files = file.tls.unwrap();
        let member = files.of_member(3);
        let paths = [&member.ca, &member.certificate, &member.key].map(|path| path.to_str().unwrap());
        assert_eq!(paths, ["some/where/ca.pem", "some/where/n3.pem", "/keys/n3.key"]);
        let client = files.of_client();
        let paths = [&client.ca, &client.certificate, &client.key].map(|path| path.to_str().unwrap());
        assert_eq!(paths, ["some/where/ca.pem", "some/where/operator.pem", "some/where/operator.key"]);
    }

    #[test]
    fn what_is_wrong_is_said_with_the_file() {
        let cases = [
            ("[cluster]\nname = 5", "line 2"),
            ("peers = []", "cluster"),
            ("[cluster]\nname='x'\n[[peers]]\nid=1\naddress='a:1'\n[[peers]]\nid=1\naddress='b:1'", "the id 1"),
        ];
        for (text, expected) in cases {
            let error = ClusterFile::parse(text, Path::new("c.toml")).unwrap_err().to_string();
            assert!(error.contains("c.toml") && error.contains(expected), "{error}");
        }
    }
}
