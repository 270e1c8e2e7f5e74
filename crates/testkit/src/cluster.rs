//! Clusters of real processes for tests: events are awaited, never slept for.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use client::{Client, MemberStatus, Observer};
use serde_json::Value;
use types::Safety;

use crate::machine::Machine;
use crate::namespaces::Network;
use crate::{Cluster, PATIENCE, Plan, Scratch, ctl, free_ports_elsewhere, node_binary, stderr, stdout};

/// A running cluster and the event streams of its members.
#[derive(Debug)]
pub struct Live {
    // The streams end before the processes, and the processes before their directory.
    pub observer: Observer,
    pub cluster: Cluster,
    pub scratch: Scratch,
    _machine: Machine,
}

impl Live {
    /// Runs beside clusters of other tests.
    pub fn start(plan: &Plan) -> Self {
        Self::start_with(plan, "")
    }

    /// With more lines at the end of the config file.
    pub fn start_with(plan: &Plan, lines: &str) -> Self {
        Self::start_in(plan, Scratch::new("live").unwrap(), lines)
    }

    pub fn start_in(plan: &Plan, scratch: Scratch, lines: &str) -> Self {
        Self::prepare(plan, scratch, lines, Machine::shared()).started()
    }

    /// All files exist, no member runs.
    pub fn prepared(plan: &Plan, lines: &str) -> Self {
        Self::prepare(plan, Scratch::new("live").unwrap(), lines, Machine::shared())
    }

    /// Has the machine to itself: members that get no processor lose their leases, and some tests require that none is
    /// lost.
    pub fn alone(plan: &Plan) -> Self {
        Self::alone_with(plan, "")
    }

    pub fn alone_with(plan: &Plan, lines: &str) -> Self {
        Self::alone_prepared(plan, lines).started()
    }

    /// All files exist, no member runs.
    pub fn alone_prepared(plan: &Plan, lines: &str) -> Self {
        Self::prepare(plan, Scratch::new("live").unwrap(), lines, Machine::alone())
    }

    fn prepare(plan: &Plan, scratch: Scratch, lines: &str, machine: Machine) -> Self {
        let ports = free_ports_elsewhere(plan.nodes).unwrap();
        let cluster = Cluster::prepare(plan, scratch.path(), &ports, node_binary()).unwrap();
        let config = std::fs::read_to_string(cluster.config()).unwrap();
        std::fs::write(cluster.config(), config + lines).unwrap();
        Live { observer: cluster.observer(), cluster, scratch, _machine: machine }
    }

    /// Members that a shell starts after these words, which may set `before` to the beginning of the command line; no member
    /// runs.
    pub fn behind_shell(plan: &Plan, words: &str) -> Self {
        let (scratch, machine) = (Scratch::new("live").unwrap(), Machine::alone());
        let binary = script(scratch.path(), &format!("{words}\nexec $before {} \"$@\"\n", node_binary().display()));
        let ports = free_ports_elsewhere(plan.nodes).unwrap();
        let cluster = Cluster::prepare(plan, scratch.path(), &ports, binary).unwrap();
        Live { observer: cluster.observer(), cluster, scratch, _machine: machine }
    }

    /// Every member on a machine of its own; no member runs.
    pub fn on_machines(plan: &Plan, network: &Network) -> Self {
        let (scratch, machine) = (Scratch::new("live").unwrap(), Machine::alone());
        let binary = script(scratch.path(), &network.node_on_its_machine());
        let cluster = Cluster::prepare_at(plan, scratch.path(), &network.addresses(7400), binary).unwrap();
        Live { observer: cluster.observer(), cluster, scratch, _machine: machine }
    }

    fn started(mut self) -> Self {
        self.cluster.start_all().unwrap();
        self
    }

    /// Waits until these members all follow one leader, which is one of them, and returns it with its epoch.
    pub async fn agreement(&mut self, among: &[u32]) -> (u32, u64) {
        self.agreement_that(among, |_, _| true).await
    }

    pub async fn agreement_on(&mut self, leader: u32, among: &[u32]) -> u64 {
        self.agreement_that(among, |found, _| found == leader).await.1
    }

    pub async fn agreement_that(&mut self, among: &[u32], fits: impl Fn(u32, u64) -> bool) -> (u32, u64) {
        let judge = |observer: &Observer| {
            let views = among.iter().map(|&id| observer.view(id as usize - 1)).collect::<Option<Vec<_>>>()?;
            client::Verdict::of(&views, &client::Electorate::Anybody)
                .leader()
                .filter(|&(leader, epoch)| fits(leader, epoch))
        };
        let waited = self.observer.until(|observer| judge(observer).is_some());
        let in_time = tokio::time::timeout(PATIENCE, waited).await.is_ok();
        assert!(in_time, "no agreement among {among:?}: {:?}\n{}", self.observer.views(), self.logs());
        judge(&self.observer).unwrap()
    }

    /// A connection to one member.
    pub async fn client(&self, id: u32) -> Client {
        let endpoint = &self.cluster.endpoints()[id as usize - 1];
        Client::connect(&endpoint.address, self.cluster.settings()).await.unwrap()
    }

