//! The event loop: one task owns the member and every socket.
//!
//! One direction: an event of the network, the disk, a timer or a signal becomes an input; the member's effects are
//! carried out in order; the sockets are flushed. Nobody else touches any of it, so there are no locks.

mod attached;
mod orders;
mod outside;
mod volume;

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use algorithms::NodeId;
use anyhow::{Context as _, anyhow, bail};
use client::{FailCode, MemberStatus, PeerStatus, Request, Response};
use member::{Cause, Command, NodeSet, Role, Safety, Standing};
use tokio::signal::unix::{SignalKind, signal};
use transport::{ClientId, DownReason, Event as NetEvent, Incarnation, Net, RefuseCode, Secret, codec};

use self::attached::Attached;
use self::outside::{Outside, event_of};
use self::volume::{Outdone, Volume};
use crate::chaos;
use crate::clock::since_boot;
use crate::config::Config;
use crate::disk::{Disk, Written};
use crate::face::Face;
use crate::hooks::Hooks;
use crate::host::{self, Instance, Setup};
use crate::ledger::Ledger;
use crate::notify::Notify;
use crate::records::{self, Kept, OnDisk};
use crate::storage::StateFile;
use crate::votes;

/// How long a leaving leader waits for its successor.
const HANDOVER: Duration = Duration::from_secs(1);
/// And how long for its children, which the member itself gives up after as long. Never less than a lease.
const CHILDREN: Duration = Duration::from_secs(1);
/// A new cluster that is not complete by then is told what it waits for.
const INCOMPLETE: Duration = Duration::from_secs(5);
/// A member that is refused as a duplicate for this long is one; a restart is refused only until its old connections
/// are noticed to be dead.
const DUPLICATE: Duration = Duration::from_secs(3);

/// Runs until a signal or a fatal error.
pub async fn run(config: Config, id: NodeId, data_dir: &std::path::Path, start: votes::Start) -> anyhow::Result<()> {
    let address = config.listen_address(id).ok_or_else(|| anyhow!("no listen address"))?;
    let secret = config.secret_file.as_deref().map(Secret::from_file).transpose()?;
    let (store, stored) = records::open(data_dir)?;
    if stored.as_ref().is_some_and(|file| file.volume.refused) {
        bail!("this volume was refused before, as rolled back or copied. {}", volume::remedy(&store.path()));
    }
    let stored = votes::go_on(&config, id, stored, start)?;
    // Before the first socket: threads that wait for the disk must hold none open (see `descriptors`).
    let mut kept = (Disk::start(store)?, Ledger::open(data_dir), stored);
    let listener = TcpListener::bind(&address)
        .with_context(|| format!("cannot listen on {address}: is another process there? (`ss -ltnp` shows who)"))?;
    let home = Home { config, id, secret, listener };
    loop {
        let (disk, ledger, stored) = kept;
        match Daemon::start(&home, disk, ledger, stored).await?.serve().await? {
            Ended::Left => return Ok(()),
            Ended::Outdone(outdone) => {
                let (disk, ledger, file) = *outdone;
                kept = (disk, ledger, Some(file));
            }
        }
    }
}

/// What stays the same should the daemon begin anew.
struct Home {
    config: Config,
    id: NodeId,
    secret: Option<Secret>,
    listener: TcpListener,
}

enum Ended {
    Left,
    /// The others have seen a later incarnation, and this one had nothing to lose: begin above it.
    Outdone(Box<(Disk, Ledger<ClientId>, StateFile)>),
}

struct Daemon {
    config: Config,
    id: NodeId,
    instance: Box<dyn Instance>,
    outside: Outside,
    started: Instant,
    /// Since when everybody refuses this process as a second one with its id.
    duplicate_since: Option<Instant>,
    /// The counter of a later incarnation of this member that a peer has seen.
    outdone: Option<Outdone>,
    said_missing: bool,
    links: NodeSet,
}

