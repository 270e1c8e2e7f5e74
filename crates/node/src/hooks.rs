//! The command of `[hooks] on_change`, run at every change of this member's role or leader: one run after another, in
//! order, on a thread of its own, so that the event loop never waits for it.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use client::{Announcement, Happened};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use types::{Epoch, InstanceId, NodeId, Standing, Token};

use crate::publisher::Subscriber;
use crate::shell::Shell;

/// Changes that may wait for a slow hook. The oldest are dropped: the last change describes the present.
const QUEUE: usize = 16;
/// A hook that runs longer is killed, with its process group.
const LIMIT: Duration = Duration::from_secs(10);
/// How much of a hook's output is logged.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;
/// A process that a finished hook left behind may hold its output open. The output is read for this long only.
const LEFTOVER: Duration = Duration::from_millis(20);
/// How long a leaving member waits for hooks that have not run yet.
const FAREWELL: Duration = Duration::from_secs(2);

/// The change that a hook run reports.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Change {
    id: u32,
    old: Option<Standing>,
    /// `None`: the member leaves the cluster in order.
    now: Option<Standing>,
}

impl Change {
    fn new_role(&self) -> &'static str {
        self.now.map_or("down", |now| now.role.name())
    }

    /// Only the leader has a token: followers have none to give to a resource.
    fn environment(&self) -> [(&'static str, String); 6] {
        let leader = self.now.and_then(|now| now.leader);
        let epoch = self.now.or(self.old).map_or(Epoch(0), |standing| standing.epoch);
        let token = (leader == Some(NodeId(self.id))).then(|| Token::leader(epoch).to_string());
        [
            ("CONCLAVE_ID", self.id.to_string()),
            ("CONCLAVE_OLD_ROLE", self.old.map_or("none", |old| old.role.name()).to_owned()),
            ("CONCLAVE_NEW_ROLE", self.new_role().to_owned()),
            ("CONCLAVE_LEADER", leader.map_or_else(String::new, |leader| leader.to_string())),
            ("CONCLAVE_EPOCH", epoch.to_string()),
            ("CONCLAVE_TOKEN", token.unwrap_or_default()),
        ]
    }
}

/// Receives every announcement and queues those that a hook runs for: changes of the role or the leader of the
/// cluster's election.
#[derive(Clone, Debug)]
pub(crate) struct HookQueue {
    queue: Arc<Queue>,
    last: Option<Standing>,
}

impl Subscriber for HookQueue {
    fn take(&mut self, announcement: &Announcement) {
        if announcement.instance != InstanceId::ELECTION {
            return;
        }
        let now = match &announcement.what {
            Happened::Became(transition) => Some(transition.now),
            Happened::Leaving => None,
            _ => return,
        };
        let told = |standing: Standing| (standing.role, standing.leader);
        let old = std::mem::replace(&mut self.last, now);
        if old.map(told) != now.map(told) {
            self.push(Change { id: announcement.member, old, now });
        }
    }
}

impl HookQueue {
    /// Changes from now on, and those that wait, run this command; none without one.
    pub(crate) fn set_command(&self, command: Option<String>) {
        self.queue.set_command(command);
    }

    fn push(&self, change: Change) {
        if let Some(dropped) = self.queue.push(change) {
            let old = dropped.old.map_or("none", |old| old.role.name());
            tracing::warn!(old, new = dropped.new_role(), "hooks are too slow: on_change was not run for this change");
        }
    }
}

#[derive(Debug)]
pub(crate) struct Hooks {
    queue: Arc<Queue>,
    /// Closed when the thread ends.
    ended: Receiver<()>,
}

impl Hooks {
    /// Starts the thread also without a command: the config may get one while the process runs, and a thread that begins
    /// later would hold the sockets of the event loop open (see `descriptors`).
    pub(crate) fn start(command: Option<String>) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        queue.set_command(command);
        let (alive, ended) = mpsc::channel();
        let waiting = Arc::clone(&queue);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        crate::descriptors::spawn("hooks", move || {
            runtime.block_on(run_all(&waiting));
            drop(alive);
        })?;
        Ok(Hooks { queue, ended })
    }

    /// The subscriber that queues changes for the thread.
    pub(crate) fn queue(&self) -> HookQueue {
        HookQueue { queue: Arc::clone(&self.queue), last: None }
    }

    /// Runs the queued changes, for a limited time. Blocks: the event loop has ended.
    pub(crate) fn finish(self) {
        self.queue.close();
        if self.ended.recv_timeout(FAREWELL) == Err(mpsc::RecvTimeoutError::Timeout) {
            tracing::warn!("leaving before all hooks have run");
        }
    }
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<Waiting>,
    bell: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    changes: VecDeque<Change>,
    closed: bool,
    /// Without one no change is queued.
    command: Option<String>,
}

impl Queue {
    /// Returns the change that was dropped to make room.
    fn push(&self, change: Change) -> Option<Change> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.command.as_ref()?;
        let full = state.changes.len() >= QUEUE;
        let dropped = if full { state.changes.pop_front() } else { None };
        state.changes.push_back(change);
        self.bell.notify_one();
        dropped
    }

    fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.bell.notify_one();
    }

    fn set_command(&self, command: Option<String>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if command.is_none() {
            state.changes.clear();
        }
        state.command = command;
    }

    /// The next change and the command to run for it; `None` once the queue is closed and empty.
    async fn next(&self) -> Option<(String, Change)> {
        loop {
            {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                match (state.command.clone(), state.changes.pop_front()) {
                    (Some(command), Some(change)) => return Some((command, change)),
                    _ if state.closed => return None,
                    _ => {}
                }
            }
            self.bell.notified().await;
        }
    }
}

