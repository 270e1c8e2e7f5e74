//! `/metrics`: what this member measures, in the text format of Prometheus.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use client::{MemberStatus, Role, Standing, Workload};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use types::Token;

use crate::histogram::Histogram;
use crate::own::Own;

/// What the event loop counts. Made when it is asked for: counting costs no lock and no allocation.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Of the cluster's election, by kind.
    pub messages: Vec<MessageCount>,
    pub leader_changes: u64,
    /// From the loss of a leader to the next one, as this member saw them.
    pub elections: Option<Histogram>,
    /// Writes of the state file, each of them synced.
    pub fsync: Option<Histogram>,
    /// `None` where this member does not know the locks.
    pub locks: Option<LockFigures>,
    /// From a request for a lock to its grant, of clients of this member.
    pub lock_acquire: Option<Histogram>,
    pub log_lines_dropped: u64,
    /// Announcements or answers that wait for their readers, by queue.
    pub queues: Vec<(&'static str, u64)>,
    pub peer_queues: Vec<PeerQueue>,
    pub attached_children: u64,
    /// What they do and could do, all together; `None` if none of them says so.
    pub work: Option<Workload>,
    pub clients: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct MessageCount {
    pub kind: &'static str,
    pub sent: u64,
    pub received: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct LockFigures {
    pub held: u64,
    pub waiters: u64,
}

/// Bytes that wait for one peer.
#[derive(Clone, Copy, Debug)]
pub struct PeerQueue {
    pub peer: u32,
    pub bytes: u64,
}

const GAUGE: MetricType = MetricType::Gauge;
const COUNTER: MetricType = MetricType::Counter;
const HISTOGRAM: MetricType = MetricType::Histogram;

/// Every metric: name, type, meaning. `docs/metrics.md` has the same table.
pub const NAMES: &[(&str, MetricType, &str)] = &[
    ("conclave_has_leader", GAUGE, "1 if this member knows a leader"),
    ("conclave_is_leader", GAUGE, "1 if this member leads now, compared with the end of its lease"),
    ("conclave_epoch", GAUGE, "The epoch of the leader that this member follows"),
    ("conclave_fencing_token", GAUGE, "The fencing token of the reign of this member; 0 if it does not lead"),
    ("conclave_lease_seconds_left", GAUGE, "How long the lease of this member still runs; 0 without one"),
    ("conclave_paused", GAUGE, "1 if this member knows of a pause: no elections until it ends"),
    ("conclave_leader_changes_total", COUNTER, "Changes of the leader or its epoch that this member saw"),
    (
        "conclave_election_duration_seconds",
        HISTOGRAM,
        "From the loss of a leader to the next one, as this member saw them",
    ),
    ("conclave_messages_total", COUNTER, "Messages between members, by kind and direction"),
    ("conclave_peer_up", GAUGE, "1 if there is a connection to the peer"),
    ("conclave_peer_drift_ppm", GAUGE, "Millionths by which the clock of the peer runs fast against this one"),
    ("conclave_max_drift_ppm", GAUGE, "The max_drift of the config, in millionths: clocks must stay within it"),
    ("conclave_peer_queue_bytes", GAUGE, "Bytes that wait for the peer"),
    ("conclave_queue_length", GAUGE, "Announcements and answers that wait, by queue"),
    ("conclave_clients", GAUGE, "Connections of clients"),
    ("conclave_attached_children", GAUGE, "Clients that run a process for as long as this member leads"),
    ("conclave_worker_load", GAUGE, "What the processes of these clients do now, in their own unit"),
    ("conclave_worker_capacity", GAUGE, "The most that they could do, in the same unit"),
    ("conclave_locks_held", GAUGE, "Locks that are held, at the member that knows them"),
    ("conclave_lock_waiters", GAUGE, "Requests that wait for a lock, at the member that knows them"),
    ("conclave_lock_acquire_seconds", HISTOGRAM, "From a request for a lock to its grant"),
    ("conclave_fsync_seconds", HISTOGRAM, "Writes of the state file, each of them synced"),
    ("conclave_log_lines_dropped_total", COUNTER, "Log lines that were dropped because stderr was not read"),
    ("conclave_event_loop_up", GAUGE, "1 if the event loop answered this scrape"),
    ("conclave_uptime_seconds", GAUGE, "Since the start of this process"),
    ("conclave_build_info", MetricType::Info, "The version of this member, its algorithm and its safety"),
];

/// The kind of content that every Prometheus reads.
pub(crate) const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) async fn text(own: &Own) -> String {
    let figures = own.figures().await;
    let page = Page {
        standing: own.shown.standing(),
        lease: own.shown.lease_left(),
        status: own.shown.status(),
        answered: figures.is_some(),
        figures: figures.unwrap_or_default(),
    };
    page.text()
}

#[derive(Debug)]
struct Page {
    standing: Standing,
    lease: Option<Duration>,
    status: MemberStatus,
    answered: bool,
    figures: Figures,
}

impl Page {
    fn text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Arc::new(self)));
        let mut text = String::with_capacity(8 << 10);
        if text::encode_registry(&mut text, &registry).is_err() {
            text.clear();
        }
        older_format(&text)
    }
}

