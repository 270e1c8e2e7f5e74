//! The files of a cluster's directory.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use algorithms::Wins;
use anyhow::{Context, Result, anyhow};
use client::{Access, CertificateFiles, Holder, Keyring, Secret, SecretPermissions, read_certificate};

use super::certificates;
use super::plan::Plan;
use crate::failure::remark;

pub(super) const CONFIG: &str = "cluster.toml";
pub(super) const LOG: &str = "log";
const OLDER_LOG: &str = "log.1";
const SECRET: &str = "secret";
pub(crate) const HTTP_TOKEN: &str = "http.token";
const SECRET_BYTES: usize = 32;

pub(super) fn member_directory(id: u32) -> String {
    format!("n{id}")
}

/// Creates all files of a cluster and returns what clients prove themselves by. Existing secrets and certificates are kept.
pub(super) fn write(plan: &Plan, directory: &Path, addresses: &[String]) -> Result<Keyring> {
    let create = |path: PathBuf| fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()));
    create(directory.to_owned())?;
    for (id, _) in (1..).zip(addresses) {
        let data = directory.join(member_directory(id));
        create(data.clone())?;
        // The logs of earlier runs would be confusing.
        for log in [LOG, OLDER_LOG] {
            if let Err(error) = fs::remove_file(data.join(log))
                && error.kind() != ErrorKind::NotFound
            {
                return Err(error).with_context(|| format!("cannot replace the log in {}", data.display()));
            }
        }
    }
    let put = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    put(".gitignore", "*\n")?;
    let config = config_text(plan, addresses);
    if fs::read_to_string(directory.join(CONFIG)).is_ok_and(|old| !same_cluster(&old, &config)) {
        put_aside(directory)?;
        remark(format!(
            "{} held a cluster of another kind: its state and ledgers are kept beside, as *.before",
            directory.display()
        ));
    }
    put(CONFIG, &config)?;
    if !plan.http_ports.is_empty() {
        own_token(directory)?;
    }
    if plan.tls {
        return own_certificates(directory, plan.nodes);
    }
    if plan.clear {
        return Ok(Keyring::default());
    }
    let secrets = Secret::lines(&own_secret(directory)?)?;
    let first = secrets.first().context("no secret")?;
    write_derived(directory, first, true)?;
    Ok(secrets.into())
}

/// The operators' certificate; new ones for all where there is none that can be used.
fn own_certificates(directory: &Path, nodes: u32) -> Result<Keyring> {
    let read = || {
        let all = certificates::holders(directory, nodes).into_iter().map(|(_, certificate, key)| {
            let files = CertificateFiles { ca: directory.join(certificates::CA), certificate, key };
            read_certificate(&files, SecretPermissions::Owner)
        });
        all.collect::<Result<Vec<_>, _>>()
    };
    let known = read().or_else(|_| {
        certificates::write_all(directory, nodes, SystemTime::now() + certificates::VALID)?;
        anyhow::Ok(read()?)
    })?;
    let operator = known.into_iter().find(|certificate| certificate.holder() == Holder::Operator);
    Ok(operator.context("no certificate of operators")?.into())
}

/// The cluster's own secret; a new one where there is none.
fn own_secret(directory: &Path) -> Result<Vec<u8>> {
    let secret = directory.join(SECRET);
    match fs::read(&secret) {
        Ok(known) if known.len() >= SECRET_BYTES => {
            fs::set_permissions(&secret, fs::Permissions::from_mode(0o600))?;
            Ok(known)
        }
        _ => {
            let fresh = hex_secret()?;
            let _ = fs::remove_file(&secret);
            write_secret(&secret, &fresh)?;
            Ok(fresh.into_bytes())
        }
    }
}

/// The token of HTTP clients; a new one where there is none.
fn own_token(directory: &Path) -> Result<()> {
    let path = directory.join(HTTP_TOKEN);
    match fs::metadata(&path) {
        Ok(_) => Ok(fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?),
        Err(_) => write_secret(&path, &hex_secret()?),
    }
}

