//! Clusters of real processes for tests: events are awaited, never slept for.

// Every test binary includes all of it and uses its part.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::OnceLock;
use std::time::Duration;

use client::{Client, MemberStatus, Observer};
use ctl::cluster::{Cluster, Plan, Scratch, free_ports_elsewhere};

/// Far more than anything here takes on a free machine; tests share two cores.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A running cluster and the event streams of its members.
#[derive(Debug)]
pub(crate) struct Live {
    // The streams end before the processes, and the processes before their directory.
    pub(crate) observer: Observer,
    pub(crate) cluster: Cluster,
    pub(crate) scratch: Scratch,
}

impl Live {
    pub(crate) fn start(plan: &Plan) -> Self {
        Self::start_in(plan, Scratch::new("live").unwrap())
    }

    pub(crate) fn start_in(plan: &Plan, scratch: Scratch) -> Self {
        Self::start_with(plan, scratch, "")
    }

    /// With more lines at the end of the config file.
    pub(crate) fn start_with(plan: &Plan, scratch: Scratch, lines: &str) -> Self {
        let ports = free_ports_elsewhere(plan.nodes).unwrap();
        let mut cluster = Cluster::prepare(plan, scratch.path(), &ports, node_binary()).unwrap();
        let config = std::fs::read_to_string(cluster.config()).unwrap();
        std::fs::write(cluster.config(), config + lines).unwrap();
        let observer = cluster.observer();
        cluster.start_all().unwrap();
        Live { observer, cluster, scratch }
    }

    /// Waits until these members all follow one leader, which is one of them, and gives it with its epoch.
    pub(crate) async fn agreement(&mut self, among: &[u32]) -> (u32, u64) {
        self.agreement_that(among, |_, _| true).await
    }

    pub(crate) async fn agreement_on(&mut self, leader: u32, among: &[u32]) -> u64 {
        self.agreement_that(among, |found, _| found == leader).await.1
    }

    pub(crate) async fn agreement_that(&mut self, among: &[u32], fits: impl Fn(u32, u64) -> bool) -> (u32, u64) {
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

    /// A conversation with one member.
    pub(crate) async fn client(&self, id: u32) -> Client {
        let endpoint = &self.cluster.endpoints()[id as usize - 1];
        Client::connect(&endpoint.address, self.cluster.settings()).await.unwrap()
    }

    /// What these members say of themselves at a moment when they all stood still. Their counters only grow: if none
    /// has between two readings, the readings were true in between, of all of them at once.
    pub(crate) async fn at_rest(&self, ids: &[u32], fits: impl Fn(&[MemberStatus]) -> bool) -> Vec<MemberStatus> {
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

    /// What the members last logged, for failures.
    pub(crate) fn logs(&self) -> String {
        let logs = self.cluster.ids().map(|id| format!("-- {id}\n{}", self.cluster.log_tail(id, 15)));
        logs.collect::<Vec<_>>().join("\n")
    }

    /// Kills with SIGKILL and reaps.
    pub(crate) async fn kill(&mut self, id: u32) {
        self.kill_all(&[id]).await;
    }

    /// All at once: every process has its signal before any is reaped.
    pub(crate) async fn kill_all(&mut self, ids: &[u32]) {
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

    pub(crate) async fn ctl(&self, arguments: &[&str]) -> Output {
        let config = self.cluster.config();
        let config = config.to_str().unwrap();
        ctl(&[&["--config", config], arguments].concat()).await
    }

    /// Asks the real binary; an empty answer if it fails.
    pub(crate) async fn leader(&self) -> String {
        stdout(&self.ctl(&["leader"]).await)
    }
}

pub(crate) async fn ctl(arguments: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_ctl"));
    command.args(arguments).env_remove("CONCLAVE_CONFIG").env_remove("CONCLAVE_ENDPOINTS").kill_on_drop(true);
    tokio::time::timeout(PATIENCE, command.output()).await.expect("ctl ends").expect("ctl runs")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The `node` beside `ctl`, brought up to date: cargo builds the binaries of this package only.
pub(crate) fn node_binary() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let profile = Path::new(env!("CARGO_BIN_EXE_ctl")).parent().unwrap();
            if std::env::var_os("CONCLAVE_PREBUILT").is_some() {
                // A build of the whole workspace has just made it; building one package alone would compile anew.
                return profile.join("node");
            }
            let mut build = std::process::Command::new(env!("CARGO"));
            build.args(["build", "--quiet", "--package", "node", "--bin", "node", "--target-dir"]);
            build.arg(profile.parent().unwrap()).current_dir(env!("CARGO_MANIFEST_DIR"));
            if profile.ends_with("release") {
                build.arg("--release");
            }
            assert!(build.status().unwrap().success(), "node does not build");
            profile.join("node")
        })
        .clone()
}
