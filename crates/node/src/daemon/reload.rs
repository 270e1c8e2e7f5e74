//! Secrets and certificates, read again while the process runs: connections that exist stay, new handshakes use what was
//! read.

use std::time::{Duration, SystemTime};

use algorithms::NodeId;
use client::{FailCode, Request, Response, format_instant};
use tokio::sync::mpsc;
use transport::Keyring;
use types::InstanceId;

use super::calls::reply;
use super::{Daemon, failed};
use crate::config::{Config, Problems};
use crate::publisher::Subscription;

/// A certificate that ends within this time is worth a warning, every day.
const SOON: Duration = Duration::from_hours(30 * 24);
const AGAIN: Duration = Duration::from_hours(24);
/// What was read and waits for the loop; more of it waits in the threads that read.
const WAITING_MAX: usize = 16;

/// What was read, and the request that asked for it.
type Read = (Result<Keyring, Problems>, Option<Subscription>);

/// The files are read by a thread of their own: a disk may be slow.
pub(super) struct Reload {
    keyring: Keyring,
    reads: mpsc::Receiver<Read>,
    read: mpsc::Sender<Read>,
    /// When to warn of a certificate's end again, since boot.
    warn_at: Duration,
}

impl Reload {
    pub(super) fn new(keyring: Keyring) -> Self {
        let (read, reads) = mpsc::channel(WAITING_MAX);
        Self { keyring, reads, read, warn_at: Duration::ZERO }
    }

    /// Begins to read the files.
    pub(super) fn begin(&self, config: &Config, id: NodeId, asked: Option<Subscription>) {
        let (config, read) = (config.clone(), self.read.clone());
        tokio::task::spawn_blocking(move || {
            let _ = read.blocking_send((config.keyring(id), asked));
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
    /// New handshakes use what was read, or the old keys stay and the reason is told.
    pub(super) fn reloaded(&mut self, (read, asked): Read) {
        let response = match read {
            Ok(new) => {
                self.reload.keyring.replace(&new);
                self.reload.warn_at = Duration::ZERO;
                let ids = new.key_ids();
                tracing::info!(keys = ids.join(", "), "secrets or certificates were read again");
                self.process.set_keys(ids, new.expires());
                Response::Done
            }
            Err(problems) => {
                tracing::error!("the old secrets or certificates stay: {problems}");
                failed(FailCode::Failed, format!("the old secrets or certificates stay: {problems}"))
            }
        };
        let Some(asked) = asked else { return };
        if response == Response::Done {
            self.record(asked.client, InstanceId::ELECTION, &Request::Reload);
        }
        reply(&mut self.net, asked, response);
    }
}
