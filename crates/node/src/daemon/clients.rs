//! The connected clients: what each may ask for, and the name that it gave itself. Every request passes
//! [`Clients::refusal`] before anything acts on it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use client::{ClaimedName, FailCode, Request, Response};
use types::Access;

use super::failed;

/// Refusals are logged at most this often: a client can send any number of requests.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// `C` names a client.
#[derive(Debug)]
pub(super) struct Clients<C> {
    connected: BTreeMap<C, Known>,
    logged: Option<Instant>,
    /// Refusals since the last line of the log.
    unlogged: u64,
}

#[derive(Debug)]
struct Known {
    access: Access,
    name: ClaimedName,
}

impl<C: Ord + Copy> Clients<C> {
    pub(super) fn new() -> Self {
        Clients { connected: BTreeMap::new(), logged: None, unlogged: 0 }
    }

    pub(super) fn up(&mut self, client: C, access: Access) {
        self.connected.insert(client, Known { access, name: ClaimedName::NONE });
    }

    pub(super) fn gone(&mut self, client: C) {
        self.connected.remove(&client);
    }

    pub(super) fn introduce(&mut self, client: C, name: ClaimedName) {
        if let Some(known) = self.connected.get_mut(&client) {
            known.name = name;
        }
    }

    /// What the client may do and the name that it gave; `None` for a client that has left.
    pub(super) fn get(&self, client: C) -> Option<(Access, ClaimedName)> {
        self.connected.get(&client).map(|known| (known.access, known.name.clone()))
    }

    /// The answer to a request that the client's secret does not allow; `None` if it is allowed. Refusals are logged but not announced: a reader
    /// could otherwise push the history out of the bounded ledger.
    pub(super) fn refusal(
        &mut self,
        client: C,
        address: impl FnOnce() -> Option<SocketAddr>,
        request: &Request,
    ) -> Option<Response> {
        let access = self.connected.get(&client).map(|known| known.access);
        if access.is_some_and(|access| access >= request.access()) {
            return None;
        }
        let has = access.map_or("none", Access::name);
        self.log(address(), has, request);
        Some(refusal(has, request))
    }

    fn log(&mut self, address: Option<SocketAddr>, has: &'static str, request: &Request) {
        self.unlogged += 1;
        if self.logged.is_some_and(|at| at.elapsed() < LOG_EVERY) {
            return;
        }
        let (refused, needs) = (self.unlogged, request.access().name());
        tracing::warn!(
            request = request.name(), has, needs, from = ?address, refused, "a client's secret does not allow its request"
        );
        (self.logged, self.unlogged) = (Some(Instant::now()), 0);
    }
}

fn refusal(has: &str, request: &Request) -> Response {
    let (what, needs) = (request.name(), request.access());
    let why = format!(
        "`{what}` needs the access of an {needs}, and this client's secret or certificate gives the access of a {has}: name \
         the {needs}s' secret with `--secret-file {needs}.secret` (`ctl init` writes that file, and `ctl secret derive \
         --access {needs}` prints it where the cluster's own secret is), or their certificate with `--certificate \
         {needs}.pem`"
    );
    failed(FailCode::Refused, why)
}

#[cfg(test)]
mod tests {
    use client::Chaos;

    use super::*;

    #[test]
    fn every_request_of_every_client_passes_only_with_its_access() {
        let mut clients = Clients::new();
        for (id, access) in (0..).zip(Access::ALL) {
            clients.up(id, access);
        }
        for request in Request::ALL {
            for (id, access) in (0..).zip(Access::ALL) {
                let admitted = clients.refusal(id, || None, request).is_none();
                assert_eq!(admitted, access >= request.access(), "{} of a {access}", request.name());
            }
            assert!(clients.refusal(3, || None, request).is_some(), "{} of a client that is not up", request.name());
        }
        clients.gone(2);
        assert!(clients.refusal(2, || None, &Request::Status).is_some(), "a client that has left");
    }

    #[test]
    fn a_refusal_says_which_secret_is_needed_and_how_to_name_it() {
        let mut clients = Clients::new();
        clients.up(0, Access::Reader);
        let answer = clients.refusal(0, || None, &Request::Chaos(Chaos::Kill));
        let Some(Response::Failed { reason, code: FailCode::Refused }) = answer else { panic!("{answer:?}") };
        assert!(reason.contains("`chaos` needs the access of an operator"), "{reason}");
        assert!(reason.contains("of a reader") && reason.contains("--secret-file operator.secret"), "{reason}");
    }

    #[test]
    fn a_name_is_kept_until_the_client_leaves() {
        let mut clients = Clients::new();
        clients.introduce(0, ClaimedName::from("early"));
        assert_eq!(clients.get(0), None, "a client that is not up has no name");
        clients.up(0, Access::Operator);
        clients.introduce(0, ClaimedName::from("ada"));
        assert_eq!(clients.get(0), Some((Access::Operator, ClaimedName::from("ada"))));
        clients.gone(0);
        assert_eq!(clients.get(0), None);
    }
}
