//! The task of a session: it owns the connection to the clerk and the machine that speaks over it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use locks::LockName;
use locks::session::Ending;
use locks::wire::{Mode, Refusal, RequestId, SendNumber, SessionId, ToClerk, ToClient, Unavailable};
use tokio::sync::{mpsc, oneshot};
use transport::ClientSettings;
use types::since_boot;

use super::error::{LockError, LostReason};
use super::machine::{Machine, Output};
use super::route::Route;
use super::shared::Shared;
use super::stream::LockStream;
use super::timer::Timer;
use crate::ask::within;
use crate::connection::ClientError;
use crate::endpoint::Endpoint;

/// A member that does not answer for this part of the time to live, or so long, is left for another one.
const PATIENCE_PART: u32 = 4;
const PATIENCE_MIN: Duration = Duration::from_millis(100);
const PATIENCE_MAX: Duration = Duration::from_secs(2);
/// Asks a member that serves no locks whether its process still runs: it repeats why it serves none. No message that extends
/// a session has this number.
const PROBE: ToClerk = ToClerk::KeepAlive { number: SendNumber(0) };

/// What handles ask of the task.
#[derive(Debug)]
pub(super) enum Order {
    Acquire {
        request: RequestId,
        name: LockName,
        mode: Mode,
        wait: Option<Duration>,
    },
    Withdraw(RequestId),
    Release {
        request: RequestId,
        durable: bool,
        answer: Option<oneshot::Sender<()>>,
    },
    /// A future of the session was polled since the last keep-alive was due.
    Attended,
    Close {
        answer: oneshot::Sender<()>,
    },
}

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) settings: ClientSettings,
    pub(super) id: SessionId,
    pub(super) ttl: Duration,
    pub(super) bare: bool,
}

type Dial = Pin<Box<dyn Future<Output = Result<(u32, Box<LockStream>), ClientError>> + Send>>;

enum Line {
    Dialling(Dial),
    Open(Box<LockStream>),
}

/// When something must happen although nothing is heard.
#[derive(Debug, Default)]
struct Moments {
    /// The member owes an answer since then.
    owed_since: Option<Duration>,
    /// The member is left for another one: it knows no leader.
    leave_at: Option<Duration>,
    /// The member serves no locks, and is asked whether it still runs.
    probe_at: Option<Duration>,
    /// The keep-alive of this moment waits for somebody to poll.
    asked_for: Option<Duration>,
}

pub(super) struct Actor {
    machine: Machine,
    ttl: Duration,
    /// How long a member may take to answer.
    patience: Duration,
    bare: bool,
    route: Route,
    line: Line,
    moments: Moments,
    shared: Arc<Shared>,
    orders: mpsc::UnboundedReceiver<Order>,
    releases: BTreeMap<RequestId, oneshot::Sender<()>>,
    closing: Option<oneshot::Sender<()>>,
    timer: Timer,
    /// The clock since boot, read when the present event was there or before, and before anything is sent for it: the right to act
    /// counts from then.
    now: Duration,
}

enum Next {
    Order(Option<Order>),
    Dialled(Result<(u32, Box<LockStream>), ClientError>),
    Heard(Result<ToClient, ClientError>),
    Moment,
}

impl Next {
    /// The answer to a request is about a moment that is known, the one at which the request was sent, and nothing is said for
    /// it: the clock need not be read. Should something be said all the same, an earlier moment shortens the right to act.
    fn is_usual_answer(&self) -> bool {
        use ToClient::{Granted, Kept, Released};
        matches!(self, Next::Heard(Ok(Granted { .. } | Kept { .. } | Released { .. })))
    }
}

