//! From the config and the disk to a daemon that runs.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use algorithms::{Epoch, Topology};
use anyhow::anyhow;
use bytes::BytesMut;
use client::Happened;
use locks::service::LockSettings;
use locks::views::ViewsSettings;
use member::{Incarnation, Safety, Stand};
use transport::Net;
use types::{InstanceId, MemberList};

use super::attached::Attached;
use super::client_budgets::Pages;
use super::clients::Clients;
use super::duplicates::Duplicates;
use super::effects::share_cluster_id;
use super::figures::Counts;
use super::locks::LockService;
use super::priority::Priority;
use super::reload::Reload;
use super::stale::Voices;
use super::volume::{self, Volume};
use super::{Daemon, GUESTS_MAX, Home, Instances, Running};
use crate::config::{Config, ElectionConfig};
use crate::disk::Disk;
use crate::hooks::HookQueue;
use crate::instance::{self, Instance, Setup};
use crate::ledger::Ledger;
use crate::lock_machine::{self, LockSetup};
use crate::notify::Notify;
use crate::peer_clocks::PeerClocks;
use crate::publisher::{LogLines, Publisher, Subscriber, Subscription};
use crate::records;
use crate::roster::Roster;
use crate::storage::StateFile;
use crate::visible_state::{ProcessState, VisibleState};

impl Daemon {
    pub(super) async fn start(
        home: &Home,
        disk: Disk,
        ledger: Ledger<Subscription>,
        mut stored: Option<StateFile>,
        voices: Voices,
    ) -> anyhow::Result<Self> {
        let (config, id) = (home.config.clone(), home.id);
        let old = stored.as_mut().filter(|file| file.volume.refused);
        let is_old = old.is_some();
        if let Some(file) = old {
            tracing::error!(
                "this volume is old: a majority of the voters has seen later runs of this member. {}",
                volume::remedy(disk.path())
            );
            volume::same_count(file);
        }
        let roster = Roster::new(list(&config, stored.as_ref()), id);
        let mut machines = machines(&config, &roster, stored.as_ref())?;
        let (own, _) = machines.first().ok_or_else(|| anyhow!("no election"))?;
        let incarnation = own.incarnation();
        let ids = roster.others().map(|peer| peer.uid.id);
        let process = Arc::new(ProcessState::new(roster.me(), config.name.clone(), incarnation.counter, ids));
        let mut instances = Instances::new();
        for (machine, election) in machines.drain(..) {
            let shown = VisibleState::new(Arc::clone(&process), &election, config.safety, machine.standing());
            let (shown, attached) = (Arc::new(shown), Attached::default());
            instances.insert(election.instance, Running { machine, algorithm: election.row.name, shown, attached });
        }
        process.set_old_volume(is_old);
        process.set_keys(home.keyring.key_ids(), home.keyring.expires());
        let volume = Volume::begin(disk, &config, &roster, stored, home.binding, &mut instances).await?;
        let mut settings = transport::Settings::new(config.name.clone(), id.0, incarnation, roster.peers());
        settings.facts = config.facts();
        settings.guests_max = if config.safety == Safety::Quorum { GUESTS_MAX } else { 0 };
        settings.keyring = home.keyring.clone();
        settings.seen = volume.seen();
        settings.dial_timeout = config.settings.timing.suspect_after * 2;
        settings.clients_max = home.descriptors.clients_max;
        settings.unauthenticated_max = home.descriptors.unauthenticated_max;
        settings.backoff_max = Duration::from_millis(500);
        settings.beats_by_itself = false;
        let locks = lock_service(&config, &roster, incarnation)?;
        let mut publisher = Publisher::new(id, subscribers(&ledger, home.hooks.clone()));
        publisher.publish(InstanceId::ELECTION, Happened::Started { incarnation: incarnation.counter });
        let priority = Priority::new(volume.priority(), home.printed.clone());
        let own = instances.get(&InstanceId::ELECTION).map(|running| Arc::clone(&running.shown));
        let questions = home.http.as_ref().zip(own).map(|(face, shown)| face.show(shown));
        let mut daemon = Daemon {
            net: Net::start(settings, home.listener.try_clone()?)?,
            config,
            id,
            roster,
            change_asked: None,
            removed: None,
            instances,
            locks,
            volume,
            publisher,
            ledger,
            notify: Notify::from_env(),
            process,
            duplicates: Duplicates::default(),
            reload: Reload::new(home),
            priority,
            pages: Pages::default(),
            idle_check_at: None,
            links_beat_at: Duration::ZERO,
            voices,
            stale_run: None,
            said_missing: false,
            links: None,
            clients: Clients::new(),
            counts: Counts::new(questions),
            clocks: PeerClocks::default(),
            frame: BytesMut::new(),
        };
        // The id on its disk, before the first handshake: none has begun while this task runs.
        let election = daemon.instances.get(&InstanceId::ELECTION);
        if let Some(id) = election.and_then(|running| running.machine.cluster_id()) {
            share_cluster_id(&daemon.process, &daemon.net, id);
        }
        daemon.share_list();
        daemon.announce_forced();
        daemon.share_priority();
        Ok(daemon)
    }
}