impl Daemon {
    async fn start(
        home: &Home,
        disk: Disk,
        mut ledger: Ledger<ClientId>,
        stored: Option<StateFile>,
    ) -> anyhow::Result<Self> {
        let (config, id) = (home.config.clone(), home.id);
        let me = config.start_as(id)?.uid();
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(|error| anyhow!("the kernel gives no randomness: {error}"))?;
        let setup = Setup {
            me,
            view: config.view(),
            settings: config.settings.clone(),
            stored: stored.as_ref().and_then(|file| kept(file, config.row.name)),
            seed: u64::from_le_bytes(seed),
        };
        let mut instance = host::start(config.row, config.safety, setup)?;
        let face = Face::new(instance.standing(), config.safety == Safety::Quorum);
        let volume = Volume::begin(disk, &config, id, stored, instance.as_mut()).await?;
        let incarnation = instance.incarnation();
        let peers = config.peers.iter().filter(|peer| peer.id != id).map(|peer| (peer.id.0, peer.address.clone()));
        let incarnation = Incarnation { counter: incarnation.counter, nonce: incarnation.nonce };
        let mut settings = transport::Settings::new(config.name.clone(), id.0, incarnation, peers.collect());
        settings.facts = config.facts();
        settings.secret.clone_from(&home.secret);
        settings.seen = volume.seen();
        settings.dial_timeout = config.settings.timing.suspect_after * 2;
        settings.backoff_max = Duration::from_millis(500);
        ledger.started(incarnation.counter);
        let outside = Outside {
            net: Net::start(settings, home.listener.try_clone()?)?,
            volume,
            ledger,
            face,
            id,
            watchers: BTreeSet::new(),
            last_heard: BTreeMap::new(),
            notify: Notify::from_env(),
            hooks: config.on_change.clone().map(Hooks::start).transpose()?,
            untold: Vec::new(),
            attached: Attached::default(),
        };
        let links = NodeSet::default();
        let started = Instant::now();
        let (duplicate_since, outdone, said_missing) = (None, None, false);
        Ok(Daemon { config, id, instance, outside, started, duplicate_since, outdone, said_missing, links })
    }

