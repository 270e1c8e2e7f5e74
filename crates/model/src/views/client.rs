//! A client and its right to act, which counts from the send times of answered messages.

use locks::LockName;
use locks::wire::{AttachNumber, Mode, RequestId, SendNumber, SessionId, ToClerk, ToClient};
use types::{Epoch, Token};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ClientAct {
    Open,
    Acquire,
    KeepAlive,
    Release,
}

/// The client of one member. Its stream and its session have one number.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Client {
    /// The epoch that its member serves in, as it was told on its present stream.
    epoch: Option<Epoch>,
    pub(super) stream: u64,
    /// Ticks of its right to act.
    promise: u8,
    /// Its session is open, as far as it knows.
    pub(super) open: bool,
    /// Messages that extend the session and are not answered yet, and how long ago they were sent.
    sent: Vec<(SendNumber, u8)>,
    number: u64,
    /// How long it may still act.
    pub(super) right: u8,
    request: u64,
    pub(super) waits: bool,
    pub(super) holds: Option<Token>,
}

impl Client {
    pub(super) fn new(promise: u8) -> Self {
        Client { promise, ..Client::default() }
    }

    /// Does it use the lock?
    pub fn acts(&self) -> bool {
        self.holds.is_some() && self.right > 0
    }

    /// May it do this now?
    pub(super) fn may(&self, act: ClientAct) -> bool {
        match act {
            ClientAct::Open => !self.open && self.epoch.is_some() && self.sent.is_empty(),
            ClientAct::Acquire => self.open && !self.waits && self.holds.is_none(),
            ClientAct::KeepAlive => self.open,
            ClientAct::Release => self.open && self.holds.is_some(),
        }
    }

    pub(super) fn say(&mut self, act: ClientAct, ttl: std::time::Duration) -> ToClerk {
        if act != ClientAct::Release {
            self.number += 1;
            self.sent.push((SendNumber(self.number), 0));
        }
        let number = SendNumber(self.number);
        match act {
            ClientAct::Open => ToClerk::Open {
                session: SessionId(u128::from(self.stream)),
                number,
                epoch: self.epoch.unwrap_or_default(),
                attach: AttachNumber(1),
                ttl,
                bare: false,
                holds: vec![],
                wants: vec![],
            },
            ClientAct::KeepAlive => ToClerk::KeepAlive { number },
            ClientAct::Acquire => {
                self.request += 1;
                self.waits = true;
                let name = LockName::new("x").expect("a name");
                ToClerk::Acquire { number, request: RequestId(self.request), name, mode: Mode::Exclusive, wait: None }
            }
            ClientAct::Release => {
                let token = self.holds.take().unwrap_or(Token(0));
                ToClerk::Release { request: RequestId(self.request), token, durable: false }
            }
        }
    }

    /// Takes an answer. Returns the token of a lock that it holds from now on.
    pub(super) fn hear(&mut self, message: &ToClient) -> Option<Token> {
        match *message {
            ToClient::Clerk { epoch } => self.epoch = Some(epoch),
            ToClient::Unavailable { .. } => self.epoch = None,
            ToClient::Opened { number, .. } => {
                self.open = true;
                self.extended(number);
            }
            ToClient::Kept { number } | ToClient::Queued { number, .. } => self.extended(number),
            ToClient::Granted { number, request, token } if request.0 == self.request && self.waits => {
                if let Some(number) = number {
                    self.extended(number);
                }
                self.waits = false;
                self.holds = Some(token);
                return Some(token);
            }
            ToClient::Lost { .. } => self.holds = None,
            ToClient::SessionLost | ToClient::NotOpened { .. } => self.loses_session(),
            _ => {}
        }
        None
    }

    fn extended(&mut self, number: SendNumber) {
        if let Some(&(_, age)) = self.sent.iter().find(|(sent, _)| *sent == number) {
            self.right = self.right.max(self.promise.saturating_sub(age));
        }
        self.sent.retain(|(sent, _)| *sent > number);
    }

    fn loses_session(&mut self) {
        let Client { epoch, stream, promise, number, request, .. } = *self;
        *self = Client { epoch, stream, promise, number, request, ..Client::default() };
    }

    /// The process of its member is gone. It acts on until its right is over.
    pub(super) fn disconnected(&mut self) {
        (self.epoch, self.open, self.waits) = (None, false, false);
        self.sent.clear();
        self.forget();
    }

    pub(super) fn connected(&mut self, stream: u64) {
        self.stream = stream;
        (self.number, self.request) = (0, 0);
    }

    pub(super) fn tick(&mut self) {
        self.right = self.right.saturating_sub(1);
        for (_, age) in &mut self.sent {
            *age = (*age + 1).min(self.promise);
        }
        self.forget();
    }

    /// Without a session and a right there is nothing to come back to.
    fn forget(&mut self) {
        if !self.open && self.right == 0 {
            self.holds = None;
        }
    }
}
