//! The event loop: one task owns every machine and every socket of this process.
//!
//! One direction: an event of the network, the disk, a timer or a signal becomes an input of the instances that it
//! concerns; their effects are carried out in order; the sockets are flushed; subscribers get the announcements. No
//! other task touches this state, so there are no locks around it.

mod acquire_times;
mod attached;
mod calls;
mod client_budgets;
mod clients;
mod duplicates;
mod effects;
mod figures;
mod grant_times;
mod leave;
mod lists;
mod lock_streams;
mod locks;
mod network;
mod orders;
mod priority;
mod reload;
mod seldom;
mod signals;
mod stale;
mod start;
mod volume;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use algorithms::NodeId;
use anyhow::{Context as _, anyhow};
use bytes::BytesMut;
use client::{Alarm, FailCode, Happened, Response};
use member::{Command, NodeSet};
use tokio::sync::watch;
use transport::{ClientId, Keyring, Net};
use types::{InstanceId, Stamp, since_boot};

use self::attached::Attached;
use self::calls::reply;
use self::client_budgets::Pages;
use self::clients::Clients;
use self::duplicates::Duplicates;
use self::effects::Effects;
use self::figures::Counts;
use self::lists::{AskedChange, ListNews};
use self::locks::LockService;
use self::priority::Priority;
use self::reload::Reload;
use self::seldom::{News, Seldom, look};
use self::signals::Signal;
use self::stale::Voices;
use self::volume::{StaleRun, Volume};
use crate::binding::Binding;
use crate::config::Config;
use crate::descriptors::{self, Shares};
use crate::disk::{Disk, Report};
use crate::hooks::{HookQueue, Hooks};
use crate::http::HttpFace;
use crate::instance::Instance;
use crate::ledger::{Ledger, LedgerNews};
use crate::notify::Notify;
use crate::peer_clocks::PeerClocks;
use crate::priority_command::PriorityRuns;
use crate::publisher::{Publisher, Subscription};
use crate::records::{self, AuthorityRecord};
use crate::roster::Roster;
use crate::startup_check;
use crate::storage::{StateFile, Store};
use crate::visible_state::{ProcessState, VisibleState};

pub(crate) use self::reload::millis;

/// After this time a new cluster that is not complete logs which members are missing.
const INCOMPLETE: Duration = Duration::from_secs(5);
/// Members outside the list that may be connected at one time. File descriptors are reserved for them, or for members that
/// are added while the process runs.
const GUESTS_MAX: usize = 8;
/// After so many turns with calls of clients the kernel is asked what has arrived. Calls that were read already are answered without
/// that, and a client can have thousands of them read: heartbeats and answers of peers must not wait behind those.
const CLIENT_TURNS: u32 = 8;
/// Runs until a signal, a fatal error, or the removal of this member; returns the list without it.
pub async fn run(
    config: Config,
    id: NodeId,
    data_dir: std::path::PathBuf,
    start: startup_check::Start,
) -> anyhow::Result<Option<Stamp>> {
    let address = config.listen_address(id).ok_or_else(|| anyhow!("no listen address"))?;
    let descriptors = descriptors::claim(config.peers.len() + GUESTS_MAX)?;
    let keyring = config.keyring(id)?;
    // Before the lock of the data directory: this thread must not hold it longer than the others.
    descriptors::spawn_last_to_exit()?;
    let (store, stored) = records::open(&data_dir)?;
    let binding = config.bind_volume.then(|| Binding::of(&data_dir)).transpose()?.flatten();
    let place = startup_check::Place { directory: data_dir.clone(), binding };
    let mut stored = startup_check::check_record(&config, id, stored, &start, &place)?;
    if start.force.is_some() {
        force(&store, stored.as_ref()).await?;
    }
    // Before the first socket: the threads that wait for the disk and for hooks must hold none open (see `descriptors`).
    let mut disk = Disk::start(store)?;
    let mut ledger = Ledger::open(&data_dir, stored.as_ref().and_then(records::ledger));
    let hooks = Hooks::start(config.on_change.clone())?;
    let priority_runs = config.priority_command.clone().map(|command| PriorityRuns::start(command, id)).transpose()?;
    let http = HttpFace::start(&config, id, &keyring, descriptors.http_connections)?;
    let listener = TcpListener::bind(&address)
        .with_context(|| format!("cannot listen on {address}: is another process there? (`ss -ltnp` shows which)"))?;
    let hook_queue = hooks.queue();
    let printed = priority_runs.as_ref().map(PriorityRuns::printed);
    let mut home = Home { config, id, keyring, listener, binding, descriptors, hooks: hook_queue, printed, http };
    let mut voices = Voices::default();
    let removed = loop {
        let daemon = Daemon::start(&home, disk, ledger, stored, voices).await?;
        match Box::pin(daemon.serve()).await? {
            Ended::Left => break None,
            Ended::Removed(list) => break Some(list),
            Ended::Stale(begin_again) => {
                let file;
                (disk, ledger, file, voices, home.config) = *begin_again;
                stored = Some(file);
            }
        }
    };
    if let Some(runs) = priority_runs {
        runs.finish();
    }
    hooks.finish();
    Ok(removed)
}

