//! What clients may take from this process: pages of the ledger, and connections that they do not use.

use std::collections::BTreeMap;
use std::time::Duration;

use transport::ClientId;

use super::Daemon;

/// Pages of the ledger under way for one client. The project's own clients ask for one after another.
const PAGES_PER_CLIENT: usize = 4;
/// For all clients together, those that have left included: each page is up to some hundred kilobytes of memory.
const PAGES_MAX: usize = 32;
/// Clients that are closed at once when file descriptors have run out.
const CLOSED_AT_ONCE: usize = 16;

/// Pages of the ledger that were asked for and not answered yet.
#[derive(Debug, Default)]
pub(super) struct Pages {
    of_client: BTreeMap<ClientId, usize>,
    all: usize,
}

impl Pages {
    /// Counts one more page; the reason if it is one too many.
    pub(super) fn begin(&mut self, client: ClientId) -> Result<(), String> {
        let own = self.of_client.get(&client).copied().unwrap_or(0);
        if own >= PAGES_PER_CLIENT {
            return Err(format!(
                "this connection waits for {own} pages of the ledger already: ask for the next one when one has arrived"
            ));
        }
        if self.all >= PAGES_MAX {
            return Err(format!("clients wait for {} pages of the ledger already: ask again later", self.all));
        }
        self.of_client.insert(client, own + 1);
        self.all += 1;
        Ok(())
    }

    pub(super) fn end(&mut self, client: ClientId) {
        self.all = self.all.saturating_sub(1);
        if let Some(own) = self.of_client.get_mut(&client) {
            *own -= 1;
            if *own == 0 {
                self.of_client.remove(&client);
            }
        }
    }

    /// Of all clients together.
    pub(super) fn all(&self) -> usize {
        self.all
    }

    fn wait_for(&self, client: ClientId) -> bool {
        self.of_client.contains_key(&client)
    }
}

impl Daemon {
    /// The next look for idle clients; none while there are no clients.
    pub(super) fn look_for_idle_clients(&mut self, now: Duration) {
        let idle = self.config.client_idle;
        let due = *self.idle_check_at.get_or_insert(now + idle);
        if self.net.clients() == 0 {
            self.idle_check_at = None;
        } else if due <= now {
            self.idle_check_at = Some(now + idle / 2);
            for client in self.net.quiet_clients(idle) {
                if !self.is_served(client) {
                    tracing::debug!(%client, "idle for too long: connection closed");
                    self.drop_client(client);
                }
            }
        }
    }

    /// Frees file descriptors for members and the disk: the clients that have been silent longest are closed, those with
    /// streams only if no other client is left, and those that run a child of this leadership never.
    pub(super) fn out_of_descriptors(&mut self) {
        let quiet = self.net.quiet_clients(Duration::ZERO);
        let (served, idle): (Vec<_>, Vec<_>) = quiet.into_iter().partition(|&client| self.is_served(client));
        let mut closed = idle;
        if closed.is_empty() {
            closed = served.into_iter().filter(|&client| !self.is_attached(client)).collect();
        }
        closed.truncate(CLOSED_AT_ONCE);
        tracing::error!(
            closed = closed.len(),
            clients = self.net.clients(),
            "no file descriptor is left: clients are closed. Raise the limit (ulimit -n, LimitNOFILE=) or end other processes"
        );
        for client in closed {
            self.drop_client(client);
        }
    }

    /// Does this client have a stream, or does it wait for an answer?
    fn is_served(&self, client: ClientId) -> bool {
        self.is_attached(client)
            || self.locks.has(client)
            || self.publisher.watchers.has(client)
            || self.pages.wait_for(client)
    }

    fn is_attached(&self, client: ClientId) -> bool {
        self.instances.values().any(|running| running.attached.has(client))
    }
}
