//! The command of `[priority]`, run at every interval on a thread of its own: the number that it prints is this member's
//! priority from the next election on. While it fails the last number stays, and one warning is logged.

use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};
use types::NodeId;

use crate::config::PriorityCommand;
use crate::shell::Shell;

/// More than the longest number and the spaces around it.
const OUTPUT_BYTES_MAX: usize = 64;
/// How long a leaving member waits for the end of the command that it kills.
const FAREWELL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct PriorityRuns {
    printed: watch::Receiver<Option<u32>>,
    stop: Arc<Notify>,
    /// Closed when the thread ends.
    ended: Receiver<()>,
}

impl PriorityRuns {
    pub(crate) fn start(command: PriorityCommand, id: NodeId) -> io::Result<Self> {
        let (sender, printed) = watch::channel(None);
        let (alive, ended) = mpsc::channel();
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        crate::descriptors::spawn("priority", move || {
            runtime.block_on(async {
                tokio::select! {
                    () = stopped.notified() => {}
                    () = run_for_ever(&command, id, &sender) => {}
                }
            });
            drop((runtime, alive));
        })?;
        Ok(PriorityRuns { printed, stop, ended })
    }

    /// The last good number; `None` before the first.
    pub(crate) fn printed(&self) -> watch::Receiver<Option<u32>> {
        self.printed.clone()
    }

    /// Kills the command if it runs. Blocks: the event loop has ended.
    pub(crate) fn finish(self) {
        self.stop.notify_one();
        let _ = self.ended.recv_timeout(FAREWELL);
    }
}

async fn run_for_ever(command: &PriorityCommand, id: NodeId, printed: &watch::Sender<Option<u32>>) {
    let mut failing = false;
    loop {
        let next = Instant::now() + command.interval;
        match run(command, id).await {
            Ok(number) => {
                if std::mem::take(&mut failing) {
                    tracing::info!(priority = number, "the command of [priority] prints a number again");
                }
                printed.send_if_modified(|last| last.replace(number) != Some(number));
            }
            Err(why) if failing => tracing::debug!(why, "the command of [priority] fails again"),
            Err(why) => {
                failing = true;
                let stays = printed.borrow().map_or_else(|| "of the member list".to_owned(), |last| last.to_string());
                tracing::warn!("the command of [priority] {why}: the priority {stays} stays until it prints a number");
            }
        }
        sleep_until(next).await;
    }
}

/// Kills the whole process group when this is dropped in the middle of a run.
struct Running(Shell);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill();
    }
}

/// The number, or what is wrong with the command.
async fn run(command: &PriorityCommand, id: NodeId) -> Result<u32, String> {
    let environment = [("CONCLAVE_ID", id.to_string())];
    let shell = Shell::start(&command.command, environment, Stdio::piped(), Stdio::null());
    let mut running = Running(shell.map_err(|error| format!("cannot be run ({error})"))?);
    let mut output = Vec::new();
    let read = async {
        if let Some(stdout) = running.0.child.stdout.take() {
            stdout.take(OUTPUT_BYTES_MAX as u64 + 1).read_to_end(&mut output).await?;
        }
        if output.len() > OUTPUT_BYTES_MAX {
            return Ok(None);
        }
        running.0.child.wait().await.map(Some)
    };
    let Ok(ended) = timeout(command.timeout, read).await else {
        return Err(format!("takes longer than {} and is killed", types::format_duration(command.timeout)));
    };
    match ended {
        Err(error) => return Err(format!("cannot be run ({error})")),
        Ok(None) => return Err(format!("prints more than {OUTPUT_BYTES_MAX} bytes, which is no number")),
        Ok(Some(status)) if !status.success() => return Err(format!("fails ({status})")),
        Ok(Some(_)) => {}
    }
    let text = String::from_utf8_lossy(&output);
    text.trim().parse().map_err(|_| format!("prints {:?}, which is no number from 0 to {}", text.trim(), u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str) -> PriorityCommand {
        PriorityCommand { command: text.into(), interval: Duration::from_secs(1), timeout: Duration::from_secs(20) }
    }

    async fn prints(text: &str) -> Result<u32, String> {
        run(&command(text), NodeId(7)).await
    }

    #[tokio::test]
    async fn a_number_is_taken_and_everything_else_is_refused_with_a_reason() {
        assert_eq!(prints("echo ' 5 '").await, Ok(5));
        assert_eq!(prints("echo $CONCLAVE_ID; echo noise >&2").await, Ok(7));
        assert_eq!(prints("printf 4294967295").await, Ok(u32::MAX));
        for (text, why) in [
            ("echo 4294967296", "prints \"4294967296\", which is no number"),
            ("echo -1", "no number"),
            ("echo 1.5", "no number"),
            ("echo 5; echo 6", "no number"),
            ("true", "prints \"\", which is no number"),
            ("head -c 100000 /dev/zero", "no number"),
            ("yes", "no number"),
            ("echo 5; exit 3", "fails (exit status: 3)"),
            ("/nowhere/at/all", "fails (exit status: 127)"),
            ("kill -9 $$", "fails (signal: 9"),
        ] {
            let refused = prints(text).await;
            assert!(refused.as_ref().is_err_and(|said| said.contains(why)), "{text}: {refused:?}");
        }
    }

    #[tokio::test]
    async fn a_command_that_hangs_is_killed_with_all_that_it_started() {
        let mark = format!("a hanging priority of {}", std::process::id());
        let text = format!("export CONCLAVE_TEST_MARK='{mark}'; sleep 1000 & sleep 1000 & wait");
        let slow = PriorityCommand { timeout: Duration::from_millis(300), ..command(&text) };
        assert_eq!(run(&slow, NodeId(7)).await, Err("takes longer than 300ms and is killed".into()));
        testkit::until("the end of all processes of the command", || {
            testkit::lead::marked(&mark).is_empty().then_some(())
        })
        .await;
    }

    #[tokio::test]
    async fn the_last_good_number_stays_and_a_member_that_leaves_kills_the_command() {
        let mark = format!("a priority that hangs later, of {}", std::process::id());
        let file = std::env::temp_dir().join(format!("conclave-priority-{}", std::process::id()));
        let text = format!(
            "export CONCLAVE_TEST_MARK='{mark}'; if [ -e {0} ]; then sleep 1000; fi; touch {0}; echo 9",
            file.display()
        );
        let often = PriorityCommand { interval: Duration::from_millis(100), ..command(&text) };
        let runs = PriorityRuns::start(often, NodeId(7)).unwrap();
        let mut printed = runs.printed();
        assert_eq!(*printed.wait_for(Option::is_some).await.unwrap(), Some(9));
        testkit::until("the run that hangs", || (!testkit::lead::marked(&mark).is_empty()).then_some(())).await;
        assert_eq!(*runs.printed().borrow(), Some(9));
        runs.finish();
        testkit::until("its end", || testkit::lead::marked(&mark).is_empty().then_some(())).await;
        std::fs::remove_file(&file).unwrap();
    }
}
