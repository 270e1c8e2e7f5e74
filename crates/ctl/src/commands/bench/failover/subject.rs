//! One algorithm of a measurement: its cluster, and what its trials have shown.

use std::time::{Duration, Instant};

use algorithms::theory::Before;
use anyhow::{Context, Result, anyhow, bail};
use client::history::{Ledgers, MemberLedger};
use client::json::Range;
use client::{Client, ElectionSummary, MemberStatus, Observer, ask_all, format_duration, theory_of};

use super::super::idle::Usage;
use super::super::settle::{PATIENCE, quiet, settle};
use super::course::{Course, Ending};
use super::crowd::Crowd;
use super::slowest::Slowest;
use super::{Args, Fault, milliseconds};
use crate::cluster::{Cluster, Plan, Scratch, free_http_ports, free_ports_elsewhere, node_binary};
use crate::failure::Failure;

/// The most spoiled trials; more are allowed if more trials were requested.
const DISCARDS_MAX: u32 = 10;

/// The results of the trials.
#[derive(Debug, Default)]
pub(super) struct Samples {
    pub(super) ms: Vec<f64>,
    /// From the fault to the end of the old leader's stream; for killed leaders only.
    pub(super) eof_ms: Vec<f64>,
    /// From the fault to when the first survivor left the old leader, by its own stamp.
    pub(super) noticed_ms: Vec<f64>,
    /// From the fault to the last survivor's announcement of the new leader, by the members' stamps.
    pub(super) announced_ms: Vec<f64>,
    /// The same in trials beside watchers or streams of events, half of which never read.
    pub(super) watched_ms: Vec<f64>,
    /// The largest memory of a survivor after such a trial.
    pub(super) watched_rss_kib: Option<u64>,
    /// Messages of the algorithm that the survivors sent.
    pub(super) messages: Vec<u64>,
    /// Those of the election that found the successor, and what theory says of it.
    pub(super) elections: Vec<u64>,
    pub(super) theory: Option<Range>,
    pub(super) connections_max: usize,
    pub(super) persist_us: Vec<u64>,
    pub(super) discarded: u32,
    pub(super) slowest: Option<Slowest>,
}

pub(super) struct Subject {
    plan: Plan,
    samples: Samples,
    cluster: Cluster,
    observer: Observer,
    /// The member that all follow, once the cluster is at rest.
    leader: u32,
    /// Has the leader met its fault?
    struck: bool,
    slowest: Option<(u32, Course, Ending)>,
    /// Removed after the cluster has stopped.
    _scratch: Scratch,
}

impl Subject {
    pub(super) fn start(mut plan: Plan, args: &Args) -> std::result::Result<Self, Failure> {
        let binary = node_binary()
            .map_err(|error| Failure::from(error).hint("build it: cargo build --release -p node -p ctl"))?;
        let scratch = Scratch::new("bench")?;
        let ports = free_ports_elsewhere(args.nodes)?;
        if args.streams > 0 {
            plan.http_ports = free_http_ports(args.nodes, &ports)?;
        }
        let mut cluster = Cluster::prepare(&plan, scratch.path(), &ports, binary)?;
        cluster.start_all()?;
        let observer = cluster.observer();
        Ok(Subject {
            plan,
            samples: Samples::default(),
            cluster,
            observer,
            leader: 0,
            struck: false,
            slowest: None,
            _scratch: scratch,
        })
    }

    pub(super) fn is_done(&self, args: &Args) -> bool {
        let Samples { ms, watched_ms, .. } = &self.samples;
        ms.len() >= args.trials as usize && (!args.has_crowd() || watched_ms.len() >= ms.len())
    }

    pub(super) async fn stop(&mut self) {
        self.cluster.stop().await;
    }

    pub(super) fn into_result(self) -> (Plan, Samples) {
        (self.plan, self.samples)
    }

