//! `ctl up`: its members end with it, start again when asked to, and keep their history.

use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use testkit::{PATIENCE, Scratch, ctl_binary, node_binary};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

/// `ctl up` in the foreground, past its first line.
struct Up {
    child: Child,
    remarks: Lines<BufReader<ChildStderr>>,
    observer: client::Observer,
    started: Value,
}

async fn up(directory: &Path, options: &[&str]) -> Up {
    node_binary();
    let mut child = Command::new(ctl_binary())
        .args(["up", "-o", "json"])
        .args(options)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let remarks = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = timeout(PATIENCE, lines.next_line()).await.expect("up starts").unwrap();
    let started: Value = serde_json::from_str(&line.expect("a line")).unwrap();
    let file = client::ClusterFile::read(&directory.join(client::DEFAULT_CONFIG)).unwrap();
    let secret = client::read_secrets(&file.secret_file.unwrap(), client::SecretPermissions::Owner).unwrap();
    let settings = client::ClientSettings { cluster: file.name, keyring: secret.into(), deadline: PATIENCE };
    let mut observer = client::Observer::new(file.peers, &settings);
    timeout(PATIENCE, observer.until_all_agree()).await.expect("all agree");
    Up { child, remarks, observer, started }
}

impl Up {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().unwrap().cast_signed()).unwrap(), signal).unwrap();
    }

    async fn stop(&mut self) {
        self.signal(Signal::INT);
        let status = timeout(PATIENCE, self.child.wait()).await.expect("up ends").unwrap();
        assert_eq!(status.code(), Some(0));
    }

    fn pid(&self, id: u32) -> Pid {
        let members = self.started["members"].as_array().unwrap();
        let member = members.iter().find(|member| member["id"] == id).unwrap();
        Pid::from_raw(member["pid"].as_i64().unwrap() as i32).unwrap()
    }

    /// Until `up` says so. A killed process can be reaped only after its connections have closed, so the other members may agree
    /// on the next leader before that.
    async fn says(&mut self, words: &str) {
        let said = async { while !self.remarks.next_line().await.unwrap().expect(words).contains(words) {} };
        timeout(PATIENCE, said).await.expect(words);
    }

    /// Until these agree on a leader and no other member answers. Returns the epoch.
    async fn agree(&mut self, leader: u32, among: usize) -> u64 {
        self.agree_after(leader, among, 0).await
    }

    /// The same, in a later epoch.
    async fn agree_after(&mut self, leader: u32, among: usize, earlier: u64) -> u64 {
        let agreed = self.observer.until(|observer| {
            let later = observer.agreed().is_some_and(|(found, epoch)| found == leader && epoch > earlier);
            observer.views().len() == among && later
        });
        let in_time = timeout(PATIENCE, agreed).await.is_ok();
        assert!(in_time, "not {leader} of {among} after epoch {earlier}: {:?}", self.observer.views());
        self.observer.agreed().unwrap().1
    }
}

#[tokio::test]
async fn up_stops_its_members_in_order_when_it_is_told_to_stop() {
    let scratch = Scratch::new("up").unwrap();
    let mut up = up(scratch.path(), &["-n", "3"]).await;
    assert_eq!((&up.started["schema"], &up.started["leader"]), (&"conclave.up/1".into(), &3.into()));
    up.stop().await;
    // It reaped them all, so they are gone now, not soon.
    for id in [1, 2, 3] {
        assert!(test_kill_process(up.pid(id)).is_err(), "{id} still runs");
    }
}

#[tokio::test]
async fn members_do_not_outlive_a_killed_up() {
    let scratch = Scratch::new("up").unwrap();
    let mut up = up(scratch.path(), &["-n", "3"]).await;
    up.child.kill().await.unwrap();
    let gone = up.observer.until(|observer| observer.views().is_empty());
    timeout(PATIENCE, gone).await.expect("all members end");
}

/// What the introduction tells to type in another terminal.
fn by_hand(directory: &Path, id: u32) -> Child {
    let own = directory.join(".conclave");
    let mut command = Command::new(node_binary());
    command.arg("--config").arg(own.join("cluster.toml")).args(["--id", &id.to_string(), "--data-dir"]);
    command.arg(own.join(format!("n{id}"))).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap()
}

async fn reigns(directory: &Path) -> usize {
    let output = Command::new(ctl_binary()).args(["history", "-o", "json"]).current_dir(directory).output();
    let document: Value = serde_json::from_slice(&output.await.unwrap().stdout).unwrap();
    document["reigns"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_killed_member_is_started_by_enter_or_by_hand_and_up_again_keeps_the_history() {
    let scratch = Scratch::new("up").unwrap();
    let directory = scratch.path();
    let mut first = up(directory, &["-n", "3"]).await;
    kill_process(first.pid(3), Signal::KILL).unwrap();
    first.agree(2, 2).await;
    first.says("member 3 ended").await;
    first.child.stdin.as_mut().unwrap().write_all(b"\n").await.unwrap();
    first.agree(3, 3).await;
    kill_process(first.pid(2), Signal::KILL).unwrap();
    first.agree(3, 2).await;
    let mut by_hand_2 = by_hand(directory, 2);
    first.agree(3, 3).await;
    first.stop().await;
    assert_eq!(timeout(PATIENCE, by_hand_2.wait()).await.unwrap().unwrap().code(), Some(0), "stopped with the others");

    // Another number of members, faults allowed; then `up` is killed and a member goes on without it.
    let mut second = up(directory, &["-n", "4", "--chaos", "--revive"]).await;
    let before = reigns(directory).await;
    assert!(before >= 4, "3, 2, 3, then 4: {before}");
    let epoch = second.agree(4, 4).await;
    kill_process(second.pid(4), Signal::KILL).unwrap();
    second.agree_after(4, 4, epoch).await;
    second.child.kill().await.unwrap();
    let gone = second.observer.until(|observer| observer.views().is_empty());
    timeout(PATIENCE, gone).await.expect("all members end");
    let mut left_behind = by_hand(directory, 1);
    second.agree(1, 1).await;
    let mut third = up(directory, &["-n", "4", "--chaos"]).await;
    assert_eq!(timeout(PATIENCE, left_behind.wait()).await.unwrap().unwrap().code(), Some(0), "stopped before");
    assert!(reigns(directory).await > before);
    third.stop().await;
}