/// Writes the record of the new cluster, and waits as long as a promise of the old one may still run.
async fn force(store: &Store, stored: Option<&StateFile>) -> anyhow::Result<()> {
    let Some(file) = stored else { return Ok(()) };
    store.write(file).context("cannot write the state file: nothing was changed")?;
    let record = records::authority(file, InstanceId::ELECTION);
    if let Some(vote) = record.as_ref().and_then(AuthorityRecord::vote) {
        tracing::warn!(
            list = %vote.list.stamp, epoch = vote.epoch.0,
            "a new cluster of this member alone, by the operator's word. Empty the data directories of all other members that \
             still exist, write join instead of [[peers]] into their configs, and add them with `ctl member add`"
        );
        tokio::time::sleep(vote.longest_lease * 2).await;
    }
    Ok(())
}

/// What stays the same when the daemon restarts its machines.
struct Home {
    config: Config,
    id: NodeId,
    keyring: Keyring,
    listener: TcpListener,
    binding: Option<Binding>,
    descriptors: Shares,
    hooks: HookQueue,
    /// The numbers that the command of `[priority]` prints.
    printed: Option<watch::Receiver<Option<u32>>>,
    http: Option<HttpFace>,
}

enum Ended {
    Left,
    /// The list in force is without this member.
    Removed(Stamp),
    /// Peers have seen a later incarnation of this member: begin again with a later incarnation, or without a vote.
    Stale(Box<(Disk, Ledger<Subscription>, StateFile, Voices, Config)>),
}

/// One machine of this process and the state that belongs to it alone.
struct Running {
    machine: Box<dyn Instance>,
    algorithm: &'static str,
    shown: Arc<VisibleState>,
    attached: Attached,
}

type Instances = BTreeMap<InstanceId, Running>;

struct Daemon {
    config: Config,
    id: NodeId,
    /// The members that this process knows now.
    roster: Roster,
    /// The change of the list that a client waits for.
    change_asked: Option<AskedChange>,
    /// The list in force without this member: this process is to end.
    removed: Option<Stamp>,
    instances: Instances,
    locks: LockService,
    net: Net,
    volume: Volume,
    /// Dropped before the ledger, which waits for its last entries.
    publisher: Publisher,
    ledger: Ledger<Subscription>,
    notify: Notify,
    process: Arc<ProcessState>,
    /// Which peers refuse this process as a second process with its id.
    duplicates: Duplicates,
    /// The files that were read at the start, and reading them again.
    reload: Reload,
    priority: Priority,
    /// Pages of the ledger that clients wait for.
    pages: Pages,
    /// When to look for idle clients, since boot.
    idle_check_at: Option<Duration>,
    /// The next slow heartbeat of the links, since boot.
    links_beat_at: Duration,
    /// Peers that have seen a later incarnation of this member.
    voices: Voices,
    /// What follows from that.
    stale_run: Option<StaleRun>,
    said_missing: bool,
    /// The positions that are dialled; `None`: they are to be dialled anew.
    links: Option<NodeSet>,
    clients: Clients<ClientId>,
    counts: Counts,
    clocks: PeerClocks,
    /// Buffer in which frames are assembled.
    frame: BytesMut,
}