    /// Waits until all members follow one leader.
    pub(super) async fn agree(&mut self) -> Result<()> {
        let leader = settle(&self.cluster, &mut self.observer, self.plan.best()).await;
        let before = || format!("{}, before trial {}", self.plan.row.name, self.samples.ms.len() + 1);
        self.leader = leader.with_context(before)?;
        Ok(())
    }

    /// Waits until everything is on the disk that follows from the agreement.
    pub(super) async fn rest(&mut self, agreed: Instant) {
        quiet(&self.cluster, agreed).await;
    }

    /// One fault; returns a line about it.
    pub(super) async fn trial(&mut self, args: &Args) -> Result<String> {
        let number = self.samples.ms.len() + 1;
        let before = statuses(&self.cluster, self.leader).await;
        if number == 1 {
            let connections = |status: &MemberStatus| status.peers.iter().filter(|peer| peer.connected).count();
            self.samples.connections_max = before.iter().map(connections).max().unwrap_or(0);
        }
        // Side by side: every trial without watchers is followed by one with them.
        let watched = args.has_crowd() && self.samples.watched_ms.len() < self.samples.ms.len();
        let crowd =
            if watched { Some(Crowd::gather(&self.cluster, &self.plan, self.leader, args).await?) } else { None };
        self.struck = true;
        let struck = strike(&self.cluster, &mut self.observer, self.leader, args.fault).await;
        let name = self.plan.row.name;
        let trial = || format!("{name} {number}/{}", args.trials);
        let Some((course, ending)) = struck.with_context(trial)? else {
            self.samples.discarded += 1;
            if self.samples.discarded > DISCARDS_MAX.max(args.trials) {
                let discarded = self.samples.discarded;
                bail!("{discarded} trials were discarded: the members changed their leader before the fault");
            }
            return Ok(trial() + " discarded");
        };
        if crowd.is_some() {
            self.samples.watched_ms.push(milliseconds(ending.announced));
            let survivors = (1..=self.plan.nodes).filter(|&id| id != self.leader).filter_map(|id| self.cluster.pid(id));
            let largest = survivors.filter_map(|pid| Usage::of(pid).ok()).map(|usage| usage.rss_kib()).max();
            self.samples.watched_rss_kib = self.samples.watched_rss_kib.max(largest);
            return Ok(format!("{}: {:.3} ms beside the crowd", trial(), milliseconds(ending.announced)));
        }
        let after = statuses(&self.cluster, self.leader).await;
        self.samples.add(&course, &ending, &before, &after);
        let took = milliseconds(ending.last.after);
        if self.slowest.as_ref().is_none_or(|(_, _, slowest)| slowest.last.after < ending.last.after) {
            self.slowest = Some((number as u32, course, ending));
        }
        Ok(format!("{name} {number}/{}: {took:.3} ms", args.trials))
    }

    /// Also after a pause or a resignation: a new process stands for election at once.
    pub(super) async fn restart(&mut self) -> Result<()> {
        if std::mem::take(&mut self.struck) {
            self.cluster.restart(self.leader).await?;
            self.observer.forget(self.leader as usize - 1);
        }
        Ok(())
    }

    pub(super) async fn look_at_slowest(&mut self) {
        if let Some((trial, course, ending)) = &self.slowest {
            self.samples.slowest = Some(Slowest::of(*trial, course, ending, &ledgers(&self.cluster).await));
        }
    }
}

