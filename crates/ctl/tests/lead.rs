//! `ctl lead` over real members: a command that does not want to die, and everything that may happen to the member, to
//! `ctl` and to its guard. `CONCLAVE_LEAD_RUNS=50` repeats every fault.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use algorithms::catalog;
use ctl::cluster::{Plan, Scratch};
use rustix::process::{Pid, Signal, kill_process};
use support::{Live, PATIENCE, ctl, stderr};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// In the environment of everything that a test starts.
const MARK: &str = "CONCLAVE_TEST_MARK";
/// Both members; the second leads.
const BOTH: &[u32] = &[1, 2];
const LEADER: u32 = 2;

/// Forks, daemonises twice over, and ignores every signal that can be ignored. Five processes say that they are up.
const STUBBORN: &str = r#"
    trap '' TERM INT HUP QUIT
    leaf='trap "" TERM INT HUP QUIT; echo up >&3; while :; do sleep 1000; done'
    sh -c "$leaf" &
    (setsid sh -c "$leaf" &)
    (setsid sh -c "(setsid sh -c '$(printf %s "$leaf")' &); $leaf" &)
    echo up >&3
    while :; do sleep 1000; done
"#;
const STUBBORN_PROCESSES: usize = 5;

fn plan() -> Plan {
    Plan::new(2, catalog::row(catalog::DEFAULT).unwrap())
}

async fn led() -> Live {
    let mut live = Live::start(&plan());
    live.agreement_on(LEADER, BOTH).await;
    live
}

fn runs() -> usize {
    std::env::var("CONCLAVE_LEAD_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(1)
}

/// A `ctl lead` and what its command writes to descriptor 3, which all of the command's processes have and nobody else:
/// its end is the end of the last one.
struct Lead {
    ctl: Child,
    said: UnboundedReceiver<String>,
    mark: String,
    _scratch: Scratch,
}

impl Lead {
    fn start(live: &Live, id: u32, script: &str) -> Self {
        Self::start_with(live, &["--id", &id.to_string()], script)
    }

    fn start_with(live: &Live, options: &[&str], script: &str) -> Self {
        let scratch = Scratch::new("lead").unwrap();
        let fifo = scratch.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let said = follow(fifo.clone());
        let mark = scratch.path().display().to_string();
        let script = format!("exec 3>'{}'\n{script}", fifo.display());
        let ctl = Command::new(env!("CARGO_BIN_EXE_ctl"))
            .arg("--config")
            .arg(live.cluster.config())
            .arg("lead")
            .args(options)
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

    async fn next(&mut self) -> Option<String> {
        tokio::time::timeout(PATIENCE, self.said.recv()).await.expect("the command says something, or ends")
    }

    /// Waits until all of the stubborn are up.
    async fn up(&mut self) {
        for _ in 0..STUBBORN_PROCESSES {
            assert_eq!(self.next().await.as_deref(), Some("up"));
        }
        assert!(self.processes().len() > STUBBORN_PROCESSES, "{:?}", self.processes());
    }

    /// Waits until the last process of the command is gone.
    async fn gone(&mut self) {
        while self.next().await.is_some() {}
        let left = self.processes();
        assert!(left.is_empty(), "left behind: {left:?}");
    }

    /// The end of `ctl`, and of the guard: both have the stdout.
    async fn exit(&mut self) -> ExitStatus {
        let stdout = self.ctl.stdout.as_mut().unwrap();
        let mut sink = tokio::io::sink();
        tokio::time::timeout(PATIENCE, tokio::io::copy(stdout, &mut sink)).await.expect("the guard ends").unwrap();
        tokio::time::timeout(PATIENCE, self.ctl.wait()).await.expect("ctl ends").unwrap()
    }

    /// Everything of the command that lives: neither `ctl` nor the guard.
    fn processes(&self) -> Vec<(i32, String)> {
        marked(&self.mark).into_iter().filter(|(_, line)| !line.starts_with("ctl ") && !is_ctl(line)).collect()
    }

    fn guard(&self) -> i32 {
        let guard = marked(&self.mark).into_iter().find(|(_, line)| line.starts_with("ctl guard "));
        guard.expect("a guard").0
    }

    fn signal(&self, signal: Signal) {
        send(self.ctl.id().unwrap().cast_signed(), signal);
    }
}

fn is_ctl(line: &str) -> bool {
    line.starts_with(env!("CARGO_BIN_EXE_ctl"))
}

fn send(pid: i32, signal: Signal) {
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
fn marked(mark: &str) -> Vec<(i32, String)> {
    let wanted = format!("{MARK}={mark}");
    let has_mark = |path: &Path| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|entry| entry == wanted.as_bytes())
    };
    let paths = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    // The memory of a zombie is gone, and with it its environment.
    paths
        .filter(|path| has_mark(path))
        .filter_map(|path| {
            let pid = path.file_name()?.to_str()?.parse().ok()?;
            let line = fs::read(path.join("cmdline")).ok()?;
            Some((pid, String::from_utf8_lossy(&line).replace('\0', " ")))
        })
        .collect()
}

#[tokio::test]
async fn the_commands_own_exit_code_is_passed_on() {
    let live = led().await;
    for (script, code) in
        [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("exec no-such-program", 127)]
    {
        let mut lead = Lead::start(&live, LEADER, script);
        assert_eq!(lead.exit().await.code(), Some(code), "{script}");
        assert_eq!(marked(&lead.mark), []);
    }
    for (command, code) in [("/no/such/program", 127), ("/proc/version", 126)] {
        let output = live.ctl(&["lead", "--id", "2", "--", command]).await;
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(command), "{}", stderr(&output));
    }
}

