//! The members to ask and the credentials of this client: from the options, the environment, or the nearest
//! `.conclave`.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::time::Duration;

use client::{
    Answer, CertificateFiles, ClaimedName, Client, ClientError, ClientSettings, ClusterFile, ConnectError, Endpoint,
    InstanceId, Keyring, Members, Secret, SecretFileError, SecretPermissions, TlsFiles, read_certificate, read_secrets,
};

use crate::args::Globals;
use crate::failure::{Exit, Failure};

#[derive(Debug)]
pub(crate) struct Target {
    members: Members,
    pub(crate) timeout: Duration,
    /// What members record beside the orders of this client.
    name: ClaimedName,
    pub(crate) key_files: KeyFiles,
}

impl Deref for Target {
    type Target = Members;

    fn deref(&self) -> &Members {
        &self.members
    }
}

impl DerefMut for Target {
    fn deref_mut(&mut self) -> &mut Members {
        &mut self.members
    }
}

/// Where this client's keys come from, for commands that run so long that the keys are replaced meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct KeyFiles {
    certificate: Option<CertificateFiles>,
    secret: Option<PathBuf>,
    permissions: SecretPermissions,
}

impl KeyFiles {
    fn of(globals: &Globals, file: Option<&ClusterFile>) -> Self {
        KeyFiles {
            certificate: certificate_files(globals, file),
            secret: globals.secret_file.clone().or_else(|| file.and_then(|file| file.secret_file.clone())),
            permissions: file.map(|file| file.secret_permissions).unwrap_or_default(),
        }
    }

    /// True if other keys are used now. Files that cannot be read change nothing.
    pub(crate) fn read_again(&self, keyring: &Keyring) -> bool {
        let read = match (&self.certificate, &self.secret) {
            (Some(files), _) => read_certificate(files, self.permissions).map(Keyring::from).ok(),
            (None, Some(path)) => read_secrets(path, self.permissions).map(Keyring::from).ok(),
            (None, None) => None,
        };
        let Some(new) = read.filter(|new| new.key_ids() != keyring.key_ids()) else { return false };
        keyring.replace(&new);
        true
    }
}

impl Target {
    pub(crate) fn resolve(globals: &Globals) -> Result<Self, Failure> {
        let file = find_file(globals)?;
        let endpoints = endpoints(globals, file.as_ref())?;
        let keyring = keyring(globals, file.as_ref())?;
        let named = globals.cluster.clone().or_else(|| file.as_ref().map(|file| file.name.clone()));
        let settings = ClientSettings { cluster: named.unwrap_or_default(), keyring, deadline: globals.member_timeout };
        let Globals { timeout, member_timeout, .. } = *globals;
        let instance = InstanceId(globals.instance);
        let key_files = KeyFiles::of(globals, file.as_ref());
        let members = Members::new(endpoints, settings, member_timeout.min(timeout), file, instance);
        let members = if globals.endpoints.is_empty() { members } else { members.only_these() };
        let name = globals.name.clone().unwrap_or_else(user_at_host).into();
        Ok(Target { members, timeout, name, key_files })
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

    /// The members of the present list, where it differs from that of the config.
    pub(crate) async fn resolve_listed(globals: &Globals) -> Result<Self, Failure> {
        let mut target = Target::resolve(globals)?;
        let answers = target.ask_all().await;
        target.learn_list(&answers).await;
        Ok(target)
    }

    /// The address of a member in the newest list that a member tells of; `None` where there is no list but the config's.
    pub(crate) async fn listed_address(&self, id: u32) -> Option<String> {
        let timeout = self.member_timeout.min(self.timeout);
        let told = client::ask_members(&self.endpoints, &self.settings, timeout).await;
        let told = told.iter().filter_map(|answer| answer.result.as_ref().ok());
        // The list of a classic member is that of the config that it started with.
        let lists = told.filter(|(status, _)| status.safety == client::Safety::Quorum).map(|(_, told)| told);
        let newest = lists.max_by_key(|told| (told.in_force, told.known.stamp))?;
        let listed = newest.known.members.iter().find(|listed| listed.uid.id.0 == id)?;
        Some(listed.address.clone()).filter(|address| !address.is_empty())
    }

    /// A connection for orders, which the member records under this client's name.
    pub(crate) async fn connect(&self, endpoint: &Endpoint) -> Result<Client, ClientError> {
        self.connect_as(endpoint, &self.name).await
    }

    /// The name under which members record the orders of this client.
    pub(crate) fn claimed_name(&self) -> ClaimedName {
        self.name.clone()
    }
}

/// Could this member be at an endpoint that did not answer?
pub(crate) fn may_be(endpoint: &Endpoint, id: u32) -> bool {
    endpoint.id.is_none_or(|known| known == id)
}

/// The endpoints that did not answer, and why.
pub(crate) fn failures<T>(answers: &[Answer<T>]) -> Vec<(&Endpoint, &ClientError)> {
    answers.iter().filter_map(|answer| Some((&answer.endpoint, answer.result.as_ref().err()?))).collect()
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
            .hint("name the cluster's config with --config, its secret with --secret-file, or a certificate with --certificate");
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

pub(crate) fn check_address(address: &str) -> Result<(), Failure> {
    let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(_)) => Ok(()),
        _ => Err(Failure::usage(format!("`{address}` is no endpoint"))
            .because("an endpoint is host:port")
            .hint("ctl --endpoints 127.0.0.1:7401,127.0.0.1:7402 leader")),
    }
}