impl Daemon {
    async fn serve(mut self) -> anyhow::Result<Ended> {
        let mut signals = signals::listen()?;
        tracing::info!(
            id = self.id.0, cluster = self.config.name, algorithm = self.config.row.name, address = %self.net.local_addr(),
            instances = self.instances.len(), "started"
        );
        self.carry_out();
        self.notify.say("READY=1");
        let mut alarm = Alarm::new()?;
        let (before, behind) = (Seldom::default(), Seldom::default());
        let mut client_turns = 0;
        loop {
            alarm.set(self.deadline())?;
            tokio::select! {
                biased;
                due = alarm.due() => due?,
                news = before.next(|cx| {
                    look(&mut self.volume, &mut signals, &mut self.reload, &mut self.counts, cx)
                }) => match news {
                    News::Written(written) => self.written(written)?,
                    News::Signal(Signal::End) => return self.leave().await.map(|()| Ended::Left),
                    News::Signal(Signal::Reload) => self.reload.begin(&self.config, self.id, None),
                    News::Signal(Signal::Tell) => self.log_standing(),
                    News::Reloaded(read) => self.reloaded(read),
                    News::Question(question) => { let _ = question.send(self.figures()); }
                },
                () = self.priority.changes() => self.share_priority(),
                event = self.net.event() => {
                    client_turns += u32::from(matches!(event, transport::Event::ClientFrame { .. }));
                    self.network_all(event)?;
                }
                news = behind.next(|cx| pin!(self.ledger.news()).poll(cx)) => match news {
                    LedgerNews::Page(asked, page) => {
                        self.pages.end(asked.client);
                        reply(&mut self.net, asked, Response::History(page));
                    }
                    LedgerNews::Synced(head) => self.volume.remember_ledger(head),
                },
                // Nothing more is there to be read: the turn ends.
                () = std::future::ready(()), if self.locks.holds_notes() => {}
            }
            match self.stale_run.take() {
                None => {}
                Some(StaleRun::ResumeAfter(counter)) => {
                    let Daemon { volume, ledger, mut voices, config, .. } = self;
                    voices.begin_again();
                    let (disk, file) = volume.resume_after(counter);
                    return Ok(Ended::Stale(Box::new((disk, ledger, file, voices, config))));
                }
                Some(StaleRun::Old) => {
                    let Daemon { volume, ledger, mut voices, config, .. } = self;
                    voices.begin_again();
                    let (disk, file) = volume.refuse().await?;
                    return Ok(Ended::Stale(Box::new((disk, ledger, file, voices, config))));
                }
            }
            self.carry_out();
            if client_turns >= CLIENT_TURNS {
                client_turns = 0;
                tokio::task::yield_now().await;
            }
            if let Some(list) = self.removed {
                return Box::pin(self.end_removed(list)).await.map(|()| Ended::Removed(list));
            }
        }
    }

    /// The next deadline, since boot.
    fn deadline(&self) -> Option<Duration> {
        let timers = self.instances.values().filter_map(|running| running.machine.deadline());
        let others = [
            self.locks.deadline(),
            self.volume.deadline(),
            self.idle_check_at,
            self.notify.deadline(),
            self.publisher.deadline(),
            Some(self.links_beat_at),
        ];
        timers.chain(others.into_iter().flatten()).min()
    }

    /// Due timers first, then the effects of all instances, then one write per socket, then the subscribers.
    fn carry_out(&mut self) {
        let now = since_boot();
        let mut done = self.carry_out_instances(now);
        // Behind the election: what a voter reports of its locks follows its promise on the same connection.
        while self.carry_out_locks(now) {
            done = self.carry_out_instances(now);
        }
        // Peers before watchers: the next member must not wait until all watchers have been told.
        self.net.flush();
        self.publisher.tell_watchers(&mut self.net, now);
        self.catch_watchers_up();
        self.net.flush();
        if done {
            // Not earlier: a voter may take a closed connection for the end of a leader that has not yet announced its
            // end.
            self.net.drop_ended();
        }
        self.volume.remember_when_due(now);
        self.look_for_idle_clients(now);
        if now >= self.links_beat_at {
            self.links_beat_at = now + self.net.beat();
        }
        self.notify.turn(now);
        self.reload.warn_of_expiry(now);
        self.say_what_is_missing();
        self.counts.take(self.publisher.pending());
        self.publisher.tell_subscribers();
    }

    /// Returns false if an instance has effects that wait for the disk. An instance to which nothing has happened is left alone:
    /// most turns of a clerk and its voters are about locks.
    fn carry_out_instances(&mut self, now: Duration) -> bool {
        let mut suspected = Vec::new();
        let mut news = ListNews::default();
        let mut worked = false;
        loop {
            let mut done = true;
            for (&instance, running) in &mut self.instances {
                running.machine.set_child_grace(running.attached.grace());
                if let Some(attached) = running.attached.news() {
                    running.machine.command(Command::Attached(attached));
                }
                running.machine.tick(now);
                if running.rests() {
                    continue;
                }
                worked = true;
                let mut elected = false;
                let mut effects = Effects {
                    instance,
                    algorithm: running.algorithm,
                    net: &mut self.net,
                    volume: &mut self.volume,
                    publisher: &mut self.publisher,
                    process: &self.process,
                    shown: &running.shown,
                    attached: &mut running.attached,
                    suspected: &mut suspected,
                    list_news: &mut news,
                    lock_news: self.locks.news(),
                    elected: &mut elected,
                    frame: &mut self.frame,
                    clocks: &mut self.clocks,
                    now,
                };
                done &= running.machine.carry_out(now, &mut effects);
                running.show(elected, &mut self.publisher);
            }
            let changed = self.lists_changed(&mut news);
            if suspected.is_empty() && !changed {
                if worked {
                    self.dial_links();
                }
                return done;
            }
            for peer in suspected.drain(..) {
                self.suspect(peer);
            }
        }
    }

