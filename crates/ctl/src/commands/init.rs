//! `ctl init`: config and secrets for a cluster of machines.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;
use client::Secret;
use serde::Serialize;
use types::Safety;

use super::shared_args::{self, AlgorithmArg, TopologyArg, WinsArg};
use crate::cluster::{
    Faces, HTTP_TOKEN, NODES_MAX, Plan, certificates, config_text_with, derived_files, hex_secret, write_derived,
    write_secret,
};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Write the config and the secrets of a new cluster
///
/// Copy cluster.toml and secret to every host; then start `node --config cluster.toml --id K` on the K-th host. Machines
/// that run no member get operator.secret, which allows to change what the cluster does, or reader.secret, which only
/// allows to ask: `ctl --secret-file reader.secret`. Only their owner can read the secrets. Existing files are never
/// replaced.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl init -n 3 alpha beta gamma
  ctl init -n 3 10.0.0.1 10.0.0.2 10.0.0.3:7500 --topology ring --dir deploy
  ctl init -n 5 127.0.0.1                 five on one host, at ports 7400, 7401, ...
  ctl init --tls alpha beta gamma         certificates instead of secrets
  ctl init --http alpha beta gamma        with dashboard, metrics and /leader at http://alpha:8400, ...")]
pub(crate) struct Args {
    /// The number of members [default: the number of hosts]
    #[arg(short = 'n', long = "nodes", value_name = "N", value_parser = shared_args::nodes())]
    nodes: Option<u32>,
    /// The hosts of the members, in the order of their ids (on a ring: clockwise); HOST or HOST:PORT
    #[arg(value_name = "HOST", required = true)]
    hosts: Vec<String>,
    /// The port of hosts that are given without one
    #[arg(long, default_value_t = 7400)]
    port: u16,
    /// The cluster's name
    #[arg(long, default_value = "conclave")]
    name: String,
    #[command(flatten)]
    algorithm: AlgorithmArg,
    #[command(flatten)]
    topology: TopologyArg,
    #[command(flatten)]
    wins: WinsArg,
    /// Who may lead: any member that is elected, or only with the lease of a majority
    #[arg(long, value_name = "SAFETY", default_value = "quorum", value_parser = shared_args::safeties())]
    safety: Safety,
    /// Certificates instead of secrets: one for each member, for operators and for readers, and their authority
    #[arg(long)]
    tls: bool,
    /// Members serve HTTP (dashboard, metrics, load balancer checks) at this port of their hosts, and the next ones where a host has
    /// several members; a token is written too. Without it the lines are comments in the config [default: 8400]
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "8400")]
    http: Option<u16>,
    /// The directory of the files
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

const HTTP_PORT: u16 = 8400;

#[derive(Serialize)]
struct Written {
    schema: &'static str,
    config: PathBuf,
    secret: PathBuf,
    operator_secret: PathBuf,
    reader_secret: PathBuf,
    /// Null without --http.
    http_token: Option<PathBuf>,
    nodes: u32,
}

