//! The file, read again while the process runs: which keys change at once, and what is said of the others.

use std::fmt::Display;

use algorithms::NodeId;
use client::{ReloadOutcome, ReloadedKey};
use member::Safety;
use types::{MemberList, format_duration};

use super::{Config, Peer};

/// Longer values are cut in the answer.
const VALUE_CHARS_MAX: usize = 200;

/// One key, and what becomes of a new value.
struct Key {
    name: &'static str,
    value: fn(&Config) -> String,
    fate: Fate,
}

#[derive(Clone, Copy)]
enum Fate {
    /// The value is taken at once.
    Now(fn(&mut Config, &Config)),
    /// The same for a value that the file's checks compare with others: it waits for a restart if one of those does.
    Together(fn(&mut Config, &Config)),
    Restart,
    /// Members with different values refuse each other.
    RestartAll,
}

const ALL: &str = "all members must have the same value: change all files, then restart all members";
const TOGETHER: &str = "it was checked together with a key that needs a restart";

#[rustfmt::skip]
const KEYS: &[Key] = &[
    Key { name: "cluster.name", value: |c| c.name.clone(), fate: Fate::RestartAll },
    Key { name: "cluster.topology", value: |c| c.topology.name().to_owned(), fate: Fate::RestartAll },
    Key { name: "cluster.algorithm", value: |c| c.row.name.to_owned(), fate: Fate::RestartAll },
    Key { name: "cluster.safety", value: |c| c.safety.name().to_owned(), fate: Fate::RestartAll },
    Key { name: "cluster.wins", value: |c| word(c.settings.election.wins), fate: Fate::RestartAll },
    Key { name: "cluster.preempt", value: |c| c.settings.preempt.to_string(),
        fate: Fate::Together(|c, new| c.settings.preempt = new.settings.preempt) },
    Key { name: "cluster.preempt_after", value: |c| format_duration(c.settings.preempt_after),
        fate: Fate::Together(|c, new| c.settings.preempt_after = new.settings.preempt_after) },
    Key { name: "cluster.secret_file", value: |c| maybe(c.secret_file.as_ref().map(|path| path.display())),
        fate: Fate::Now(|c, new| c.secret_file.clone_from(&new.secret_file)) },
    Key { name: "cluster.secret_permissions", value: |c| word(c.secret_permissions),
        fate: Fate::Now(|c, new| c.secret_permissions = new.secret_permissions) },
    Key { name: "cluster.insecure", value: |c| c.insecure.to_string(), fate: Fate::Now(|c, new| c.insecure = new.insecure) },
    Key { name: "tls", value: |c| maybe(c.tls.as_ref().map(|tls| [&tls.ca, &tls.certificate, &tls.key].map(String::as_str).join(" "))),
        fate: Fate::Now(|c, new| c.tls.clone_from(&new.tls)) },
    Key { name: "cluster.http_token_file", value: |c| maybe(c.http_token_file.as_ref().map(|path| path.display())),
        fate: Fate::Now(|c, new| c.http_token_file.clone_from(&new.http_token_file)) },
    Key { name: "cluster.bootstrap", value: |c| word(c.bootstrap), fate: Fate::Restart },
    Key { name: "cluster.join", value: |c| c.join.join(", "), fate: Fate::Restart },
    Key { name: "cluster.listen", value: |c| maybe(c.listen.as_ref()), fate: Fate::Restart },
    Key { name: "cluster.bind_volume", value: |c| c.bind_volume.to_string(), fate: Fate::Restart },
    Key { name: "cluster.chaos", value: |c| c.chaos.to_string(), fate: Fate::Restart },
    Key { name: "timing.heartbeat", value: |c| format_duration(c.settings.timing.heartbeat),
        fate: Fate::Together(|c, new| c.settings.timing.heartbeat = new.settings.timing.heartbeat) },
    Key { name: "timing.suspect_after", value: |c| format_duration(c.settings.timing.suspect_after),
        fate: Fate::Together(|c, new| c.settings.timing.suspect_after = new.settings.timing.suspect_after) },
    Key { name: "timing.answer_timeout", value: |c| format_duration(c.settings.election.answer_timeout),
        fate: Fate::Together(|c, new| c.settings.election.answer_timeout = new.settings.election.answer_timeout) },
    Key { name: "timing.coordinator_timeout", value: |c| format_duration(c.settings.election.coordinator_timeout),
        fate: Fate::Together(|c, new| c.settings.election.coordinator_timeout = new.settings.election.coordinator_timeout) },
    Key { name: "timing.client_idle", value: |c| format_duration(c.client_idle), fate: Fate::Now(|c, new| c.client_idle = new.client_idle) },
    Key { name: "timing.start_grace", value: |c| format_duration(c.settings.timing.start_grace), fate: Fate::Restart },
    Key { name: "timing.lease", value: |c| format_duration(c.settings.timing.lease), fate: Fate::RestartAll },
    Key { name: "timing.max_drift", value: |c| c.settings.timing.max_drift.to_string(), fate: Fate::RestartAll },
    Key { name: "timing.on_close", value: |c| c.settings.on_close.name().to_owned(), fate: Fate::RestartAll },
    Key { name: "instances", value: Config::instances_fact, fate: Fate::RestartAll },
    Key { name: "graph.links", value: |c| format!("{:?}", c.links.iter().map(|(a, b)| (a.0, b.0)).collect::<Vec<_>>()), fate: Fate::RestartAll },
    Key { name: "hooks.on_change", value: |c| maybe(c.on_change.as_ref()), fate: Fate::Now(|c, new| c.on_change.clone_from(&new.on_change)) },
    Key { name: "log.level", value: |c| c.log_level.clone(), fate: Fate::Now(|c, new| c.log_level.clone_from(&new.log_level)) },
    Key { name: "locks.algorithm", value: |c| c.locks.row.name.to_owned(), fate: Fate::RestartAll },
    Key { name: "locks.max_ttl", value: |c| format_duration(c.locks.max_ttl), fate: Fate::RestartAll },
    Key { name: "locks.max_sessions", value: |c| c.locks.limits.sessions.to_string(), fate: Fate::Restart },
    Key { name: "locks.max_waiters", value: |c| c.locks.limits.waiters.to_string(), fate: Fate::Restart },
    Key { name: "locks.max_names", value: |c| c.locks.limits.names.to_string(), fate: Fate::Restart },
    Key { name: "priority", value: |c| maybe(c.priority_command.as_ref().map(|command|
        format!("{:?} every {}, at most {}", command.command, format_duration(command.interval), format_duration(command.timeout)))),
        fate: Fate::Restart },
];

