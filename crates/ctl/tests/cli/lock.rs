//! `ctl lock`, `ctl locks` and `ctl unlock` over real members.

use std::process::Stdio;
use std::time::Duration;

use algorithms::catalog;
use client::Session;
use rustix::process::{Pid, Signal, kill_process};
use testkit::lead::marked;
use testkit::{Live, PATIENCE, Plan, Scratch, ctl_binary, done, refused, stderr, stdout, until};
use tokio::process::{Child, Command};

const ALL: &[u32] = &[1, 2, 3];
/// A lease that a busy machine does not miss.
const PATIENT: &str =
    "\n[timing]\nlease = \"2s\"\nsuspect_after = \"1s\"\n[locks]\nmax_ttl = \"10s\"\nmax_waiters = 2\n";

async fn cluster() -> Live {
    let row = catalog::row(catalog::DEFAULT).unwrap();
    let mut live = Live::start_with(&Plan { safety: client::Safety::Quorum, ..Plan::new(3, row) }, PATIENT);
    live.agreement(ALL).await;
    // If two members stood in the first election, the winner waits for max_ttl.
    let ttl = Duration::from_secs(1);
    let opened = Session::open_within(live.cluster.endpoints(), live.cluster.settings(), ttl, PATIENCE).await;
    opened.unwrap_or_else(|error| panic!("{error}\n{}", live.logs()));
    live
}

/// A `ctl lock` that runs beside the test.
fn start(live: &Live, arguments: &[&str], script: &str, mark: &str) -> Child {
    let mut command = Command::new(ctl_binary());
    command.arg("--config").arg(live.cluster.config()).arg("lock").args(arguments).args(["--", "sh", "-c", script]);
    command.env("CONCLAVE_TEST_MARK", mark).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true).spawn().unwrap()
}

async fn end(child: Child) -> std::process::Output {
    tokio::time::timeout(2 * PATIENCE, child.wait_with_output()).await.expect("ctl ends").unwrap()
}

fn signal_all(mark: &str, signal: Signal) {
    for (pid, _) in marked(mark) {
        let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
    }
}

#[tokio::test]
async fn the_command_runs_with_its_token_and_its_exit_code_is_passed_on() {
    let live = cluster().await;
    let script = "echo $CONCLAVE_LOCK $CONCLAVE_EPOCH $CONCLAVE_TOKEN; exit 7";
    let first = live.ctl(&["lock", "a b", "--", "sh", "-c", script]).await;
    assert_eq!(first.status.code(), Some(7), "{}", stderr(&first));
    let second = live.ctl(&["lock", "a b", "--", "sh", "-c", script]).await;
    let numbers = |output| -> Vec<u64> {
        let text = stdout(output);
        let numbers = text.trim().strip_prefix("a b ").unwrap().split(' ').map(|number| number.parse().unwrap());
        numbers.collect()
    };
    let (one, two) = (numbers(&first), numbers(&second));
    assert_eq!((one[1] >> 28, two[1] >> 28), (one[0], two[0]), "the token begins with the epoch");
    assert!(two[1] > one[1], "{two:?} after {one:?}");
    let (locks, code) = live.json(&["locks"]).await;
    assert_eq!((locks["locks"].as_array().map(Vec::len), code), (Some(0), Some(0)), "released: {locks}");
}

#[tokio::test]
async fn busy_locks_waiters_and_listings() {
    let live = cluster().await;
    let scratch = Scratch::new("lock").unwrap();
    let (held, release) = (scratch.path().join("held"), scratch.path().join("release"));
    let script = format!("touch '{}'; while [ ! -e '{}' ]; do sleep 0.05; done", held.display(), release.display());
    let holder = start(&live, &["a"], &script, "holder");
    until("the lock is held", || held.exists().then_some(())).await;
    refused(&live.ctl(&["lock", "a", "--try", "--", "true"]).await, 5, &["a is busy", "ctl locks a"]);
    refused(&live.ctl(&["lock", "a", "--wait", "100ms", "--", "true"]).await, 5, &["not granted within 100ms"]);
    refused(&live.ctl(&["lock", "a", "--slots", "2", "--", "true"]).await, 1, &["as an exclusive lock"]);
    let waiters = ["waiter", "another"].map(|mark| start(&live, &["a"], "exit 3", mark));
    let listed = async {
        loop {
            let (locks, _) = live.json(&["locks", "a"]).await;
            if locks["locks"][0]["waiters"].as_array().is_some_and(|waiters| waiters.len() == 2) {
                return locks;
            }
        }
    };
    let locks = tokio::time::timeout(PATIENCE, listed).await.expect("two waiters");
    assert_eq!((&locks["schema"], &locks["locks"][0]["mode"]), (&"conclave.locks/1".into(), &"exclusive".into()));
    let holder_line = &locks["locks"][0]["holders"][0];
    assert!(holder_line["token"].as_str().is_some_and(|token| token.parse::<u64>().is_ok()), "{locks}");
    assert!(holder_line["left_ms"].as_u64().is_some_and(|left| left <= 10_000), "{locks}");
    let table = stdout(&live.ctl(&["locks"]).await);
    assert!(table.starts_with("LOCK") && table.contains("exclusive"), "{table}");
    // Two waiters are all that this config allows.
    refused(&live.ctl(&["lock", "a", "--", "true"]).await, 1, &["max_waiters in [locks]"]);
    std::fs::write(&release, "").unwrap();
    assert_eq!(end(holder).await.status.code(), Some(0));
    for waiter in waiters {
        assert_eq!(end(waiter).await.status.code(), Some(3), "the waiter is served");
    }
}