/// In the older text format, which `promtool` and every scraper reads, a counter is described under the name of its
/// sample, and there is no type `info`.
fn older_format(text: &str) -> String {
    let mut lines = String::with_capacity(text.len() + 256);
    for line in text.lines() {
        let described = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE "));
        let name = described.and_then(|rest| rest.split(' ').next()).unwrap_or_default();
        let known = |suffix: &str| NAMES.iter().find(|(known, ..)| *known == format!("{name}{suffix}"));
        let full = known("_total").or_else(|| known("_info")).map(|(full, ..)| *full);
        match full.filter(|_| !name.is_empty()) {
            Some(full) => lines += &line.replacen(name, full, 1).replace(" info", " gauge"),
            None => lines += line,
        }
        lines.push('\n');
    }
    lines
}

type Labels = Vec<(&'static str, String)>;

/// Writes one family after another.
struct Families<'e, 'w>(&'e mut DescriptorEncoder<'w>);

impl Families<'_, '_> {
    fn family(&mut self, name: &str, samples: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result) -> fmt::Result {
        let Some(&(_, kind, help)) = NAMES.iter().find(|(known, ..)| *known == name) else { return Err(fmt::Error) };
        // The encoder adds these words itself.
        let name = name.strip_suffix("_total").or_else(|| name.strip_suffix("_info")).unwrap_or(name);
        samples(&mut self.0.encode_descriptor(name, help, None, kind)?)
    }

    fn gauge(&mut self, name: &str, value: f64) -> fmt::Result {
        self.family(name, |metric| metric.encode_gauge(&value))
    }

    /// Described always; without a sample where nobody knows the value.
    fn gauge_if_known(&mut self, name: &str, value: Option<f64>) -> fmt::Result {
        self.family(name, |metric| value.map_or(Ok(()), |value| metric.encode_gauge(&value)))
    }

    fn counter(&mut self, name: &str, value: u64) -> fmt::Result {
        self.family(name, |metric| metric.encode_counter::<NoLabelSet, _, u64>(&value, None))
    }

    fn gauges(&mut self, name: &str, all: impl IntoIterator<Item = (Labels, f64)>) -> fmt::Result {
        self.family(name, |metric| {
            all.into_iter().try_for_each(|(labels, value)| metric.encode_family(&labels)?.encode_gauge(&value))
        })
    }

    fn histogram(&mut self, name: &str, histogram: Option<&Histogram>) -> fmt::Result {
        let Some(histogram) = histogram else { return Ok(()) };
        self.family(name, |metric| {
            metric.encode_histogram::<NoLabelSet>(histogram.sum(), histogram.count(), &histogram.buckets(), None)
        })
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families(&mut encoder);
        self.leadership(&mut families)?;
        self.peers(&mut families)?;
        self.service(&mut families)?;
        self.process(&mut families)
    }
}

fn bit(value: bool) -> f64 {
    f64::from(u8::from(value))
}

fn of_peer(peer: u32) -> Labels {
    vec![("peer", peer.to_string())]
}

impl Page {
    fn leadership(&self, to: &mut Families<'_, '_>) -> fmt::Result {
        let leads = self.standing.role == Role::Leader;
        let token = if leads { Token::leader(self.standing.epoch).0 } else { 0 };
        to.gauge("conclave_has_leader", bit(self.standing.leader.is_some()))?;
        to.gauge("conclave_is_leader", bit(leads))?;
        to.gauge("conclave_epoch", self.standing.epoch.0 as f64)?;
        to.gauge("conclave_fencing_token", token as f64)?;
        to.gauge("conclave_lease_seconds_left", self.lease.unwrap_or_default().as_secs_f64())?;
        to.gauge("conclave_paused", bit(self.status.maintenance.paused))?;
        to.counter("conclave_leader_changes_total", self.figures.leader_changes)?;
        to.histogram("conclave_election_duration_seconds", self.figures.elections.as_ref())
    }

    fn peers(&self, to: &mut Families<'_, '_>) -> fmt::Result {
        to.family("conclave_messages_total", |metric| {
            for count in &self.figures.messages {
                for (direction, value) in [("sent", count.sent), ("received", count.received)] {
                    let labels: Labels = vec![("kind", count.kind.to_owned()), ("direction", direction.to_owned())];
                    metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
                }
            }
            Ok(())
        })?;
        let peers = &self.status.peers;
        to.gauges("conclave_peer_up", peers.iter().map(|peer| (of_peer(peer.id), bit(peer.connected))))?;
        let drift = peers.iter().filter_map(|peer| Some((of_peer(peer.id), peer.drift_ppm? as f64)));
        to.gauges("conclave_peer_drift_ppm", drift)?;
        to.gauge("conclave_max_drift_ppm", self.status.max_drift_ppm as f64)?;
        let queues = self.figures.peer_queues.iter();
        to.gauges("conclave_peer_queue_bytes", queues.map(|queue| (of_peer(queue.peer), queue.bytes as f64)))
    }

    fn service(&self, to: &mut Families<'_, '_>) -> fmt::Result {
        let figures = &self.figures;
        let queues = figures.queues.iter();
        to.gauges("conclave_queue_length", queues.map(|(name, n)| (vec![("queue", (*name).to_owned())], *n as f64)))?;
        to.gauge("conclave_clients", figures.clients as f64)?;
        to.gauge("conclave_attached_children", figures.attached_children as f64)?;
        to.gauge_if_known("conclave_worker_load", figures.work.map(|work| work.load.value()))?;
        to.gauge_if_known("conclave_worker_capacity", figures.work.map(|work| work.capacity.value()))?;
        if let Some(LockFigures { held, waiters }) = figures.locks {
            to.gauge("conclave_locks_held", held as f64)?;
            to.gauge("conclave_lock_waiters", waiters as f64)?;
        }
        to.histogram("conclave_lock_acquire_seconds", figures.lock_acquire.as_ref())
    }

    fn process(&self, to: &mut Families<'_, '_>) -> fmt::Result {
        let status = &self.status;
        to.histogram("conclave_fsync_seconds", self.figures.fsync.as_ref())?;
        to.counter("conclave_log_lines_dropped_total", self.figures.log_lines_dropped)?;
        to.gauge("conclave_event_loop_up", bit(self.answered))?;
        to.gauge("conclave_uptime_seconds", Duration::from_millis(status.uptime_ms).as_secs_f64())?;
        let labels: Labels = vec![
            ("version", status.version.clone()),
            ("algorithm", status.algorithm.clone()),
            ("safety", status.safety.to_string()),
        ];
        to.family("conclave_build_info", |metric| metric.encode_info(&labels))
    }
}