/// The machines that this process runs, in the order of their instances. They draw their incarnation from one seed, so
/// that all of them have the same incarnation.
fn machines(
    config: &Config,
    roster: &Roster,
    stored: Option<&StateFile>,
) -> anyhow::Result<Vec<(Box<dyn Instance>, ElectionConfig)>> {
    let mut seed = [0; 8];
    getrandom::fill(&mut seed).map_err(|error| anyhow!("the kernel gives no randomness: {error}"))?;
    let start = |mut election: ElectionConfig| {
        // Commands attach to the cluster's own election.
        let is_own = election.instance == InstanceId::ELECTION;
        election.settings.stand = if is_own { config.stand(roster.me().id) } else { Stand::Always };
        let links = config.links.clone();
        let mut setup = Setup {
            me: roster.me(),
            view: roster.view(election.topology, &links),
            settings: settings(config, &election),
            links,
            refused: stored.is_some_and(|file| file.volume.refused),
            stored: stored.and_then(|file| records::kept(file, election.instance, election.row.name)),
            seed: u64::from_le_bytes(seed),
            instance: election.instance,
        };
        setup.seat(roster);
        Ok((instance::start(election.row, config.safety, setup)?, election))
    };
    config.elections().into_iter().map(start).collect()
}

/// No machine where the cluster's safety is not enough for its lock algorithm.
fn lock_service(config: &Config, roster: &Roster, incarnation: Incarnation) -> anyhow::Result<LockService> {
    let voters = roster.list().voters().collect();
    if config.locks.needs_other_safety(config.safety) {
        return Ok(LockService::new(None, voters, true));
    }
    let mut seed = [0; 8];
    getrandom::fill(&mut seed).map_err(|error| anyhow!("the kernel gives no randomness: {error}"))?;
    let setup = LockSetup {
        me: roster.me(),
        view: roster.view(Topology::Mesh, &[]),
        settings: views_settings(config, incarnation),
        seed: u64::from_le_bytes(seed),
    };
    Ok(LockService::new(Some(lock_machine::start(config.locks.row, setup)), voters, config.safety == Safety::Classic))
}

/// What the lock machine runs with. A tenancy is as long as a lease: the wait for a silent member is the same.
fn views_settings(config: &Config, incarnation: Incarnation) -> ViewsSettings {
    let (timing, default) = (&config.settings.timing, ViewsSettings::default());
    ViewsSettings {
        locks: LockSettings { incarnation, ..config.locks.settings(config) },
        tenancy: timing.lease,
        beat: timing.heartbeat,
        try_for: default.try_for.max(timing.heartbeat),
        quorum: config.safety == Safety::Quorum,
        ..default
    }
}

/// The member list on the disk; without one that of the config, which is empty for a member that is to be added.
fn list(config: &Config, stored: Option<&StateFile>) -> Arc<MemberList> {
    let record = stored.and_then(|file| records::authority(file, InstanceId::ELECTION));
    record.and_then(|record| record.list().cloned()).unwrap_or_else(|| Arc::new(config.first_list()))
}

/// What the config does not say: this process's start.
fn settings(config: &Config, election: &ElectionConfig) -> member::Settings {
    let mut settings = election.settings.clone();
    settings.founding.first_epoch = first_epoch(SystemTime::now());
    let is_own = election.instance == InstanceId::ELECTION;
    settings.names_cluster = is_own && config.safety == Safety::Quorum;
    if is_own && !config.locks.needs_other_safety(config.safety) {
        settings.timing.lock_ttl_max = config.locks.max_ttl;
    }
    settings
}

/// A new cluster begins at the present time in seconds: its tokens are larger than those of an earlier cluster whose
/// disks were all lost. The limits hold whatever the clock says.
fn first_epoch(now: SystemTime) -> Epoch {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Epoch(seconds.clamp(1 << 20, 1 << 34))
}

fn subscribers(ledger: &Ledger<Subscription>, hooks: HookQueue) -> Vec<Box<dyn Subscriber>> {
    vec![Box::new(ledger.writer()), Box::new(LogLines), Box::new(Notify::from_env()), Box::new(hooks)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_cluster_begins_at_the_time_of_day_within_limits() {
        let at = |seconds| first_epoch(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(1_790_000_000), Epoch(1_790_000_000));
        assert_eq!([at(0), at(1 << 40)], [1 << 20, 1 << 34].map(Epoch));
        assert_eq!(first_epoch(UNIX_EPOCH - Duration::from_secs(5)), Epoch(1 << 20));
    }
}