impl Actor {
    pub(super) fn new(plan: Plan, shared: Arc<Shared>, orders: mpsc::UnboundedReceiver<Order>) -> Self {
        let Plan { endpoints, settings, id, ttl, bare } = plan;
        let mut route = Route::new(endpoints, &settings, id);
        let line = Line::Dialling(Box::pin(route.dial()));
        Actor {
            machine: Machine::new(id, ttl, bare),
            ttl,
            patience: (ttl / PATIENCE_PART).clamp(PATIENCE_MIN, PATIENCE_MAX),
            bare,
            route,
            line,
            moments: Moments::default(),
            shared,
            orders,
            releases: BTreeMap::new(),
            closing: None,
            timer: Timer::new(),
            now: since_boot(),
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            self.timer.ring_by(self.next_moment());
            let next = tokio::select! {
                // Answers are as many as orders: neither waits for ever. The timer stays where it is for many of them.
                biased;
                next = listen(&mut self.line) => next,
                order = self.orders.recv() => Next::Order(order),
                () = self.timer.rings() => Next::Moment,
            };
            if !next.is_usual_answer() {
                self.now = since_boot();
            }
            match next {
                // No handle is left.
                Next::Order(None) => {
                    self.machine.close(self.now);
                    self.carry_out().await;
                    return;
                }
                Next::Order(Some(order)) => self.obey(order),
                Next::Dialled(Ok((member, stream))) => {
                    self.route.reached(member);
                    self.shared.lock().unreachable = None;
                    self.line = Line::Open(stream);
                    self.moments.owed_since = Some(self.now);
                }
                Next::Dialled(Err(error)) | Next::Heard(Err(error)) => self.cut_off(error),
                Next::Heard(Ok(message)) => self.hear(message),
                Next::Moment => self.moment(),
            }
            self.carry_out().await;
            if self.closing.is_some() {
                return self.end();
            }
        }
    }

    fn end(&mut self) {
        self.shared.change(|state| {
            state.until = Duration::ZERO;
            state.ended.get_or_insert(LockError::SessionLost(LostReason::Closed));
        });
        self.closing.take().map(|answer| answer.send(()));
    }

    fn obey(&mut self, order: Order) {
        let now = self.now;
        match order {
            Order::Acquire { request, name, mode, wait } => {
                self.begin_anew();
                self.machine.acquire(now, request, (name, mode, wait));
            }
            Order::Withdraw(request) => {
                self.shared.lock().decided.remove(&request);
                self.machine.withdraw(now, request);
            }
            Order::Release { request, durable, answer } => {
                self.shared.lock().lost.remove(&request);
                if let Some(answer) = answer {
                    self.releases.insert(request, answer);
                }
                self.machine.release(now, request, durable);
            }
            Order::Attended => {
                self.moments.asked_for = None;
                if self.machine.keep_alive_at().is_some_and(|due| due <= now) {
                    self.machine.keep_alive(now);
                }
            }
            Order::Close { answer } => {
                self.machine.close(now);
                self.closing = Some(answer);
            }
        }
    }

    /// A session that was lost holds nothing: the next request begins another one.
    fn begin_anew(&mut self) {
        if !self.machine.is_over() {
            return;
        }
        let mut bytes = [0; 16];
        if getrandom::fill(&mut bytes).is_err() {
            return;
        }
        let id = SessionId(u128::from_le_bytes(bytes));
        self.machine = Machine::new(id, self.ttl, self.bare);
        self.shared.change(|state| {
            (state.id, state.ended, state.until) = (id, None, Duration::ZERO);
        });
        // A new stream greets the session.
        self.leave();
    }

    /// A member that serves no locks tells when it does, unless its process hangs: it is asked now and then.
    fn hear(&mut self, message: ToClient) {
        let leave_at = self.moments.leave_at.filter(|_| matches!(message, ToClient::Unavailable { .. }));
        (self.moments.owed_since, self.moments.leave_at) = (None, leave_at);
        self.machine.hear(self.now, message);
        let waits = !self.machine.is_attached() && !self.machine.is_over();
        self.moments.probe_at = waits.then_some(self.now + self.patience);
    }

    fn moment(&mut self) {
        let now = self.now;
        if self.moments.leave_at.is_some_and(|at| at <= now) {
            self.route.failed();
            return self.leave();
        }
        if self.moments.owed_since.is_some_and(|since| since + self.patience <= now) {
            return self.cut_off(ClientError::Timeout);
        }
        if self.moments.probe_at.take_if(|at| *at <= now).is_some() {
            self.machine.say(PROBE);
        }
        let due = self.machine.keep_alive_at().filter(|due| *due <= now && self.moments.asked_for != Some(*due));
        if let Some(due) = due {
            if self.shared.keep_alive_due() {
                self.machine.keep_alive(now);
            } else {
                self.moments.asked_for = Some(due);
            }
        }
    }

