//! The guard itself: `ctl guard`, hidden from help, started by [`super::GuardHandle`].

use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use client::Alarm;
use rustix::io::IoSliceMut;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Signal, WaitStatus, kill_process, kill_process_group, setsid};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::signal::unix::{SignalKind, signal};
use types::since_boot;

use super::message::{Order, Report};
use super::schedule::Schedule;
use super::tree;
use crate::failure::{Exit, Failure};

/// Run a command below a guard (internal: `ctl lead` and `ctl lock` start it)
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(crate) async fn run(args: &Args) -> Result<(), Failure> {
    let internal = |error: io::Error| {
        Failure::new(Exit::Failed, "the guard cannot work")
            .because(error.to_string())
            .hint("it is part of `ctl lead` and `ctl lock` and does not work alone")
    };
    let (socket, stdin, _attachment) = receive().map_err(internal)?;
    prepare().map_err(internal)?;
    let (orders, reports) = socket.into_split();
    let mut orders = BufReader::new(orders).lines();
    let Some(Order::Start { deadlines, grace }) = next(&mut orders).await else { return Ok(()) };
    // Handlers, not dispositions: the command starts with the defaults. A signal to every `ctl` is meant for the other
    // process, which passes it on; the guard must outlive the command.
    let _deaf = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()]
        .map(signal)
        .into_iter()
        .collect::<io::Result<Vec<_>>>()
        .map_err(internal)?;
    let schedule = Schedule::new(deadlines);
    let mut guard = Guard { orders, reports, schedule, grace, child: None, code: 0, stopped: false, look_at: None };
    let report = match guard.start(&args.command, stdin) {
        Ok(()) => guard.watch().await.map_err(internal)?,
        Err(report) => report,
    };
    guard.say(&report).await;
    Ok(())
}

/// The socket is this process's stdin. The first message on it carries the command's stdin and, for `ctl lead`, the connection
/// by which the member knows that a child runs.
fn receive() -> io::Result<(UnixStream, OwnedFd, Option<OwnedFd>)> {
    let socket = StdStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(&socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let passed = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next().map(|stdin| (stdin, fds.next())),
        _ => None,
    });
    let (stdin, attachment) = passed.ok_or_else(|| io::Error::other("the command's stdin was not passed"))?;
    socket.set_nonblocking(true)?;
    Ok((UnixStream::from_std(socket)?, stdin, attachment))
}

fn prepare() -> io::Result<()> {
    tree::check()?;
    tree::adopt_orphans()?;
    // The terminal's signals are sent to `ctl`, which passes them on.
    setsid()?;
    // If `ctl` dies while the guard is stopped, this signal continues the guard, which then sees the end of the socket.
    // A fatal signal here would leave the command without guard and `ctl`.
    rustix::process::set_parent_process_death_signal(Some(Signal::CONT))?;
    Ok(())
}

async fn next(orders: &mut Lines<BufReader<OwnedReadHalf>>) -> Option<Order> {
    // An unreadable line counts as the end of `ctl`.
    let line = orders.next_line().await.ok().flatten()?;
    serde_json::from_str(&line).ok()
}

struct Guard {
    orders: Lines<BufReader<OwnedReadHalf>>,
    reports: OwnedWriteHalf,
    schedule: Schedule,
    grace: Duration,
    /// Set until it is reaped.
    child: Option<Pid>,
    code: u8,
    stopped: bool,
    /// All processes were killed; when to look for processes that are left.
    look_at: Option<Duration>,
}

impl Guard {
    fn start(&mut self, command: &[OsString], stdin: OwnedFd) -> Result<(), Report> {
        let failed = |code, reason: String| Report::Failed { code, reason };
        if since_boot() >= self.schedule.due_at() {
            return Err(Report::Ended { code: 0, stopped: true });
        }
        let Some((program, arguments)) = command.split_first() else {
            return Err(failed(2, "no command".to_owned()));
        };
        // Its own group: a command that signals its group would hit its guard otherwise.
        let spawned = Command::new(program).args(arguments).stdin(stdin).process_group(0).spawn();
        let child = spawned.map_err(|error| {
            let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
            failed(code, format!("cannot run {}: {error}", program.display()))
        })?;
        self.child = Some(Pid::from_child(&child));
        Ok(())
    }

    /// Runs until no process of the command is left.
    async fn watch(&mut self) -> io::Result<Report> {
        let mut alarm = Alarm::never_late()?;
        let mut children = signal(SignalKind::child())?;
        self.say(&Report::Started).await;
        let mut connected = true;
        while tree::reap(|pid, status| {
            if self.child == Some(pid) {
                self.child = None;
                self.code = code(status);
            }
        }) {
            if self.child.is_none() {
                // The command has ended; its descendants must not outlive it.
                self.stop(since_boot() + self.grace);
            }
            alarm.set(Some(self.wakes_at()))?;
            tokio::select! {
                biased;
                // First, so that a guard that was stopped reads later deadlines before it acts on the old one.
                order = next(&mut self.orders), if connected => {
                    connected = order.is_some();
                    self.obey(order);
                }
                due = alarm.due() => {
                    due?;
                    self.due();
                }
                _ = children.recv() => {}
            }
        }
        Ok(Report::Ended { code: self.code, stopped: self.stopped })
    }

    fn obey(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Start { .. }) => {}
            Some(Order::Renew(deadlines)) => self.schedule.renew(deadlines),
            Some(Order::Stop { kill_at }) => self.give_up(kill_at),
            Some(Order::Signal(number)) => self.pass_on(number),
            // `ctl` has ended.
            None => self.give_up(since_boot() + self.grace),
        }
    }

    fn wakes_at(&self) -> Duration {
        self.look_at.unwrap_or_else(|| self.schedule.due_at())
    }

    fn due(&mut self) {
        if self.schedule.is_stopped() {
            tree::signal_all(Signal::KILL);
            self.look_at = Some(since_boot() + tree::LOOK_AGAIN);
        } else {
            self.give_up(self.schedule.deadlines().hard);
        }
    }

    fn give_up(&mut self, kill_at: Duration) {
        self.stopped |= self.child.is_some();
        self.stop(kill_at);
    }

    /// Sends SIGTERM to all, once; an earlier time to kill still counts.
    fn stop(&mut self, kill_at: Duration) {
        let asked = self.schedule.is_stopped();
        self.schedule.stop(kill_at);
        if !asked {
            tree::signal_all(Signal::TERM);
            // A stopped process handles no other signal until it gets this one.
            tree::signal_all(Signal::CONT);
        }
    }

    fn pass_on(&self, number: i32) {
        let (Some(child), Some(signal)) = (self.child, Signal::from_named_raw(number)) else { return };
        // It may have ended just now; it is not reaped yet, so the pid is still its own.
        let _ = match signal {
            // A terminal sends these to a whole group.
            Signal::INT | Signal::QUIT | Signal::WINCH => kill_process_group(child, signal),
            _ => kill_process(child, signal),
        };
    }

    async fn say(&mut self, report: &Report) {
        if let Ok(mut line) = serde_json::to_vec(report) {
            line.push(b'\n');
            // If `ctl` has ended, no report is needed.
            let _ = self.reports.write_all(&line).await;
        }
    }
}

/// The exit code as a shell reports it.
fn code(status: WaitStatus) -> u8 {
    let code = status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
