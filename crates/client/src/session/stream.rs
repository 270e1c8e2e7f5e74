//! The connection of one session: it carries nothing else, so the session's task reads it itself, and no other task passes its
//! answers on.

use std::sync::Arc;

use bytes::BytesMut;
use locks::wire::{ToClerk, ToClient};
use transport::{ClientReceiver, ClientSender, ClientSettings, codec, connect_client};
use types::InstanceId;

use crate::connection::ClientError;
use crate::endpoint::Endpoint;
use crate::wire::{Call, CallId, Reply, Request, Response};

/// The only call of the connection.
const CALL: CallId = CallId(0);

#[derive(Debug)]
pub(super) struct LockStream {
    sender: ClientSender,
    receiver: ClientReceiver,
    instance: InstanceId,
    /// Where calls are encoded, and where answers are opened.
    buffer: BytesMut,
}

impl LockStream {
    /// Connects, and opens the stream of a session. Returns the id of the member as well.
    pub(super) async fn open(endpoint: &Endpoint, settings: &ClientSettings) -> Result<(u32, Self), ClientError> {
        let connection = connect_client(&endpoint.address, settings).await.map_err(Arc::new)?;
        let member = connection.member_id();
        let (sender, receiver) = connection.split();
        let mut stream = LockStream { sender, receiver, instance: endpoint.instance, buffer: BytesMut::new() };
        stream.call(Request::LockSession).await?;
        Ok((member, stream))
    }

    /// A call that is dropped half-way makes the connection unusable.
    pub(super) async fn say(&mut self, message: ToClerk) -> Result<(), ClientError> {
        self.call(Request::Lock(message)).await
    }

    async fn call(&mut self, request: Request) -> Result<(), ClientError> {
        self.buffer.clear();
        let call = Call { id: CALL, instance: self.instance, request };
        codec::encode(&call, &mut self.buffer).map_err(Arc::new)?;
        self.sender.send(&self.buffer).await.map_err(|error| ClientError::Send(Arc::new(error)))
    }

    /// What the member says next. An error ends the stream. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<ToClient, ClientError> {
        loop {
            let received = self.receiver.recv_into(&mut self.buffer).await;
            if !received.map_err(|error| ClientError::Lost(Arc::new(error)))? {
                return Err(ClientError::Closed);
            }
            let Reply { to, response } = codec::decode(&self.buffer).map_err(Arc::new)?;
            match response {
                _ if to != CALL => {}
                Response::Lock(message) => return Ok(message),
                Response::Failed { reason, code } => return Err(ClientError::Failed { reason, code }),
                _ => return Err(ClientError::Unexpected),
            }
        }
    }
}