impl Config {
    /// Takes over from `new`, which was checked as a whole, what may change while the process of member `id` runs. Returns
    /// every key whose value differs. `list`: the member list in force.
    pub fn adopt(&mut self, new: &Config, id: NodeId, list: &MemberList) -> Vec<ReloadedKey> {
        let waits = |key: &&Key| matches!(key.fate, Fate::RestartAll) && (key.value)(self) != (key.value)(new);
        let together = !KEYS.iter().any(|key| waits(&key)) && self.seats() == new.seats();
        let mut said = Vec::new();
        let (old, mut now) = (self.clone(), self.clone());
        for Key { name, value, fate } in KEYS {
            let (before, after) = (value(&old), value(new));
            if before == after {
                continue;
            }
            let (outcome, note) = match fate {
                Fate::Now(take) => changed(*take, &mut now, new),
                Fate::Together(take) if together => changed(*take, &mut now, new),
                Fate::Together(_) => (ReloadOutcome::NeedsRestart, Some(TOGETHER)),
                Fate::Restart => (ReloadOutcome::NeedsRestart, None),
                Fate::RestartAll => (ReloadOutcome::NeedsRestart, Some(ALL)),
            };
            said.push(reloaded(name, before, after, outcome, note));
        }
        now.adopt_peers(new, id, list, together, &mut said);
        *self = now;
        said
    }

    fn adopt_peers(
        &mut self,
        new: &Config,
        id: NodeId,
        list: &MemberList,
        together: bool,
        said: &mut Vec<ReloadedKey>,
    ) {
        let of_quorum = self.safety == Safety::Quorum;
        let (before, after) = (self.seats(), new.seats());
        if before != after {
            let (outcome, note) = if of_quorum {
                (ReloadOutcome::Refused, "the cluster's own list counts: `ctl member` changes it")
            } else {
                (ReloadOutcome::NeedsRestart, ALL)
            };
            said.push(reloaded("peers", before, after, outcome, Some(note)));
        }
        let old = self.clone();
        for peer in &mut self.peers {
            let Some(now) = new.peer(peer.id) else { continue };
            if of_quorum {
                listed(peer, now, list, said);
            } else {
                let listens = peer.id == id && old.listen_address(id) != new.listen_address(id);
                address(peer, now, listens, said);
                priority(peer, now, together, said);
            }
        }
        self.adopt_own(new, id, together, said);
    }

