//! Work that is tied to one member's leadership.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::announcement::Announcement;
use crate::connection::{Client, ClientError, Replies};
use crate::watch::Watch;
use crate::wire::{Request, Response};
use crate::workload::Workload;

/// The longest time that a member waits for an attached process to stop. Less than service managers wait for a member.
pub const GRACE_MAX: Duration = Duration::from_mins(1);

/// The messages to an attached client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// The member changed its standing; the first one is the present standing.
    Announced(Announcement),
    /// Leadership is about to be given away: the client must stop its work, then drop the attachment.
    Stop,
}

/// A client that runs a process while the member leads. The member knows of it until the connection closes.
#[derive(Debug)]
pub struct Attachment {
    stop: Replies,
    watch: Watch,
}

/// For sharing the connection with another process: the member sees its end when the last of the processes has closed
/// it.
impl AsFd for Attachment {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stop.client().descriptor().as_fd()
    }
}

/// Reports the workload of an attached process.
#[derive(Debug)]
pub struct Reporter(Client);

impl Reporter {
    /// See [`Attachment::report`].
    pub async fn report(&self, work: Workload) -> Result<(), ClientError> {
        match self.0.request(Request::Work(work)).await? {
            Response::Done => Ok(()),
            _ => Err(ClientError::Unexpected),
        }
    }
}

impl Attachment {
    pub(crate) fn new(stop: Replies, watch: Watch) -> Self {
        Attachment { stop, watch }
    }

    /// Tells the member what the process does now and could do. The member shows it (`ctl status`, metrics) until the
    /// attachment is dropped.
    pub async fn report(&self, work: Workload) -> Result<(), ClientError> {
        self.reporter().report(work).await
    }

    /// For a task of its own. It keeps the connection open, so it must end before the member is to see the end of the work.
    pub fn reporter(&self) -> Reporter {
        Reporter(self.stop.client().clone())
    }

    /// The next notice; `None` once the member has closed the connection. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Notice>, ClientError> {
        tokio::select! {
            biased;
            stop = self.stop.next() => match stop? {
                Some(Response::Stop) => Ok(Some(Notice::Stop)),
                Some(_) => Err(ClientError::Unexpected),
                None => Ok(None),
            },
            announced = self.watch.next_announcement() => Ok(announced?.map(Notice::Announced)),
        }
    }
}