    fn next_moment(&self) -> Option<Duration> {
        let keep_alive = self.machine.keep_alive_at().filter(|due| self.moments.asked_for != Some(*due));
        let owed = self.moments.owed_since.map(|since| since + self.patience);
        keep_alive.into_iter().chain(owed).chain(self.moments.leave_at).chain(self.moments.probe_at).min()
    }

    fn cut_off(&mut self, error: ClientError) {
        self.shared.change(|state| {
            // A member that refuses a client that was welcome before may have been given other keys: it is asked again.
            if error.is_refusal() && !state.opened {
                state.ended = Some(LockError::Client(error.clone()));
            }
            state.unreachable = Some(error);
        });
        self.route.failed();
        self.leave();
    }

    /// Dials the member that the route names.
    fn leave(&mut self) {
        self.machine.disconnected();
        self.moments = Moments::default();
        self.line = Line::Dialling(Box::pin(self.route.dial()));
    }

    async fn carry_out(&mut self) {
        while let Some(output) = self.machine.next_output() {
            match output {
                Output::Say(message) => self.say(message).await,
                // A grant tells the right as well: one look for its handle instead of two.
                Output::Extended if self.machine.grants_next() => {}
                Output::Unavailable(why) => self.unavailable(why),
                Output::Released(request) => {
                    if let Some(answer) = self.releases.remove(&request) {
                        let _ = answer.send(());
                        self.shared.change(|_| ());
                    }
                }
                output => {
                    if output == Output::Opened {
                        self.route.served();
                    }
                    self.tell(&output);
                }
            }
        }
    }

    async fn say(&mut self, message: ToClerk) {
        let patience = self.patience;
        let Line::Open(stream) = &mut self.line else { return };
        self.moments.owed_since.get_or_insert(self.now);
        let said = match stream.say(message) {
            // No timer for what is done.
            Ok(true) => Ok(()),
            Ok(false) => within(patience, stream.finish()).await,
            Err(error) => Err(error),
        };
        if let Err(error) = said {
            self.cut_off(error);
        }
    }

    /// Tells the handles.
    fn tell(&self, output: &Output) {
        let (until, ttl) = (self.machine.until(), self.machine.ttl());
        self.shared.change(|state| match *output {
            Output::Opened => {
                (state.opened, state.until, state.unavailable) = (true, until, None);
                state.ttl = Some(ttl);
            }
            Output::Extended => state.until = until,
            Output::Granted(request, token) => {
                state.until = until;
                state.decided.insert(request, Ok(token));
            }
            Output::Refused(request, why) => {
                let error = match why {
                    Refusal::Busy => LockError::Busy,
                    Refusal::TimedOut => LockError::TimedOut,
                    why => LockError::Refused(why),
                };
                state.decided.insert(request, Err(error));
            }
            Output::Lost(request, why) => {
                state.lost.insert(request, why);
            }
            Output::Failed(request, why) => {
                state.decided.insert(request, Err(error_of(why)));
            }
            Output::Over(why) => {
                (state.until, state.ended) = (Duration::ZERO, Some(error_of(why)));
            }
            Output::Say(_) | Output::Unavailable(_) | Output::Released(_) => {}
        });
    }

    /// The member serves no locks now: another one may, or this one later.
    fn unavailable(&mut self, why: Unavailable) {
        let elsewhere = self.route.directed(&why);
        self.moments.leave_at = match why {
            // It says so when it knows one, unless it is cut off from the others.
            Unavailable::NotTheClerk { .. } => self.moments.leave_at.or(Some(self.now + self.patience)),
            _ => None,
        };
        self.shared.change(|state| {
            if why == Unavailable::ClassicSafety {
                state.ended = Some(LockError::Unavailable(why.clone()));
            }
            state.unavailable = Some(why);
        });
        if elsewhere {
            self.leave();
        }
    }
}

fn error_of(why: Ending) -> LockError {
    match why {
        Ending::Lost => LockError::SessionLost(LostReason::Expired),
        Ending::Closed => LockError::SessionLost(LostReason::Closed),
        Ending::NotOpened(why) => LockError::NotOpened(why),
    }
}

/// The next event of the connection. Cancel-safe.
async fn listen(line: &mut Line) -> Next {
    match line {
        Line::Dialling(dial) => Next::Dialled(dial.await),
        Line::Open(stream) => Next::Heard(stream.next().await),
    }
}
