//! Whatever peers and clients send: no panic, and the limits hold.

use std::time::Duration;

use algorithms::{Input, NodeId};
use locks::central::{BATCH_MAX, CentralMsg, CentralTimer, Chunk, Entry, Holder, Label, Note, Place, Term};
use locks::service::{Grantee, Limits, LockSettings, ServiceCommand, StreamId};
use locks::wire::{AttachNumber, Held, Mode, RequestId, SendNumber, SessionId, Ticket, ToClerk, Wanted};
use types::{Dice, Epoch, Token};

use crate::bench::{Bench, life, name};

const LIMITS: Limits =
    Limits { names: 6, sessions: 4, waiters: 3, requests_per_session: 5, requests: 12, notes_kept: 4, tokens: 200 };

/// Draws values; small ones mostly, so that they meet.
struct Draw(Dice);

impl Draw {
    fn below(&mut self, below: u64) -> u64 {
        self.0.roll() % below
    }

    fn number(&mut self) -> u64 {
        match self.below(12) {
            0 => u64::MAX,
            1 => u64::MAX - 1,
            2 => 1 << 40,
            _ => self.below(6),
        }
    }

    fn epoch(&mut self) -> Epoch {
        Epoch(if self.below(3) == 0 { self.number() } else { 1 + self.below(2) })
    }

    fn time(&mut self) -> Duration {
        match self.below(8) {
            0 => Duration::MAX,
            1 => Duration::ZERO,
            _ => Duration::from_millis(self.below(2_000)),
        }
    }

    fn ticket(&mut self) -> Option<Ticket> {
        (self.below(2) == 0).then(|| Ticket { epoch: self.epoch(), number: self.number() })
    }

    fn lock(&mut self) -> locks::LockName {
        let length = if self.below(20) == 0 { 256 } else { 1 };
        name(&["a", "b", "c", "d", "e", "f", "g", "h"][self.below(8) as usize].repeat(length))
    }

    fn mode(&mut self) -> Mode {
        match self.below(4) {
            0 => Mode::Exclusive,
            1 => Mode::Shared,
            2 => Mode::Slots(self.below(3) as u32),
            _ => Mode::Slots(u32::MAX),
        }
    }

    fn session(&mut self) -> SessionId {
        SessionId(u128::from(self.below(7)))
    }

    fn entry(&mut self) -> Entry {
        let holder =
            Holder { session: self.session(), request: RequestId(self.number()), mode: self.mode(), ttl: self.time() };
        Entry { name: self.lock(), token: Token(self.number()), holder }
    }

    fn place(&mut self) -> Place {
        Place { name: self.lock(), token: Token(self.number()) }
    }

    fn some<T>(&mut self, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let many = if self.below(40) == 0 { BATCH_MAX as u64 + 5 } else { self.below(4) };
        (0..many).map(|_| one(self)).collect()
    }

    fn label(&mut self) -> Label {
        Label { epoch: self.epoch(), seq: self.number() }
    }

    fn term(&mut self) -> Term {
        Term { epoch: self.epoch(), life: life(1 + self.below(3)) }
    }

    fn chunk(&mut self) -> Chunk {
        let after = (self.below(3) == 0).then(|| self.place());
        let mut entries = self.some(Self::entry);
        if self.below(4) > 0 {
            entries.sort();
        }
        Chunk { after, entries, last: self.below(2) == 0 }
    }

    fn note(&mut self) -> Note {
        if self.below(2) == 0 {
            return Note::Add(self.entry());
        }
        let Place { name, token } = self.place();
        Note::Remove { name, token }
    }

    fn message(&mut self) -> CentralMsg {
        let copy = (self.below(3) > 0).then(|| self.label());
        match self.below(8) {
            0 => CentralMsg::Report { epoch: self.epoch(), life: life(2), copy },
            1 => CentralMsg::Fetch {
                term: self.term(),
                life: life(1),
                label: self.label(),
                after: (self.below(2) == 0).then(|| self.place()),
            },
            2 => CentralMsg::Fetched { epoch: self.epoch(), label: self.label(), chunk: self.chunk() },
            3 => CentralMsg::Install { term: self.term(), seq: self.number(), chunk: self.chunk() },
            4 => CentralMsg::Pull { epoch: self.epoch(), after: self.place() },
            5 => CentralMsg::Adopt { term: self.term(), label: self.label() },
            6 => CentralMsg::Notes { term: self.term(), first: self.number(), notes: self.some(Self::note) },
            _ => CentralMsg::Ack { epoch: self.epoch(), seq: self.number() },
        }
    }

    fn client(&mut self) -> ToClerk {
        let (number, request) = (SendNumber(self.number()), RequestId(self.number()));
        let wait = (self.below(2) == 0).then(|| self.time());
        match self.below(6) {
            0 => ToClerk::Open {
                session: self.session(),
                number,
                epoch: self.epoch(),
                attach: AttachNumber(self.number()),
                ttl: self.time(),
                bare: self.below(2) == 0,
                holds: self.some(|draw| Held {
                    request: RequestId(draw.number()),
                    name: draw.lock(),
                    token: Token(draw.number()),
                    mode: draw.mode(),
                }),
                wants: self.some(|draw| Wanted {
                    request: RequestId(draw.number()),
                    name: draw.lock(),
                    mode: draw.mode(),
                    wait: (draw.below(2) == 0).then(|| draw.time()),
                    ticket: draw.ticket(),
                    waited: draw.time(),
                }),
            },
            1 => ToClerk::KeepAlive { number },
            2 => ToClerk::Acquire { number, request, name: self.lock(), mode: self.mode(), wait },
            3 => ToClerk::Withdraw { request },
            4 => ToClerk::Release { request, token: Token(self.number()), durable: self.below(2) == 0 },
            _ => ToClerk::Close,
        }
    }

