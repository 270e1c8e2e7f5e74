//! The client's side of a session: what it tells the clerk, and what an answer means. It outlives connections and clerks.
//!
//! There is no clock in it. A driver notes the time of every [`Output::Say`] that has a number before it sends it, and on
//! [`Output::Answered`] counts the right to act from that time ([`crate::right`]).
//!
//! Only the stream of the last connection counts, and on it only what comes behind the answer to the last Open: everything
//! else is of an older clerk.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use types::{Epoch, Token};

use crate::name::LockName;
use crate::right::Terms;
use crate::wire::{
    AttachNumber, Held, Mode, OpenRefusal, Refusal, RequestId, SendNumber, SessionId, Ticket, ToClerk, ToClient,
    Unavailable, Wanted,
};

/// What the driver does, in order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Output {
    Say(ToClerk),
    /// The clerk has answered the message with this number: the right to act counts from its send time, on these terms.
    Answered(SendNumber, Terms),
    /// The session is open at a clerk.
    Opened,
    Granted(RequestId, Token),
    Refused(RequestId, Refusal),
    Released(RequestId),
    /// The lock is held no more; the session lives on.
    Lost(RequestId),
    Unavailable {
        why: Unavailable,
        retry_after: Duration,
    },
    /// The session is over, and with it all that it held and wanted.
    Over(Ending),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Ending {
    /// The clerk does not know it any more.
    Lost,
    /// This program closed it.
    Closed,
    NotOpened(OpenRefusal),
}

/// One session. Request ids are the caller's: they begin at 1 and rise.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Session {
    id: SessionId,
    ttl: Duration,
    bare: bool,
    attach: AttachNumber,
    number: SendNumber,
    /// The largest epoch of a clerk that it was opened at: older clerks are over.
    newest: Epoch,
    line: Line,
    requests: BTreeMap<RequestId, Request>,
    /// Given up while the Open that names them is not answered: the clerk is told when it is.
    withdrawn: BTreeSet<RequestId>,
    ended: Option<Ending>,
}

/// How far the present connection is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Line {
    /// There is none, or its member is not the clerk.
    Down,
    /// The Open is not answered.
    Opening,
    Open(Terms),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Request {
    name: LockName,
    mode: Mode,
    wait: Option<Duration>,
    /// The first that it was told.
    ticket: Option<Ticket>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    /// `told`: the present clerk knows of it.
    Waits {
        told: bool,
    },
    Held(Token),
    /// Given back; the clerk has not answered.
    GivenBack {
        token: Token,
        durable: bool,
    },
}

impl Session {
    /// `bare`: no other process depends on the locks of this session.
    pub fn new(id: SessionId, ttl: Duration, bare: bool) -> Self {
        Session {
            id,
            ttl,
            bare,
            attach: AttachNumber(0),
            number: SendNumber(0),
            newest: Epoch(0),
            line: Line::Down,
            requests: BTreeMap::new(),
            withdrawn: BTreeSet::new(),
            ended: None,
        }
    }

    pub fn id(&self) -> SessionId {
        self.id
    }

    /// As the clerk fixed it, once it has.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Is it open at a clerk over the present connection?
    pub fn is_open(&self) -> bool {
        matches!(self.line, Line::Open(_))
    }

    /// Is it open, or is its Open on the way?
    pub fn is_attached(&self) -> bool {
        self.line != Line::Down
    }

    pub fn ended(&self) -> Option<Ending> {
        self.ended
    }

    /// The token with which this request holds its lock; the right to act is another question.
    pub fn token(&self, request: RequestId) -> Option<Token> {
        match self.requests.get(&request)?.state {
            State::Held(token) => Some(token),
            State::Waits { .. } | State::GivenBack { .. } => None,
        }
    }

    /// Everything that it holds, as far as this side knows.
    pub fn holds(&self) -> impl Iterator<Item = (RequestId, &LockName, Token)> {
        self.requests.iter().filter_map(|(&id, request)| match request.state {
            State::Held(token) => Some((id, &request.name, token)),
            State::Waits { .. } | State::GivenBack { .. } => None,
        })
    }

    /// `request`: larger than all before. `wait`: zero is a try, `None` waits for ever.
    pub fn acquire(
        &mut self,
        request: RequestId,
        (name, mode, wait): (LockName, Mode, Option<Duration>),
        out: &mut Vec<Output>,
    ) {
        if self.ended.is_some() {
            return;
        }
        let told = self.is_open();
        if told {
            let (number, name) = (self.next_number(), name.clone());
            out.push(Output::Say(ToClerk::Acquire { number, request, name, mode, wait }));
        }
        self.requests.insert(request, Request { name, mode, wait, ticket: None, state: State::Waits { told } });
    }

