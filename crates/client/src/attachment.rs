//! Work that is tied to one member's leadership.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::announcement::Announcement;
use crate::connection::{ClientError, Replies};
use crate::watch::Watch;
use crate::wire::Response;

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

impl Attachment {
    pub(crate) fn new(stop: Replies, watch: Watch) -> Self {
        Attachment { stop, watch }
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
