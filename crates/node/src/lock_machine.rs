//! The lock machine of this process: bytes, clients' messages and facts of the election in, effects out, in order. The event
//! loop sees it only through [`LockMachine`], so it runs any lock algorithm of the catalog without naming it.

use std::time::Duration;

use algorithms::catalog::mutex::{self, AnyMutex, AnyMutexTimer};
use algorithms::drive::{Dice, Driver, Effect};
use algorithms::{Ctx, Input, NodeId, Protocol, Uid, View};
use bytes::BytesMut;
use locks::LockName;
use locks::catalog::{Kind, Row};
use locks::central::{Central, CentralMsg, CentralTimer};
use locks::service::{LockSettings, LockView, ServiceCommand, ServiceEvent};
use locks::views::{Msg, Views, ViewsSettings, ViewsTimer};
use locks::wire::SessionId;
use transport::codec;

use crate::as_bytes;

/// What the event loop provides.
pub(crate) trait LockSink {
    fn send(&mut self, to: NodeId, payload: &[u8]);
    /// `until`: the moment since boot at which that ends, if the event has one.
    fn event(&mut self, event: ServiceEvent, until: Option<Duration>);
}

/// One lock machine, of any algorithm.
pub(crate) trait LockMachine: Send {
    /// False if the bytes were no message of this algorithm.
    fn frame(&mut self, from: NodeId, payload: &[u8]) -> bool;
    fn peer(&mut self, peer: NodeId, up: bool);
    fn command(&mut self, command: ServiceCommand);
    /// Fires every timer that is due, in the order of their moments.
    fn tick(&mut self, now: Duration);
    /// When the next timer is due, since boot.
    fn deadline(&self) -> Option<Duration>;
    /// Does it wait to be told that the lease holds?
    fn owes(&self) -> bool;
    /// Does every member serve clients, and know the locks of its own clients? If not, only the leader does.
    fn serves_everywhere(&self) -> bool;
    /// Everything that was there to be read has been read.
    fn end_turn(&mut self);
    fn carry_out(&mut self, now: Duration, sink: &mut dyn LockSink);
    /// The locks that are held or waited for, from this name on; `None` if this member does not know them.
    fn locks(&self, from: Option<&LockName>, most: usize) -> Option<Vec<LockView>>;
    fn lock(&self, name: &LockName) -> Option<LockView>;
    /// How many locks are held and how many requests wait; `None` if this member does not know that without counting.
    fn totals(&self) -> Option<(usize, usize)>;
    /// When this session expires, since boot, if nothing more is heard of it.
    fn expires(&self, session: SessionId) -> Option<Duration>;
}

/// What a lock machine runs with.
#[derive(Debug)]
pub(crate) struct LockSetup {
    pub(crate) me: Uid,
    pub(crate) view: View,
    pub(crate) settings: ViewsSettings,
    pub(crate) seed: u64,
}

struct Driven<P: LockProtocol> {
    me: Uid,
    view: View,
    settings: P::Settings,
    driver: Driver<P, Duration>,
    dice: Dice,
    buffer: BytesMut,
    /// Has anything happened since the last end of a turn?
    stepped: bool,
    /// The next timer is not due before: sessions have a timer each, which are not looked through for every message.
    due: Option<Duration>,
}

/// Starts the machine of an algorithm.
pub(crate) fn start(row: &'static Row, mut setup: LockSetup) -> Box<dyn LockMachine> {
    match row.kind {
        Kind::Central => Box::new(Driven::<Central>::start(setup)),
        Kind::Views(row) => {
            setup.settings.machine = mutex::live(row);
            Box::new(Driven::<Views<AnyMutex>>::start(setup))
        }
    }
}

/// A lock machine, which keeps nothing on the disk, and what people may ask of it.
trait LockProtocol:
    Protocol<Link = NodeId, Command = ServiceCommand, Event = ServiceEvent, Durable = (), Settings: Send>
{
    const SERVES_EVERYWHERE: bool;

    /// Reads a message of another member; `None` if the bytes are none.
    fn read(settings: &Self::Settings, bytes: &[u8]) -> Option<Self::Message>;
    fn settings(settings: ViewsSettings) -> Self::Settings;
    fn owes(&self) -> bool;
    fn locks(&self, from: Option<&LockName>, most: usize) -> Option<Vec<LockView>>;
    fn lock(&self, name: &LockName) -> Option<LockView>;
    fn totals(&self) -> Option<(usize, usize)> {
        None
    }
    /// The timer that ends the session.
    fn expiry(session: SessionId) -> Self::Timer;
}

impl LockProtocol for Central {
    const SERVES_EVERYWHERE: bool = false;

    fn read(_: &LockSettings, bytes: &[u8]) -> Option<CentralMsg> {
        codec::decode(bytes).ok()
    }

    fn settings(settings: ViewsSettings) -> LockSettings {
        settings.locks
    }