    async fn serve(mut self) -> anyhow::Result<Ended> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        tracing::info!(
            id = self.id.0, cluster = self.config.name, algorithm = self.config.row.name, address = %self.outside.net.local_addr(),
            incarnation = self.instance.incarnation().counter, "started"
        );
        self.carry_out();
        self.outside.notify.say("READY=1");
        let sleep = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(sleep);
        loop {
            let deadline = self.instance.deadline().into_iter().chain(self.outside.volume.deadline()).min();
            let left = deadline.map_or(Duration::from_hours(1), |due| due.saturating_sub(since_boot()));
            sleep.as_mut().reset(tokio::time::Instant::now() + left);
            tokio::select! {
                biased;
                () = &mut sleep => {}
                // Rare, and whoever waits for it must not wait behind clients that never stop asking.
                written = self.outside.volume.written() => self.written(written)?,
                _ = terminate.recv() => return self.leave().await.map(|()| Ended::Left),
                _ = interrupt.recv() => return self.leave().await.map(|()| Ended::Left),
                _ = hangup.recv() => tracing::info!("SIGHUP: nothing in this config can change while running"),
                event = self.outside.net.event() => self.network(event)?,
                (client, page) = self.outside.ledger.answered() => self.outside.reply(client, &Response::History(page)),
            }
            match self.outdone.take() {
                None => {}
                Some(Outdone::By(counter)) => {
                    let Outside { volume, ledger, .. } = self.outside;
                    let (disk, file) = volume.above(counter);
                    return Ok(Ended::Outdone(Box::new((disk, ledger, file))));
                }
                Some(Outdone::Refused(why)) => {
                    self.outside.volume.refuse().await?;
                    bail!(why);
                }
            }
            self.carry_out();
        }
    }

    /// One turn for a process that is leaving, no longer than until then.
    async fn turn(&mut self, until: Duration) -> anyhow::Result<()> {
        let wake = self.instance.deadline().map_or(until, |timer| timer.min(until));
        tokio::select! {
            biased;
            () = tokio::time::sleep(wake.saturating_sub(since_boot())) => {}
            written = self.outside.volume.written() => self.written(written)?,
            event = self.outside.net.event() => self.network(event)?,
        }
        self.carry_out();
        Ok(())
    }

    /// Due timers first, then everything the member wants done, then one write per socket.
    fn carry_out(&mut self) {
        let now = since_boot();
        self.tell_attached();
        self.instance.tick(now);
        let done = self.instance.carry_out(now, &mut self.outside);
        let links = self.instance.links();
        if links != self.links {
            self.links = links;
            let wanted: Vec<u32> = links.iter().filter_map(|at| Some(self.config.peers.get(at.0)?.id.0)).collect();
            self.outside.net.want(&wanted);
        }
        self.outside.net.flush();
        if done {
            // Not before: a voter may take a closed connection for the end of a leader that has not yet said it is none.
            self.outside.net.drop_ended();
        }
        self.outside.volume.remember_when_due(now);
        self.say_what_is_missing();
        self.outside.tell_people();
    }

    /// Once, and some time after the start: most clusters are complete by then.
    fn say_what_is_missing(&mut self) {
        if !self.said_missing && self.started.elapsed() >= INCOMPLETE {
            self.said_missing = true;
            if !self.instance.knows_the_past() {
                tracing::warn!(
                    "this voter has no record of past grants and cannot vote yet. New cluster: start all voters, or run \
                     `node --bootstrap` on a majority of them. Lost disk: at least half of the other voters must be \
                     reachable"
                );
            }
        }
    }

    fn network(&mut self, event: NetEvent) -> anyhow::Result<()> {
        // What is due comes first: a lease that ended while this process did not run has ended.
        self.instance.tick(since_boot());
        match event {
            NetEvent::Frame { from, payload } => {
                self.outside.last_heard.insert(NodeId(from), Instant::now());
                if !self.instance.frame(NodeId(from), &payload) {
                    tracing::warn!(peer = from, "sent bytes that are no message of this algorithm: connection closed");
                    self.instance.peer(NodeId(from), false);
                    self.outside.net.close(from);
                }
            }
            NetEvent::Up { peer, incarnation } => {
                tracing::debug!(peer, incarnation = incarnation.counter, "connected");
                self.duplicate_since = None;
                self.outside.volume.met(NodeId(peer), incarnation_of(incarnation));
                self.instance.peer(NodeId(peer), true);
            }
            NetEvent::Down { peer, incarnation, why } => {
                tracing::debug!(peer, %why, "disconnected");
                if why == DownReason::Remote {
                    self.instance.command(Command::Closed(NodeId(peer), incarnation_of(incarnation)));
                }
                self.instance.peer(NodeId(peer), false);
            }
            NetEvent::Unreachable { peer, .. } => self.not_reached(peer),
            NetEvent::Refused { peer, code, text } => self.refused(peer, code, &text)?,
            NetEvent::ClientUp { .. } => {}
            NetEvent::ClientFrame { client, payload } => self.request(client, &payload),
            NetEvent::ClientGone { client } => {
                self.outside.watchers.remove(&client);
                self.outside.attached.gone(client);
            }
        }
        Ok(())
    }

    fn refused(&mut self, peer: u32, code: RefuseCode, text: &str) -> anyhow::Result<()> {
        if let RefuseCode::Stale { seen } = code {
            self.stale(peer, seen, text);
            return Ok(());
        }
        if code == RefuseCode::Duplicate {
            let since = *self.duplicate_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= DUPLICATE {
                bail!("another process with id {} is in the cluster; member {peer} says: {text}", self.id);
            }
        }
        self.not_reached(peer);
        Ok(())
    }

    /// A dial failed; meanwhile the peer may have dialled us.
    fn not_reached(&mut self, peer: u32) {
        if !self.outside.net.is_connected(peer) {
            self.instance.peer(NodeId(peer), false);
        }
    }

    fn written(&mut self, written: Written) -> anyhow::Result<()> {
        self.instance.tick(since_boot());
        if let Some(barrier) = self.outside.volume.finish(written)? {
            self.instance.written(barrier);
        }
        Ok(())
    }

    fn request(&mut self, client: ClientId, payload: &[u8]) {
        let standing = self.outside.face.standing();
        let response = match codec::decode(payload) {
            Err(_) => failed(FailCode::BadRequest, "not a request this version knows".into()),
            Ok(Request::Status) => Response::Status(self.status()),
            Ok(Request::Watch) => {
                self.outside.watchers.insert(client);
                Response::Event(event_of(self.id, standing, Cause::Started))
            }
            Ok(Request::Elect) => self.elect(),
            Ok(Request::History { after }) => return self.outside.ledger.ask(client, after),
            Ok(Request::StepDown) => self.step_down(),
            Ok(Request::Transfer { to }) => self.transfer(NodeId(to)),
            Ok(Request::Attach) => return self.attach(client),
            Ok(Request::Chaos(fault)) => match chaos::apply(fault, &self.config, self.id, &mut self.outside.net) {
                Err((code, reason)) => failed(code, reason),
                Ok(afterwards) => {
                    self.outside.reply(client, &Response::Done);
                    self.outside.net.flush();
                    return afterwards.carry_out();
                }
            },
        };
        self.outside.reply(client, &response);
    }

    fn status(&self) -> MemberStatus {
        let standing = self.outside.face.standing();
        let net = &self.outside.net;
        let others = || self.config.peers.iter().filter(|peer| peer.id != self.id);
        let peers = others().map(|peer| PeerStatus {
            id: peer.id.0,
            connected: net.is_connected(peer.id.0),
            last_heard_ms: self.outside.last_heard.get(&peer.id).map(|at| at.elapsed().as_millis() as u64),
        });
        let counters = || others().filter_map(|peer| net.counters(peer.id.0));
        MemberStatus {
            id: self.id.0,
            cluster: self.config.name.clone(),
            algorithm: self.config.row.name.to_owned(),
            topology: self.config.topology.name().to_owned(),
            safety: self.config.safety.name().to_owned(),
            role: standing.role.name().to_owned(),
            leader: standing.leader.map(|leader| leader.0),
            epoch: standing.epoch.0,
            incarnation: self.instance.incarnation().counter,
            lease_ms: self.outside.face.lease_left().map(|left| left.as_millis() as u64),
            sent: counters().map(|c| c.frames_out).sum(),
            received: counters().map(|c| c.frames_in).sum(),
            election_messages: self.instance.algorithm_messages(),
            peers: peers.collect(),
            uptime_ms: self.started.elapsed().as_millis() as u64,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            persist_us: self.outside.volume.usual().map(|took| took.as_micros() as u64),
            faults: chaos::in_force(net),
            blank: !self.instance.knows_the_past(),
        }
    }

    /// Hands leadership over before leaving: the others elect without having to notice a death.
    async fn leave(mut self) -> anyhow::Result<()> {
        self.outside.attached.leave();
        let leads = self.outside.face.standing().role == Role::Leader;
        let alone = !self.config.peers.iter().any(|peer| self.outside.net.is_connected(peer.id.0));
        let children = !self.outside.attached.is_empty();
        tracing::info!(handover = leads && !alone, children, "leaving");
        self.outside.notify.say("STOPPING=1");
        if leads && (!alone || children) {
            self.instance.command(Command::StepDown);
            self.carry_out();
            // Long enough for a successor that does not answer to be given up, and for a release without one.
            let settings = &self.config.settings;
            let handover = HANDOVER.max(3 * settings.election.answer_timeout);
            let stopping = if children { CHILDREN.max(settings.timing.lease) } else { Duration::ZERO };
            let until = since_boot() + handover + stopping;
            let done = |outside: &Outside, id| {
                let standing = outside.face.standing();
                standing.leader.is_some_and(|leader| leader != id) || (alone && standing.role != Role::Leader)
            };
            while since_boot() < until && !done(&self.outside, self.id) {
                self.turn(until).await?;
            }
        }
        tracing::info!("left");
        let last = self.outside.face.standing();
        self.outside.run_hooks(Some(last), "down", Standing { leader: None, ..last });
        let hooks = self.outside.hooks.take();
        // Closes every connection: nobody shall wait for a hook.
        drop(self);
        if let Some(hooks) = hooks {
            hooks.finish();
        }
        Ok(())
    }
}

fn failed(code: FailCode, reason: String) -> Response {
    Response::Failed { reason, code }
}

fn incarnation_of(Incarnation { counter, nonce }: Incarnation) -> member::Incarnation {
    member::Incarnation { counter, nonce }
}

/// What the member left on the disk.
fn kept(file: &StateFile, algorithm: &str) -> Option<Kept> {
    let authority = records::authority(file)?.encode();
    let algorithm = if let OnDisk::Record(bytes) = records::algorithm(file, algorithm) { Some(bytes) } else { None };
    Some(Kept { authority, algorithm })
}