#[tokio::test]
async fn the_command_has_its_stdin_and_the_token_of_the_reign() {
    let mut live = led().await;
    let epoch = live.agreement_on(LEADER, BOTH).await;
    let mut lead = Lead::start(&live, LEADER, "read line; echo $line $CONCLAVE_EPOCH $CONCLAVE_TOKEN >&3");
    lead.ctl.stdin.take().unwrap().write_all(b"hello\n").await.unwrap();
    let token = epoch << 16 | u64::from(LEADER);
    assert_eq!(lead.next().await, Some(format!("hello {epoch} {token}")));
    assert_eq!(lead.exit().await.code(), Some(0));
}

#[tokio::test]
async fn what_the_command_leaves_behind_ends_with_it() {
    let live = led().await;
    // It waits for those it leaves behind to be up.
    let script = format!("({STUBBORN}) & for i in 1 2 3 4 5; do read line; done; exit 3");
    let mut lead = Lead::start(&live, LEADER, &script);
    lead.up().await;
    lead.ctl.stdin.take().unwrap().write_all(b"1\n2\n3\n4\n5\n").await.unwrap();
    lead.gone().await;
    assert_eq!(lead.exit().await.code(), Some(3));
}

#[tokio::test]
async fn signals_reach_the_command() {
    let live = led().await;
    let script = "for s in HUP INT USR1 USR2; do trap \"echo $s >&3\" $s; done; trap 'exit 9' TERM
                  echo up >&3; while :; do sleep 0.01; done";
    let mut lead = Lead::start(&live, LEADER, script);
    assert_eq!(lead.next().await.as_deref(), Some("up"));
    for (signal, name) in [(Signal::HUP, "HUP"), (Signal::INT, "INT"), (Signal::USR1, "USR1"), (Signal::USR2, "USR2")] {
        lead.signal(signal);
        assert_eq!(lead.next().await.as_deref(), Some(name));
    }
    lead.signal(Signal::TERM);
    lead.gone().await;
    assert_eq!(lead.exit().await.code(), Some(9));
}

#[tokio::test]
async fn the_command_starts_when_the_member_leads() {
    let mut live = led().await;
    let mut lead = Lead::start(&live, 1, "echo $CONCLAVE_EPOCH >&3; exit 0");
    let before = live.agreement_on(LEADER, BOTH).await;
    live.kill(LEADER).await;
    let after = live.agreement_on(1, &[1]).await;
    assert!(after > before);
    assert_eq!(lead.next().await, Some(after.to_string()));
    assert_eq!(lead.exit().await.code(), Some(0));
}

