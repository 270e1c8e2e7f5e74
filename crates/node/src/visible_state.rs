//! What this process shows to clients, readable by any task or thread without entering the event loop.
//!
//! The loop writes it. Readers never ask a machine, which may be ahead of its own effects or behind the clock: they see
//! the last announcement, and a leadership only while its lease runs. The reader itself compares the clock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use algorithms::NodeId;
use client::{ElectionCost, Maintenance, MemberStatus, PeerStatus, PriorityBy, Workload};
use member::{Mode, Role, Safety, Stand, Standing};
use types::{InstanceId, Topology, Uid, Wins, boot_clock, since_boot};

use crate::config::ElectionConfig;
use crate::daemon::millis;

/// The text comes from a peer.
const REFUSAL_CHARS_MAX: usize = 500;

/// The visible state that all instances of a process share.
#[derive(Debug)]
pub(crate) struct ProcessState {
    uid: Mutex<Uid>,
    cluster: String,
    started: Duration,
    incarnation: u64,
    /// In the order of the member list.
    peers: Mutex<Vec<PeerState>>,
    /// Sent to and received from members that are in the list no more.
    gone: Mutex<(u64, u64)>,
    faults: Mutex<Vec<String>>,
    /// Microseconds; 0 before the first write.
    persist_us: AtomicU64,
    cluster_id: Mutex<Option<String>>,
    old_volume: AtomicBool,
    /// The names of the keys that new handshakes use, and when the first of them expires.
    keys: Mutex<(Vec<String>, Option<SystemTime>)>,
    /// The priority of the next election, if it is not that of the list.
    priority: Mutex<Option<(u32, PriorityBy)>>,
}

#[derive(Clone, Debug, Default)]
struct PeerState {
    id: NodeId,
    connected: bool,
    /// Since boot.
    last_heard: Option<Duration>,
    sent: u64,
    received: u64,
    /// Millionths by which its clock runs fast; `None` before enough of its readings have arrived.
    drift_ppm: Option<i64>,
    /// Of the last dial.
    refusal: Option<String>,
}

impl ProcessState {
    pub(crate) fn new(uid: Uid, cluster: String, incarnation: u64, peers: impl Iterator<Item = NodeId>) -> Self {
        let process = ProcessState {
            uid: Mutex::new(uid),
            cluster,
            started: since_boot(),
            incarnation,
            peers: Mutex::default(),
            gone: Mutex::default(),
            faults: Mutex::default(),
            persist_us: AtomicU64::new(0),
            cluster_id: Mutex::default(),
            old_volume: AtomicBool::new(false),
            keys: Mutex::default(),
            priority: Mutex::default(),
        };
        process.set_members(uid, peers);
        process
    }

    /// The member list has changed.
    pub(crate) fn set_members(&self, uid: Uid, peers: impl Iterator<Item = NodeId>) {
        *lock(&self.uid) = uid;
        let mut states = lock(&self.peers);
        let known = |id| states.iter().find(|peer| peer.id == id).cloned();
        let new = |id| PeerState { id, ..PeerState::default() };
        let now: Vec<PeerState> = peers.map(|id| known(id).unwrap_or_else(|| new(id))).collect();
        let mut gone = lock(&self.gone);
        for peer in states.iter().filter(|old| now.iter().all(|peer| peer.id != old.id)) {
            *gone = (gone.0 + peer.sent, gone.1 + peer.received);
        }
        *states = now;
    }

    pub(crate) fn linked(&self, peer: NodeId, up: bool) {
        self.change(peer, |peer| {
            peer.connected = up;
            peer.refusal.take_if(|_| up);
        });
    }

    /// A dial of this peer was refused, or its answer was.
    pub(crate) fn refused(&self, peer: NodeId, why: &str) {
        let cut: String = why.chars().take(REFUSAL_CHARS_MAX).collect();
        self.change(peer, |peer| peer.refusal = Some(cut));
    }

    /// A dial of this peer failed in another way.
    pub(crate) fn not_refused(&self, peer: NodeId) {
        self.change(peer, |peer| peer.refusal = None);
    }

    pub(crate) fn sent(&self, to: NodeId) {
        self.change(to, |peer| peer.sent += 1);
    }

    /// `now`: since boot.
    pub(crate) fn received(&self, from: NodeId, now: Duration) {
        self.change(from, |peer| {
            peer.received += 1;
            peer.last_heard = Some(now);
        });
    }

    pub(crate) fn set_drift(&self, of: NodeId, ppm: Option<i64>) {
        self.change(of, |peer| peer.drift_ppm = ppm);
    }

