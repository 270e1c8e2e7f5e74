//! The members to ask and the credentials of this client: from the options, the environment, or the nearest
//! `.conclave`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use client::{
    Answer, ClaimedName, Client, ClientError, ClientSettings, ClusterFile, ConnectError, Electorate, Endpoint,
    InstanceId, Observer, Safety, Secret, SecretFileError, read_secret,
};

use crate::args::Globals;
use crate::failure::{Exit, Failure};

#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) settings: ClientSettings,
    pub(crate) timeout: Duration,
    pub(crate) member_timeout: Duration,
    pub(crate) file: Option<ClusterFile>,
    /// The election of the cluster.
    pub(crate) instance: InstanceId,
    /// What members record beside the orders of this client.
    name: ClaimedName,
}

impl Target {
    pub(crate) fn resolve(globals: &Globals) -> Result<Self, Failure> {
        let file = find_file(globals)?;
        let mut endpoints = endpoints(globals, file.as_ref())?;
        let secret = secret(globals, file.as_ref())?;
        let named = globals.cluster.clone().or_else(|| file.as_ref().map(|file| file.name.clone()));
        let settings = ClientSettings { cluster: named.unwrap_or_default(), secret, deadline: globals.member_timeout };
        let Globals { timeout, member_timeout, .. } = *globals;
        let instance = InstanceId(globals.instance);
        for endpoint in &mut endpoints {
            endpoint.instance = instance;
        }
        let name = globals.name.clone().unwrap_or_else(user_at_host).into();
        Ok(Target { endpoints, settings, timeout, member_timeout, file, instance, name })
    }

    /// For commands that work with the cluster's own election only.
    pub(crate) fn election_only(globals: &Globals) -> Result<Self, Failure> {
        if globals.instance != InstanceId::ELECTION.0 {
            return Err(Failure::usage("this command is for the cluster's own election")
                .because("ledgers and attached commands belong to instance 0 only")
                .hint("leave --instance out"));
        }
        Target::resolve(globals)
    }

    pub(crate) async fn ask_all(&self) -> Vec<Answer> {
        client::ask_all(&self.endpoints, &self.settings, self.member_timeout.min(self.timeout)).await
    }

    /// A connection for orders, which the member records under this client's name.
    pub(crate) async fn connect(&self, endpoint: &Endpoint) -> Result<Client, ClientError> {
        let client = Client::connect_to(endpoint, &self.settings).await?;
        client.introduce(self.name.clone()).await?;
        Ok(client)
    }

    pub(crate) fn observer(&self) -> Observer {
        Observer::new(self.endpoints.clone(), &self.settings)
    }

    /// Follows all announcements of the members, not only changes of standing.
    pub(crate) fn observer_of_everything(&self) -> Observer {
        Observer::of_everything(self.endpoints.clone(), &self.settings)
    }

    /// The members whose answers a leader needs. The safety that a member reports takes precedence over the config.
    pub(crate) fn electorate(&self, safety: Option<Safety>) -> Electorate {
        electorate(self.file.as_ref(), safety, self.endpoints.len())
    }
}

fn electorate(file: Option<&ClusterFile>, said: Option<Safety>, asked: usize) -> Electorate {
    match (said.or(file.map(|file| file.safety)), file) {
        (Some(Safety::Quorum), Some(file)) => Electorate::Voters(file.voters.clone()),
        (Some(Safety::Quorum), None) => Electorate::Members(asked),
        _ => Electorate::Anybody,
    }
}

/// Could this member be at an endpoint that did not answer?
pub(crate) fn may_be(endpoint: &Endpoint, id: u32) -> bool {
    endpoint.id.is_none_or(|known| known == id)
}

/// No member answered: reports whether all members are unreachable, or refuse this client.
pub(crate) fn no_member_answered(failures: &[(&Endpoint, &ClientError)]) -> Failure {
    if let Some((endpoint, refusal)) = failures.iter().find(|(_, error)| error.is_refusal()) {
        if let ClientError::Connect(error) = refusal
            && let ConnectError::Version { theirs, ours } = error.as_ref()
        {
            let what = format!("the member at {} speaks {theirs}, this ctl speaks {ours}", endpoint.address);
            return Failure::new(Exit::Refused, what).hint("use the ctl of the same release");
        }
        return Failure::new(Exit::Refused, format!("member {endpoint} refused this client"))
            .because(refusal.to_string())
            .hint("name the cluster's config with --config, or its secret with --secret-file");
    }
    let reasons: Vec<String> = failures.iter().map(|(endpoint, error)| format!("{endpoint}: {error}")).collect();
    Failure::new(Exit::Unreachable, "no member is reachable")
        .because(reasons.join("\n"))
        .hint("start the cluster (`ctl up`), or name where it runs with --config or --endpoints")
}

