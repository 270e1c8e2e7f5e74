//! From the config and the disk to a daemon that runs.

use std::sync::Arc;
use std::time::Duration;

use algorithms::NodeId;
use anyhow::anyhow;
use bytes::BytesMut;
use client::Happened;
use member::NodeSet;
use transport::Net;
use types::InstanceId;

use super::attached::Attached;
use super::clients::Pages;
use super::duplicates::Duplicates;
use super::volume::Volume;
use super::{Daemon, Home, Instances, Running};
use crate::config::{Config, ElectionConfig};
use crate::disk::Disk;
use crate::hooks::HookQueue;
use crate::instance::{self, Instance, Setup};
use crate::ledger::Ledger;
use crate::notify::Notify;
use crate::publisher::{LogLines, Publisher, Subscriber, Subscription};
use crate::records;
use crate::storage::StateFile;
use crate::visible_state::{ProcessState, VisibleState};

impl Daemon {
    pub(super) async fn start(
        home: &Home,
        disk: Disk,
        ledger: Ledger<Subscription>,
        stored: Option<StateFile>,
    ) -> anyhow::Result<Self> {
        let (config, id) = (home.config.clone(), home.id);
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
        let volume = Volume::begin(disk, &config, id, stored, &mut instances).await?;
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
        Ok(Daemon {
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
            stale_run: None,
            said_missing: false,
            links: NodeSet::default(),
            frame: BytesMut::new(),
        })
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
            settings: election.settings.clone(),
            stored: stored.and_then(|file| records::kept(file, election.instance, election.row.name)),
            seed: u64::from_le_bytes(seed),
            instance: election.instance,
        };
        Ok((instance::start(election.row, config.safety, setup)?, election))
    };
    config.elections().into_iter().map(start).collect()
}

fn subscribers(ledger: &Ledger<Subscription>, hooks: Option<HookQueue>) -> Vec<Box<dyn Subscriber>> {
    let mut all: Vec<Box<dyn Subscriber>> =
        vec![Box::new(ledger.writer()), Box::new(LogLines), Box::new(Notify::from_env())];
    all.extend(hooks.map(|hooks| Box::new(hooks) as Box<dyn Subscriber>));
    all
}