    /// The members in their order, without what may change by itself.
    fn seats(&self) -> String {
        self.peers.iter().map(|peer| format!("{} {}", peer.id, peer.role)).collect::<Vec<_>>().join(", ")
    }

    /// What the file says of this member alone.
    fn adopt_own(&mut self, new: &Config, id: NodeId, together: bool, said: &mut Vec<ReloadedKey>) {
        let key = |name| format!("peers.{id}.{name}");
        let values = |value: fn(&Config, NodeId) -> String| (value(self, id), value(new, id));
        let (listen, http) = (
            values(|config, id| maybe(config.peer(id).and_then(|peer| peer.listen.as_ref()))),
            values(|config, id| maybe(config.http_addresses(id).map(|(http, _)| http))),
        );
        let stand = values(|config, id| word(config.stand(id)));
        for (name, (before, after)) in [("listen", listen), ("http", http)] {
            if before != after {
                said.push(reloaded(&key(name), before, after, ReloadOutcome::NeedsRestart, None));
            }
        }
        if stand.0 != stand.1 {
            let stands = new.stand(id);
            let (outcome, note) = if together {
                self.settings.stand = stands;
                self.peers.iter_mut().filter(|peer| peer.id == id).for_each(|peer| peer.stand = Some(stands));
                (ReloadOutcome::Changed, None)
            } else {
                (ReloadOutcome::NeedsRestart, Some(TOGETHER))
            };
            said.push(reloaded(&key("stand"), stand.0, stand.1, outcome, note));
        }
    }
}

fn changed(take: fn(&mut Config, &Config), now: &mut Config, new: &Config) -> (ReloadOutcome, Option<&'static str>) {
    take(now, new);
    (ReloadOutcome::Changed, None)
}

/// Under quorum the list that the voters agreed on counts: a file that says the same is not worth a word.
fn listed(peer: &Peer, new: &Peer, list: &MemberList, said: &mut Vec<ReloadedKey>) {
    let Some(listed) = list.get(peer.id) else { return };
    let mut refused = |name: &str, before: String, after: String, note: String| {
        let key = format!("peers.{}.{name}", peer.id);
        said.push(reloaded(&key, before, after, ReloadOutcome::Refused, Some(&note)));
    };
    if listed.address != new.address {
        let note = format!("the cluster's own list counts: `ctl member move {} {}`", peer.id, new.address);
        refused("address", listed.address.clone(), new.address.clone(), note);
    }
    if listed.uid.priority != new.priority {
        let note = format!("the cluster's own list counts: `ctl priority {} {}`", peer.id, new.priority);
        refused("priority", listed.uid.priority.to_string(), new.priority.to_string(), note);
    }
}

/// `listens`: this member would have to listen elsewhere.
fn address(peer: &mut Peer, new: &Peer, listens: bool, said: &mut Vec<ReloadedKey>) {
    if peer.address == new.address {
        return;
    }
    let (key, before) = (format!("peers.{}.address", peer.id), peer.address.clone());
    let (outcome, note) = if listens {
        (ReloadOutcome::NeedsRestart, Some("this member listens at its old address"))
    } else {
        peer.address.clone_from(&new.address);
        (ReloadOutcome::Changed, None)
    };
    said.push(reloaded(&key, before, new.address.clone(), outcome, note));
}

fn priority(peer: &mut Peer, new: &Peer, together: bool, said: &mut Vec<ReloadedKey>) {
    if peer.priority == new.priority {
        return;
    }
    let (key, before) = (format!("peers.{}.priority", peer.id), peer.priority.to_string());
    let (outcome, note) = if together {
        peer.priority = new.priority;
        (ReloadOutcome::Changed, None)
    } else {
        (ReloadOutcome::NeedsRestart, Some(TOGETHER))
    };
    said.push(reloaded(&key, before, new.priority.to_string(), outcome, note));
}

pub(crate) fn reloaded(key: &str, old: String, new: String, outcome: ReloadOutcome, note: Option<&str>) -> ReloadedKey {
    let cut = |text: String| text.chars().take(VALUE_CHARS_MAX).collect();
    ReloadedKey { key: key.to_owned(), old: cut(old), new: cut(new), outcome, note: note.map(str::to_owned) }
}

fn maybe(value: Option<impl Display>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

fn word(value: impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}