    fn command(&mut self) -> ServiceCommand {
        match self.below(14) {
            0 if self.below(10) == 0 => {
                let (epoch, first, wait) = (Epoch(1 + self.below(2)), self.below(2) == 0, Duration::from_mins(1));
                ServiceCommand::OfficeBegan { epoch, first, wait }
            }
            1 if self.below(20) == 0 => ServiceCommand::OfficeEnded,
            2 if self.below(10) == 0 => {
                let id = 1 + self.below(3);
                let to = Grantee { id: NodeId(id as u32), incarnation: life(id) };
                ServiceCommand::Granted { epoch: Epoch(1 + self.below(2)), to }
            }
            3 if self.below(3) == 0 => ServiceCommand::Voters(self.some(|draw| NodeId(1 + draw.below(5) as u32))),
            4 => ServiceCommand::StreamOpened(StreamId(self.below(5))),
            5 if self.below(5) == 0 => ServiceCommand::StreamClosed(StreamId(self.below(5))),
            6 => {
                let Place { name, token } = self.place();
                ServiceCommand::Unlock { name, token }
            }
            7 => ServiceCommand::TurnEnds,
            8 => ServiceCommand::Leader(None),
            _ => {
                let (from, message) = (StreamId(self.below(5)), self.client());
                ServiceCommand::Message { from, message, leased: self.below(5) > 0 }
            }
        }
    }

    fn input(&mut self, timers: &[CentralTimer]) -> Input<locks::central::Central> {
        match self.below(10) {
            0..=3 => Input::Message { from: NodeId(2 + self.below(4) as u32), message: self.message() },
            4 if !timers.is_empty() => Input::Timer(timers[self.below(timers.len() as u64) as usize]),
            5 => Input::PeerUp(NodeId(2 + self.below(2) as u32)),
            6 => Input::PeerDown(NodeId(2 + self.below(2) as u32)),
            _ => Input::Command(self.command()),
        }
    }
}

/// What a copy may have beyond the limit: one batch of notes.
fn check_limits(bench: &Bench) {
    let machine = bench.machine();
    let held = machine.keeper().copy().map_or(0, |copy| copy.table.len());
    assert!(held <= LIMITS.requests + BATCH_MAX, "{held} holders");
    let Some(clerk) = machine.clerk() else { return };
    let taken_over = LIMITS.requests + BATCH_MAX;
    assert!(clerk.queues().waiters() <= LIMITS.requests, "{} waiters", clerk.queues().waiters());
    assert!(clerk.names() <= LIMITS.names + taken_over, "{} names", clerk.names());
    assert!(clerk.sessions().len() <= LIMITS.sessions + taken_over);
    for name in clerk.queues().names() {
        assert!(clerk.queues().len(name) <= LIMITS.waiters);
    }
    // The names are counted as they are.
    let mut names: Vec<_> = machine.locks(None, usize::MAX).unwrap();
    names.dedup_by(|one, other| one.name == other.name);
    assert_eq!(clerk.names(), names.len(), "{names:?}");
    // Every holder and every waiter belongs to a session that lives, and has a timer.
    for view in names {
        let sessions = view.holders.iter().map(|held| held.session).chain(view.waiters.iter().copied());
        for session in sessions {
            assert!(clerk.sessions().get(session).is_some_and(|known| known.wants(&view.name)), "{view:?}");
            assert!(bench.driver.timers().get(CentralTimer::Session(session)).is_some());
        }
    }
}

#[test]
fn no_message_breaks_the_service_or_its_limits() {
    let settings = LockSettings { limits: LIMITS, close_ends_bare: true, ..LockSettings::default() };
    let (mut served, mut copies) = (0, 0);
    for seed in 1..=60 {
        let mut draw = Draw(Dice(Dice(seed).roll()));
        let mut bench = Bench::new(3, &settings);
        if seed % 2 == 0 {
            bench.grant(1, 1);
            bench.begin(1, true);
        } else {
            bench.grant(1, 2);
        }
        for _ in 0..600 {
            let timers: Vec<CentralTimer> = bench.driver.timers().iter().map(|(timer, _)| timer).collect();
            let input = draw.input(&timers);
            if let Input::Timer(timer) = input {
                bench.driver.timers_mut().cancel(timer);
            }
            bench.input(input);
            check_limits(&bench);
            served += usize::from(bench.machine().clerk().is_some_and(|clerk| !clerk.sessions().is_empty()));
            copies += usize::from(bench.machine().keeper().copy().is_some_and(|copy| !copy.table.is_empty()));
        }
    }
    assert!(served > 300 && copies > 1_000, "the inputs reach the service: {served} and {copies}");
}