impl Samples {
    fn add(&mut self, course: &Course, ending: &Ending, before: &[MemberStatus], after: &[MemberStatus]) {
        self.ms.push(milliseconds(ending.last.after));
        self.noticed_ms.push(milliseconds(ending.noticed));
        self.announced_ms.push(milliseconds(ending.announced));
        self.eof_ms.extend(course.eof.map(milliseconds));
        self.messages.push(sent(after).saturating_sub(sent(before)));
        self.persist_us.extend(after.iter().filter_map(|status| status.persist_us));
        let newest = |of: &[MemberStatus]| ElectionSummary::newest(&of.iter().collect::<Vec<_>>());
        let known = newest(before).map(|election| election.name);
        // Where leadership is handed over there may be no election at all.
        let Some(election) = newest(after).filter(|election| Some(election.name) != known) else { return };
        self.elections.push(election.election_messages() + election.announcement_messages());
        let Some(expected) = theory_of(&election, Before::Lost) else { return };
        let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        let (search, told) = (expected.election, expected.announcement);
        let these = Range { min: search.min + told.min, max: sum(search.max, told.max) };
        let other = self.theory.unwrap_or(these);
        let max = other.max.zip(these.max).map(|(a, b)| a.max(b));
        self.theory = Some(Range { min: other.min.min(these.min), max });
    }
}

/// The ledgers of all members that answer.
async fn ledgers(cluster: &Cluster) -> Ledgers {
    let answers = client::ask_ledgers(&cluster.endpoints(), cluster.settings(), PATIENCE).await;
    let pages = answers.into_iter().filter_map(|answer| answer.result.ok());
    let members = pages.map(|(status, page)| MemberLedger::new(status.id, page));
    Ledgers { members: members.collect(), ..Ledgers::default() }
}

/// The status of all members but the leader, which may be dead.
async fn statuses(cluster: &Cluster, leader: u32) -> Vec<MemberStatus> {
    let others: Vec<_> = cluster.endpoints().into_iter().filter(|endpoint| endpoint.id != Some(leader)).collect();
    let answers = ask_all(&others, cluster.settings(), PATIENCE).await;
    answers.into_iter().filter_map(|answer| answer.result.ok()).collect()
}

fn sent(statuses: &[MemberStatus]) -> u64 {
    statuses.iter().map(|status| status.election_messages).sum()
}

/// One fault, until the last survivor reported the successor. `None`: the members changed their leader before the
/// fault, so the trial does not measure it.
async fn strike(
    cluster: &Cluster,
    observer: &mut Observer,
    old: u32,
    fault: Fault,
) -> Result<Option<(Course, Ending)>> {
    let at = old as usize - 1;
    // The handshake is not a part of a resignation.
    let mut leader = match fault {
        Fault::StepDown | Fault::Transfer => {
            Some(Client::connect(&cluster.endpoints()[at].address, cluster.settings()).await?)
        }
        Fault::Kill | Fault::Pause => None,
    };
    let lives = matches!(fault, Fault::StepDown | Fault::Transfer);
    let endpoints = observer.endpoints().len();
    let survivors: Vec<usize> = (0..endpoints).filter(|&other| other != at || lives).collect();
    // Takes the events that have arrived: there is no fault if the leader leads no more or its stream is lost.
    while tokio::time::timeout(Duration::ZERO, observer.next()).await.is_ok() {}
    let follows = |at: usize| observer.view(at).is_some_and(|view| view.leader == Some(old));
    if !(0..endpoints).all(follows) {
        return Ok(None);
    }
    let mut course = Course::begin(old, survivors, endpoints);
    match (fault, &mut leader) {
        (Fault::Kill, _) => cluster.kill(old)?,
        (Fault::Pause, _) => cluster.pause(old)?,
        (Fault::StepDown, Some(leader)) => leader.step_down(None).await?,
        (Fault::Transfer, Some(leader)) => leader.transfer(if old == 1 { 2 } else { old - 1 }, false).await?,
        (Fault::StepDown | Fault::Transfer, None) => unreachable!("connected above"),
    }
    let ended = async {
        loop {
            course.take(&observer.next().await);
            if let Some(ending) = course.ending()
                && (fault != Fault::Kill || course.eof.is_some())
            {
                return ending;
            }
        }
    };
    let ending = tokio::time::timeout(PATIENCE, ended).await;
    course.stop();
    let ending = ending.map_err(|_| anyhow!("no successor after {}", format_duration(PATIENCE)))?;
    Ok((!course.is_spoiled()).then_some((course, ending)))
}
