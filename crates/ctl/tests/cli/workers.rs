//! `ctl lead` over days: its member goes away, moves to another address, or leads without it; `--keep` starts over.

use std::process::Stdio;

use algorithms::catalog;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::{Live, PATIENCE, Plan, ctl_binary, done, free_ports_elsewhere, stdout};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

const ALL: &[u32] = &[1, 2, 3];

/// Leases that a busy machine does not miss.
const PATIENT: &str = "[timing]\nlease = \"4s\"\nsuspect_after = \"2s\"\n";

fn plan(safety: &str) -> Plan {
    Plan { safety: safety.parse().unwrap(), ..Plan::new(3, catalog::row(catalog::DEFAULT).unwrap()) }
}

/// A `ctl lead`, what its command prints and what it says itself.
struct Worker {
    ctl: Child,
    said: Lines<BufReader<ChildStdout>>,
    remarks: Lines<BufReader<ChildStderr>>,
}

impl Worker {
    fn start(live: &Live, options: &[&str], script: &str) -> Self {
        let mut ctl = Command::new(ctl_binary())
            .arg("--config")
            .arg(live.cluster.config())
            .arg("lead")
            .args(options)
            .args(["--", "sh", "-c", script])
            .env_remove("CONCLAVE_ID")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let said = BufReader::new(ctl.stdout.take().unwrap()).lines();
        let remarks = BufReader::new(ctl.stderr.take().unwrap()).lines();
        Worker { ctl, said, remarks }
    }

    async fn says(&mut self, wanted: &str) {
        line_with(&mut self.said, wanted).await;
    }

    async fn remarks(&mut self, wanted: &str) -> String {
        line_with(&mut self.remarks, wanted).await
    }

    async fn ends(mut self, signal: Signal) -> Option<i32> {
        let pid = Pid::from_raw(self.ctl.id().unwrap().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
        tokio::time::timeout(PATIENCE, self.ctl.wait()).await.expect("ctl ends").unwrap().code()
    }
}

async fn line_with<R: AsyncRead + Unpin>(lines: &mut Lines<BufReader<R>>, wanted: &str) -> String {
    let reading = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(wanted) {
                return line;
            }
        }
        panic!("it ended without {wanted:?}");
    };
    tokio::time::timeout(PATIENCE, reading).await.unwrap_or_else(|_| panic!("nothing says {wanted:?}"))
}

const RUN: &str = "echo up; exec sleep 1000";

async fn status(live: &Live) -> (String, Value) {
    let text = stdout(&live.ctl(&["status"]).await);
    let document = serde_json::from_str(&stdout(&live.ctl(&["-o", "json", "status"]).await)).unwrap();
    (text, document)
}

fn attached(document: &Value) -> Vec<u64> {
    document["members"].as_array().unwrap().iter().filter_map(|member| member["attached"].as_u64()).collect()
}