/// May members continue with their state? Not if epochs, votes or lists of the old config count differently in the new one. The
/// ports are chosen anew; under classic safety the number of members may change too: what each of them has on its disk is its own.
fn same_cluster(old: &str, new: &str) -> bool {
    let is_classic = new.lines().any(|line| line == "safety = \"classic\"");
    let free = |line: &str| {
        let key = line.split(' ').next().unwrap_or_default();
        matches!(key, "address" | "http" | "http_token_file" | "chaos" | "preempt" | "#" | "")
            || is_classic && matches!(key, "[[peers]]" | "id" | "[graph]" | "links")
    };
    let lines = |text: &str| text.lines().filter(|line| !free(line)).collect::<Vec<_>>().join("\n");
    lines(old) == lines(new)
}

/// Another kind of cluster begins without state: the members' files on disk belong to the old cluster.
fn put_aside(directory: &Path) -> Result<()> {
    for id in 1..=super::plan::NODES_MAX {
        for file in ["state", "ledger", "ledger.1", "ledger.alive"] {
            let path = directory.join(member_directory(id)).join(file);
            if let Err(error) = fs::rename(&path, path.with_file_name(format!("{file}.before")))
                && !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
            {
                return Err(error).with_context(|| format!("cannot rename {}", path.display()));
            }
        }
    }
    Ok(())
}

/// A new random secret of 256 bits, printable.
pub fn hex_secret() -> Result<String> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| anyhow!("no randomness for a secret: {error}"))?;
    let mut text = String::with_capacity(2 * SECRET_BYTES);
    for byte in bytes {
        write!(text, "{byte:02x}")?;
    }
    Ok(text)
}

/// Writes a secret that only its owner can read, from its creation on. Never replaces a secret.
pub fn write_secret(path: &Path, secret: &str) -> Result<()> {
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = created.with_context(|| format!("cannot create {}", path.display()))?;
    writeln!(file, "{secret}").with_context(|| format!("cannot write {}", path.display()))
}

/// The files of the secrets that are derived from the cluster's own, in this directory.
pub fn derived_files(directory: &Path) -> [(Access, PathBuf); 2] {
    [Access::Operator, Access::Reader].map(|access| (access, directory.join(format!("{access}.secret"))))
}

/// Writes the secrets of operators and readers. `anew`: in place of older ones, which belong to an older secret.
pub fn write_derived(directory: &Path, secret: &Secret, anew: bool) -> Result<()> {
    for (access, path) in derived_files(directory) {
        if anew {
            let _ = fs::remove_file(&path);
        }
        let derived = secret.derived(access).ok_or_else(|| anyhow!("not the secret of a cluster"))?;
        write_secret(&path, &derived)?;
    }
    Ok(())
}

/// The HTTP faces in a config, one address for each member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Faces {
    No,
    /// As comments.
    Suggested(Vec<String>),
    Yes(Vec<String>),
}

impl Faces {
    fn of(plan: &Plan) -> Self {
        if plan.http_ports.is_empty() {
            return Faces::No;
        }
        Faces::Yes(plan.http_ports.iter().map(|port| format!("127.0.0.1:{port}")).collect())
    }

    /// The face of the first member, where they have some.
    pub(crate) fn first(&self) -> Option<&str> {
        if let Faces::Yes(all) = self { all.first().map(String::as_str) } else { None }
    }

    fn token_line(&self) -> String {
        match self {
            Faces::No => String::new(),
            Faces::Suggested(_) => format!(
                "# http_token_file = \"{HTTP_TOKEN}\"  # 16 or more characters, mode 0600: what HTTP clients of other machines show\n"
            ),
            Faces::Yes(_) => format!("http_token_file = \"{HTTP_TOKEN}\"\n"),
        }
    }

