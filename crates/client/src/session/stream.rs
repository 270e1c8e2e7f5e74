//! The connection of one session: it carries nothing else, so the session's task reads it itself, and no other task passes its
//! answers on.

use std::sync::Arc;

use bytes::BytesMut;
use locks::wire::{ToClerk, ToClient};
use transport::{ClientReceiver, ClientSender, ClientSettings, FrameError, codec, connect_client};
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
    pub(super) async fn open(endpoint: &Endpoint, settings: &ClientSettings) -> Result<(u32, Box<Self>), ClientError> {
        let connection = connect_client(&endpoint.address, settings).await.map_err(Arc::new)?;
        let member = connection.member_id();
        let (sender, receiver) = connection.split();
        let (instance, buffer) = (endpoint.instance, BytesMut::new());
        let mut stream = Box::new(LockStream { sender, receiver, instance, buffer });
        if !stream.call(Request::LockSession)? {
            stream.finish().await?;
        }
        Ok((member, stream))
    }

    /// Says as much as the connection takes now. False if a part of it waits for [`LockStream::finish`].
    pub(super) fn say(&mut self, message: ToClerk) -> Result<bool, ClientError> {
        self.call(Request::Lock(message))
    }

    /// The rest of what was said. Cancel-safe.
    pub(super) async fn finish(&mut self) -> Result<(), ClientError> {
        self.sender.finish().await.map_err(not_sent)
    }

    fn call(&mut self, request: Request) -> Result<bool, ClientError> {
        self.buffer.clear();
        let call = Call { id: CALL, instance: self.instance, request };
        codec::encode(&call, &mut self.buffer).map_err(Arc::new)?;
        self.sender.try_send(&self.buffer).map_err(not_sent)
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

fn not_sent(error: FrameError) -> ClientError {
    ClientError::Send(Arc::new(error))
}
