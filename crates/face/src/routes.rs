//! The table of routes. The OpenAPI document is made of it, so it cannot name other routes.

use hyper::Method;

use crate::door::Needs;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Leader,
    Livez,
    Readyz,
    Metrics,
    Status,
    History,
    Audit,
    Explain,
    Locks,
    Algorithms,
    Events,
    OpenApi,
    Elect,
    StepDown,
    Transfer,
    Pause,
    Resume,
    Chaos,
    LockOpen,
    LockKeepAlive,
    LockAcquire,
    LockRelease,
}

#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) path: &'static str,
    pub(crate) what: What,
    pub(crate) needs: Needs,
    /// One sentence of the description.
    pub(crate) summary: &'static str,
}

pub(crate) const ROUTES: &[Route] = &[
    route("/leader", What::Leader, Needs::Nothing, "200 if this member leads, else 503: for load balancers."),
    route("/livez", What::Livez, Needs::Nothing, "200 if the event loop of this member answers."),
    route("/readyz", What::Readyz, Needs::Nothing, "200 if this member knows a leader."),
    route("/metrics", What::Metrics, Needs::Host, "Metrics of this member, for Prometheus."),
    route("/v1/status", What::Status, Needs::Read, "All members and the verdict: as `ctl status -o json`."),
    route("/v1/history", What::History, Needs::Read, "Who led from when to when: as `ctl history -o json`."),
    route("/v1/audit", What::Audit, Needs::Read, "Were successive reigns ordered? As `ctl audit -o json`."),
    route("/v1/explain", What::Explain, Needs::Read, "Why a member leads, or none: as `ctl explain -o json`."),
    route("/v1/locks", What::Locks, Needs::Read, "Locks, holders and waiters: as `ctl locks -o json`."),
    route("/v1/algorithms", What::Algorithms, Needs::Read, "The catalog: the lines of `ctl algorithms -o json`."),
    route("/v1/events", What::Events, Needs::Stream, "Everything that members announce, as server-sent events."),
    route("/v1/openapi.json", What::OpenApi, Needs::Host, "This description."),
    route("/v1/elect", What::Elect, Needs::Order, "Starts an election."),
    route("/v1/step-down", What::StepDown, Needs::Order, "Makes the leader resign."),
    route("/v1/transfer", What::Transfer, Needs::Order, "Makes the leader hand over to a member."),
    route("/v1/pause", What::Pause, Needs::Order, "Pauses the cluster: no elections until its end."),
    route("/v1/resume", What::Resume, Needs::Order, "Ends the pause of the cluster."),
    route("/v1/chaos", What::Chaos, Needs::Order, "Injects a fault, where the config allows it."),
    route("/v1/locks/open", What::LockOpen, Needs::Order, "Opens a lock session that this member keeps."),
    route("/v1/locks/keep-alive", What::LockKeepAlive, Needs::Order, "Prolongs a lock session, and shows its locks."),
    route("/v1/locks/acquire", What::LockAcquire, Needs::Order, "Takes a lock."),
    route("/v1/locks/release", What::LockRelease, Needs::Order, "Gives a lock back, or ends the session."),
];

const fn route(path: &'static str, what: What, needs: Needs, summary: &'static str) -> Route {
    Route { path, what, needs, summary }
}

impl Route {
    pub(crate) fn find(path: &str) -> Option<&'static Route> {
        ROUTES.iter().find(|route| route.path == path)
    }

    /// Orders are POST; everything else is GET, and HEAD.
    pub(crate) fn takes(&self, method: &Method) -> bool {
        if self.needs == Needs::Order { *method == Method::POST } else { is_get(method) }
    }

    /// The methods that it takes, as a header names them.
    pub(crate) fn allowed(&self) -> &'static str {
        if self.needs == Needs::Order { "POST" } else { GET }
    }
}

pub(crate) const GET: &str = "GET, HEAD";

pub(crate) fn is_get(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}
