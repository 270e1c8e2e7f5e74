//! A command of the operator: `sh -c` in a process group of its own, so that all of it can be killed.

use std::io;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

pub(crate) struct Shell {
    pub(crate) child: Child,
    group: Option<Pid>,
}

impl Shell {
    pub(crate) fn start<'a>(
        command: &str,
        environment: impl IntoIterator<Item = (&'a str, String)>,
        stdout: impl Into<Stdio>,
        stderr: impl Into<Stdio>,
    ) -> io::Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).envs(environment).process_group(0).kill_on_drop(true);
        let child = shell.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok(Shell { child, group })
    }

    /// Kills it and everything that it started and that still runs.
    pub(crate) fn kill(&self) {
        if let Some(group) = self.group {
            // All of it may have ended by itself just now.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
