//! From the config and the disk to a daemon that runs.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use algorithms::{Epoch, NodeId};
use anyhow::anyhow;
use bytes::BytesMut;
use client::Happened;
use member::{NodeSet, Safety};
use transport::Net;
use types::InstanceId;

use super::attached::Attached;
use super::client_budgets::Pages;
use super::clients::Clients;
use super::duplicates::Duplicates;
use super::stale::Voices;
use super::volume::{self, Volume};
use super::{Daemon, Home, Instances, Running};
use crate::config::{Config, ElectionConfig};
use crate::disk::Disk;
use crate::hooks::HookQueue;
use crate::instance::{self, Instance, Setup};
use crate::ledger::Ledger;
use crate::notify::Notify;
use crate::peer_clocks::PeerClocks;
use crate::publisher::{LogLines, Publisher, Subscriber, Subscription};
use crate::records;
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
        let mut machines = machines(&config, id, stored.as_ref())?;
        let (own, _) = machines.first().ok_or_else(|| anyhow!("no election"))?;
        let incarnation = own.incarnation();
        let peers = || config.peers.iter().filter(|peer| peer.id != id);
        let ids = peers().map(|peer| peer.id);
        let me = config.start_as(id)?.uid();
        let process = Arc::new(ProcessState::new(me, config.name.clone(), incarnation.counter, ids));
        let mut instances = Instances::new();
        for (machine, election) in machines.drain(..) {
            let shown = VisibleState::new(Arc::clone(&process), &election, config.safety, machine.standing());
            let (shown, attached) = (Arc::new(shown), Attached::default());
            instances.insert(election.instance, Running { machine, algorithm: election.row.name, shown, attached });
        }
        process.set_old_volume(is_old);
        let volume = Volume::begin(disk, &config, id, stored, home.binding, &mut instances).await?;
        let addresses = peers().map(|peer| (peer.id.0, peer.address.clone())).collect();
        let mut settings = transport::Settings::new(config.name.clone(), id.0, incarnation, addresses);
        settings.facts = config.facts();
        settings.secret.clone_from(&home.secret);
        settings.seen = volume.seen();
        settings.dial_timeout = config.settings.timing.suspect_after * 2;
        settings.clients_max = home.descriptors.clients_max;
        settings.unauthenticated_max = home.descriptors.unauthenticated_max;
        settings.backoff_max = Duration::from_millis(500);
        let mut publisher = Publisher::new(id, subscribers(&ledger, home.hooks.clone()));
        publisher.publish(InstanceId::ELECTION, Happened::Started { incarnation: incarnation.counter });
        let mut daemon = Daemon {
            net: Net::start(settings, home.listener.try_clone()?)?,
            config,
            id,
            instances,
            volume,
            publisher,
            ledger,
            notify: Notify::from_env(),
            process,
            duplicates: Duplicates::default(),
            pages: Pages::default(),
            idle_check_at: None,
            voices,
            stale_run: None,
            said_missing: false,
            links: NodeSet::default(),
            clients: Clients::new(),
            clocks: PeerClocks::default(),
            frame: BytesMut::new(),
        };
        // Before the first handshake: none has begun while this task runs.
        daemon.share_cluster_id();
        Ok(daemon)
    }
}

/// The machines that this process runs, in the order of their instances. They draw their incarnation from one seed, so
/// that all of them have the same incarnation.
fn machines(
    config: &Config,
    id: NodeId,
    stored: Option<&StateFile>,
) -> anyhow::Result<Vec<(Box<dyn Instance>, ElectionConfig)>> {
    let me = config.start_as(id)?.uid();
    let mut seed = [0; 8];
    getrandom::fill(&mut seed).map_err(|error| anyhow!("the kernel gives no randomness: {error}"))?;
    let start = |election: ElectionConfig| {
        let setup = Setup {
            me,
            view: config.view_as(election.topology),
            settings: settings(config, &election, stored, id),
            stored: stored.and_then(|file| records::kept(file, election.instance, election.row.name)),
            seed: u64::from_le_bytes(seed),
            instance: election.instance,
        };
        Ok((instance::start(election.row, config.safety, setup)?, election))
    };
    config.elections().into_iter().map(start).collect()
}

/// What the config does not say: this process's start, and whether its volume may vote.
fn settings(config: &Config, election: &ElectionConfig, stored: Option<&StateFile>, id: NodeId) -> member::Settings {
    let mut settings = election.settings.clone();
    settings.first_epoch = first_epoch(SystemTime::now());
    settings.names_cluster = election.instance == InstanceId::ELECTION && config.safety == Safety::Quorum;
    if stored.is_some_and(|file| file.volume.refused) {
        // To the other members it is still a voter, one that does not answer.
        settings.learners.push(id);
    }
    settings
}

/// A new cluster begins at the present time in seconds: its tokens are larger than those of an earlier cluster whose
/// disks were all lost. The limits hold whatever the clock says.
fn first_epoch(now: SystemTime) -> Epoch {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Epoch(seconds.clamp(1 << 20, 1 << 34))
}

fn subscribers(ledger: &Ledger<Subscription>, hooks: Option<HookQueue>) -> Vec<Box<dyn Subscriber>> {
    let mut all: Vec<Box<dyn Subscriber>> =
        vec![Box::new(ledger.writer()), Box::new(LogLines), Box::new(Notify::from_env())];
    all.extend(hooks.map(|hooks| Box::new(hooks) as Box<dyn Subscriber>));
    all
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
