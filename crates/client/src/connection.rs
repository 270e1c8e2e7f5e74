//! One conversation with one member.

use std::os::fd::{AsFd, BorrowedFd};

use thiserror::Error;
use transport::{ClientConnection, ClientSettings, CodecError, ConnectError, FrameError, RecvError, RefuseCode};

use crate::chaos::Chaos;
use crate::ledger::LedgerPage;
use crate::wire::{FailCode, MemberEvent, MemberStatus, Request, Response};

/// Why a member did not give what was asked for.
#[derive(Debug, Error)]
pub enum ClientError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("cannot send: {0}")]
    Send(#[from] FrameError),
    #[error(transparent)]
    Lost(#[from] RecvError),
    #[error("the member closed the connection")]
    Closed,
    #[error("no answer in time")]
    Timeout,
    #[error("unreadable answer: {0}")]
    Codec(#[from] CodecError),
    #[error("the member answered something else than was asked")]
    Unexpected,
    #[error("{reason}")]
    Failed { reason: String, code: FailCode },
}

impl ClientError {
    /// The member is there and does not let this client in, or does not let it do this.
    pub fn is_refusal(&self) -> bool {
        match self {
            ClientError::Connect(ConnectError::Refused { code, .. }) => *code != RefuseCode::Busy,
            ClientError::Connect(ConnectError::Version { .. }) => true,
            ClientError::Failed { code, .. } => *code == FailCode::Refused,
            _ => false,
        }
    }
}

/// An authenticated connection that carries one request at a time.
#[derive(Debug)]
pub struct Client {
    connection: ClientConnection,
}

impl Client {
    pub async fn connect(address: &str, settings: &ClientSettings) -> Result<Self, ClientError> {
        Ok(Client { connection: transport::connect_client(address, settings).await? })
    }

    /// Whom the handshake proved to be at the other end.
    pub fn member_id(&self) -> u32 {
        self.connection.member_id()
    }

    /// What the member's cluster agrees on, such as its `lease`: part of the handshake, so it needs no request.
    pub fn member_fact(&self, name: &str) -> Option<&str> {
        self.connection.member_facts().iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub async fn status(&mut self) -> Result<MemberStatus, ClientError> {
        match self.request(&Request::Status).await? {
            Response::Status(status) => Ok(status),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// All that the member's ledger holds, page by page.
    pub async fn history(&mut self) -> Result<LedgerPage, ClientError> {
        let mut all = LedgerPage::default();
        loop {
            let after = all.entries.last().map(|entry| entry.sequence);
            let Response::History(mut page) = self.request(&Request::History { after }).await? else {
                return Err(ClientError::Unexpected);
            };
            let ends = !page.more || page.entries.is_empty();
            all.entries.append(&mut page.entries);
            all.troubles = page.troubles;
            if ends {
                return Ok(all);
            }
        }
    }

    /// Turns the connection into a stream of events. The first one is the present state.
    pub async fn watch(mut self) -> Result<Watch, ClientError> {
        self.send(&Request::Watch).await?;
        Ok(Watch { client: self })
    }

    /// Attaches to the member's reign: the connection becomes a stream of its events, the present state first, and of
    /// its word to stop.
    pub async fn attach(mut self) -> Result<Attachment, ClientError> {
        self.done(&Request::Attach).await?;
        self.send(&Request::Watch).await?;
        Ok(Attachment { client: self })
    }

    pub async fn elect(&mut self) -> Result<(), ClientError> {
        self.done(&Request::Elect).await
    }

    pub async fn step_down(&mut self) -> Result<(), ClientError> {
        self.done(&Request::StepDown).await
    }

    /// Asks the leader to hand over to that member.
    pub async fn transfer(&mut self, to: u32) -> Result<(), ClientError> {
        self.done(&Request::Transfer { to }).await
    }

    /// Asks the member for its part of a fault.
    pub async fn chaos(&mut self, chaos: Chaos) -> Result<(), ClientError> {
        self.done(&Request::Chaos(chaos)).await
    }

    /// Sends a request and takes its first response; a failure becomes an error.
    pub async fn request(&mut self, request: &Request) -> Result<Response, ClientError> {
        self.send(request).await?;
        self.receive().await?.ok_or(ClientError::Closed)
    }

    async fn done(&mut self, request: &Request) -> Result<(), ClientError> {
        match self.request(request).await? {
            Response::Done => Ok(()),
            _ => Err(ClientError::Unexpected),
        }
    }

    async fn send(&mut self, request: &Request) -> Result<(), ClientError> {
        let bytes = transport::codec::to_vec(request)?;
        Ok(self.connection.send(&bytes).await?)
    }

    async fn receive(&mut self) -> Result<Option<Response>, ClientError> {
        let Some(frame) = self.connection.recv().await? else { return Ok(None) };
        match transport::codec::decode(&frame)? {
            Response::Failed { reason, code } => Err(ClientError::Failed { reason, code }),
            response => Ok(Some(response)),
        }
    }
}

/// The events of one member, as they happen.
#[derive(Debug)]
pub struct Watch {
    client: Client,
}

impl Watch {
    pub fn member_id(&self) -> u32 {
        self.client.member_id()
    }

    /// The next event; `None` once the member has closed the connection. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<MemberEvent>, ClientError> {
        match self.client.receive().await? {
            Some(Response::Event(event)) => Ok(Some(event)),
            None => Ok(None),
            Some(_) => Err(ClientError::Unexpected),
        }
    }
}

/// What an attached client hears.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    Event(MemberEvent),
    /// Leadership is about to be given away: stop, then drop the attachment.
    Stop,
}

/// A client that runs something while the member leads. The member knows of it until this is dropped.
#[derive(Debug)]
pub struct Attachment {
    client: Client,
}

/// To be held by another process too: the member sees the end when nobody holds it any more.
impl AsFd for Attachment {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.client.connection.as_fd()
    }
}

impl Attachment {
    /// The next notice; `None` once the member has closed the connection. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Notice>, ClientError> {
        match self.client.receive().await? {
            Some(Response::Event(event)) => Ok(Some(Notice::Event(event))),
            Some(Response::Stop) => Ok(Some(Notice::Stop)),
            None => Ok(None),
            Some(_) => Err(ClientError::Unexpected),
        }
    }
}