    /// Gives a request up, granted or not. The caller hears no more of it.
    pub fn withdraw(&mut self, request: RequestId, out: &mut Vec<Output>) {
        let Some(known) = self.requests.remove(&request) else { return };
        match self.line {
            _ if known.state == (State::Waits { told: false }) => {}
            Line::Open(_) => out.push(Output::Say(ToClerk::Withdraw { request })),
            Line::Opening => {
                self.withdrawn.insert(request);
            }
            // The next Open does not name it.
            Line::Down => {}
        }
    }

    /// [`Output::Released`] follows. `durable`: when a majority of the voters knows it.
    pub fn release(&mut self, request: RequestId, durable: bool, out: &mut Vec<Output>) {
        let is_open = self.is_open();
        let Some(known) = self.requests.get_mut(&request) else { return out.push(Output::Released(request)) };
        if let State::Held(token) = known.state {
            known.state = State::GivenBack { token, durable };
            if is_open {
                out.push(Output::Say(ToClerk::Release { request, token, durable }));
            }
        }
    }

    /// To be sent a few times in every time to live. Says nothing while there is no clerk.
    pub fn keep_alive(&mut self, out: &mut Vec<Output>) {
        if self.is_open() {
            let number = self.next_number();
            out.push(Output::Say(ToClerk::KeepAlive { number }));
        }
    }

    /// Gives everything back and ends.
    pub fn close(&mut self, out: &mut Vec<Output>) {
        if self.is_open() {
            out.push(Output::Say(ToClerk::Close));
        }
        self.end(Ending::Closed, out);
    }

    /// The connection is gone. What was said on it may have arrived or not; the next Open tells all of it.
    pub fn disconnected(&mut self) {
        self.line = Line::Down;
    }

    /// A message on the stream of the present connection. `waited`: how long ago this request was made.
    pub fn hear(&mut self, message: ToClient, waited: impl Fn(RequestId) -> Duration, out: &mut Vec<Output>) {
        if self.ended.is_some() {
            return;
        }
        match (message, self.line) {
            (ToClient::Clerk { epoch }, _) if epoch >= self.newest => self.open(epoch, waited, out),
            // A member that led once and does not know that it does not lead any more.
            (ToClient::Clerk { .. }, _) => self.disconnected(),
            (ToClient::Unavailable { why, retry_after }, _) => {
                self.disconnected();
                out.push(Output::Unavailable { why, retry_after });
            }
            (ToClient::Opened { number, epoch, attach, ttl, max_drift_ppm, margin, lost }, Line::Opening) => {
                if (epoch, attach) == (self.newest, self.attach) {
                    self.ttl = ttl;
                    self.opened((number, Terms { ttl, max_drift_ppm, margin }), lost, waited, out);
                }
            }
            (ToClient::NotOpened { why }, Line::Opening) => self.end(Ending::NotOpened(why), out),
            (message, Line::Open(terms)) => self.answer(&message, terms, out),
            // Before the answer to the Open, answers are an older clerk's.
            (_, Line::Down | Line::Opening) => {}
        }
    }

    fn next_number(&mut self) -> SendNumber {
        self.number.0 += 1;
        self.number
    }

    /// Names everything that the session holds and wants. What was given back is named as held if the caller waits until a
    /// majority knows of it, and is not named if not: then the clerk frees it.
    fn open(&mut self, epoch: Epoch, waited: impl Fn(RequestId) -> Duration, out: &mut Vec<Output>) {
        self.newest = epoch;
        self.attach.0 += 1;
        self.line = Line::Opening;
        self.withdrawn.clear();
        let number = self.next_number();
        let (mut holds, mut wants) = (Vec::new(), Vec::new());
        for (&request, known) in &mut self.requests {
            let (name, mode) = (known.name.clone(), known.mode);
            match known.state {
                State::Held(token) | State::GivenBack { token, durable: true } => {
                    holds.push(Held { request, name, token, mode });
                }
                State::GivenBack { durable: false, .. } => {}
                State::Waits { .. } => {
                    known.state = State::Waits { told: true };
                    let (waited, ticket) = (waited(request), known.ticket);
                    wants.push(Wanted { request, name, mode, wait: left(known.wait, waited), ticket, waited });
                }
            }
        }
        let (session, attach, ttl, bare) = (self.id, self.attach, self.ttl, self.bare);
        out.push(Output::Say(ToClerk::Open { session, number, epoch, attach, ttl, bare, holds, wants }));
    }

