//! One connection to one member, which carries any number of calls at once.
//!
//! A task of its own reads the connection and passes every reply to its call. A call that is not read does not delay
//! the other calls: its stream gets a gap.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use locks::LockName;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use transport::{
    ClientConnection, ClientReceiver, ClientSender, ClientSettings, CodecError, ConnectError, FrameError, RecvError,
    RefuseCode,
};
use types::{Change, InstanceId, Membership, Token};

use crate::attachment::Attachment;
use crate::chaos::Chaos;
use crate::endpoint::Endpoint;
use crate::ledger::LedgerPage;
use crate::order::ClaimedName;
use crate::reload::ReloadedKey;
use crate::watch::Watch;
use crate::wire::{Call, CallId, FailCode, LockPage, MemberStatus, Reply, Request, Response};

/// Replies that wait for a call to take them.
const REPLIES_MAX: usize = 1024;

/// Why a member did not give the requested answer.
#[derive(Clone, Debug, Error)]
pub enum ClientError {
    #[error(transparent)]
    Connect(#[from] Arc<ConnectError>),
    #[error("cannot send: {0}")]
    Send(Arc<FrameError>),
    #[error(transparent)]
    Lost(Arc<RecvError>),
    #[error("the member closed the connection")]
    Closed,
    #[error("no answer in time")]
    Timeout,
    #[error("unreadable answer: {0}")]
    Codec(#[from] Arc<CodecError>),
    #[error("the member's answer does not match the request")]
    Unexpected,
    #[error("{reason}")]
    Failed { reason: String, code: FailCode },
}

impl ClientError {
    /// The member answers, but does not accept this client or forbids this request.
    pub fn is_refusal(&self) -> bool {
        match self {
            ClientError::Connect(error) => match error.as_ref() {
                ConnectError::Refused { code, .. } => *code != RefuseCode::Busy,
                ConnectError::Version { .. } => true,
                _ => false,
            },
            ClientError::Failed { code, .. } => *code == FailCode::Refused,
            _ => false,
        }
    }
}

/// An authenticated connection. Clones share it: the calls of all clones run at once. It closes when the last clone,
/// watch and attachment is dropped.
#[derive(Clone, Debug)]
pub struct Client {
    connection: Arc<Connection>,
    instance: InstanceId,
}

#[derive(Debug)]
struct Connection {
    sender: tokio::sync::Mutex<ClientSender>,
    /// Held while the ledger is read: a member refuses a connection that asks for many pages at once.
    ledger: tokio::sync::Mutex<()>,
    calls: Arc<Mutex<Calls>>,
    reader: AbortHandle,
    descriptor: OwnedFd,
    member: u32,
    facts: transport::Facts,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// The calls that wait for replies.
#[derive(Debug, Default)]
struct Calls {
    next: u32,
    waiting: BTreeMap<CallId, Waiting>,
    /// Why there will be no further replies.
    ended: Option<ClientError>,
}

#[derive(Debug)]
struct Waiting {
    replies: mpsc::Sender<Response>,
    /// Announcements that were dropped since the last reply was taken.
    missed: u64,
}

fn lock(calls: &Mutex<Calls>) -> MutexGuard<'_, Calls> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    /// Connects to an endpoint; see [`Client::connect`].
    pub async fn connect_to(endpoint: &Endpoint, settings: &ClientSettings) -> Result<Self, ClientError> {
        Ok(Client::connect(&endpoint.address, settings).await?.of_instance(endpoint.instance))
    }

    /// Connects and authenticates. Must be called inside a tokio runtime.
    pub async fn connect(address: &str, settings: &ClientSettings) -> Result<Self, ClientError> {
        let connection = transport::connect_client(address, settings).await.map_err(Arc::new)?;
        Client::over(connection)
    }

    fn over(connection: ClientConnection) -> Result<Self, ClientError> {
        let descriptor = connection.as_fd().try_clone_to_owned();
        let descriptor = descriptor.map_err(|error| ClientError::Send(Arc::new(FrameError::Io(error))))?;
        let (member, facts) = (connection.member_id(), connection.member_facts().clone());
        let (sender, receiver) = connection.split();
        let calls = Arc::new(Mutex::new(Calls::default()));
        let reader = tokio::spawn(read(receiver, Arc::clone(&calls))).abort_handle();
        let sender = tokio::sync::Mutex::new(sender);
        let ledger = tokio::sync::Mutex::new(());
        let connection = Arc::new(Connection { sender, ledger, calls, reader, descriptor, member, facts });
        Ok(Client { connection, instance: InstanceId::ELECTION })
    }

    /// The same connection, for another instance of the member.
    #[must_use]
    pub fn of_instance(&self, instance: InstanceId) -> Self {
        Client { connection: Arc::clone(&self.connection), instance }
    }

    /// The authenticated id of the member at the other end.
    pub fn member_id(&self) -> u32 {
        self.connection.member
    }

    /// A value that the member's cluster agrees on, such as its `lease`: part of the handshake, so it needs no request.
    pub fn member_fact(&self, name: &str) -> Option<&str> {
        self.connection.facts.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub async fn status(&self) -> Result<MemberStatus, ClientError> {
        match self.request(Request::Status).await? {
            Response::Status(status) => Ok(*status),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// The member's whole ledger, page by page.
    pub async fn history(&self) -> Result<LedgerPage, ClientError> {
        let _one_at_a_time = self.connection.ledger.lock().await;
        let mut all = LedgerPage::default();
        loop {
            let after = all.entries.last().map(|entry| entry.sequence);
            let Response::History(page) = self.request(Request::History { after }).await? else {
                return Err(ClientError::Unexpected);
            };
            if !all.append(page) {
                return Err(ClientError::Unexpected);
            }
            if !all.more {
                return Ok(all);
            }
        }
    }

    /// The member's changes of standing as they happen. The first announcement is the present standing.
    pub async fn watch(&self) -> Result<Watch, ClientError> {
        Ok(Watch::new(self.open(Request::Watch { everything: false }).await?))
    }

    /// Everything that the member announces: also links, elections with their costs, grants and faults.
    pub async fn watch_everything(&self) -> Result<Watch, ClientError> {
        Ok(Watch::new(self.open(Request::Watch { everything: true }).await?))
    }

    /// Attaches to the member's leadership: the member sees when the attachment is dropped, and tells it to stop before
    /// it gives leadership away. It closes only with its connection, so attach over a separate connection.
    ///
    /// `grace`: how long the process may need to stop, at most [`GRACE_MAX`](crate::GRACE_MAX).
    pub async fn attach(&self, grace: Duration) -> Result<Attachment, ClientError> {
        let grace_ms = grace.as_millis() as u64;
        let mut stop = self.open(Request::Attach { grace_ms }).await?;
        match stop.next().await? {
            Some(Response::Done) => {}
            Some(_) => return Err(ClientError::Unexpected),
            None => return Err(ClientError::Closed),
        }
        Ok(Attachment::new(stop, self.watch().await?))
    }

    pub async fn elect(&self) -> Result<(), ClientError> {
        self.done(Request::Elect).await
    }

    /// `rest`: how long the member does not stand afterwards, if not as long as usual.
    pub async fn step_down(&self, rest: Option<Duration>) -> Result<(), ClientError> {
        let rest_ms = rest.map(|rest| rest.as_millis() as u64);
        self.done(Request::StepDown { rest_ms }).await
    }

    /// Asks the leader to hand over to this member. `hold`: no better member takes over from it.
    pub async fn transfer(&self, to: u32, hold: bool) -> Result<(), ClientError> {
        self.done(Request::Transfer { to, hold }).await
    }

    /// Asks the member to pause the cluster, or to end its pause.
    pub async fn pause(&self, paused: bool) -> Result<(), ClientError> {
        self.done(Request::Pause { paused }).await
    }

    /// Asks the member to take this priority from the next election on, or none of the operator's choice.
    pub async fn priority(&self, value: Option<u32>) -> Result<(), ClientError> {
        self.done(Request::Priority { value }).await
    }

    /// Requests the member's part of a fault.
    pub async fn chaos(&self, chaos: Chaos) -> Result<(), ClientError> {
        self.done(Request::Chaos(chaos)).await
    }

    /// Asks the member to read its config, and the files that it names, again. Answers with the keys that differ from those in
    /// force before.
    pub async fn reload(&self) -> Result<Vec<ReloadedKey>, ClientError> {
        match self.request(Request::Reload).await? {
            Response::Reloaded(keys) => Ok(keys),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// The name under which the member records what this connection asks of it: a claim, which nothing proves.
    pub async fn introduce(&self, name: ClaimedName) -> Result<(), ClientError> {
        self.done(Request::Introduce { name }).await
    }

    /// What the member knows of the member lists.
    pub async fn members(&self) -> Result<Membership, ClientError> {
        match self.request(Request::Members).await? {
            Response::Members(membership) => Ok(membership),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Asks the leader for one step to the next member list.
    pub async fn change_members(&self, change: Change) -> Result<(), ClientError> {
        self.done(Request::ChangeMembers(change)).await
    }

    /// Asks the member to begin a new cluster of the voters in its config.
    pub async fn bootstrap(&self) -> Result<(), ClientError> {
        self.done(Request::Bootstrap).await
    }

    /// The locks that are held or waited for, page by page; of one name if `only` says so. Answered by the leader alone.
    pub async fn locks(&self, only: Option<LockName>) -> Result<LockPage, ClientError> {
        let mut all = LockPage::default();
        loop {
            let after = all.locks.last().map(|lock| lock.name.clone());
            let Response::Locks(page) = self.request(Request::Locks { only: only.clone(), after }).await? else {
                return Err(ClientError::Unexpected);
            };
            if !all.append(page) {
                return Err(ClientError::Unexpected);
            }
            if !all.more || only.is_some() {
                return Ok(all);
            }
        }
    }

    /// Takes a lock from the holder that has it with this token.
    pub async fn unlock(&self, name: &LockName, token: Token) -> Result<(), ClientError> {
        self.done(Request::Unlock { name: name.to_string(), token }).await
    }

    pub(crate) async fn end_watch(&self, call: CallId) -> Result<(), ClientError> {
        self.done(Request::EndWatch { call }).await
    }

    /// Sends a request and takes its first response; a failure becomes an error.
    pub async fn request(&self, request: Request) -> Result<Response, ClientError> {
        self.open(request).await?.next().await?.ok_or(ClientError::Closed)
    }

    async fn done(&self, request: Request) -> Result<(), ClientError> {
        match self.request(request).await? {
            Response::Done => Ok(()),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Sends a request and returns the stream of its responses.
    async fn open(&self, request: Request) -> Result<Replies, ClientError> {
        let (replies, responses) = mpsc::channel(REPLIES_MAX);
        let id = {
            let mut calls = lock(&self.connection.calls);
            if let Some(error) = &calls.ended {
                return Err(error.clone());
            }
            let id = CallId(calls.next);
            calls.next = calls.next.wrapping_add(1);
            calls.waiting.insert(id, Waiting { replies, missed: 0 });
            id
        };
        let opened = Replies { client: self.clone(), id, responses };
        self.say(id, request).await?;
        Ok(opened)
    }

    /// Sends one frame of a call.
    async fn say(&self, id: CallId, request: Request) -> Result<(), ClientError> {
        let call = Call { id, instance: self.instance, request };
        let bytes = transport::codec::to_vec(&call).map_err(Arc::new)?;
        let mut sender = self.connection.sender.lock().await;
        // A call that is dropped half-way through its frame makes the connection unusable for all calls.
        sender.send(&bytes).await.map_err(|error| ClientError::Send(Arc::new(error)))
    }

    /// Reads no further byte; the connection stays open. What a member does about such a client is worth a test.
    #[doc(hidden)]
    pub fn stop_reading(&self) {
        self.connection.reader.abort();
    }

    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.connection.descriptor
    }
}

/// The responses to one call. Dropping it ends the call.
#[derive(Debug)]
pub(crate) struct Replies {
    client: Client,
    id: CallId,
    responses: mpsc::Receiver<Response>,
}

impl Replies {
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn id(&self) -> CallId {
        self.id
    }

    /// The next response; `None` once the member has closed the connection. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Option<Response>, ClientError> {
        match self.responses.recv().await {
            Some(Response::Failed { reason, code }) => Err(ClientError::Failed { reason, code }),
            Some(response) => Ok(Some(response)),
            None => match lock(&self.client.connection.calls).ended.clone() {
                Some(ClientError::Closed) | None => Ok(None),
                Some(error) => Err(error),
            },
        }
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        lock(&self.client.connection.calls).waiting.remove(&self.id);
    }
}

async fn read(mut receiver: ClientReceiver, calls: Arc<Mutex<Calls>>) {
    let error = loop {
        let frame = match receiver.recv().await {
            Ok(Some(frame)) => frame,
            Ok(None) => break ClientError::Closed,
            Err(error) => break ClientError::Lost(Arc::new(error)),
        };
        let decoded = transport::codec::decode::<Reply>(&frame);
        let decoded = decoded
            .or_else(|error| if receiver.speaks_newer() { newer_reply(&frame) } else { older_reply(&frame, error) });
        match decoded {
            Ok(Reply { to, response }) => hand_over(&mut lock(&calls), to, response),
            Err(error) => break ClientError::Codec(Arc::new(error)),
        }
    };
    let mut calls = lock(&calls);
    calls.ended = Some(error);
    calls.waiting.clear();
}

/// The position of [`Response::Announced`].
const ANNOUNCED: u32 = 1;

/// A reply of a member of a later version: without the fields that this version does not know, or what stands for a reply
/// of which this version knows nothing.
fn newer_reply(frame: &[u8]) -> Result<Reply, CodecError> {
    transport::codec::decode_newer(frame).or_else(|_| {
        let (to, kind) = transport::codec::decode_newer::<(CallId, u32)>(frame)?;
        let reason = "the member answers with what only a later version of this program knows".to_owned();
        let failed = Response::Failed { reason, code: FailCode::BadRequest };
        Ok(Reply { to, response: if kind == ANNOUNCED { Response::Gap { missed: 1 } } else { failed } })
    })
}

/// A reply of a member of an earlier build, which has fewer fields at its end: those count as absent or zero, which is
/// encoded as zero bytes. The frame was authenticated as a whole, so nothing was cut off on its way.
fn older_reply(frame: &[u8], error: CodecError) -> Result<Reply, CodecError> {
    let padded: Vec<u8> = frame.iter().copied().chain(std::iter::repeat_n(0, 32)).collect();
    match transport::codec::decode_newer(&padded) {
        Ok(reply @ Reply { response: Response::Status(_), .. }) => Ok(reply),
        _ => Err(error),
    }
}

/// A reply to a call that was dropped is dropped too. A reply that finds no room is counted, and the count is delivered
/// before the next reply that finds room.
fn hand_over(calls: &mut Calls, to: CallId, response: Response) {
    let Some(waiting) = calls.waiting.get_mut(&to) else { return };
    let missed = waiting.missed;
    if missed > 0 {
        if waiting.replies.capacity() < 2 {
            waiting.missed += 1;
            return;
        }
        let _ = waiting.replies.try_send(Response::Gap { missed });
        waiting.missed = 0;
    }
    if let Err(mpsc::error::TrySendError::Full(_)) = waiting.replies.try_send(response) {
        waiting.missed += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(calls: &mut Calls, id: u32) -> mpsc::Receiver<Response> {
        let (replies, responses) = mpsc::channel(REPLIES_MAX);
        calls.waiting.insert(CallId(id), Waiting { replies, missed: 0 });
        responses
    }

    #[test]
    fn replies_reach_the_call_that_they_answer_and_no_other() {
        let mut calls = Calls::default();
        let (mut one, mut two) = (call(&mut calls, 1), call(&mut calls, 2));
        hand_over(&mut calls, CallId(2), Response::Done);
        hand_over(&mut calls, CallId(1), Response::Stop);
        hand_over(&mut calls, CallId(3), Response::Stop);
        assert_eq!((one.try_recv(), two.try_recv()), (Ok(Response::Stop), Ok(Response::Done)));
        assert!(one.try_recv().is_err() && two.try_recv().is_err());
    }

    #[test]
    fn a_reply_of_a_later_version_is_read_as_far_as_it_is_known() {
        let sent = |response: &Response, more: &[u8]| {
            let reply = Reply { to: CallId(7), response: response.clone() };
            newer_reply(&[&transport::codec::to_vec(&reply).unwrap()[..], more].concat()).unwrap()
        };
        assert_eq!(sent(&Response::Done, &[1, 2]), Reply { to: CallId(7), response: Response::Done });
        let status = Response::Status(Box::new(MemberStatus::example()));
        assert_eq!(sent(&status, &[9]).response, status, "a field at the end of the status");
        assert_eq!(newer_reply(&[7, 1, 0xff]).unwrap().response, Response::Gap { missed: 1 });
        let unknown = newer_reply(&[7, 99]).unwrap();
        assert!(matches!(unknown, Reply { to: CallId(7), response: Response::Failed { .. } }), "{unknown:?}");
    }

    #[test]
    fn a_status_of_an_earlier_build_is_read_without_the_fields_at_its_end() {
        let error = || transport::codec::decode::<Reply>(&[]).unwrap_err();
        let bytes = |response: Response| transport::codec::to_vec(&Reply { to: CallId(7), response }).unwrap();
        let status = Response::Status(Box::new(MemberStatus::example()));
        let whole = bytes(status.clone());
        let cut = &whole[..whole.len() - 1];
        assert!(transport::codec::decode::<Reply>(cut).is_err());
        assert_eq!(older_reply(cut, error()).unwrap(), Reply { to: CallId(7), response: status });
        let other = bytes(Response::Gap { missed: 1 });
        assert!(older_reply(&other[..other.len() - 1], error()).is_err(), "of a status alone");
    }

    #[test]
    fn a_stream_that_is_not_read_gets_a_gap_that_counts_what_was_left_out() {
        let mut calls = Calls::default();
        let mut slow = call(&mut calls, 1);
        for _ in 0..REPLIES_MAX + 7 {
            hand_over(&mut calls, CallId(1), Response::Done);
        }
        let mut taken = 0;
        while slow.try_recv() == Ok(Response::Done) {
            taken += 1;
        }
        hand_over(&mut calls, CallId(1), Response::Stop);
        assert_eq!(taken, REPLIES_MAX);
        assert_eq!((slow.try_recv(), slow.try_recv()), (Ok(Response::Gap { missed: 7 }), Ok(Response::Stop)));
    }
}
