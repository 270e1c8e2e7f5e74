//! A cluster of real processes on this machine, for `up`, `bench failover` and the live tests.
//!
//! Children get their own process group, so that an interrupt typed at the terminal reaches this process only, which
//! then stops them in order. If this process is killed, the kernel kills them.

pub mod certificates;
mod layout;
mod plan;
mod ports;
mod scratch;
mod strays;

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::task::Poll;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use client::{ClientSettings, Endpoint, INSTALLED_CTL, INSTALLED_NODE, Observer};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

pub(crate) use layout::{Faces, HTTP_TOKEN, config_text_with};
pub use layout::{derived_files, hex_secret, write_derived, write_secret};
pub(crate) use plan::NODES_MAX;
pub use plan::Plan;
pub use ports::{free_http_ports, free_ports, free_ports_elsewhere};
pub use scratch::Scratch;
pub(crate) use strays::{Stray, stop_strays, strays};

/// How long a member may take to leave in order.
const GRACE: Duration = Duration::from_secs(3);
/// How long a killed process may take to end.
const KILLED: Duration = Duration::from_secs(3);
/// A longer log becomes `log.1`.
const LOG_MAX_BYTES: u64 = 8 << 20;
/// How long one attempt to reach a member may take.
const CONNECT: Duration = Duration::from_secs(1);
/// The binary of a member.
const NODE: &str = "node";
/// Makes a member end when its parent ends.
const DIE_WITH_PARENT: &str = "CONCLAVE_DIE_WITH_PARENT";

#[derive(Debug)]
pub struct Cluster {
    directory: PathBuf,
    binary: PathBuf,
    members: Vec<Member>,
    settings: ClientSettings,
}

#[derive(Debug)]
struct Member {
    id: u32,
    address: String,
    variables: Vec<(String, String)>,
    child: Option<Child>,
}

impl Cluster {
    /// Writes config, secret and data directories below `directory` and starts nothing. Existing data stays, so that
    /// epochs continue.
    pub fn prepare(plan: &Plan, directory: &Path, ports: &[u16], binary: PathBuf) -> Result<Self> {
        let addresses: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        Self::prepare_at(plan, directory, &addresses, binary)
    }

    /// The same for members with these addresses.
    pub fn prepare_at(plan: &Plan, directory: &Path, addresses: &[String], binary: PathBuf) -> Result<Self> {
        let keyring = layout::write(plan, directory, addresses)?;
        let settings = ClientSettings { cluster: plan.name.clone(), keyring, deadline: CONNECT };
        let member = |(id, address)| Member { id, address, variables: Vec::new(), child: None };
        let members = (1..).zip(addresses.iter().cloned()).map(member);
        // Absolute, so that printed commands work anywhere.
        let directory = directory.canonicalize().with_context(|| format!("cannot use {}", directory.display()))?;
        Ok(Cluster { directory, binary, members: members.collect(), settings })
    }

