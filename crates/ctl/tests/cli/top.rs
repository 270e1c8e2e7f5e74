//! `ctl top` on a real terminal, that of tmux: what it shows of real members, what its keys do, and the terminal after it.

use std::path::Path;
use std::process::{Command, Stdio};

use algorithms::catalog;
use client::{Safety, Session};
use testkit::{Live, PATIENCE, Plan, Scratch, ctl_binary, refused};

const ALL: &[u32] = &[1, 2, 3];
/// A lease that a busy machine does not miss.
const PATIENT: &str = "\n[timing]\nlease = \"2s\"\nsuspect_after = \"1s\"\n";

/// False, with a message, if there is no tmux. Under `CI=true` a failure.
fn tmux_works() -> bool {
    let works = Command::new("tmux").arg("-V").stdout(Stdio::null()).status().is_ok_and(|status| status.success());
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(works || !ci, "tmux is missing: install it");
    if !works {
        eprintln!("SKIPPED: tmux is missing");
    }
    works
}

/// A terminal with a server of its own, which ends with it.
struct Terminal {
    scratch: Scratch,
}

impl Terminal {
    /// Runs `ctl` with these arguments on a screen of this size; then the shell says how it ended, and waits.
    fn start(size: (u32, u32), environment: &str, arguments: &str) -> Self {
        let terminal = Terminal { scratch: Scratch::new("tmux").unwrap() };
        let (columns, lines) = (size.0.to_string(), size.1.to_string());
        let ctl = ctl_binary();
        let script =
            format!("{environment} {} {arguments}; echo \"ended with $?\"; stty -a; exec sleep 600", ctl.display());
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &lines, "sh", "-c", &script]);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let socket = self.scratch.path().join("s");
        let mut command = Command::new("tmux");
        command.env_remove("TMUX").env("TERM", "xterm-256color").arg("-S").arg(socket).args(arguments);
        let output = command.output().expect("tmux runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Waits until the screen has all of these.
    async fn shows(&self, wanted: &[&str]) -> String {
        let shown = || Some(self.screen()).filter(|screen| wanted.iter().all(|words| screen.contains(words)));
        let waited = async {
            loop {
                if let Some(screen) = shown() {
                    return screen;
                }
                tokio::time::sleep(std::time::Duration::from_millis(30)).await;
            }
        };
        let found = tokio::time::timeout(2 * PATIENCE, waited).await;
        found.unwrap_or_else(|_| panic!("{wanted:?} is not on the screen:\n{}", self.screen()))
    }

    /// `ctl` ended with this code, on the first screen of a terminal that echoes and edits lines.
    async fn restored(&self, code: i32) {
        let screen = self.shows(&[&format!("ended with {code}"), "icanon"]).await;
        assert_eq!(self.tmux(&["display-message", "-p", "#{alternate_on}"]).trim(), "0", "{screen}");
        assert_eq!(self.tmux(&["display-message", "-p", "#{cursor_flag}"]).trim(), "1", "the cursor is visible");
        for setting in [" icanon", " echo", " isig", " opost"] {
            assert!(screen.replace('\n', " ").contains(setting), "{setting} is off:\n{screen}");
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let socket = self.scratch.path().join("s");
        let _ = Command::new("tmux").arg("-S").arg(socket).arg("kill-server").stderr(Stdio::null()).status();
    }
}

fn top(config: &Path, more: &str) -> String {
    format!("--config {} top --member-timeout 2s {more}", config.display())
}

async fn cluster(lines: &str) -> Live {
    let row = catalog::row(catalog::DEFAULT).unwrap();
    let plan = Plan { safety: Safety::Quorum, preempt: false, ..Plan::new(3, row) };
    let mut live = Live::start_with(&plan, lines);
    live.agreement(ALL).await;
    live.voting(ALL).await;
    live
}

#[tokio::test]
async fn it_follows_members_locks_elections_and_events_in_a_small_terminal() {
    if !tmux_works() {
        return;
    }
    let mut live = cluster(PATIENT).await;
    let terminal = Terminal::start((80, 24), "", &top(&live.cluster.config(), ""));
    terminal.shows(&["No lock is held."]).await;
    let (leader, _) = live.agreement(ALL).await;
    let leads = format!("{leader} leads in epoch");
    let parts = ["Members (3)", "ROLE", "HEARD", "Last election", "Events", "read-only"];
    let first = ["AGREED", &leads, "3 of 3 reachable", "No lock is held."];
    let screen = terminal.shows(&[&first[..], &parts].concat()).await;
    let follows = |line: &&str| line.contains(" follower ") && line.contains("127.0.0.1:");
    assert_eq!(screen.lines().filter(follows).count(), 2, "rows of followers:\n{screen}");

    let ttl = std::time::Duration::from_secs(10);
    let session = Session::open_within(live.cluster.endpoints(), live.cluster.settings(), ttl, PATIENCE).await.unwrap();
    let guard = session.lock("backup").await.unwrap();
    terminal.shows(&["Locks (1, 0 waiting)", "backup", &guard.token().to_string()]).await;

    // Without --write the keys only say so.
    for key in ["e", "s", "t"] {
        terminal.keys(&[key]);
        terminal.shows(&["read-only: `ctl top --write` allows"]).await;
        terminal.keys(&["Up"]);
    }
    assert_eq!(live.agreement(ALL).await.0, leader);

    live.kill(leader).await;
    let others: Vec<u32> = ALL.iter().copied().filter(|&id| id != leader).collect();
    let (next, _) = live.agreement(&others).await;
    // Of the first election a member that started late knows nothing; of this one both do.
    let election = ["Last election", "(theory ", "coordinator "];
    terminal.shows(&[&["down", &format!("{next} leads in epoch"), "2 of 3 reachable"][..], &election].concat()).await;
    live.cluster.start(leader).unwrap();
    terminal.shows(&["AGREED", "3 of 3 reachable"]).await;

    terminal.tmux(&["resize-window", "-x", "120", "-y", "40"]);
    let wide = terminal.shows(&["AGREED", "127.0.0.1:"]).await;
    assert!(wide.lines().count() > 24, "{wide}");
    terminal.tmux(&["resize-window", "-x", "30", "-y", "8"]);
    terminal.shows(&["ctl top needs"]).await;
    terminal.tmux(&["resize-window", "-x", "80", "-y", "24"]);
    terminal.shows(&["Members (3)"]).await;
    terminal.keys(&["q"]);
    terminal.restored(0).await;
}

#[tokio::test]
async fn with_write_its_keys_change_who_leads_after_a_confirmation() {
    if !tmux_works() {
        return;
    }
    let mut live = cluster(PATIENT).await;
    let (leader, _) = live.agreement(ALL).await;
    let terminal = Terminal::start((80, 24), "", &top(&live.cluster.config(), "--write"));
    terminal.shows(&["AGREED", "e elect"]).await;
    terminal.keys(&["s"]);
    terminal.shows(&["ctl step-down: really? y/n"]).await;
    terminal.keys(&["n"]);
    terminal.shows(&["nothing was changed"]).await;
    assert_eq!(live.agreement(ALL).await.0, leader);

    let to = ALL.iter().copied().find(|&id| id != leader).unwrap();
    terminal.keys(&["t", &to.to_string(), "Enter"]);
    terminal.shows(&[&format!("ctl transfer {to}: really? y/n")]).await;
    terminal.keys(&["y"]);
    live.agreement_on(to, ALL).await;
    terminal.shows(&[&format!("ctl transfer {to}: {to} leads in epoch")]).await;
    terminal.keys(&["s", "y"]);
    let (next, _) = live.agreement_that(ALL, |found, _| found != to).await;
    terminal.shows(&[&format!("ctl step-down: {next} leads in epoch")]).await;
    terminal.keys(&["C-c"]);
    terminal.restored(0).await;
}

#[tokio::test]
async fn it_waits_for_members_and_restores_the_terminal_after_esc_signals_and_panics() {
    if !tmux_works() {
        return;
    }
    let row = catalog::row(catalog::DEFAULT).unwrap();
    let mut live = Live::prepared(&Plan::new(1, row), "");
    let config = live.cluster.config();
    let terminal = Terminal::start((80, 24), "", &top(&config, ""));
    terminal.shows(&["UNREACHABLE", "down", "0 of 1 reachable"]).await;
    live.cluster.start_all().unwrap();
    terminal.shows(&["AGREED", "1 leads in epoch", "this cluster"]).await;
    terminal.keys(&["Escape"]);
    terminal.restored(0).await;

    let terminal = Terminal::start((80, 24), "RUST_BACKTRACE=0 CONCLAVE_TEST_PANIC=top", &top(&config, ""));
    terminal.restored(101).await;
    assert!(terminal.screen().contains("panicked"), "{}", terminal.screen());

    let terminal = Terminal::start((80, 24), "timeout --foreground -s TERM 2", &top(&config, ""));
    terminal.restored(124).await;
}

#[tokio::test]
async fn without_a_terminal_it_says_what_to_use_instead() {
    let live = Live::prepared(&Plan::new(1, catalog::row(catalog::DEFAULT).unwrap()), "");
    for arguments in [&["top"][..], &["top", "--once"], &["top", "-o", "json"]] {
        refused(&live.ctl(arguments).await, 2, &["draws on a terminal", "ctl status"]);
    }
}