/// Asks until the status fits.
async fn until(live: &Live, fits: impl Fn(&Value) -> bool) -> (String, Value) {
    let looking = async {
        loop {
            let (text, document) = status(live).await;
            if fits(&document) {
                return (text, document);
            }
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.expect("a status that fits")
}

/// Waits until the members tell of so many attached commands.
async fn until_attached(live: &Live, wanted: &[u64]) -> (String, Value) {
    let looking = async {
        loop {
            let (text, document) = status(live).await;
            if attached(&document) == wanted {
                return (text, document);
            }
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("never {wanted:?} attached"))
}

#[tokio::test]
async fn a_leader_without_a_worker_is_visible() {
    let mut live = Live::start_with(&plan("quorum"), PATIENT);
    live.agreement_on(3, ALL).await;
    let mut waiting = Worker::start(&live, &["--id", "1", "--keep"], RUN);
    waiting.remarks("waiting until member 1 leads; now member 3 does").await;
    let (text, document) = until_attached(&live, &[1, 0, 0]).await;
    assert!(text.contains("NO WORKER: nothing is attached to the leader 3"), "{text}");
    assert_eq!(document["members"][0]["stands_attached"], false, "{document}");
    let explained = stdout(&live.ctl(&["explain"]).await);
    assert!(explained.contains("Nothing is attached to the leader 3"), "{explained}");
    let mut working = Worker::start(&live, &["--id", "3", "--keep"], RUN);
    working.says("up").await;
    let (text, _) = until_attached(&live, &[1, 0, 1]).await;
    assert!(!text.contains("NO WORKER") && text.contains("attached to 1, 3"), "{text}");
    assert_eq!(working.ends(Signal::TERM).await, Some(143), "a signal ends --keep");
    assert_eq!(waiting.ends(Signal::INT).await, Some(130));
}

/// The lines of a worker reach its member's status and metrics, and are gone with the worker.
#[tokio::test]
async fn a_worker_says_how_much_it_does_and_could_do() {
    let plan = testkit::http::with_faces(plan("quorum"));
    let port = plan.http_ports[2];
    let mut live = Live::start_with(&plan, PATIENT);
    live.agreement_on(3, ALL).await;
    // Lines that are no workload are left out; the newest one counts.
    let script = "{ echo 1 2; echo NaN 2; echo 7.5 30; } > /dev/fd/$CONCLAVE_LOAD_FD; echo up; exec sleep 1000";
    let mut worker = Worker::start(&live, &["--id", "3", "--load"], script);
    worker.says("up").await;
    worker.remarks("not LOAD CAPACITY").await;
    let (text, document) = until(&live, |document| document["members"][2]["load"] == 7.5).await;
    assert!(text.contains("the command at 3 does 7.5 of 30 (25 %)"), "{text}");
    assert_eq!((&document["members"][2]["capacity"], &document["members"][0]["load"]), (&30.0.into(), &Value::Null));
    let metrics = testkit::http::get(port, "/metrics").await.body;
    for line in ["conclave_worker_load 7.5", "conclave_worker_capacity 30.0", "# TYPE conclave_worker_load gauge"] {
        assert!(metrics.lines().any(|told| told == line), "{line} in {metrics}");
    }
    // A client that is attached to nothing has nothing to say, and numbers of the wire have bounds.
    let stranger = live.client(3).await;
    let work = |text: &str| text.parse::<client::Workload>().unwrap();
    let refused = stranger.request(client::Request::Work(work("1 1"))).await;
    assert!(
        matches!(&refused, Err(client::ClientError::Failed { reason, .. }) if reason.contains("attach")),
        "{refused:?}"
    );
    let huge: client::Workload =
        serde_json::from_str(r#"{"load":{"thousandths":18446744073709551615},"capacity":{"thousandths":1}}"#).unwrap();
    let attachment = live.client(3).await.attach(std::time::Duration::ZERO).await.unwrap();
    let refused = attachment.report(huge).await;
    assert!(
        matches!(&refused, Err(client::ClientError::Failed { reason, .. }) if reason.contains("at most")),
        "{refused:?}"
    );
    drop(attachment);
    let attachment = live.client(3).await.attach(std::time::Duration::ZERO).await.unwrap();
    attachment.report(work("2.5 10")).await.unwrap();
    until(&live, |document| document["members"][2]["load"] == 10.0 && document["members"][2]["capacity"] == 40.0).await;
    drop(attachment);
    until(&live, |document| document["members"][2]["load"] == 7.5).await;
    assert_eq!(worker.ends(Signal::TERM).await, Some(143));
    until(&live, |document| document["members"][2]["load"].is_null()).await;
    let metrics = testkit::http::get(port, "/metrics").await.body;
    assert!(!metrics.lines().any(|line| line.starts_with("conclave_worker_load ")), "{metrics}");
}

/// Member 3 has the highest id, and no work of its own: it votes, and never leads while nothing is attached to it.
#[tokio::test]
async fn a_member_that_stands_for_its_workers_leads_while_one_is_attached() {
    // The end of the config is the table of member 3.
    let mut live = Live::start_with(&plan("quorum"), &format!("stand = \"attached\"\n{PATIENT}"));
    live.agreement_on(2, ALL).await;
    let mut second = Worker::start(&live, &["--id", "2", "--keep"], RUN);
    second.says("up").await;
    let (text, _) = until_attached(&live, &[0, 1, 0]).await;
    assert!(text.contains("3 do not stand"), "{text}");
    let mut third = Worker::start(&live, &["--id", "3", "--keep"], RUN);
    third.says("up").await;
    live.agreement_on(3, ALL).await;
    second.remarks("waiting for leadership").await;
    assert_eq!(third.ends(Signal::TERM).await, Some(143));
    live.agreement_on(2, ALL).await;
    second.says("up").await;
    assert_eq!(second.ends(Signal::TERM).await, Some(143));
}

/// The members are stopped, and member 3 gets another port: its `ctl lead` says so and follows.
#[tokio::test]
async fn a_member_at_another_address_is_found_again() {
    let mut live = Live::start_with(&plan("classic"), PATIENT);
    live.agreement_on(3, ALL).await;
    let mut worker = Worker::start(&live, &["--id", "3", "--keep"], RUN);
    worker.says("up").await;
    live.cluster.stop().await;
    let away = worker.remarks("not reachable").await;
    let old = live.cluster.endpoints()[2].address.clone();
    assert!(away.contains(&old), "{away}");
    let new = format!("127.0.0.1:{}", free_ports_elsewhere(1).unwrap()[0]);
    let config = std::fs::read_to_string(live.cluster.config()).unwrap();
    std::fs::write(live.cluster.config(), config.replace(&old, &new)).unwrap();
    live.cluster.start_all().unwrap();
    worker.remarks(&format!("member 3 is at {new} now")).await;
    worker.says("up").await;
    assert_eq!(worker.ends(Signal::TERM).await, Some(143));
}

#[tokio::test]
async fn a_command_that_ends_is_started_again_and_a_wrong_command_line_is_not() {
    let mut live = Live::start_with(&plan("quorum"), PATIENT);
    live.agreement_on(3, ALL).await;
    let mut worker = Worker::start(&live, &["--id", "3", "--keep"], "echo up; exit 3");
    worker.says("up").await;
    worker.remarks("the command ended with 3; again in 1s").await;
    worker.says("up").await;
    worker.ends(Signal::TERM).await;
    let refused = live.ctl(&["lead", "--id", "9", "--keep", "--", "true"]).await;
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

/// The leader leads on until the worker has stopped, for longer than a lease.
#[tokio::test]
async fn a_handover_waits_for_a_worker_that_needs_longer_than_a_lease_to_stop() {
    let mut live = Live::start_with(&plan("quorum"), "[timing]\nlease = \"1500ms\"\nsuspect_after = \"1s\"\n");
    live.agreement_on(3, ALL).await;
    let slow = "trap 'sleep 2; echo clean; exit' TERM; echo up; while :; do sleep 0.01; done";
    let mut worker = Worker::start(&live, &["--id", "3", "--grace", "20s"], slow);
    worker.says("up").await;
    done(&live.ctl(&["transfer", "1", "--hold", "--timeout", "20s"]).await);
    worker.says("clean").await;
    live.agreement_on(1, ALL).await;
    let ended = tokio::time::timeout(PATIENCE, worker.ctl.wait()).await.expect("ctl ends").unwrap();
    assert_eq!(ended.code(), Some(6));
}

/// A worker that writes when it starts and stops, in milliseconds.
const TIMED: &str = r#"now() { echo "$1 $(date +%s%3N)" >>"$LOG"; }
trap 'kill $!; now down; exit' TERM
now up; sleep 1000 & wait"#;

/// The times without any running worker: between the end of each worker and the start of the next.
fn gaps(log: &std::path::Path) -> Vec<i64> {
    let text = std::fs::read_to_string(log).unwrap();
    let line = |line: &str| line.split_once(' ').map(|(what, at)| (what == "up", at.parse::<i64>().unwrap()));
    let lines: Vec<(bool, i64)> = text.lines().filter_map(line).collect();
    lines.windows(2).filter(|pair| !pair[0].0 && pair[1].0).map(|pair| pair[1].1 - pair[0].1).collect()
}

/// As `ctl init` writes it, without preemption: restarting all members, the leader last, changes the leader once.
#[tokio::test]
async fn a_rolling_restart_of_five_with_the_leader_last_changes_the_leader_once() {
    let five = Plan::new(5, catalog::row(catalog::DEFAULT).unwrap());
    let mut live = Live::start_with(&Plan { preempt: false, safety: "quorum".parse().unwrap(), ..five }, PATIENT);
    let all: Vec<u32> = (1..=5).collect();
    let (leader, epoch) = live.agreement(&all).await;
    let log = live.cluster.config().with_file_name("worker.log");
    let script = format!("LOG={}; {TIMED}", log.display());
    let workers: Vec<Worker> =
        all.iter().map(|id| Worker::start(&live, &["--id", &id.to_string(), "--keep"], &script)).collect();
    until_attached(&live, &[1; 5]).await;
    let order = all.iter().copied().filter(|&id| id != leader).chain([leader]);
    for id in order {
        live.cluster.signal(id, Signal::TERM).unwrap();
        live.cluster.reap(id).await.unwrap();
        live.cluster.start(id).unwrap();
        until_attached(&live, &[1; 5]).await;
    }
    let (_, later) = live.agreement_that(&all, |next, later| next != leader && later > epoch).await;
    let history = live.json(&["history"]).await.0;
    let reigns = history["reigns"].as_array().unwrap().iter();
    // A leader that goes on in a later epoch is the same leader.
    let changes = reigns.filter(|reign| reign["epoch"].as_u64() > Some(epoch) && reign["cause"] != "bumped").count();
    assert_eq!(changes, 1, "epoch {epoch} and then {later}: {history:#}");
    println!("one change of leader; no worker ran for {:?} ms", gaps(&log));
    for worker in workers {
        worker.ends(Signal::TERM).await;
    }
}
