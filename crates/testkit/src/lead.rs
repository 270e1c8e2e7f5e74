//! A `ctl lead` under test, and the processes of its command.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::{Live, PATIENCE, Scratch, ctl_binary};

/// In the environment of every process that a test starts.
const MARK: &str = "CONCLAVE_TEST_MARK";

/// Forks, daemonises twice over, and ignores every signal that can be ignored. Five processes report that they are up.
pub const STUBBORN: &str = r#"
    trap '' TERM INT HUP QUIT
    leaf='trap "" TERM INT HUP QUIT; echo up >&3; while :; do sleep 1000; done'
    sh -c "$leaf" &
    (setsid sh -c "$leaf" &)
    (setsid sh -c "(setsid sh -c '$(printf %s "$leaf")' &); $leaf" &)
    echo up >&3
    while :; do sleep 1000; done
"#;
const STUBBORN_PROCESSES: usize = 5;

/// A `ctl lead` and the output of its command on descriptor 3, which only the command's processes have: its end is the
/// end of the last of them.
#[derive(Debug)]
pub struct Lead {
    pub ctl: Child,
    said: UnboundedReceiver<String>,
    pub mark: String,
    _scratch: Scratch,
}

impl Lead {
    pub fn start(live: &Live, id: u32, script: &str) -> Self {
        let scratch = Scratch::new("lead").unwrap();
        let fifo = scratch.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let said = follow(fifo.clone());
        let mark = scratch.path().display().to_string();
        let script = format!("exec 3>'{}'\n{script}", fifo.display());
        let ctl = Command::new(ctl_binary())
            .arg("--config")
            .arg(live.cluster.config())
            .arg("lead")
            .args(["--id", &id.to_string()])
            .args(["--", "sh", "-c", &script])
            .env(MARK, &mark)
            .env_remove("CONCLAVE_ID")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Lead { ctl, said, mark, _scratch: scratch }
    }

    pub async fn next(&mut self) -> Option<String> {
        tokio::time::timeout(PATIENCE, self.said.recv()).await.expect("the command says something, or ends")
    }

    /// Waits until all stubborn processes are up.
    pub async fn up(&mut self) {
        for _ in 0..STUBBORN_PROCESSES {
            assert_eq!(self.next().await.as_deref(), Some("up"));
        }
        assert!(self.processes().len() > STUBBORN_PROCESSES, "{:?}", self.processes());
    }

    /// Waits until the last process of the command has ended.
    pub async fn gone(&mut self) {
        while self.next().await.is_some() {}
        let left = self.processes();
        assert!(left.is_empty(), "left behind: {left:?}");
    }

    /// The end of `ctl`, and of the guard: both hold the stdout.
    pub async fn exit(&mut self) -> ExitStatus {
        let stdout = self.ctl.stdout.as_mut().unwrap();
        let mut sink = tokio::io::sink();
        tokio::time::timeout(PATIENCE, tokio::io::copy(stdout, &mut sink)).await.expect("the guard ends").unwrap();
        tokio::time::timeout(PATIENCE, self.ctl.wait()).await.expect("ctl ends").unwrap()
    }

    /// All processes of the command, without `ctl` and the guard.
    pub fn processes(&self) -> Vec<(i32, String)> {
        marked(&self.mark).into_iter().filter(|(_, line)| !line.starts_with("ctl ") && !is_ctl(line)).collect()
    }

    pub fn guard(&self) -> i32 {
        let guard = marked(&self.mark).into_iter().find(|(_, line)| line.starts_with("ctl guard "));
        guard.expect("a guard").0
    }

    pub fn signal(&self, signal: Signal) {
        send(self.ctl.id().unwrap().cast_signed(), signal);
    }
}

/// A test that fails leaves no process behind either.
impl Drop for Lead {
    fn drop(&mut self) {
        for (pid, _) in std::iter::from_fn(|| marked(&self.mark).pop()) {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
    }
}

fn is_ctl(line: &str) -> bool {
    line.starts_with(&ctl_binary().display().to_string())
}

pub fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Lines of a fifo, from its first writer to its last.
fn follow(fifo: PathBuf) -> UnboundedReceiver<String> {
    let (lines, said) = unbounded_channel();
    // Not a task: opening waits for a writer, which a failed test never starts.
    std::thread::spawn(move || {
        let file = fs::File::open(fifo).unwrap();
        for line in BufReader::new(file).lines() {
            let _ = lines.send(line.unwrap());
        }
    });
    said
}

/// Living processes with this mark in their environment, with their command lines.
pub fn marked(mark: &str) -> Vec<(i32, String)> {
    let wanted = format!("{MARK}={mark}");
    let has_mark = |path: &Path| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|entry| entry == wanted.as_bytes())
    };
    let paths = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    // A zombie has no memory, and so no environment; or no command line, if it ends between two reads.
    paths
        .filter(|path| has_mark(path))
        .filter_map(|path| {
            let pid = path.file_name()?.to_str()?.parse().ok()?;
            let line = fs::read(path.join("cmdline")).ok().filter(|line| !line.is_empty())?;
            Some((pid, String::from_utf8_lossy(&line).replace('\0', " ")))
        })
        .collect()
}