pub(crate) fn run(args: &Args, output: Output) -> Result<(), Failure> {
    let addresses = addresses(args)?;
    let row = Plan::choose(args.algorithm.name(), args.topology.topology)
        .map_err(|error| Failure::usage(error).hint("ctl algorithms"))?;
    if args.name.is_empty() || args.name.chars().any(|c| c.is_control() || c == '"' || c == '\\') {
        return Err(Failure::usage("a cluster's name is not empty and has no quotes or control characters"));
    }
    let nodes = addresses.len() as u32;
    let Args { safety, tls, .. } = *args;
    // A restarted member that takes over again costs a second change of leader: a rolling restart needs one in all.
    let preempt = !row.can_wait;
    let plan = Plan { name: args.name.clone(), safety, wins: args.wins.wins, tls, preempt, ..Plan::new(nodes, row) };
    let faces = faces(args, &addresses)?;
    let http_token = args.http.map(|_| args.dir.join(HTTP_TOKEN));
    never_replace(&http_token)?;
    if tls {
        let text = config_text_with(&plan, &addresses, &faces);
        return with_certificates(&plan, &text, http_token.zip(faces.first()), &args.dir, output);
    }
    let (config, secret) = (args.dir.join("cluster.toml"), args.dir.join("secret"));
    let [(_, operator_secret), (_, reader_secret)] = derived_files(&args.dir);
    never_replace([&config, &secret, &operator_secret, &reader_secret])?;
    std::fs::create_dir_all(&args.dir).with_context(|| format!("cannot create {}", args.dir.display()))?;
    let own = hex_secret()?;
    write_secret(&secret, &own)?;
    write_derived(&args.dir, &Secret::from_bytes(own.as_bytes()).map_err(anyhow::Error::from)?, false)?;
    write_token(http_token.as_deref())?;
    write_config(&config, &config_text_with(&plan, &addresses, &faces))?;
    if output.is_json() {
        let schema = "conclave.init/1";
        let written = Written { schema, config, secret, operator_secret, reader_secret, http_token, nodes };
        return Ok(Output::json(&written)?);
    }
    let [shown, hidden, operator, reader] = [&config, &secret, &operator_secret, &reader_secret].map(|p| p.display());
    Ok(Output::words(format!(
        "wrote {shown}, {hidden}, {operator} and {reader} (secrets: mode 0600)\n\n\
         {hidden} is for members. Copy it with {shown} to every host, then start member K on the K-th host:\n  \
         node --config {shown} --id K --data-dir /var/lib/conclave\n\n\
         {operator} is for those who change what the cluster does (elect, step-down, transfer, chaos, lead), {reader} \
         for those who only ask. Copy one of them with {shown}, never {hidden}, to machines that run no member:\n  \
         ctl --config {shown} --secret-file {reader} leader --wait 5s{}",
        http_words(http_token.zip(faces.first()).as_ref())
    ))?)
}

fn never_replace<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> Result<(), Failure> {
    let Some(existing) = paths.into_iter().find(|path| path.exists()) else { return Ok(()) };
    Err(Failure::new(Exit::Failed, format!("{} exists already", existing.display()))
        .because("a client without the cluster's secret cannot connect to it")
        .hint("another --dir, or move the old files away"))
}

fn write_token(path: Option<&Path>) -> Result<(), Failure> {
    if let Some(path) = path {
        write_secret(path, &hex_secret()?)?;
    }
    Ok(())
}

/// What the user is told of the HTTP faces.
fn http_words(http: Option<&(PathBuf, &str)>) -> String {
    let Some((token, first)) = http else { return String::new() };
    format!(
        "\n\nThe members serve HTTP without encryption: http://{first}/ is the dashboard. {0} (mode 0600) is what clients of \
         other machines show, and all who change something: copy {0} to every host too.",
        token.display()
    )
}

/// Members of one host have ports that follow each other.
fn faces(args: &Args, addresses: &[String]) -> Result<Faces, Failure> {
    let first = args.http.unwrap_or(HTTP_PORT);
    let host = |address: &String| address.rsplit_once(':').map_or(address.clone(), |(host, _)| host.to_owned());
    let hosts: Vec<String> = addresses.iter().map(host).collect();
    let mut all = Vec::new();
    for (at, host) in hosts.iter().enumerate() {
        let before = hosts[..at].iter().filter(|other| *other == host).count();
        let port = u16::try_from(before).ok().and_then(|before| first.checked_add(before)).filter(|&port| port > 0);
        let port = port.ok_or_else(|| Failure::usage(format!("no port for HTTP at {host}, from {first} on")))?;
        let face = format!("{host}:{port}");
        if args.http.is_some() && addresses.contains(&face) {
            return Err(
                Failure::usage(format!("{face} is the address of a member")).hint("--http=PORT takes another port")
            );
        }
        all.push(face);
    }
    Ok(if args.http.is_some() { Faces::Yes(all) } else { Faces::Suggested(all) })
}

fn write_config(path: &Path, text: &str) -> Result<(), Failure> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = file.with_context(|| format!("cannot create {}", path.display()))?;
    Ok(file.write_all(text.as_bytes())?)
}

#[derive(Serialize)]
struct WrittenCertificates {
    schema: &'static str,
    config: PathBuf,
    ca: PathBuf,
    ca_key: PathBuf,
    certificates: Vec<PathBuf>,
    /// Null without --http.
    http_token: Option<PathBuf>,
    nodes: u32,
}