#[tokio::test]
async fn bad_input_is_refused_with_what_to_write_instead() {
    let live = cluster().await;
    let long = "x".repeat(10_000);
    refused(&live.ctl(&["lock", "", "--", "true"]).await, 2, &["1 to 256 bytes"]);
    refused(&live.ctl(&["lock", &long, "--", "true"]).await, 2, &["10000 bytes", "at most 256"]);
    refused(&live.ctl(&["lock", "a\nb", "--", "true"]).await, 2, &["control character"]);
    refused(&live.ctl(&["lock", "a", "--ttl", "0s", "--", "true"]).await, 2, &["at least 100ms"]);
    refused(&live.ctl(&["lock", "a", "--ttl", "1h", "--", "true"]).await, 2, &["at most 10s", "max_ttl"]);
    refused(&live.ctl(&["lock", "a", "--grace", "9s", "--", "true"]).await, 2, &["does not fit a ttl of 10s"]);
    refused(&live.ctl(&["lock", "a", "--slots", "0", "--", "true"]).await, 2, &[]);
    refused(&live.ctl(&["lock", "a", "--try", "--wait", "1s", "--", "true"]).await, 2, &["--wait"]);
    refused(&live.ctl(&["unlock", "a", "--token", "5"]).await, 1, &["no holder has the lock \"a\""]);
    refused(&live.ctl(&["unlock", &long, "--token", "5"]).await, 2, &["at most 256"]);
    let reader = live.cluster.directory().join("reader.secret");
    let reader = reader.to_str().unwrap();
    refused(&live.ctl(&["--secret-file", reader, "lock", "a", "--", "true"]).await, 8, &["operator"]);
    done(&live.ctl(&["--secret-file", reader, "locks"]).await);
}

/// A holder that is paused for longer than its time to live: the lock passes on, its late write is refused, and it learns
/// that it was late.
#[tokio::test]
async fn a_holder_that_slept_too_long_is_fenced_off_and_exits_with_6() {
    let live = cluster().await;
    let scratch = Scratch::new("lock").unwrap();
    let mark = scratch.path().display().to_string();
    let (fence, said) = (scratch.path().join("fence"), scratch.path().join("said"));
    let write = format!(
        "'{}' fence-check '{}' && echo $CONCLAVE_TOKEN >> '{}'",
        ctl_binary().display(),
        fence.display(),
        said.display()
    );
    let tokens = || std::fs::read_to_string(&said).unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>();
    let mut holder = start(&live, &["a", "--ttl", "2s"], &format!("trap '' TERM; {write}; sleep 1000"), &mark);
    until("the first write", || (tokens().len() == 1).then_some(())).await;
    // `ctl`, its guard and the command.
    signal_all(&mark, Signal::STOP);
    done(&live.ctl(&["lock", "a", "--", "sh", "-c", &write]).await);
    assert_eq!(tokens().len(), 2, "the lock has passed on");
    let late = live.ctl(&["fence-check", fence.to_str().unwrap(), &tokens()[0]]).await;
    assert_eq!(late.status.code(), Some(1), "a write with the first token: {}", stdout(&late));
    signal_all(&mark, Signal::CONT);
    let status = tokio::time::timeout(PATIENCE, holder.wait()).await.expect("ctl ends").unwrap();
    assert_eq!(status.code(), Some(6));
    until("nothing is left", || marked(&mark).is_empty().then_some(())).await;
}

#[tokio::test]
async fn a_killed_ctl_takes_its_command_along_and_a_killed_waiter_is_skipped() {
    let live = cluster().await;
    let scratch = Scratch::new("lock").unwrap();
    let (mark, held) = (scratch.path().display().to_string(), scratch.path().join("held"));
    let holder = start(&live, &["a", "--ttl", "1s"], &format!("touch '{}'; sleep 1000", held.display()), &mark);
    until("the lock is held", || held.exists().then_some(())).await;
    let mut dies = start(&live, &["a", "--ttl", "1s"], "echo must not run; exit 9", "dies");
    until("it waits", || has_waiters(&live).then_some(())).await;
    dies.kill().await.unwrap();
    let pid = Pid::from_raw(holder.id().unwrap().cast_signed()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    done(&live.ctl(&["lock", "a", "--", "true"]).await);
    until("nothing is left", || marked(&mark).is_empty().then_some(())).await;
}

/// Does a session wait for the lock `a`?
fn has_waiters(live: &Live) -> bool {
    let mut command = std::process::Command::new(ctl_binary());
    command.arg("--config").arg(live.cluster.config()).args(["locks", "a", "-o", "json"]);
    let output = command.output().unwrap();
    !String::from_utf8_lossy(&output.stdout).contains("\"waiters\":[]")
}

#[tokio::test]
async fn a_command_that_shows_no_progress_loses_its_lock() {
    let live = cluster().await;
    let arguments = ["lock", "a", "--ttl", "2s", "--progress", "300ms", "--", "sh", "-c"];
    let busy = "for i in 1 2 3 4 5 6; do echo > /dev/fd/$CONCLAVE_PROGRESS_FD; sleep 0.1; done; exit 3";
    let output = live.ctl(&[&arguments[..], &[busy]].concat()).await;
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let hung = live.ctl(&[&arguments[..], &["sleep 1000"]].concat()).await;
    refused(&hung, 6, &["CONCLAVE_PROGRESS_FD"]);
    let output = tokio::time::timeout(Duration::from_secs(15), live.ctl(&["lock", "a", "--try", "--", "true"]));
    done(&output.await.expect("released"));
}

#[tokio::test]
async fn the_counter_is_right_with_the_lock() {
    let live = cluster().await;
    let output = live.ctl(&["demo", "counter", "--lock"]).await;
    done(&output);
    assert!(stdout(&output).contains("6 of 6"), "{}", stdout(&output));
    done(&live.ctl(&["demo", "counter"]).await);
}