    pub(crate) fn set_faults(&self, faults: Vec<String>) {
        *lock(&self.faults) = faults;
    }

    pub(crate) fn set_persist(&self, median: Option<Duration>) {
        self.persist_us.store(median.map_or(0, |took| took.as_micros() as u64), Ordering::Relaxed);
    }

    /// True if it was not known.
    pub(crate) fn set_cluster_id(&self, id: String) -> bool {
        let mut known = lock(&self.cluster_id);
        let new = known.as_ref() != Some(&id);
        *known = Some(id);
        new
    }

    /// A majority of the voters has seen later runs of this member: it does not vote.
    pub(crate) fn set_old_volume(&self, old: bool) {
        self.old_volume.store(old, Ordering::Relaxed);
    }

    pub(crate) fn set_keys(&self, ids: Vec<String>, expires: Option<SystemTime>) {
        *lock(&self.keys) = (ids, expires);
    }

    /// `None`: that of the list.
    pub(crate) fn set_priority(&self, priority: Option<(u32, PriorityBy)>) {
        *lock(&self.priority) = priority;
    }

    pub(crate) fn uptime(&self) -> Duration {
        since_boot().saturating_sub(self.started)
    }

    fn change(&self, id: NodeId, change: impl FnOnce(&mut PeerState)) {
        if let Some(peer) = lock(&self.peers).iter_mut().find(|peer| peer.id == id) {
            change(peer);
        }
    }
}

impl PeerState {
    fn status(&self, now: Duration) -> PeerStatus {
        let last_heard_ms = self.last_heard.map(|heard| now.saturating_sub(heard).as_millis() as u64);
        let refusal = self.refusal.clone().filter(|_| !self.connected);
        PeerStatus { id: self.id.0, connected: self.connected, last_heard_ms, drift_ppm: self.drift_ppm, refusal }
    }
}

/// The visible state of one instance.
#[derive(Debug)]
pub(crate) struct VisibleState {
    process: Arc<ProcessState>,
    pub(crate) instance: InstanceId,
    algorithm: &'static str,
    topology: Topology,
    safety: Safety,
    wins: Wins,
    max_drift_ppm: u64,
    stands_attached: AtomicBool,
    /// Since the process started.
    election_messages: AtomicU64,
    shown: Mutex<Shown>,
}

#[derive(Clone, Debug)]
struct Shown {
    standing: Standing,
    /// Was anything announced yet?
    announced: bool,
    /// When the lease ends, since boot; leaders of classic elections have none.
    lease_until: Option<Duration>,
    election: Option<ElectionCost>,
    blank: bool,
    active_list: Option<Vec<u32>>,
    /// Clients of `ctl lead`.
    attached: u32,
    /// What their processes do and could do.
    work: Option<Workload>,
    /// Without the end of a rest.
    maintenance: Maintenance,
    /// The end of a rest, since boot.
    rests_until: Option<Duration>,
}

impl VisibleState {
    pub(crate) fn new(
        process: Arc<ProcessState>,
        election: &ElectionConfig,
        safety: Safety,
        standing: Standing,
    ) -> Self {
        let blank = safety == Safety::Quorum;
        let shown = Shown {
            standing,
            announced: false,
            lease_until: None,
            election: None,
            blank,
            active_list: None,
            attached: 0,
            work: None,
            maintenance: Maintenance::default(),
            rests_until: None,
        };
        let (instance, algorithm, topology) = (election.instance, election.row.name, election.topology);
        let wins = election.settings.election.wins;
        let max_drift_ppm = (election.settings.timing.max_drift * 1e6).round() as u64;
        let (election_messages, shown) = (AtomicU64::new(0), Mutex::new(shown));
        VisibleState {
            process,
            instance,
            algorithm,
            topology,
            safety,
            wins,
            max_drift_ppm,
            stands_attached: AtomicBool::new(election.settings.stand == Stand::Attached),
            election_messages,
            shown,
        }
    }

    /// Returns the previous announcement.
    pub(crate) fn became(&self, now: Standing) -> Option<Standing> {
        let mut shown = lock(&self.shown);
        if now.role != Role::Leader {
            shown.lease_until = None;
        }
        let before = std::mem::replace(&mut shown.standing, now);
        std::mem::replace(&mut shown.announced, true).then_some(before)
    }

    pub(crate) fn leased(&self, until: Option<Duration>) {
        lock(&self.shown).lease_until = until;
    }

    pub(crate) fn set_election(&self, election: ElectionCost) {
        lock(&self.shown).election = Some(election);
    }

    pub(crate) fn election(&self) -> Option<ElectionCost> {
        lock(&self.shown).election.clone()
    }