    pub fn config(&self) -> PathBuf {
        self.directory.join(layout::CONFIG)
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn settings(&self) -> &ClientSettings {
        &self.settings
    }

    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.members.iter().map(|member| member.id)
    }

    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.members.iter().map(|member| Endpoint::member(member.id, member.address.clone())).collect()
    }

    /// Follows all members, running or not; position `k` is the k-th of [`Cluster::ids`].
    pub fn observer(&self) -> Observer {
        Observer::new(self.endpoints(), &self.settings)
    }

    pub fn start_all(&mut self) -> Result<()> {
        let ids: Vec<u32> = self.ids().collect();
        ids.into_iter().try_for_each(|id| self.start(id))
    }

    /// A variable in the environment of one member, from its next start on.
    pub fn set_variable(&mut self, id: u32, name: &str, value: &str) -> Result<()> {
        self.member_mut(id)?.variables.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// Starts one member, with its earlier data directory.
    pub fn start(&mut self, id: u32) -> Result<()> {
        let data = self.data_directory(id);
        let log = std::fs::OpenOptions::new().create(true).append(true).open(data.join(layout::LOG));
        let log = log.with_context(|| format!("cannot write below {}", data.display()))?;
        let mut command = Command::new(&self.binary);
        command
            .arg("--config")
            .arg(self.config())
            .arg("--id")
            .arg(id.to_string())
            .arg("--data-dir")
            .arg(&data)
            .env(DIE_WITH_PARENT, "1")
            .envs(self.members.iter().filter(|member| member.id == id).flat_map(|member| member.variables.clone()))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .kill_on_drop(true);
        let member = self.member_mut(id)?;
        if member.child.is_some() {
            bail!("member {id} is running already");
        }
        let child = command.spawn();
        self.member_mut(id)?.child = Some(child.with_context(|| format!("cannot start {}", self.binary.display()))?);
        Ok(())
    }

    /// The line that starts a member by hand.
    pub fn command_line(&self, id: u32) -> String {
        let [binary, config, data] = [self.binary.clone(), self.config(), self.data_directory(id)];
        format!("{} --config {} --id {id} --data-dir {}", binary.display(), config.display(), data.display())
    }

    pub fn pid(&self, id: u32) -> Option<u32> {
        self.members.iter().find(|member| member.id == id)?.child.as_ref()?.id()
    }

    /// Is a thread of the member inside a write that cannot be interrupted? False if that is not known.
    pub fn waits_for_disk(&self, id: u32) -> bool {
        let Some(pid) = self.pid(id) else { return false };
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
        // `tid (name) STATE ...`, and a name may contain any character.
        let waits = |stat: String| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('D'));
        threads.flatten().any(|thread| std::fs::read_to_string(thread.path().join("stat")).is_ok_and(waits))
    }

    /// SIGKILL. Returns at once; [`Cluster::reap`] waits for the end.
    pub fn kill(&self, id: u32) -> Result<()> {
        self.signal(id, Signal::KILL)
    }

    /// SIGSTOP: the process stays, its sockets stay open, and it does nothing.
    pub fn pause(&self, id: u32) -> Result<()> {
        self.signal(id, Signal::STOP)
    }

    pub fn resume(&self, id: u32) -> Result<()> {
        self.signal(id, Signal::CONT)
    }

    pub fn signal(&self, id: u32, signal: Signal) -> Result<()> {
        let pid = self.pid(id).with_context(|| format!("member {id} is not running"))?;
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("impossible process id")?;
        kill_process(pid, signal).with_context(|| format!("cannot signal member {id}"))
    }

    /// Waits for a member's process to end, and drops its handle.
    pub async fn reap(&mut self, id: u32) -> Result<ExitStatus> {
        let member = self.member_mut(id)?;
        let mut child = member.child.take().with_context(|| format!("member {id} is not running"))?;
        Ok(child.wait().await?)
    }

    /// SIGKILL if it still runs, then a new start with the same data.
    pub async fn restart(&mut self, id: u32) -> Result<()> {
        if self.pid(id).is_some() {
            self.kill(id)?;
        }
        if self.member_mut(id)?.child.is_some() {
            self.reap(id).await?;
        }
        self.start(id)
    }

    /// Waits for any running member to end, and drops its handle. Waits for ever if none runs.
    pub async fn next_exit(&mut self) -> (u32, ExitStatus) {
        poll_fn(|context| {
            for member in &mut self.members {
                let Some(child) = &mut member.child else { continue };
                // `wait` keeps its state in the child, so a new future per poll loses nothing.
                let ended = pin!(child.wait()).poll(context);
                if let Poll::Ready(Ok(status)) = ended {
                    member.child = None;
                    return Poll::Ready((member.id, status));
                }
            }
            Poll::Pending
        })
        .await
    }

    pub fn running(&self) -> usize {
        self.members.iter().filter(|member| member.child.is_some()).count()
    }

    /// Stops all members: in order if they can, by SIGKILL after a grace.
    pub async fn stop(&mut self) {
        let ids: Vec<u32> = self.ids().collect();
        for &id in &ids {
            // A paused member cannot leave before it runs again. A member that has just ended needs neither.
            let _ = self.signal(id, Signal::TERM);
            let _ = self.resume(id);
        }
        let orderly = async {
            while self.running() > 0 {
                self.next_exit().await;
            }
        };
        if tokio::time::timeout(GRACE, orderly).await.is_err() {
            for &id in &ids {
                let _ = self.kill(id);
            }
            while self.running() > 0 {
                self.next_exit().await;
            }
        }
    }

    /// Keeps the logs of members that log without end within twice [`LOG_MAX_BYTES`]. Lines that are written in this moment may be
    /// lost.
    pub fn bound_logs(&self) {
        for id in self.ids() {
            let path = self.data_directory(id).join(layout::LOG);
            if std::fs::metadata(&path).is_ok_and(|log| log.len() > LOG_MAX_BYTES)
                && std::fs::copy(&path, path.with_extension("1")).is_ok()
            {
                // The member goes on writing to the same file, at its end.
                let _ = std::fs::File::options().write(true).open(&path).and_then(|log| log.set_len(0));
            }
        }
    }

    /// The last log lines of a member.
    pub fn log_tail(&self, id: u32, lines: usize) -> String {
        let text = std::fs::read(self.data_directory(id).join(layout::LOG)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    pub fn data_directory(&self, id: u32) -> PathBuf {
        self.directory.join(layout::member_directory(id))
    }

    fn member_mut(&mut self, id: u32) -> Result<&mut Member> {
        self.members.iter_mut().find(|member| member.id == id).with_context(|| format!("there is no member {id}"))
    }
}

/// The `node` beside this `ctl` (`conclave-node` beside `conclavectl`), else the `conclave-node` on the PATH. Never a `node` on the PATH:
/// another program of that name is widespread.
pub fn node_binary() -> Result<PathBuf> {
    let own = std::env::current_exe().ok();
    let installed = own.as_deref().and_then(Path::file_name).is_some_and(|name| name == INSTALLED_CTL);
    let name = if installed { INSTALLED_NODE } else { NODE };
    let beside = own.iter().map(|own| own.with_file_name(name));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|directory| directory.join(INSTALLED_NODE));
    let found = beside.chain(on_path).find(|candidate| candidate.is_file());
    found.ok_or_else(|| anyhow!("no `{NODE}` beside `ctl`, and no `{INSTALLED_NODE}` on the PATH"))
}
