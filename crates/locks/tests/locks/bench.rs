//! One member's service alone: inputs in, effects out.

use std::time::Duration;

use algorithms::drive::{Driver, Effect};
use algorithms::{Ctx, Input, NodeId, Span, Uid, View};
use locks::LockName;
use locks::central::{Central, CentralMsg, CentralTimer, Chunk, Entry, Holder, Label, Note, Term};
use locks::service::{Grantee, LockSettings, ServiceCommand, ServiceEvent, StreamId};
use locks::wire::{AttachNumber, Mode, RequestId, SendNumber, SessionId, ToClerk, ToClient};
use types::{Epoch, Incarnation, Token};

pub(crate) const TTL: Duration = Duration::from_secs(1);

pub(crate) struct Bench {
    view: View,
    pub(crate) settings: LockSettings,
    pub(crate) driver: Driver<Central, Duration>,
}

/// The effects of one input.
#[derive(Debug)]
pub(crate) struct Did(pub(crate) Vec<Effect<Central>>);

impl Did {
    pub(crate) fn sent(&self) -> Vec<(u32, CentralMsg)> {
        let sent = self.0.iter().filter_map(|effect| match effect {
            Effect::Send { to, message, .. } => Some((to.0, message.clone())),
            _ => None,
        });
        sent.collect()
    }

    pub(crate) fn told(&self) -> Vec<(u64, ToClient)> {
        let told = self.0.iter().filter_map(|effect| match effect {
            Effect::Announce(ServiceEvent::Tell { to, message }) => Some((to.0, message.clone())),
            _ => None,
        });
        told.collect()
    }

    pub(crate) fn events(&self) -> Vec<ServiceEvent> {
        let is_told = |event: &ServiceEvent| matches!(event, ServiceEvent::Tell { .. });
        let events = self.0.iter().filter_map(|effect| match effect {
            Effect::Announce(event) if !is_told(event) => Some(event.clone()),
            _ => None,
        });
        events.collect()
    }

    pub(crate) fn sets(&self, timer: CentralTimer) -> Option<Duration> {
        self.0.iter().find_map(|effect| match effect {
            Effect::SetTimer(set, Span { min, .. }) if *set == timer => Some(*min),
            _ => None,
        })
    }
}

pub(crate) fn life(counter: u64) -> Incarnation {
    Incarnation { counter, nonce: 7 }
}

pub(crate) fn term(epoch: u64) -> Term {
    Term { epoch: Epoch(epoch), life: life(2) }
}

pub(crate) fn label(epoch: u64, seq: u64) -> Label {
    Label { epoch: Epoch(epoch), seq }
}

pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

pub(crate) fn entry(text: &str, token: u64, session: u128) -> Entry {
    let holder = Holder { session: SessionId(session), request: RequestId(1), mode: Mode::Exclusive, ttl: TTL };
    Entry { name: name(text), token: Token(token), holder }
}

pub(crate) fn add(text: &str, token: u64) -> Note {
    Note::Add(entry(text, token, 9))
}

pub(crate) fn whole(entries: Vec<Entry>) -> Chunk {
    Chunk { after: None, entries, last: true }
}

impl Bench {
    /// Member 1 of a cluster whose voters are 1 to `voters`.
    pub(crate) fn new(voters: u32, settings: &LockSettings) -> Self {
        let view = View::mesh((1..=voters).map(Uid::plain).collect());
        let settings = LockSettings { incarnation: life(1), ..settings.clone() };
        let ctx = Ctx { me: Uid::plain(1), view: &view, settings: &settings, dice: 0 };
        let driver = Driver::start(&ctx, None);
        let mut bench = Bench { view, settings, driver };
        bench.tell(ServiceCommand::Voters((1..=voters).map(NodeId).collect()));
        bench
    }

    /// It has granted this epoch to process start 2 of member 2.
    pub(crate) fn voter(epoch: u64) -> Self {
        let mut bench = Bench::new(3, &LockSettings::default());
        bench.grant(epoch, 2);
        bench
    }

    /// It leads the first reign alone, and stream 1 belongs to session 1.
    pub(crate) fn alone(settings: &LockSettings) -> Self {
        let mut bench = Bench::new(1, settings);
        bench.grant(1, 1);
        bench.begin(1, true);
        bench.open(1, 1);
        bench
    }

    pub(crate) fn input(&mut self, input: Input<Central>) -> Did {
        let ctx = Ctx { me: Uid::plain(1), view: &self.view, settings: &self.settings, dice: 0 };
        self.driver.step(&ctx, input);
        Did(std::iter::from_fn(|| self.driver.next_effect(|_, after| after.min)).collect())
    }

    pub(crate) fn tell(&mut self, command: ServiceCommand) -> Did {
        self.input(Input::Command(command))
    }

    pub(crate) fn get(&mut self, from: u32, message: CentralMsg) -> Did {
        self.input(Input::Message { from: NodeId(from), message })
    }

    pub(crate) fn fire(&mut self, timer: CentralTimer) -> Did {
        self.driver.timers_mut().cancel(timer);
        self.input(Input::Timer(timer))
    }

    pub(crate) fn grant(&mut self, epoch: u64, to: u32) -> Did {
        let to = Grantee { id: NodeId(to), incarnation: life(u64::from(to)) };
        self.tell(ServiceCommand::Granted { epoch: Epoch(epoch), to })
    }

    pub(crate) fn begin(&mut self, epoch: u64, first: bool) -> Did {
        self.tell(ServiceCommand::OfficeBegan { epoch: Epoch(epoch), first, wait: 60 * TTL })
    }

    pub(crate) fn turn(&mut self) -> Did {
        self.tell(ServiceCommand::TurnEnds)
    }

    pub(crate) fn report(&mut self, from: u32, epoch: u64, copy: Option<Label>) -> Did {
        let life = life(u64::from(from));
        self.get(from, CentralMsg::Report { epoch: Epoch(epoch), life, copy })
    }

    /// A stream with a session of the same number.
    pub(crate) fn open(&mut self, session: u64, epoch: u64) -> Did {
        self.tell(ServiceCommand::StreamOpened(StreamId(session)));
        self.say(session, open(session, epoch, 1))
    }

    pub(crate) fn say(&mut self, stream: u64, message: ToClerk) -> Did {
        self.tell(ServiceCommand::Message { from: StreamId(stream), message, leased: true })
    }

    pub(crate) fn acquire(&mut self, stream: u64, request: u64, text: &str, mode: Mode) -> Did {
        self.say(stream, acquire(request, text, mode, None))
    }

    pub(crate) fn machine(&self) -> &Central {
        self.driver.machine()
    }

    pub(crate) fn copy(&self) -> Option<(Label, Vec<String>)> {
        let copy = self.machine().keeper().copy()?;
        let entries = copy.table.iter().map(|(place, _)| format!("{}:{}", place.name, place.token.0));
        Some((copy.label, entries.collect()))
    }
}

pub(crate) fn open(session: u64, epoch: u64, attach: u64) -> ToClerk {
    ToClerk::Open {
        session: SessionId(u128::from(session)),
        number: SendNumber(1),
        epoch: Epoch(epoch),
        attach: AttachNumber(attach),
        ttl: TTL,
        bare: true,
        holds: Vec::new(),
        wants: Vec::new(),
    }
}

pub(crate) fn acquire(request: u64, text: &str, mode: Mode, wait: Option<Duration>) -> ToClerk {
    let (number, request) = (SendNumber(request + 1), RequestId(request));
    ToClerk::Acquire { number, request, name: name(text), mode, wait }
}
