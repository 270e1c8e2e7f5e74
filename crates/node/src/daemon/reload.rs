//! The config and the files that it names, read again while the process runs. Files that cannot be used change nothing:
//! the process goes on with what it has. Connections that exist stay, new handshakes use the new keys.

use std::time::{Duration, SystemTime};

use algorithms::NodeId;
use client::{FailCode, ReloadOutcome, ReloadedKey, Request, Response, format_instant};
use face::Tokens;
use member::Safety;
use tokio::sync::mpsc;
use transport::Keyring;
use types::InstanceId;

use super::calls::reply;
use super::{Daemon, Home, failed};
use crate::config::reload::reloaded;
use crate::config::{Config, Problems};
use crate::hooks::HookQueue;
use crate::log;
use crate::publisher::Subscription;
use crate::roster::Roster;

/// A certificate that ends within this time is worth a warning, every day.
const SOON: Duration = Duration::from_hours(30 * 24);
const AGAIN: Duration = Duration::from_hours(24);
/// What was read and waits for the loop; more of it waits in the threads that read.
const WAITING_MAX: usize = 16;

/// The keys that an answer names; a file that differs everywhere is another cluster's.
const KEYS_MAX: usize = 100;

/// What was read, and the request that asked for it.
pub(super) type Read = (Result<Box<Fresh>, Problems>, Option<Subscription>);

/// All files, found usable.
pub(super) struct Fresh {
    config: Config,
    keyring: Keyring,
    http_tokens: Vec<String>,
}

impl Fresh {
    fn read(old: &Config, id: NodeId) -> Result<Box<Self>, Problems> {
        let config = Config::load(&old.path)?;
        config.start_as(id)?;
        let (keyring, http_tokens) = (config.keyring(id)?, config.http_tokens()?);
        Ok(Box::new(Fresh { config, keyring, http_tokens }))
    }
}

/// The files are read by a thread of their own: a disk may be slow.
pub(super) struct Reload {
    keyring: Keyring,
    hooks: HookQueue,
    /// `None`: this member has no HTTP face.
    http_tokens: Option<Tokens>,
    reads: mpsc::Receiver<Read>,
    read: mpsc::Sender<Read>,
    /// When to warn of a certificate's end again, since boot.
    warn_at: Duration,
}

impl Reload {
    pub(super) fn new(home: &Home) -> Self {
        let (read, reads) = mpsc::channel(WAITING_MAX);
        Self {
            keyring: home.keyring.clone(),
            hooks: home.hooks.clone(),
            http_tokens: home.http.as_ref().map(|face| face.tokens.clone()),
            reads,
            read,
            warn_at: Duration::ZERO,
        }
    }

    /// Begins to read the files.
    pub(super) fn begin(&self, config: &Config, id: NodeId, asked: Option<Subscription>) {
        let (config, read) = (config.clone(), self.read.clone());
        tokio::task::spawn_blocking(move || {
            let _ = read.blocking_send((Fresh::read(&config, id), asked));
        });
    }

    pub(super) async fn done(&mut self) -> Read {
        match self.reads.recv().await {
            Some(read) => read,
            // Never: this end keeps a sender.
            None => std::future::pending().await,
        }
    }

    pub(super) fn warn_of_expiry(&mut self, now: Duration) {
        if now < self.warn_at {
            return;
        }
        self.warn_at = now + AGAIN;
        let Some(expires) = self.keyring.expires() else { return };
        let at = format_instant(millis(expires));
        match expires.duration_since(SystemTime::now()) {
            Err(_) => tracing::error!("this member's certificate or its authority has expired at {at}: {REMEDY}"),
            Ok(left) if left < SOON => {
                let days = left.as_secs() / (24 * 3600);
                tracing::warn!("this member's certificate or its authority expires in {days} days, at {at}: {REMEDY}");
            }
            Ok(_) => {}
        }
    }
}

const REMEDY: &str = "`ctl secret rotate` makes new certificates";

/// Milliseconds since 1970.
pub(crate) fn millis(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

impl Daemon {
    /// What may change while the process runs is in force from now on, or nothing changes and the reason is told.
    pub(super) fn reloaded(&mut self, (read, asked): Read) {
        let response = match read {
            Ok(fresh) => {
                let mut said = self.take_keys(&fresh);
                said.extend(self.take_config(&fresh.config));
                for ReloadedKey { key, old, new, outcome, note } in &said {
                    tracing::info!(key, old, new, note, "the config was read again: {}", outcome.in_words());
                }
                tracing::info!(different = said.len(), "the config and its files were read again");
                said.truncate(KEYS_MAX);
                Response::Reloaded(said)
            }
            Err(problems) => {
                tracing::error!("the old config, secrets and certificates stay in force: {problems}");
                let why = format!("the old config, secrets and certificates stay in force: {problems}");
                failed(FailCode::BadConfig, why)
            }
        };
        let Some(asked) = asked else { return };
        if matches!(response, Response::Reloaded(_)) {
            self.record(asked.client, InstanceId::ELECTION, &Request::Reload);
        }
        reply(&mut self.net, asked, response);
    }

    /// What the files hold that the config names: secrets or certificates, and tokens.
    fn take_keys(&mut self, fresh: &Fresh) -> Vec<ReloadedKey> {
        let mut said = Vec::new();
        let (before, after) = (self.reload.keyring.key_ids(), fresh.keyring.key_ids());
        self.reload.keyring.replace(&fresh.keyring);
        self.reload.warn_at = Duration::ZERO;
        self.process.set_keys(after.clone(), fresh.keyring.expires());
        if before != after {
            said.push(reloaded("keys", before.join(", "), after.join(", "), ReloadOutcome::Changed, None));
        }
        if let Some(tokens) = &self.reload.http_tokens {
            let (after, count) = (&fresh.http_tokens, |tokens: &[String]| format!("{} tokens", tokens.len()));
            let before = tokens.replace(after.clone());
            if before != *after {
                said.push(reloaded("HTTP tokens", count(&before), count(after), ReloadOutcome::Changed, None));
            }
        }
        said
    }

    fn take_config(&mut self, new: &Config) -> Vec<ReloadedKey> {
        let mut said = self.config.adopt(new, self.id, self.roster.list());
        self.reload.hooks.set_command(self.config.on_change.clone());
        if !log::set_level(&self.config.log_level)
            && let Some(level) = said.iter_mut().find(|said| said.key == "log.level")
        {
            level.outcome = ReloadOutcome::Refused;
            level.note = Some(format!("{} is set in the environment and counts", log::VARIABLE));
        }
        let serves_locks = !self.config.locks.needs_other_safety(self.config.safety);
        if let Some(heartbeat) = said.iter_mut().find(|said| serves_locks && said.key == "timing.heartbeat") {
            heartbeat.note = Some("the lock service keeps the old one until a restart".to_owned());
        }
        self.net.set_dial_timeout(self.config.settings.timing.suspect_after * 2);
        for mut election in self.config.elections() {
            let Some(running) = self.instances.get_mut(&election.instance) else { continue };
            if election.instance == InstanceId::ELECTION {
                election.settings.stand = self.config.stand(self.id);
                running.shown.set_stand(election.settings.stand);
            } else {
                election.settings.stand = member::Stand::Always;
            }
            running.machine.adopt(&election.settings);
        }
        if self.config.safety == Safety::Classic {
            self.roster = Roster::new(self.config.first_list().into(), self.id);
            self.net.set_peers(&self.roster.peers());
            self.priority.configure(self.roster.me().priority);
        }
        // A step of every machine: it acts by the new settings.
        self.share_priority();
        said
    }
}