    /// A suspected peer is disconnected, so it is down for every instance.
    fn suspect(&mut self, peer: NodeId) {
        self.net.close(peer.0);
        self.link(peer, false);
        self.tell_peer(peer, false);
    }

    /// A peer's connection has begun or ended.
    fn tell_peer(&mut self, peer: NodeId, up: bool) {
        self.instances.values_mut().for_each(|running| running.machine.peer(peer, up));
        self.locks.peer(peer, up);
    }

    fn link(&mut self, peer: NodeId, up: bool) {
        self.process.linked(peer, up);
        self.publisher.publish(InstanceId::ELECTION, Happened::Link { peer: peer.0, up });
    }

    /// Dials the peers that any instance wants a connection to.
    fn dial_links(&mut self) {
        let all = self.instances.values().flat_map(|running| running.machine.links().iter());
        let links: NodeSet = all.collect();
        if self.links != Some(links) {
            self.links = Some(links);
            let wanted: Vec<u32> = links.iter().filter_map(|at| Some(self.roster.id_at(at.0)?.0)).collect();
            self.net.want(&wanted);
        }
    }

    fn catch_watchers_up(&mut self) {
        if self.publisher.watchers.are_behind() {
            let present = |&instance: &InstanceId| Some((instance, self.present(instance)?));
            let present: BTreeMap<InstanceId, _> = self.instances.keys().filter_map(present).collect();
            self.publisher.watchers.catch_up(&mut self.net, &present);
        }
    }

    /// SIGUSR1: one line about every election of this process.
    fn log_standing(&self) {
        let connected = self.roster.others().filter(|peer| self.net.is_connected(peer.uid.id.0)).count();
        for (&instance, running) in &self.instances {
            let now = running.machine.standing();
            let leader = now.leader.map(|leader| leader.0);
            tracing::info!(
                instance = instance.0,
                role = now.role.name(),
                leader,
                epoch = now.epoch.0,
                connected,
                clients = self.net.clients(),
                "standing, as SIGUSR1 asked"
            );
        }
    }

    /// Logged once, some time after the start: most clusters are complete by then.
    fn say_what_is_missing(&mut self) {
        if !self.said_missing && self.process.uptime() >= INCOMPLETE {
            self.said_missing = true;
            if !self.roster.is_listed() {
                tracing::warn!(
                    "this member is in no list of the cluster yet: `ctl member add {} HOST:PORT` adds it",
                    self.id
                );
            } else if self.instances.values().any(|running| !running.machine.knows_the_past()) {
                tracing::warn!(
                    "this voter has no record of past grants and cannot vote yet. New cluster: start all voters, or run \
                     `node --bootstrap` on a majority of them (`ctl bootstrap` where the config says bootstrap = \"manual\"). \
                     Lost disk: a majority of the voters must answer this one, which does not count itself"
                );
            }
        }
    }

    fn written(&mut self, report: Report) -> anyhow::Result<()> {
        let Report::Written(written) = report else {
            self.out_of_descriptors();
            return Ok(());
        };
        let now = since_boot();
        let write_time = self.volume.write_time();
        for running in self.instances.values_mut() {
            running.machine.tick(now);
            running.machine.set_write_time(write_time);
        }
        self.counts.written(written.took);
        let ticket = written.ticket;
        for (instance, barrier) in self.volume.finish(written)? {
            if let Some(running) = self.instances.get_mut(&instance) {
                running.machine.written(barrier);
            }
        }
        self.priority_written(ticket);
        self.process.set_persist(self.volume.median());
        Ok(())
    }
}

impl Running {
    /// Has nothing happened that would have effects or be shown?
    fn rests(&self) -> bool {
        self.machine.rests() && self.attached.is_empty() && !self.shown.has_attached()
    }

    /// Publishes what the last effects have changed.
    fn show(&mut self, elected: bool, publisher: &mut Publisher) {
        self.shown.set_election_messages(self.machine.algorithm_messages());
        self.shown.set_blank(!self.machine.knows_the_past());
        self.shown.set_active_list(self.machine.active_list());
        self.shown.set_attached(self.attached.len(), self.attached.work());
        self.shown.set_held(self.machine.is_held());
        if let Some(cost) = self.machine.take_election() {
            self.shown.set_election(cost);
        }
        if elected && let Some(cost) = self.shown.election() {
            publisher.publish(self.shown.instance, Happened::Elected(cost));
        }
    }
}

fn failed(code: FailCode, reason: String) -> Response {
    Response::Failed { reason, code }
}