async fn run_all(queue: &Queue) {
    while let Some((command, change)) = queue.next().await {
        if let Err(error) = run(&command, &change, LIMIT).await {
            tracing::warn!(%error, "on_change cannot be run");
        }
    }
}

async fn run(command: &str, change: &Change, limit: Duration) -> io::Result<()> {
    let (output, stdout) = io::pipe()?;
    let stderr = stdout.try_clone()?;
    let mut shell = Shell::start(command, change.environment(), stdout, stderr)?;
    let printing = print(pipe::Receiver::from_owned_fd(output.into())?);
    tokio::pin!(printing);
    let mut printed = false;
    let ended = tokio::time::timeout(limit, async {
        loop {
            tokio::select! {
                () = &mut printing, if !printed => printed = true,
                status = shell.child.wait() => return status,
            }
        }
    });
    let Ok(status) = ended.await else {
        tracing::warn!(?limit, new = change.new_role(), "on_change took too long: killed");
        shell.kill();
        return shell.child.wait().await.map(drop);
    };
    let status = status?;
    if !printed {
        let _ = tokio::time::timeout(LEFTOVER, printing).await;
    }
    if !status.success() {
        tracing::warn!(%status, new = change.new_role(), "on_change failed");
    }
    Ok(())
}

/// Puts a hook's output into the log, line by line.
async fn print(mut output: impl AsyncRead + Unpin) {
    let mut lines = BufReader::new((&mut output).take(OUTPUT_BYTES_MAX)).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        tracing::info!(output = %String::from_utf8_lossy(&line), "on_change");
    }
    // The rest is read but not logged: a full pipe would stop the hook.
    let cut = tokio::io::copy(&mut output, &mut tokio::io::sink()).await.unwrap_or(0);
    if cut > 0 {
        tracing::warn!(bytes = cut, "on_change printed more than is logged");
    }
}

#[cfg(test)]
mod tests {
    use client::Transition;
    use types::{Cause, Role};

    use super::*;

    fn standing(role: Role, leader: Option<u32>, epoch: u64) -> Standing {
        Standing { role, leader: leader.map(NodeId), epoch: Epoch(epoch) }
    }

    fn announced(instance: InstanceId, what: Happened) -> Announcement {
        Announcement { member: 3, instance, sequence: 1, wall_ms: 1, boot_ns: 1, what }
    }

    fn became(now: Standing) -> Announcement {
        let became = Transition { old: None, now, cause: Cause::Elected, lease_until_ns: None };
        announced(InstanceId::ELECTION, Happened::Became(became))
    }

    #[test]
    fn a_full_queue_drops_the_oldest_and_says_which() {
        let queue = Queue::default();
        queue.set_command(Some("true".to_owned()));
        let change = |epoch| Change { id: 3, old: None, now: Some(standing(Role::Leader, Some(3), epoch)) };
        for epoch in 0..QUEUE as u64 {
            assert_eq!(queue.push(change(epoch)), None);
        }
        assert_eq!(queue.push(change(99)), Some(change(0)));
    }

    #[test]
    fn hooks_run_in_order_with_their_environment_and_what_waits_still_runs_at_the_end() {
        let file = std::env::temp_dir().join(format!("conclave-hooks-{}", std::process::id()));
        let _ = std::fs::remove_file(&file);
        let variables = "$CONCLAVE_ID $CONCLAVE_OLD_ROLE $CONCLAVE_NEW_ROLE $CONCLAVE_LEADER $CONCLAVE_EPOCH";
        let hooks = Hooks::start(Some(format!("echo {variables} $CONCLAVE_TOKEN >> {}", file.display()))).unwrap();
        let mut queue = hooks.queue();
        queue.take(&became(standing(Role::Leader, Some(3), 1)));
        queue.take(&became(standing(Role::Leader, Some(3), 2)));
        queue.take(&announced(InstanceId(256), Happened::Leaving));
        queue.take(&announced(InstanceId::ELECTION, Happened::Link { peer: 4, up: true }));
        queue.take(&became(standing(Role::Follower, Some(4), 3)));
        queue.take(&became(standing(Role::Candidate, None, 3)));
        queue.take(&announced(InstanceId::ELECTION, Happened::Leaving));
        hooks.finish();
        let said = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let lines =
            ["3 none leader 3 1 268435456", "3 leader follower 4 3", "3 follower candidate 3", "3 candidate down 3"];
        assert_eq!(said.lines().map(str::trim).collect::<Vec<_>>(), lines);
    }

    #[tokio::test]
    async fn nothing_of_a_hook_that_hangs_is_left_when_its_time_is_over() {
        let mark = format!("a hanging hook of {}", std::process::id());
        let change = Change { id: 3, old: None, now: None };
        let command = format!("export CONCLAVE_TEST_MARK='{mark}'; sleep 1000 & sleep 1000 & wait");
        run(&command, &change, Duration::from_secs(1)).await.unwrap();
        testkit::until("the end of all processes of the hook", || {
            testkit::lead::marked(&mark).is_empty().then_some(())
        })
        .await;
    }
}