    pub(crate) fn set_election_messages(&self, total: u64) {
        self.election_messages.store(total, Ordering::Relaxed);
    }

    pub(crate) fn set_blank(&self, blank: bool) {
        lock(&self.shown).blank = blank;
    }

    /// A list stays until the next one: the present election may not have one yet.
    pub(crate) fn set_active_list(&self, list: Option<Vec<u32>>) {
        if list.is_some() {
            lock(&self.shown).active_list = list;
        }
    }

    pub(crate) fn set_stand(&self, stand: Stand) {
        self.stands_attached.store(stand == Stand::Attached, Ordering::Relaxed);
    }

    pub(crate) fn set_attached(&self, clients: usize, work: Option<Workload>) {
        let mut shown = lock(&self.shown);
        (shown.attached, shown.work) = (clients as u32, work);
    }

    pub(crate) fn has_attached(&self) -> bool {
        lock(&self.shown).attached > 0
    }

    pub(crate) fn set_mode(&self, Mode { number, by, paused, keeps }: Mode) {
        let maintenance = &mut lock(&self.shown).maintenance;
        let (order, keeps) = ((number, by.0), keeps.map(|id| id.0));
        *maintenance = Maintenance { order, paused, keeps, ..*maintenance };
    }

    pub(crate) fn set_held(&self, held: bool) {
        lock(&self.shown).maintenance.held = held;
    }

    pub(crate) fn set_rest(&self, until: Option<Duration>) {
        lock(&self.shown).rests_until = until;
    }

    /// The standing that may be reported now.
    pub(crate) fn standing(&self) -> Standing {
        self.standing_at(since_boot())
    }

    /// `now`: read from the clock just now.
    pub(crate) fn standing_at(&self, now: Duration) -> Standing {
        self.standing_of(&lock(&self.shown), now)
    }

    /// When the lease ends, on the clock of announcements; `None` without a lease, or after its end.
    pub(crate) fn lease_until_ns(&self) -> Option<u64> {
        let left = lock(&self.shown).lease_until?.checked_sub(since_boot()).filter(|left| !left.is_zero())?;
        Some((boot_clock() + left).as_nanos() as u64)
    }

    /// How long the lease of this leader still runs; `None` without a lease, or after its end.
    pub(crate) fn lease_left(&self, now: Duration) -> Option<Duration> {
        lock(&self.shown).lease_until?.checked_sub(now).filter(|left| !left.is_zero())
    }

    pub(crate) fn status(&self) -> MemberStatus {
        let (shown, now) = (lock(&self.shown).clone(), since_boot());
        let standing = self.standing_of(&shown, now);
        let process = &self.process;
        let (uid, peers, gone) = (*lock(&process.uid), lock(&process.peers).clone(), *lock(&process.gone));
        let (key_ids, expires) = lock(&process.keys).clone();
        let (priority, priority_by) = lock(&process.priority).unwrap_or((uid.priority, PriorityBy::List));
        let left = shown.lease_until.and_then(|until| until.checked_sub(now)).filter(|left| !left.is_zero());
        let rest = shown.rests_until.and_then(|until| until.checked_sub(now));
        let rests_until_ms = rest.map(|rest| millis(SystemTime::now() + rest));
        MemberStatus {
            id: uid.id.0,
            instance: self.instance,
            cluster: process.cluster.clone(),
            algorithm: self.algorithm.to_owned(),
            topology: self.topology,
            safety: self.safety,
            role: standing.role,
            priority,
            wins: self.wins,
            leader: standing.leader.map(|leader| leader.0),
            epoch: standing.epoch.0,
            incarnation: process.incarnation,
            lease_ms: left.map(|left| left.as_millis() as u64),
            sent: gone.0 + peers.iter().map(|peer| peer.sent).sum::<u64>(),
            received: gone.1 + peers.iter().map(|peer| peer.received).sum::<u64>(),
            election_messages: self.election_messages.load(Ordering::Relaxed),
            election: shown.election,
            peers: peers.iter().map(|peer| peer.status(now)).collect(),
            uptime_ms: process.uptime().as_millis() as u64,
            version: crate::version(),
            persist_us: Some(process.persist_us.load(Ordering::Relaxed)).filter(|&us| us > 0),
            faults: lock(&process.faults).clone(),
            blank: shown.blank,
            cluster_id: lock(&process.cluster_id).clone(),
            old_volume: process.old_volume.load(Ordering::Relaxed),
            max_drift_ppm: self.max_drift_ppm,
            key_ids,
            expires_ms: expires.map(millis),
            priority_by,
            active_list: shown.active_list,
            attached: shown.attached,
            stands_attached: self.stands_attached.load(Ordering::Relaxed),
            maintenance: Maintenance { rests_until_ms, ..shown.maintenance },
            work: shown.work,
        }
    }

