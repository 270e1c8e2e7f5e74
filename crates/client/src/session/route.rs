//! The way to the clerk: which member is dialled next. One connection at a time, to the member that leads as far as the last
//! one knew.

use std::collections::BTreeMap;
use std::time::Duration;

use locks::wire::{SessionId, Unavailable};
use transport::ClientSettings;
use types::Dice;

use super::stream::LockStream;
use crate::connection::ClientError;
use crate::endpoint::Endpoint;

/// Pauses between dials grow to this.
const PAUSE_MAX: Duration = Duration::from_millis(400);
const PAUSE_MIN: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct Route {
    endpoints: Vec<Endpoint>,
    settings: ClientSettings,
    /// The endpoint that is dialled, or connected.
    at: usize,
    /// Positions of members whose ids the endpoints do not tell.
    met: BTreeMap<u32, usize>,
    /// Members that were left since a clerk served the session.
    misses: usize,
    /// Of the pauses.
    dice: Dice,
}

impl Route {
    pub(super) fn new(endpoints: Vec<Endpoint>, settings: &ClientSettings, session: SessionId) -> Self {
        let dice = Dice(session.0 as u64);
        Route { endpoints, settings: settings.clone(), at: 0, met: BTreeMap::new(), misses: 0, dice }
    }

    /// Dials the present endpoint.
    pub(super) fn dial(
        &mut self,
    ) -> impl Future<Output = Result<(u32, Box<LockStream>), ClientError>> + Send + 'static {
        let (endpoint, settings, pause) = (self.endpoints.get(self.at).cloned(), self.settings.clone(), self.pause());
        async move {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let endpoint = endpoint.ok_or(ClientError::Closed)?;
            LockStream::open(&endpoint, &settings).await
        }
    }

    /// Zero while there is a member that was not asked. After that every session draws a pause of its own: all sessions of a dead
    /// clerk would otherwise dial the same members in the same moments.
    fn pause(&mut self) -> Duration {
        let rounds = self.misses / self.endpoints.len().max(1);
        if rounds == 0 {
            return Duration::ZERO;
        }
        let longest = (PAUSE_MIN * (1 << rounds.min(16))).min(PAUSE_MAX);
        longest * (self.dice.below(8) as u32 + 1) / 8
    }

    /// A clerk serves the session.
    pub(super) fn served(&mut self) {
        self.misses = 0;
    }

    pub(super) fn reached(&mut self, member: u32) {
        self.met.insert(member, self.at);
    }

    /// The present member does not answer, or closed the connection: the next one.
    pub(super) fn failed(&mut self) {
        self.at = (self.at + 1) % self.endpoints.len().max(1);
        self.misses += 1;
    }

    /// The present member is not the clerk. True if another one is to be dialled now.
    pub(super) fn directed(&mut self, why: &Unavailable) -> bool {
        let Unavailable::NotTheClerk { leader: Some(leader) } = why else { return false };
        let listed = self.endpoints.iter().position(|endpoint| endpoint.id == Some(leader.0));
        match listed.or_else(|| self.met.get(&leader.0).copied()) {
            Some(at) if at == self.at => false,
            Some(at) => {
                self.at = at;
                self.misses += 1;
                true
            }
            None => {
                // Which endpoint is it? Asking them all in turn finds it.
                self.failed();
                self.endpoints.len() > 1
            }
        }
    }
}