/// A request to one member failed.
pub(crate) fn request_failed(what: &str, error: &ClientError) -> Failure {
    let exit = match error {
        error if error.is_refusal() => Exit::Refused,
        ClientError::Failed { code: client::FailCode::NoLeader, .. } => Exit::NoLeader,
        ClientError::Failed { .. } | ClientError::Unexpected | ClientError::Codec(_) => Exit::Failed,
        _ => Exit::Unreachable,
    };
    let not_allowed = matches!(error, ClientError::Failed { code: client::FailCode::Refused, .. });
    let next = if not_allowed { "a secret or a config that allows it" } else { "look at `ctl status`" };
    Failure::new(exit, what).because(error.to_string()).hint(next)
}

/// USER@HOST, as far as the system tells them.
fn user_at_host() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_default();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{user}@{}", host.trim())
}

pub(crate) fn find_file(globals: &Globals) -> Result<Option<ClusterFile>, Failure> {
    let read = |path: &Path| {
        ClusterFile::read(path)
            .map(Some)
            .map_err(|error| Failure::usage(error.to_string()).hint("compare it with `ctl config --example`"))
    };
    if let Some(path) = &globals.config {
        return read(path);
    }
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    ClusterFile::find_upward(&here).map_or(Ok(None), |path| read(&path))
}

fn endpoints(globals: &Globals, file: Option<&ClusterFile>) -> Result<Vec<Endpoint>, Failure> {
    if !globals.endpoints.is_empty() {
        let peers = file.map_or(&[][..], |file| &file.peers);
        let whose = |address: &String| peers.iter().find(|peer| peer.address == *address).and_then(|peer| peer.id);
        for address in &globals.endpoints {
            check_address(address)?;
        }
        let named = globals.endpoints.iter().map(|address| Endpoint::new(whose(address), address.clone()));
        return Ok(named.collect());
    }
    let Some(file) = file else {
        return Err(Failure::usage("no cluster to ask")
            .because("there is neither --config nor --endpoints, and no .conclave/cluster.toml from here upward")
            .hint("`ctl up` starts a local cluster; `ctl --config FILE leader` asks another one"));
    };
    if file.peers.is_empty() {
        return Err(Failure::usage("the config lists no [[peers]]").hint("compare it with `ctl config --example`"));
    }
    Ok(file.peers.clone())
}

fn check_address(address: &str) -> Result<(), Failure> {
    let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(_)) => Ok(()),
        _ => Err(Failure::usage(format!("`{address}` is no endpoint"))
            .because("an endpoint is host:port")
            .hint("ctl --endpoints 127.0.0.1:7401,127.0.0.1:7402 leader")),
    }
}

pub(crate) fn secret(globals: &Globals, file: Option<&ClusterFile>) -> Result<Option<Secret>, Failure> {
    let named = globals.secret_file.as_ref();
    let Some(path) = named.or_else(|| file.and_then(|file| file.secret_file.as_ref())) else { return Ok(None) };
    let permissions = file.map(|file| file.secret_permissions).unwrap_or_default();
    read_secret(path, permissions).map(Some).map_err(|error| match error {
        // Without the secret every member would refuse: the same exit code, with an earlier and better message.
        SecretFileError::Unreadable { .. } | SecretFileError::Unusable { .. } if named.is_none() => {
            Failure::new(Exit::Refused, error.to_string())
                .because("the config names this file, and members only accept clients that know the secret in it")
                .hint("run as a user that may read it, or name a copy with --secret-file")
        }
        _ => Failure::usage(error.to_string()).hint(error.remedy()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_without_a_safety_means_quorum_and_only_its_voters_count() {
        let scratch = crate::cluster::Scratch::new("target").unwrap();
        let path = scratch.path().join("cluster.toml");
        let peer = |id: u32, role: &str| format!("[[peers]]\nid = {id}\naddress = \"n{id}:1\"\nrole = \"{role}\"\n");
        let peers = [peer(1, "member"), peer(2, "witness"), peer(3, "learner"), peer(4, "learner")].concat();
        std::fs::write(&path, format!("[cluster]\nname = \"x\"\n{peers}")).unwrap();
        let file = ClusterFile::read(&path).unwrap();
        let voters = Electorate::Voters(vec![1, 2]);
        assert_eq!(electorate(Some(&file), None, 4), voters);
        assert_eq!(electorate(Some(&file), Some(Safety::Quorum), 4), voters);
        assert_eq!(electorate(Some(&file), Some(Safety::Classic), 4), Electorate::Anybody, "a member knows better");
        assert_eq!(electorate(None, Some(Safety::Quorum), 4), Electorate::Members(4));
        assert_eq!(electorate(None, None, 4), Electorate::Anybody);
    }
}