    fn line(&self, at: usize) -> String {
        match self {
            Faces::Suggested(all) => all.get(at).map(|http| {
                let what =
                    if at == 0 { "  # dashboard, metrics, /leader: `ctl init --http` writes these lines" } else { "" };
                format!("# http = \"{http}\"{what}\n")
            }),
            Faces::Yes(all) => all.get(at).map(|http| format!("http = \"{http}\"\n")),
            Faces::No => None,
        }
        .unwrap_or_default()
    }
}

/// The config of a cluster whose members are 1, 2, ... at these addresses, with faces on loopback if the plan has ports for them.
pub(crate) fn config_text(plan: &Plan, addresses: &[String]) -> String {
    config_text_with(plan, addresses, &Faces::of(plan))
}

pub(crate) fn config_text_with(plan: &Plan, addresses: &[String], faces: &Faces) -> String {
    let mut text = format!(
        "# Written by ctl; `ctl config --example` explains every key.\n\n\
         [cluster]\nname = \"{}\"\ntopology = \"{}\"\nalgorithm = \"{}\"\nsafety = \"{}\"\n",
        plan.name,
        plan.row.topology.name(),
        plan.row.name,
        plan.safety,
    );
    let wins = plan.wins.map(|wins| match wins {
        Wins::Highest => "wins = \"highest\"\n",
        Wins::Lowest => "wins = \"lowest\"\n",
    });
    text += wins.unwrap_or_default();
    let _ = writeln!(text, "preempt = {}", plan.preempt);
    if plan.clear {
        text += "insecure = true\n";
    } else if !plan.tls {
        let _ = writeln!(text, "secret_file = \"{SECRET}\"");
    }
    if plan.chaos {
        text += "chaos = true\n";
    }
    text += &faces.token_line();
    if let Some(on_close) = &plan.on_close {
        let _ = write!(text, "\n[timing]\non_close = \"{on_close}\"\n");
    }
    if plan.tls {
        text += "\n[tls]\nca = \"ca.pem\"\ncertificate = \"n{id}.pem\"\nkey = \"n{id}.key\"\n";
    }
    for (id, address) in (1u32..).zip(addresses) {
        let _ = write!(text, "\n[[peers]]\nid = {id}\naddress = \"{address}\"\n");
        text += &faces.line(id as usize - 1);
    }
    if plan.row.topology == algorithms::Topology::Graph {
        let links = plan.graph_links().into_iter().map(|(a, b)| format!("[{a}, {b}]"));
        let _ = write!(text, "\n[graph]\nlinks = [{}]\n", links.collect::<Vec<_>>().join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use algorithms::catalog;
    use types::Safety;

    use super::*;

    #[test]
    fn history_is_kept_unless_epochs_would_count_differently() {
        let row = |name: &str| catalog::row(name).unwrap();
        let text = |plan: &Plan| {
            let addresses: Vec<String> = (1..=plan.nodes).map(|id| format!("127.0.0.1:{}", 7000 + id)).collect();
            config_text(plan, &addresses)
        };
        let five = Plan::new(5, row(catalog::DEFAULT));
        let same = |other: &Plan| same_cluster(&text(&five), &text(other));
        assert!(same(&Plan { chaos: true, preempt: false, http_ports: vec![1, 2, 3, 4, 5], ..five.clone() }));
        assert!(same(&Plan { nodes: 3, ..five.clone() }) && same(&Plan { nodes: 7, ..five.clone() }));
        assert!(!same(&Plan { safety: Safety::Quorum, ..five.clone() }));
        assert!(!same(&Plan { row: row("raft"), ..five.clone() }));
        let voters = Plan { safety: Safety::Quorum, ..five.clone() };
        let more = Plan { nodes: 7, ..voters.clone() };
        assert!(same_cluster(&text(&voters), &text(&Plan { chaos: true, ..voters.clone() })));
        assert!(!same_cluster(&text(&voters), &text(&more)), "the list of voters is on the disks");
    }
}