fn with_certificates(
    plan: &Plan,
    text: &str,
    http: Option<(PathBuf, &str)>,
    dir: &Path,
    output: Output,
) -> Result<(), Failure> {
    let (config, ca, ca_key) = (dir.join("cluster.toml"), dir.join(certificates::CA), dir.join(certificates::CA_KEY));
    let holders = certificates::holders(dir, plan.nodes);
    let own = holders.iter().flat_map(|(_, certificate, key)| [certificate, key]);
    never_replace([&config, &ca, &ca_key].into_iter().chain(own))?;
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    certificates::write_all(dir, plan.nodes, SystemTime::now() + certificates::VALID)?;
    let (words, http_token) = (http_words(http.as_ref()), http.map(|(token, _)| token));
    write_token(http_token.as_deref())?;
    write_config(&config, text)?;
    if output.is_json() {
        let certificates = holders.into_iter().map(|(_, certificate, _)| certificate).collect();
        let (schema, nodes) = ("conclave.init/1", plan.nodes);
        let written = WrittenCertificates { schema, config, ca, ca_key, certificates, http_token, nodes };
        return Ok(Output::json(&written)?);
    }
    let [shown, ca, hidden] = [&config, &ca, &ca_key].map(|path| path.display());
    let dir = dir.display();
    Ok(Output::words(format!(
        "wrote {shown}, {ca}, {hidden}, and a certificate (.pem) with its key (.key) for each member, for operators and for \
         readers (keys: mode 0600)\n\n\
         Copy {shown}, {ca}, {dir}/nK.pem and {dir}/nK.key to the K-th host and to no other one, then start member K there:\n  \
         node --config {shown} --id K --data-dir /var/lib/conclave\n\n\
         {dir}/operator.pem and its key are for those who change what the cluster does, {dir}/reader.pem and its key for \
         those who only ask:\n  ctl --config {shown} --certificate {dir}/reader.pem leader --wait 5s\n\n\
         Keep {hidden} here: every process that reads it can make certificates. They expire in a year; `ctl secret rotate` makes new ones.{words}"
    ))?)
}

fn addresses(args: &Args) -> Result<Vec<String>, Failure> {
    let nodes = args.nodes.unwrap_or(args.hosts.len() as u32);
    let counts = match args.hosts.as_slice() {
        // One host for all members: their ports differ.
        [host] if nodes > 1 => {
            let (host, first) = split(host, args.port)?;
            let last = u16::try_from(nodes - 1).ok().and_then(|more| first.checked_add(more));
            let last = last.ok_or_else(|| Failure::usage(format!("{nodes} ports from {first} on do not exist")))?;
            return Ok((first..=last).map(|port| format!("{host}:{port}")).collect());
        }
        hosts => hosts.len(),
    };
    if counts != nodes as usize || nodes > NODES_MAX {
        return Err(Failure::usage(format!("-n {nodes}, but {counts} hosts"))
            .because(format!("every member needs its address, and there are at most {NODES_MAX}"))
            .hint(format!("ctl init -n {counts} {}", args.hosts.join(" "))));
    }
    let mut all = Vec::new();
    for host in &args.hosts {
        let (host, port) = split(host, args.port)?;
        let address = format!("{host}:{port}");
        if all.contains(&address) {
            return Err(Failure::usage(format!("{address} is listed twice")));
        }
        all.push(address);
    }
    Ok(all)
}

/// HOST, HOST:PORT, or an IPv6 address in brackets.
fn split(text: &str, default: u16) -> Result<(&str, u16), Failure> {
    let wrong = || Failure::usage(format!("`{text}` is no host: write HOST or HOST:PORT, IPv6 as [::1]:7400"));
    let bracketed = text.starts_with('[') && text.ends_with(']');
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !bracketed => (host, port.parse().map_err(|_| wrong())?),
        _ => (text, default),
    };
    let plain = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    let v6 = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let fine = match v6 {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => plain && !host.is_empty(),
    };
    if fine && port > 0 { Ok((host, port)) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_come_with_and_without_ports() {
        let read = |text| split(text, 7400).ok();
        assert_eq!(read("alpha"), Some(("alpha", 7400)));
        assert_eq!(read("10.0.0.1:7500"), Some(("10.0.0.1", 7500)));
        assert_eq!(read("[::1]"), Some(("[::1]", 7400)));
        assert_eq!(read("[::1]:7500"), Some(("[::1]", 7500)));
        for wrong in ["", ":7400", "a b", "alpha:x", "alpha:0", "::1", "a\"b"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
