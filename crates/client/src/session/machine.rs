//! The machine of a session with a clock: when each message was sent, and until when the client may act.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use locks::LockName;
use locks::right::Right;
use locks::session::{self, Ending, Session};
use locks::wire::{Mode, Refusal, RequestId, SendNumber, SessionId, ToClerk, ToClient, Unavailable};
use types::Token;

use super::error::LostReason;

/// Keep-alives go out this often within the time to live: one may be lost.
const KEEP_ALIVES: u32 = 4;

/// What is to be done, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Output {
    Say(ToClerk),
    Opened,
    /// The right to act was prolonged.
    Extended,
    Granted(RequestId, Token),
    Refused(RequestId, Refusal),
    Released(RequestId),
    Lost(RequestId, LostReason),
    /// A request that waited for a lock ends with the session.
    Failed(RequestId, Ending),
    /// The session is over. What it held and waited for comes before that, one by one.
    Over(Ending),
    Unavailable(Unavailable),
}

/// A request that has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Known {
    asked: Duration,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Waits,
    Held,
    GivenBack,
}

#[derive(Debug)]
pub(super) struct Machine {
    session: Session,
    right: Right,
    requests: BTreeMap<RequestId, Known>,
    /// When the last message that extends the session was sent.
    last_sent: Duration,
    outputs: VecDeque<Output>,
    /// What the session says in one step: memory that is used again.
    said: Vec<session::Output>,
}

impl Machine {
    pub(super) fn new(id: SessionId, ttl: Duration, bare: bool) -> Self {
        Machine {
            session: Session::new(id, ttl, bare),
            right: Right::default(),
            requests: BTreeMap::new(),
            last_sent: Duration::ZERO,
            outputs: VecDeque::new(),
            said: Vec::new(),
        }
    }

    pub(super) fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Is a grant the next to be done?
    pub(super) fn grants_next(&self) -> bool {
        matches!(self.outputs.front(), Some(Output::Granted(..)))
    }

    pub(super) fn until(&self) -> Duration {
        self.right.until()
    }

    /// As granted: a lock algorithm may keep sessions for a shorter time than they ask for.
    pub(super) fn ttl(&self) -> Duration {
        self.session.ttl()
    }

    pub(super) fn is_over(&self) -> bool {
        self.session.ended().is_some()
    }

    /// Is the session open at a clerk, or on its way there?
    pub(super) fn is_attached(&self) -> bool {
        self.session.is_attached()
    }

    /// A message that is none of the session's.
    pub(super) fn say(&mut self, message: ToClerk) {
        self.outputs.push_back(Output::Say(message));
    }

    /// When the next keep-alive is due; `None` while there is no clerk.
    pub(super) fn keep_alive_at(&self) -> Option<Duration> {
        self.session.is_open().then_some(self.last_sent + self.ttl() / KEEP_ALIVES)
    }

    pub(super) fn keep_alive(&mut self, now: Duration) {
        self.step(now, Session::keep_alive);
    }

    /// The connection has ended.
    pub(super) fn disconnected(&mut self) {
        self.session.disconnected();
    }

    /// `request`: larger than those before it.
    pub(super) fn acquire(&mut self, now: Duration, request: RequestId, wanted: (LockName, Mode, Option<Duration>)) {
        self.requests.insert(request, Known { asked: now, state: State::Waits });
        self.step(now, |session, out| session.acquire(request, wanted, out));
    }

    /// Gives a request up, whether it was granted or not.
    pub(super) fn withdraw(&mut self, now: Duration, request: RequestId) {
        self.requests.remove(&request);
        self.step(now, |session, out| session.withdraw(request, out));
    }

    pub(super) fn release(&mut self, now: Duration, request: RequestId, durable: bool) {
        if let Some(known) = self.requests.get_mut(&request) {
            known.state = State::GivenBack;
        }
        self.step(now, |session, out| session.release(request, durable, out));
    }

    pub(super) fn close(&mut self, now: Duration) {
        self.step(now, Session::close);
    }

    pub(super) fn hear(&mut self, now: Duration, message: ToClient) {
        let asked: BTreeMap<RequestId, Duration> = match message {
            ToClient::Clerk { .. } | ToClient::Opened { .. } => {
                self.requests.iter().map(|(&request, known)| (request, known.asked)).collect()
            }
            _ => BTreeMap::new(),
        };
        let waited = |request| asked.get(&request).map_or(Duration::ZERO, |asked| now.saturating_sub(*asked));
        self.step(now, |session, out| session.hear(message, waited, out));
    }

    fn step(&mut self, now: Duration, step: impl FnOnce(&mut Session, &mut Vec<session::Output>)) {
        let mut said = std::mem::take(&mut self.said);
        step(&mut self.session, &mut said);
        for output in said.drain(..) {
            self.take(now, output);
        }
        self.said = said;
    }

    fn take(&mut self, now: Duration, output: session::Output) {
        match output {
            session::Output::Say(message) => {
                if let Some(number) = number(&message) {
                    self.right.sends(number, now);
                    self.last_sent = now;
                }
                self.outputs.push_back(Output::Say(message));
            }
            session::Output::Answered(number, terms) => {
                if self.right.answered(number, &terms) {
                    self.outputs.push_back(Output::Extended);
                }
            }
            session::Output::Opened => self.outputs.push_back(Output::Opened),
            session::Output::Granted(request, token) => {
                if let Some(known) = self.requests.get_mut(&request) {
                    known.state = State::Held;
                    self.outputs.push_back(Output::Granted(request, token));
                }
            }
            session::Output::Refused(request, why) => {
                self.requests.remove(&request);
                self.outputs.push_back(Output::Refused(request, why));
            }
            session::Output::Released(request) => {
                self.requests.remove(&request);
                self.outputs.push_back(Output::Released(request));
            }
            session::Output::Lost(request) => {
                let known = self.requests.remove(&request);
                let waits = known.is_some_and(|known| known.state == State::Waits);
                // An operator took it before this client heard of its grant.
                self.outputs.push_back(if waits {
                    Output::Failed(request, Ending::Lost)
                } else {
                    Output::Lost(request, LostReason::Taken)
                });
            }
            session::Output::Unavailable { why, .. } => self.outputs.push_back(Output::Unavailable(why)),
            session::Output::Over(ending) => self.end(ending),
        }
    }

    fn end(&mut self, ending: Ending) {
        self.right.end();
        let why = if ending == Ending::Closed { LostReason::Closed } else { LostReason::Expired };
        for (request, known) in std::mem::take(&mut self.requests) {
            self.outputs.push_back(match known.state {
                State::Waits => Output::Failed(request, ending),
                State::Held => Output::Lost(request, why),
                State::GivenBack => Output::Released(request),
            });
        }
        self.outputs.push_back(Output::Over(ending));
    }
}

/// The number of a message that extends the session.
fn number(message: &ToClerk) -> Option<SendNumber> {
    match message {
        ToClerk::Open { number, .. } | ToClerk::KeepAlive { number } | ToClerk::Acquire { number, .. } => Some(*number),
        ToClerk::Withdraw { .. } | ToClerk::Release { .. } | ToClerk::Close => None,
    }
}
