//! The announcements of one member, as they happen.

use crate::announcement::Announcement;
use crate::connection::{ClientError, Replies};
use crate::wire::Response;

/// A stream of announcements. A stream that is dropped is no longer heard, but the member goes on sending it until the
/// connection closes; [`Watch::end`] tells the member.
#[derive(Debug)]
pub struct Watch(Replies);

/// One item of the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Watched {
    Announced(Announcement),
    /// This many announcements were dropped here, because they were not read fast enough.
    Gap {
        missed: u64,
    },
}

impl Watch {
    pub(crate) fn new(replies: Replies) -> Self {
        Watch(replies)
    }

    pub fn member_id(&self) -> u32 {
        self.0.client().member_id()
    }

    /// Tells the member that the stream is not wanted any more; the connection stays open for other calls.
    pub async fn end(self) -> Result<(), ClientError> {
        self.0.client().end_watch(self.0.id()).await
    }

    /// The next announcement or gap; `None` once the member has closed the connection. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Watched>, ClientError> {
        match self.0.next().await? {
            Some(Response::Announced(announcement)) => Ok(Some(Watched::Announced(announcement))),
            Some(Response::Gap { missed }) => Ok(Some(Watched::Gap { missed })),
            Some(_) => Err(ClientError::Unexpected),
            None => Ok(None),
        }
    }

    /// The next announcement; gaps are skipped. Cancel-safe.
    pub async fn next_announcement(&mut self) -> Result<Option<Announcement>, ClientError> {
        loop {
            match self.next().await? {
                Some(Watched::Announced(announcement)) => return Ok(Some(announcement)),
                Some(Watched::Gap { .. }) => {}
                None => return Ok(None),
            }
        }
    }
}