    /// What happened since the Open was sent is told now.
    fn opened(
        &mut self,
        (number, terms): (SendNumber, Terms),
        lost: Vec<RequestId>,
        waited: impl Fn(RequestId) -> Duration,
        out: &mut Vec<Output>,
    ) {
        self.line = Line::Open(terms);
        out.push(Output::Opened);
        out.push(Output::Answered(number, terms));
        let withdrawn = std::mem::take(&mut self.withdrawn).into_iter();
        out.extend(withdrawn.map(|request| Output::Say(ToClerk::Withdraw { request })));
        for request in lost {
            let held = self.requests.get(&request).is_some_and(|known| matches!(known.state, State::Held(_)));
            if held {
                self.requests.remove(&request);
                out.push(Output::Lost(request));
            }
        }
        let open: Vec<(RequestId, State)> =
            self.requests.iter().map(|(&request, known)| (request, known.state)).collect();
        for (request, state) in open {
            match state {
                State::Waits { told: true } | State::Held(_) => {}
                State::Waits { told: false } => self.tell(request, waited(request), out),
                State::GivenBack { token, durable } => {
                    out.push(Output::Say(ToClerk::Release { request, token, durable }));
                }
            }
        }
    }

    fn tell(&mut self, request: RequestId, waited: Duration, out: &mut Vec<Output>) {
        let number = self.next_number();
        if let Some(known) = self.requests.get_mut(&request) {
            known.state = State::Waits { told: true };
            let (name, mode, wait) = (known.name.clone(), known.mode, left(known.wait, waited));
            out.push(Output::Say(ToClerk::Acquire { number, request, name, mode, wait }));
        }
    }

    /// An answer of the clerk at which the session is open.
    fn answer(&mut self, message: &ToClient, terms: Terms, out: &mut Vec<Output>) {
        match *message {
            ToClient::Kept { number } => out.push(Output::Answered(number, terms)),
            ToClient::Queued { number, request, ticket, .. } => {
                out.push(Output::Answered(number, terms));
                if let Some(known) = self.requests.get_mut(&request) {
                    known.ticket.get_or_insert(ticket);
                }
            }
            ToClient::Granted { number, request, token } => {
                out.extend(number.map(|number| Output::Answered(number, terms)));
                // A finished request is not granted: the clerk hears of its end, or has.
                if let Some(known) = self.requests.get_mut(&request)
                    && matches!(known.state, State::Waits { .. })
                {
                    known.state = State::Held(token);
                    out.push(Output::Granted(request, token));
                }
            }
            ToClient::Released { request } => self.given_back(request, out),
            ToClient::Refused { request, why } => match self.requests.get(&request).map(|known| known.state) {
                Some(State::Waits { .. }) => {
                    let tried = self.requests.remove(&request).is_some_and(|known| known.wait == Some(Duration::ZERO));
                    // Its time was over when it was told to a new clerk: that clerk saw a try.
                    let late = why == Refusal::Busy && !tried;
                    out.push(Output::Refused(request, if late { Refusal::TimedOut } else { why }));
                }
                // What it wanted to give back, it does not hold.
                Some(State::GivenBack { .. }) => self.given_back(request, out),
                Some(State::Held(_)) | None => {}
            },
            ToClient::Lost { request } => match self.requests.get(&request).map(|known| known.state) {
                Some(State::Held(_) | State::Waits { .. }) => {
                    self.requests.remove(&request);
                    out.push(Output::Lost(request));
                }
                Some(State::GivenBack { .. }) => self.given_back(request, out),
                None => {}
            },
            ToClient::SessionLost => self.end(Ending::Lost, out),
            ToClient::Clerk { .. }
            | ToClient::Unavailable { .. }
            | ToClient::Opened { .. }
            | ToClient::NotOpened { .. } => {}
        }
    }

    fn given_back(&mut self, request: RequestId, out: &mut Vec<Output>) {
        let given = |known: &mut Request| matches!(known.state, State::GivenBack { .. });
        if self.requests.get_mut(&request).is_some_and(given) {
            self.requests.remove(&request);
            out.push(Output::Released(request));
        }
    }

    fn end(&mut self, why: Ending, out: &mut Vec<Output>) {
        self.line = Line::Down;
        self.requests.clear();
        self.ended = Some(why);
        out.push(Output::Over(why));
    }
}

fn left(wait: Option<Duration>, waited: Duration) -> Option<Duration> {
    wait.map(|wait| wait.saturating_sub(waited))
}