    fn standing_of(&self, shown: &Shown, now: Duration) -> Standing {
        let claims = shown.standing.role == Role::Leader;
        let lease_runs = shown.lease_until.is_some_and(|until| until > now);
        if claims && self.safety == Safety::Quorum && !lease_runs {
            return Standing { role: Role::Candidate, leader: None, epoch: shown.standing.epoch };
        }
        shown.standing
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use algorithms::Epoch;

    use super::*;

    const LEADS: Standing = Standing { role: Role::Leader, leader: Some(NodeId(1)), epoch: Epoch(7) };

    fn state(safety: Safety) -> VisibleState {
        let process = ProcessState::new(Uid::plain(1), "demo".into(), 3, [2, 3].map(NodeId).into_iter());
        let candidate = Standing { role: Role::Candidate, leader: None, epoch: Epoch(6) };
        let election = ElectionConfig {
            instance: InstanceId::ELECTION,
            row: algorithms::catalog::row("bully").unwrap(),
            topology: Topology::Mesh,
            settings: member::Settings::default(),
        };
        VisibleState::new(Arc::new(process), &election, safety, candidate)
    }

    #[test]
    fn a_leader_by_quorum_is_shown_only_while_its_lease_runs() {
        let state = state(Safety::Quorum);
        state.became(LEADS);
        let nobody = Standing { role: Role::Candidate, leader: None, epoch: Epoch(7) };
        assert_eq!(state.standing(), nobody, "no lease was announced");
        state.leased(Some(since_boot() + Duration::from_hours(1)));
        assert_eq!(state.standing(), LEADS);
        let status = state.status();
        assert_eq!((status.role, status.leader), (Role::Leader, Some(1)));
        assert!(status.lease_ms.is_some_and(|ms| ms > 3_000_000));
        // The machine waits for a disk that hangs and announces nothing: the reader still sees the end of the lease.
        state.leased(Some(since_boot()));
        assert_eq!(state.standing(), nobody);
        let status = state.status();
        assert_eq!((status.role, status.leader, status.lease_ms), (Role::Candidate, None, None));
        assert_eq!(state.lease_until_ns(), None);
    }

    #[test]
    fn a_lease_does_not_outlive_the_leadership_it_was_for() {
        let state = state(Safety::Quorum);
        state.leased(Some(since_boot() + Duration::from_hours(1)));
        state.became(LEADS);
        state.became(Standing { role: Role::Follower, leader: Some(NodeId(2)), epoch: Epoch(8) });
        assert_eq!(state.lease_until_ns(), None);
        assert_eq!(state.became(LEADS).map(|before| before.epoch), Some(Epoch(8)));
        assert_eq!(state.standing().role, Role::Candidate, "a new leadership needs a lease of its own");
    }

    #[test]
    fn a_classic_leader_has_no_lease() {
        let state = state(Safety::Classic);
        assert_eq!(state.became(LEADS), None, "nothing was announced before");
        assert_eq!(state.standing(), LEADS);
    }

    #[test]
    fn a_changed_list_keeps_what_is_known_of_its_members_and_what_was_counted() {
        let state = state(Safety::Quorum);
        for id in [2, 3] {
            state.process.linked(NodeId(id), true);
            state.process.received(NodeId(id), since_boot());
            state.process.sent(NodeId(id));
        }
        state.process.set_members(Uid { priority: 5, id: NodeId(1) }, [4, 3].map(NodeId).into_iter());
        let status = state.status();
        assert_eq!((status.priority, status.sent, status.received), (5, 2, 2));
        let peers: Vec<(u32, bool)> = status.peers.iter().map(|peer| (peer.id, peer.connected)).collect();
        assert_eq!(peers, [(4, false), (3, true)]);
    }

    #[test]
    fn links_and_traffic_are_seen_by_other_threads() {
        let state = Arc::new(state(Safety::Classic));
        state.process.linked(NodeId(2), true);
        state.process.received(NodeId(2), since_boot());
        state.process.sent(NodeId(2));
        state.process.sent(NodeId(9));
        let seen = Arc::clone(&state);
        let status = std::thread::spawn(move || seen.status()).join().unwrap();
        assert_eq!((status.sent, status.received), (1, 1));
        let up: Vec<(u32, bool, bool)> =
            status.peers.iter().map(|peer| (peer.id, peer.connected, peer.last_heard_ms.is_some())).collect();
        assert_eq!(up, [(2, true, true), (3, false, false)]);
    }
}