/// What this client proves itself by: what the options name, else what the config names.
fn keyring(globals: &Globals, file: Option<&ClusterFile>) -> Result<Keyring, Failure> {
    let Some(files) = certificate_files(globals, file) else { return Ok(secrets(globals, file)?.into()) };
    let permissions = file.map(|file| file.secret_permissions).unwrap_or_default();
    read_certificate(&files, permissions).map(Keyring::from).map_err(|error| {
        let failure = match (&error, &globals.certificate) {
            (SecretFileError::Unreadable { .. }, None) => Failure::new(Exit::Refused, error.to_string())
                .because("the config has [tls], and members only accept clients with a certificate"),
            _ => Failure::usage(error.to_string()),
        };
        failure.hint("name a certificate with --certificate; its key is beside it, as .key")
    })
}

/// The certificate that the options or the config name. The key of a named certificate is beside it; the authorities are
/// those of the config, else beside it too.
fn certificate_files(globals: &Globals, file: Option<&ClusterFile>) -> Option<CertificateFiles> {
    let tls = file.and_then(|file| file.tls.as_ref());
    let Some(certificate) = globals.certificate.clone() else {
        return tls.filter(|_| globals.secret_file.is_none()).map(TlsFiles::of_client);
    };
    let ca =
        tls.map_or_else(|| certificate.with_file_name(crate::cluster::certificates::CA), |tls| PathBuf::from(&tls.ca));
    Some(CertificateFiles { ca, key: certificate.with_extension("key"), certificate })
}

/// The secrets that the options or the config name, if any.
pub(crate) fn secrets(globals: &Globals, file: Option<&ClusterFile>) -> Result<Vec<Secret>, Failure> {
    let named = globals.secret_file.as_ref();
    let Some(path) = named.or_else(|| file.and_then(|file| file.secret_file.as_ref())) else { return Ok(Vec::new()) };
    let permissions = file.map(|file| file.secret_permissions).unwrap_or_default();
    read_secrets(path, permissions).map_err(|error| match error {
        // Without the secret every member would refuse: the same exit code, with an earlier and better message.
        SecretFileError::Unreadable { .. } | SecretFileError::Unusable { .. } if named.is_none() => {
            Failure::new(Exit::Refused, error.to_string())
                .because("the config names this file, and members only accept clients that know the secret in it")
                .hint("run as a user that may read it, or name a copy with --secret-file")
        }
        _ => Failure::usage(error.to_string()).hint(error.remedy()),
    })
}