    /// Waits until these voters know what they granted and have granted something. A voter without a record does not count for
    /// a majority, however long it is connected: the first leader of a new cluster needs a majority of them, not all. A voter
    /// learns the id of the cluster with its first grant.
    pub async fn voting(&self, ids: &[u32]) {
        let waits =
            |status: &MemberStatus| status.blank || (status.safety == Safety::Quorum && status.cluster_id.is_none());
        let asking = async {
            while self.ask(ids).await.iter().any(waits) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, asking).await.is_ok();
        assert!(in_time, "one of {ids:?} has no record of what it granted\n{}", self.logs());
    }

    /// Waits until these members are connected to all their peers. Agreement on a leader comes earlier: it needs no
    /// connection between two followers.
    pub async fn connected(&self, ids: &[u32]) {
        self.statuses_that(ids, |all| all.iter().all(|status| status.peers.iter().all(|peer| peer.connected))).await;
    }

    /// Asks these members over new connections until all of them answer and their answers fit.
    pub async fn statuses_that(&self, ids: &[u32], fits: impl Fn(&[MemberStatus]) -> bool) -> Vec<MemberStatus> {
        let asking = async {
            loop {
                let mut all = Vec::new();
                for &id in ids {
                    let endpoint = &self.cluster.endpoints()[id as usize - 1];
                    let client = Client::connect(&endpoint.address, self.cluster.settings()).await;
                    all.extend(match client {
                        Ok(client) => client.status().await.ok(),
                        Err(_) => None,
                    });
                }
                if all.len() == ids.len() && fits(&all) {
                    return all;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let answered = tokio::time::timeout(PATIENCE, asking).await;
        answered.unwrap_or_else(|_| panic!("no such answers of {ids:?}\n{}", self.logs()))
    }

    /// The statuses of these members at a moment when none of them changed. Their counters only grow: if none has grown
    /// between two readings, the readings were true in between, for all of them at once.
    pub async fn at_rest(&self, ids: &[u32], fits: impl Fn(&[MemberStatus]) -> bool) -> Vec<MemberStatus> {
        let counters = |all: &[MemberStatus]| all.iter().map(|s| (s.sent, s.received, s.epoch)).collect::<Vec<_>>();
        let repeated = async {
            let mut before = self.ask(ids).await;
            loop {
                let now = self.ask(ids).await;
                if counters(&now) == counters(&before) && fits(&now) {
                    return now;
                }
                before = now;
            }
        };
        let rested = tokio::time::timeout(PATIENCE, repeated).await;
        rested.unwrap_or_else(|_| panic!("no rest among {ids:?}: {:?}\n{}", self.observer.views(), self.logs()))
    }

    async fn ask(&self, ids: &[u32]) -> Vec<MemberStatus> {
        let mut all = Vec::new();
        for &id in ids {
            all.push(self.client(id).await.status().await.unwrap());
        }
        all
    }

    /// The members' last log lines, for failures.
    pub fn logs(&self) -> String {
        let logs = self.cluster.ids().map(|id| format!("-- {id}\n{}", self.cluster.log_tail(id, 15)));
        logs.collect::<Vec<_>>().join("\n")
    }

    /// Kills with SIGKILL and reaps.
    pub async fn kill(&mut self, id: u32) {
        self.kill_all(&[id]).await;
    }

    /// All at once: every process has its signal before any is reaped.
    pub async fn kill_all(&mut self, ids: &[u32]) {
        for &id in ids {
            self.cluster.kill(id).unwrap();
        }
        for &id in ids {
            self.gone(id).await;
        }
    }

    async fn gone(&mut self, id: u32) {
        self.cluster.reap(id).await.unwrap();
        self.observer.forget(id as usize - 1);
    }

    pub async fn ctl(&self, arguments: &[&str]) -> Output {
        let config = self.cluster.config();
        let config = config.to_str().unwrap();
        ctl(&[&["--config", config], arguments].concat()).await
    }

    /// Asks until the answer fits: where a leader may still move its epoch, one answer may be about the moment in between.
    pub async fn ctl_until(&self, arguments: &[&str], fits: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let asking = async {
            while last.is_empty() || !fits(&last) {
                last = stdout(&self.ctl(arguments).await);
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, asking).await.is_ok();
        assert!(in_time, "{arguments:?}: {last}\n{}", self.logs());
        last
    }

    /// The object that a command prints, and its exit code.
    pub async fn json(&self, arguments: &[&str]) -> (Value, Option<i32>) {
        let output = self.ctl(&[arguments, &["-o", "json", "--member-timeout", "5s"]].concat()).await;
        let value = serde_json::from_str(&stdout(&output));
        (value.unwrap_or_else(|error| panic!("{error}: {}{}", stdout(&output), stderr(&output))), output.status.code())
    }

    /// Asks the real binary; an empty answer if it fails.
    pub async fn leader(&self) -> String {
        stdout(&self.ctl(&["leader"]).await)
    }
}

/// An executable script below a directory.
fn script(directory: &Path, lines: &str) -> PathBuf {
    let path = directory.join("start-node");
    std::fs::write(&path, format!("#!/bin/sh\n{lines}")).expect("a script");
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("an executable script");
    path
}
