//! `node --check`: what a start with this config would refuse, without starting anything.

use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use algorithms::NodeId;

use crate::config::{Config, Host, Problem, Problems, split_address};

/// All names are looked up at the same time; a resolver that does not answer is not waited for any longer.
const RESOLVE: Duration = Duration::from_secs(3);
/// So many threads look names up.
const RESOLVERS: usize = 16;

#[derive(Debug)]
pub struct Found {
    /// What `node` would refuse.
    pub problems: Option<Problems>,
    /// What may be right on another machine or at another time.
    pub warnings: Vec<Problem>,
}

/// `id`: the member that this machine is to run. Without it files that are not on this machine are no problem: a config is also
/// checked where no member runs.
pub fn check(config: &Config, id: Option<NodeId>) -> Found {
    let mut problems = Problems::new(&config.path);
    let mut warnings = config.notices.clone();
    // Port 0 is valid in a check: only an id that is not in the list is a problem there.
    if let Some(id) = id.filter(|&id| config.join.is_empty() && config.peer(id).is_none())
        && let Err(unknown) = config.start_as(id)
    {
        problems.list.extend(unknown.list);
    }
    let member = id.or_else(|| config.peers.first().map(|peer| peer.id)).unwrap_or(NodeId(0));
    let key = config.tls.as_ref().map(|tls| tls.of_member(member.0).key).or_else(|| config.secret_file.clone());
    let has_http = |peer: &crate::config::Peer| peer.http.is_some() && id.is_none_or(|id| id == peer.id);
    let serves = config.http.is_some() || config.peers.iter().any(has_http);
    let token = config.http_token_file.clone().filter(|_| serves);
    let checked = [(key, config.keyring(member).map(drop)), (token.clone(), config.http_tokens().map(drop))];
    for (file, result) in checked {
        let Err(found) = result else { continue };
        match file {
            None => {}
            Some(file) if id.is_none() && is_missing(&file) => warnings.extend(found.list),
            Some(_) => problems.list.extend(found.list),
        }
    }
    warnings.extend(unresolved(config));
    Found { problems: problems.none_or(()).err(), warnings }
}

fn is_missing(file: &PathBuf) -> bool {
    std::fs::metadata(file).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// The hosts of other members' addresses that this machine cannot resolve now.
fn unresolved(config: &Config) -> Vec<Problem> {
    let peers = config.peers.iter().map(|peer| (peer.line, peer.address.clone()));
    let join = config.join.iter().map(|address| (0, address.clone()));
    let is_name = |address: &str| matches!(split_address(address), Some((Host::Name(_), _)));
    let names: Vec<_> = peers.chain(join).filter(|(_, address)| is_name(address)).collect();
    let (answers, answered) = mpsc::channel();
    let share = names.len().div_ceil(RESOLVERS).max(1);
    for (at, some) in names.chunks(share).enumerate() {
        let (some, answers) = (some.to_vec(), answers.clone());
        let look_up = move || {
            for (k, (_, address)) in some.iter().enumerate() {
                let why = address.to_socket_addrs().err().map(|error| error.to_string());
                let _ = answers.send((at * share + k, why));
            }
        };
        if thread::Builder::new().name("resolve".into()).spawn(look_up).is_err() {
            break;
        }
    }
    drop(answers);
    let mut why: Vec<Option<String>> = vec![Some("no answer in time".to_owned()); names.len()];
    let deadline = Instant::now() + RESOLVE;
    while let Ok((at, answer)) = answered.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        why[at] = answer;
    }
    let told = names.into_iter().zip(why).filter_map(|((line, address), why)| Some((line, address, why?)));
    told.map(|(line, address, why)| Problem {
        line,
        message: format!("{address:?} cannot be resolved on this machine ({why})"),
        remedy: "members dial it by this name: enter it in DNS or /etc/hosts of every machine".to_owned(),
    })
    .collect()
}
