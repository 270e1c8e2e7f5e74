//! `ctl`'s end of the guard: starts the guard, moves its deadline, and does its work if the guard fails.

use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, send, sendmsg};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::signal::unix::{self, SignalKind, signal};

use super::message::{Deadlines, Order, Report};
use super::tree;

#[derive(Debug)]
pub(crate) struct GuardHandle {
    orders: OwnedWriteHalf,
    reports: Lines<BufReader<OwnedReadHalf>>,
    children: unix::Signal,
}

impl GuardHandle {
    /// Starts the guard, which starts the command, unless the soft deadline has passed by then. The guard holds the
    /// attachment too: the member must not conclude from the end of `ctl` alone that no child runs any more.
    pub(crate) fn start(
        command: &[OsString],
        environment: &[(&str, String)],
        attachment: Option<BorrowedFd<'_>>,
        deadlines: Deadlines,
        grace: Duration,
    ) -> io::Result<Self> {
        // If the guard is killed, its descendants become children of this process.
        tree::adopt_orphans()?;
        let children = signal(SignalKind::child())?;
        let (ours, theirs) = StdStream::pair()?;
        spawn(command, environment, theirs)?;
        pass(&ours, attachment)?;
        ours.set_nonblocking(true)?;
        let (reports, orders) = UnixStream::from_std(ours)?.into_split();
        let mut handle = GuardHandle { orders, reports: BufReader::new(reports).lines(), children };
        handle.order(&Order::Start { deadlines, grace })?;
        Ok(handle)
    }

    pub(crate) fn renew(&mut self, deadlines: Deadlines) {
        // A guard that does not read keeps the older deadline and stops the processes too early, never too late.
        let _ = self.order(&Order::Renew(deadlines));
    }

    pub(crate) fn stop(&mut self, kill_at: Duration) {
        // The caller kills the processes itself if the guard has not done so by then.
        let _ = self.order(&Order::Stop { kill_at });
    }

    pub(crate) fn signal(&mut self, number: i32) -> io::Result<()> {
        self.order(&Order::Signal(number))
    }

    /// The guard's report; `None`: the guard has ended. Cancel-safe.
    pub(crate) async fn report(&mut self) -> Option<Report> {
        let line = self.reports.next_line().await.ok().flatten()?;
        serde_json::from_str(&line).ok()
    }

    /// Kills the guard and all its descendants, and returns when no process is left.
    pub(crate) async fn end(mut self) {
        tree::sweep(&mut self.children).await;
    }

    /// Never waits: a stopped guard does not read.
    fn order(&mut self, order: &Order) -> io::Result<()> {
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        match send(self.orders.as_ref(), &line, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)? {
            written if written == line.len() => Ok(()),
            _ => Err(io::Error::other("the guard accepted half an order")),
        }
    }
}

fn spawn(command: &[OsString], environment: &[(&str, String)], socket: StdStream) -> io::Result<()> {
    // Not by its name: the file may have been replaced since this process started.
    let mut guard = Command::new("/proc/self/exe");
    guard.arg0("ctl").args(["guard", "--"]).args(command);
    guard.envs(environment.iter().map(|(name, value)| (name, value)));
    // Not kept: it is reaped with all other children, and its socket shows its end.
    guard.stdin(OwnedFd::from(socket)).spawn().map(drop)
}

/// The guard's own stdin is the socket; the command gets this process's stdin.
fn pass(socket: &StdStream, attachment: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let stdin = io::stdin();
    let passed: Vec<BorrowedFd<'_>> = std::iter::once(stdin.as_fd()).chain(attachment).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&passed));
    sendmsg(socket, &[IoSlice::new(b"0")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}