    fn owes(&self) -> bool {
        false
    }

    fn locks(&self, from: Option<&LockName>, most: usize) -> Option<Vec<LockView>> {
        Central::locks(self, from, most)
    }

    fn lock(&self, name: &LockName) -> Option<LockView> {
        Central::lock(self, name)
    }

    fn totals(&self) -> Option<(usize, usize)> {
        Central::totals(self)
    }

    fn expiry(session: SessionId) -> CentralTimer {
        CentralTimer::Session(session)
    }
}

impl LockProtocol for Views<AnyMutex> {
    const SERVES_EVERYWHERE: bool = true;

    fn read(settings: &ViewsSettings, bytes: &[u8]) -> Option<Msg<AnyMutex>> {
        as_bytes::read_locks(settings.machine?, bytes).ok()
    }

    fn settings(settings: ViewsSettings) -> ViewsSettings {
        settings
    }

    fn owes(&self) -> bool {
        Views::owes(self)
    }

    fn locks(&self, from: Option<&LockName>, most: usize) -> Option<Vec<LockView>> {
        Some(self.table(from, most))
    }

    fn lock(&self, name: &LockName) -> Option<LockView> {
        self.table(Some(name), 1).pop().filter(|view| view.name == *name)
    }

    fn expiry(session: SessionId) -> ViewsTimer<AnyMutexTimer> {
        ViewsTimer::Session(session)
    }
}

impl<P: LockProtocol> Driven<P> {
    fn start(setup: LockSetup) -> Self {
        let LockSetup { me, view, settings, seed } = setup;
        let (mut dice, settings) = (Dice(seed), P::settings(settings));
        let driver = Driver::start(&Ctx { me, view: &view, settings: &settings, dice: dice.roll() }, None);
        Driven { me, view, settings, driver, dice, buffer: BytesMut::new(), stepped: true, due: None }
    }

    fn step(&mut self, input: Input<P>) {
        self.stepped = true;
        let ctx = Ctx { me: self.me, view: &self.view, settings: &self.settings, dice: self.dice.roll() };
        self.driver.step(&ctx, input);
    }

    fn send(&mut self, to: NodeId, message: &P::Message, sink: &mut dyn LockSink) {
        self.buffer.clear();
        match codec::encode(message, &mut self.buffer) {
            Ok(()) => sink.send(to, &self.buffer),
            Err(error) => tracing::error!(%error, "a message of the lock service cannot be encoded"),
        }
    }
}

impl<P: LockProtocol> LockMachine for Driven<P> {
    fn frame(&mut self, from: NodeId, payload: &[u8]) -> bool {
        let Some(message) = P::read(&self.settings, payload) else { return false };
        self.step(Input::Message { from, message });
        true
    }

    fn peer(&mut self, peer: NodeId, up: bool) {
        self.step(if up { Input::PeerUp(peer) } else { Input::PeerDown(peer) });
    }

    fn command(&mut self, command: ServiceCommand) {
        self.step(Input::Command(command));
    }

    fn tick(&mut self, now: Duration) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        while let Some(timer) = self.driver.pop_due(now) {
            self.step(Input::Timer(timer));
        }
        self.due = self.driver.next_due();
    }

    fn deadline(&self) -> Option<Duration> {
        self.due
    }

    fn end_turn(&mut self) {
        if std::mem::take(&mut self.stepped) {
            self.step(Input::Command(ServiceCommand::TurnEnds));
            self.stepped = false;
        }
    }

    fn owes(&self) -> bool {
        self.driver.machine().owes()
    }

    fn serves_everywhere(&self) -> bool {
        P::SERVES_EVERYWHERE
    }

    fn carry_out(&mut self, now: Duration, sink: &mut dyn LockSink) {
        loop {
            let dice = &mut self.dice;
            match self.driver.next_effect(|_, span| now + span.draw(dice.roll())) {
                None => break,
                Some(Effect::Send { to, message, .. }) => self.send(to, &message, sink),
                Some(Effect::Announce(event)) => {
                    let until = self.driver.deadline_of(&event);
                    sink.event(event, until);
                }
                Some(Effect::Persist(())) => self.driver.written(),
                Some(Effect::Store(()) | Effect::SetTimer(..) | Effect::CancelTimer(_)) => {}
            }
        }
        self.due = self.driver.next_due();
    }

    fn locks(&self, from: Option<&LockName>, most: usize) -> Option<Vec<LockView>> {
        self.driver.machine().locks(from, most)
    }

    fn lock(&self, name: &LockName) -> Option<LockView> {
        self.driver.machine().lock(name)
    }

    fn totals(&self) -> Option<(usize, usize)> {
        self.driver.machine().totals()
    }

    fn expires(&self, session: SessionId) -> Option<Duration> {
        self.driver.timers().get(P::expiry(session))
    }
}
