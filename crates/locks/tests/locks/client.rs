//! A client of the tests: the machine of a session with a clock around it.

use std::collections::BTreeMap;
use std::time::Duration;

use locks::LockName;
use locks::right::Right;
use locks::service::StreamId;
use locks::session::{Output, Session};
use locks::wire::{Mode, RequestId, SendNumber, SessionId, ToClerk, ToClient};
use types::Token;

#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) session: Session,
    right: Right,
    asked: BTreeMap<RequestId, (Duration, LockName, Mode)>,
    last: RequestId,
    /// The member and the stream of the present connection.
    pub(crate) at: Option<(usize, StreamId)>,
    /// What its program has heard.
    pub(crate) heard: Vec<Output>,
}

/// The number of a message that extends the session.
fn number(message: &ToClerk) -> Option<SendNumber> {
    match message {
        ToClerk::Open { number, .. } | ToClerk::KeepAlive { number } | ToClerk::Acquire { number, .. } => Some(*number),
        ToClerk::Withdraw { .. } | ToClerk::Release { .. } | ToClerk::Close => None,
    }
}

impl Client {
    pub(crate) fn new(id: u128, ttl: Duration) -> Self {
        Client {
            session: Session::new(SessionId(id), ttl, true),
            right: Right::default(),
            asked: BTreeMap::new(),
            last: RequestId(0),
            at: None,
            heard: Vec::new(),
        }
    }

    pub(crate) fn acquire(
        &mut self,
        now: Duration,
        name: &str,
        mode: Mode,
        wait: Option<Duration>,
    ) -> (RequestId, Vec<ToClerk>) {
        self.last.0 += 1;
        let (request, name) = (self.last, LockName::new(name).unwrap());
        self.asked.insert(request, (now, name.clone(), mode));
        let said = self.tell(now, |session, out| session.acquire(request, (name, mode, wait), out));
        (request, said)
    }

    /// Does something to the session; returns what goes to the clerk.
    pub(crate) fn tell(&mut self, now: Duration, act: impl FnOnce(&mut Session, &mut Vec<Output>)) -> Vec<ToClerk> {
        let mut out = Vec::new();
        act(&mut self.session, &mut out);
        self.carry_out(now, out)
    }

    pub(crate) fn hear(&mut self, now: Duration, message: ToClient) -> Vec<ToClerk> {
        let mut out = Vec::new();
        let asked = &self.asked;
        self.session.hear(
            message,
            |request| now.saturating_sub(asked.get(&request).map_or(now, |asked| asked.0)),
            &mut out,
        );
        self.carry_out(now, out)
    }

    fn carry_out(&mut self, now: Duration, out: Vec<Output>) -> Vec<ToClerk> {
        let mut said = Vec::new();
        for output in out {
            match output {
                Output::Say(message) => {
                    number(&message).inspect(|&number| self.right.sends(number, now));
                    said.push(message);
                }
                Output::Answered(number, terms) => {
                    self.right.answered(number, &terms);
                }
                Output::Over(why) => {
                    self.right.end();
                    self.heard.push(Output::Over(why));
                }
                output => self.heard.push(output),
            }
        }
        said
    }

    pub(crate) fn until(&self) -> Duration {
        self.right.until()
    }

    /// The locks that its program may act on now.
    pub(crate) fn acts_on(&self, now: Duration) -> Vec<(LockName, Token, Mode)> {
        let mode = |request: RequestId| self.asked[&request].2;
        let held = self.session.holds().filter(|_| now < self.right.until());
        held.map(|(request, name, token)| (name.clone(), token, mode(request))).collect()
    }

    pub(crate) fn mode(&self, request: RequestId) -> (LockName, Mode) {
        let (_, name, mode) = &self.asked[&request];
        (name.clone(), *mode)
    }
}