#[tokio::test]
async fn one_that_waits_ends_by_a_signal_like_any_program() {
    let live = led().await;
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ctl"));
        command.arg("--config").arg(live.cluster.config()).args(["lead", "--id", "1", "--", "true"]);
        let mut waiting = command.stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        // The warning about classic members is said after the signals are listened to.
        let mut said = tokio::io::BufReader::new(waiting.stderr.take().unwrap());
        let mut line = String::new();
        tokio::io::AsyncBufReadExt::read_line(&mut said, &mut line).await.unwrap();
        assert!(line.contains("classic"), "{line}");
        send(waiting.id().unwrap().cast_signed(), signal);
        let status = tokio::time::timeout(PATIENCE, waiting.wait()).await.expect("it ends").unwrap();
        assert_eq!(status.code(), Some(code));
    }
}

#[tokio::test]
async fn what_cannot_work_is_refused_with_its_code() {
    let live = led().await;
    let cases: &[(&[&str], i32, &str)] = &[
        (&["lead", "--", "true"], 2, "--id N"),
        (&["lead", "--id", "9", "--", "true"], 2, "member 9"),
        (&["lead", "--id", "2", "--grace", "10s", "--", "true"], 2, "or less"),
        (&["lead", "--id", "2"], 2, "COMMAND"),
        (&["lead", "--id", "1", "--wait", "0", "--", "true"], 4, "member 2 leads"),
        (&["lead", "--id", "1", "--wait", "100ms", "--", "true"], 5, "100ms"),
        (&["--endpoints", "127.0.0.1:1", "lead", "--", "true"], 3, "127.0.0.1:1"),
        (&["guard", "--", "true"], 1, "ctl lead"),
    ];
    for (arguments, code, expected) in cases {
        let output = live.ctl(arguments).await;
        assert_eq!(output.status.code(), Some(*code), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
    let address = live.cluster.endpoints()[0].address.clone();
    let output = ctl(&["--cluster", "local", "--endpoints", &address, "lead", "--", "true"]).await;
    assert_eq!(output.status.code(), Some(8), "{}", stderr(&output));
    // Through another name of its address, so that only the handshake tells who it is.
    let address = address.replace("127.0.0.1", "localhost");
    let output = live.ctl(&["--endpoints", &address, "lead", "--id", "2", "--", "true"]).await;
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("member 1 answers"), "{}", stderr(&output));
}

#[tokio::test]
async fn the_command_has_a_grace_to_end_in() {
    for _ in 0..runs() {
        let live = led().await;
        let mut lead = Lead::start(
            &live,
            LEADER,
            "trap 'echo cleaned >&3; exit 0' TERM; echo up >&3; while :; do sleep 0.01; done",
        );
        assert_eq!(lead.next().await.as_deref(), Some("up"));
        live.cluster.kill(LEADER).unwrap();
        assert_eq!(lead.next().await.as_deref(), Some("cleaned"));
        assert_eq!(lead.exit().await.code(), Some(6));
    }
}

#[tokio::test]
async fn a_leader_that_steps_down_first_waits_for_the_command_to_end() {
    for _ in 0..runs() {
        let mut live = led().await;
        let mut lead = Lead::start(&live, LEADER, STUBBORN);
        lead.up().await;
        let config = live.cluster.config();
        let stepping = ["--config", config.to_str().unwrap(), "step-down"];
        let (output, ()) = tokio::join!(ctl(&stepping), async {
            live.agreement_on(1, BOTH).await;
            // It resigned only after the client had left, so they are gone now, not soon.
            assert_eq!(lead.processes(), [], "they overlap the next reign");
        });
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        lead.gone().await;
        assert_eq!(lead.exit().await.code(), Some(6));
    }
}

#[tokio::test]
async fn a_leader_that_leaves_first_waits_for_the_command_to_end() {
    for _ in 0..runs() {
        let mut live = led().await;
        let mut lead = Lead::start(&live, LEADER, STUBBORN);
        lead.up().await;
        live.cluster.signal(LEADER, Signal::TERM).unwrap();
        live.agreement_on(1, &[1]).await;
        assert_eq!(lead.processes(), [], "they overlap the next reign");
        lead.gone().await;
        assert_eq!(lead.exit().await.code(), Some(6));
    }
}

/// Runs the stubborn command, lets something happen, and expects all of it to be gone.
async fn survives_nothing(happens: impl Fn(&Live, &Lead), afterwards: impl Fn(&Live, &Lead), expected: Option<i32>) {
    for run in 0..runs() {
        let live = led().await;
        let mut lead = Lead::start(&live, LEADER, STUBBORN);
        lead.up().await;
        happens(&live, &lead);
        lead.gone().await;
        afterwards(&live, &lead);
        assert_eq!(lead.exit().await.code(), expected, "run {run}");
        assert_eq!(marked(&lead.mark), [], "run {run}");
    }
}

fn nothing(_: &Live, _: &Lead) {}

#[tokio::test]
async fn nothing_outlives_a_killed_member() {
    survives_nothing(|live, _| live.cluster.kill(LEADER).unwrap(), nothing, Some(6)).await;
}

#[tokio::test]
async fn nothing_outlives_the_answers_of_a_paused_member() {
    let resume = |live: &Live, _: &Lead| live.cluster.resume(LEADER).unwrap();
    survives_nothing(|live, _| live.cluster.pause(LEADER).unwrap(), resume, Some(6)).await;
}

#[tokio::test]
async fn nothing_outlives_a_killed_ctl() {
    let kill = |_: &Live, lead: &Lead| lead.signal(Signal::KILL);
    survives_nothing(kill, nothing, None).await;
}

#[tokio::test]
async fn nothing_outlives_leadership_while_the_guard_is_stopped() {
    let fault = |live: &Live, lead: &Lead| {
        send(lead.guard(), Signal::STOP);
        live.cluster.kill(LEADER).unwrap();
    };
    survives_nothing(fault, nothing, Some(6)).await;
}

#[tokio::test]
async fn nothing_outlives_leadership_while_ctl_is_stopped() {
    let fault = |live: &Live, lead: &Lead| {
        lead.signal(Signal::STOP);
        live.cluster.kill(LEADER).unwrap();
    };
    survives_nothing(fault, |_, lead| lead.signal(Signal::CONT), Some(6)).await;
}

#[tokio::test]
async fn nothing_outlives_a_ctl_that_was_killed_while_the_guard_was_stopped() {
    let fault = |_: &Live, lead: &Lead| {
        send(lead.guard(), Signal::STOP);
        lead.signal(Signal::KILL);
    };
    survives_nothing(fault, nothing, None).await;
}

#[tokio::test]
async fn nothing_outlives_a_killed_guard() {
    let fault = |_: &Live, lead: &Lead| send(lead.guard(), Signal::KILL);
    survives_nothing(fault, nothing, Some(1)).await;
}

#[tokio::test]
async fn signals_for_every_ctl_do_not_end_the_guard() {
    let live = led().await;
    let mut lead =
        Lead::start(&live, LEADER, "trap 'echo TERM >&3; exit 9' TERM; echo up >&3; while :; do sleep 0.01; done");
    assert_eq!(lead.next().await.as_deref(), Some("up"));
    send(lead.guard(), Signal::TERM);
    lead.signal(Signal::TERM);
    assert_eq!(lead.next().await.as_deref(), Some("TERM"));
    assert_eq!(lead.exit().await.code(), Some(9));
}

#[tokio::test]
async fn an_election_that_the_leader_wins_again_is_a_new_reign() {
    let live = led().await;
    let mut lead = Lead::start(&live, LEADER, STUBBORN);
    lead.up().await;
    let output = live.ctl(&["elect"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    lead.gone().await;
    assert_eq!(lead.exit().await.code(), Some(6));
}

#[tokio::test]
async fn a_restarted_follower_does_not_end_the_command() {
    let mut live = led().await;
    let before = live.agreement_on(LEADER, BOTH).await;
    let mut lead = Lead::start(&live, LEADER, "echo up >&3; read line; exit 5");
    assert_eq!(lead.next().await.as_deref(), Some("up"));
    live.cluster.restart(1).await.unwrap();
    // The restarted member was ahead, so the leader moved its epoch past it without giving anything up.
    live.agreement_that(BOTH, |leader, epoch| leader == LEADER && epoch > before).await;
    lead.ctl.stdin.take().unwrap().write_all(b"\n").await.unwrap();
    assert_eq!(lead.exit().await.code(), Some(5));
}
