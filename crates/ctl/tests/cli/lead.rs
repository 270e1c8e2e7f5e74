//! `ctl lead` over real members: a command that does not want to die, and everything that may happen to the member, to
//! `ctl` and to its guard. `CONCLAVE_LEAD_RUNS=50` repeats every fault.

use std::process::Stdio;
use std::time::Duration;

use algorithms::catalog;
use rustix::process::Signal;
use testkit::lead::{Lead, STUBBORN, marked, send};
use testkit::{Live, PATIENCE, Plan, ctl, ctl_binary, stderr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

/// Both members; the second leads.
const BOTH: &[u32] = &[1, 2];
const LEADER: u32 = 2;

fn plan() -> Plan {
    Plan::new(2, catalog::row(catalog::DEFAULT).unwrap())
}

async fn led() -> Live {
    let mut live = Live::start(&plan());
    live.agreement_on(LEADER, BOTH).await;
    live
}

/// Under a lease that a busy machine does not miss: in these tests it is not time that ends the command. Classic answers
/// count for half a second only.
async fn led_patiently() -> Live {
    let patient = "[timing]\nlease = \"4s\"\nsuspect_after = \"2s\"\n";
    let mut live = Live::start_with(&Plan { safety: client::Safety::Quorum, ..plan() }, patient);
    live.agreement_on(LEADER, BOTH).await;
    live
}

fn runs() -> u64 {
    testkit::number("CONCLAVE_LEAD_RUNS", 1)
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
    let token = epoch << 28;
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
        let mut command = Command::new(ctl_binary());
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
        (&["lead", "--id", "2", "--grace", "2m", "--", "true"], 2, "or less"),
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
        let live = led_patiently().await;
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

/// Passes bytes on between clients and a member, and holds back for a while what the member says.
async fn slow_answers(member: String, delay: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let member = TcpStream::connect(&member).await.unwrap();
            let ((mut from_client, mut to_client), (mut from_member, mut to_member)) =
                (client.into_split(), member.into_split());
            tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_member).await });
            tokio::spawn(async move {
                let mut bytes = vec![0; 1 << 16];
                while let Ok(read @ 1..) = from_member.read(&mut bytes).await {
                    tokio::time::sleep(delay).await;
                    if to_client.write_all(&bytes[..read]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// An answer counts from its question, for half a second less a grace and a margin: one that is 450 ms old gives no time.
#[tokio::test]
async fn an_answer_that_took_as_long_as_it_counts_starts_no_command() {
    let live = led().await;
    let member = live.cluster.endpoints()[LEADER as usize - 1].address.clone();
    let address = slow_answers(member, Duration::from_millis(450)).await;
    let started = live.scratch.path().join("started");
    let (id, started_path) = (LEADER.to_string(), started.to_str().unwrap());
    let arguments = ["--endpoints", &address, "--member-timeout", "10s", "lead", "--id", &id, "--wait", "5s", "--"];
    let output = live.ctl(&[&arguments[..], &["touch", started_path]].concat()).await;
    // Lost before it began, or where an answer took longer still, none in time.
    assert!(matches!(output.status.code(), Some(5 | 6)), "{:?} {}", output.status, stderr(&output));
    assert!(!started.exists(), "it ran on an answer that was over: {}", stderr(&output));
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
