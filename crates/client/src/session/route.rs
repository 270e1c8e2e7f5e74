//! The way to the clerk: which member is dialled next. One connection at a time, to the member that leads as far as the last
//! one knew.

use std::collections::BTreeMap;
use std::time::Duration;

use locks::wire::Unavailable;
use transport::ClientSettings;

use super::stream::LockStream;
use crate::connection::ClientError;
use crate::endpoint::Endpoint;

/// Pauses between dials grow to this.
const PAUSE_MAX: Duration = Duration::from_millis(200);
const PAUSE_MIN: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(super) struct Route {
    endpoints: Vec<Endpoint>,
    settings: ClientSettings,
    /// The endpoint that is dialled, or connected.
    at: usize,
    /// Positions of members whose ids the endpoints do not tell.
    met: BTreeMap<u32, usize>,
    pause: Duration,
}

impl Route {
    pub(super) fn new(endpoints: Vec<Endpoint>, settings: &ClientSettings) -> Self {
        Route { endpoints, settings: settings.clone(), at: 0, met: BTreeMap::new(), pause: Duration::ZERO }
    }

    /// Dials the present endpoint.
    pub(super) fn dial(&self) -> impl Future<Output = Result<(u32, Box<LockStream>), ClientError>> + Send + 'static {
        let (endpoint, settings, pause) = (self.endpoints.get(self.at).cloned(), self.settings.clone(), self.pause);
        async move {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let endpoint = endpoint.ok_or(ClientError::Closed)?;
            LockStream::open(&endpoint, &settings).await
        }
    }

    pub(super) fn reached(&mut self, member: u32) {
        self.met.insert(member, self.at);
        self.pause = Duration::ZERO;
    }

    /// The present member does not answer, or closed the connection: the next one.
    pub(super) fn failed(&mut self) {
        self.at = (self.at + 1) % self.endpoints.len().max(1);
        if self.at == 0 {
            self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        }
    }

    /// The present member is not the clerk. True if another one is to be dialled now.
    pub(super) fn directed(&mut self, why: &Unavailable) -> bool {
        let Unavailable::NotTheClerk { leader: Some(leader) } = why else { return false };
        let listed = self.endpoints.iter().position(|endpoint| endpoint.id == Some(leader.0));
        match listed.or_else(|| self.met.get(&leader.0).copied()) {
            Some(at) if at == self.at => false,
            Some(at) => {
                self.at = at;
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
