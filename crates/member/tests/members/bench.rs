//! One machine, fed by hand: a step at a time, and all that it wants done.

use algorithms::drive::{Effect, Effects};
use algorithms::{Ctx, Input, NodeId, Protocol, Span, Uid, View};
use member::Settings;

pub(crate) struct Bench<P: Protocol<Settings = Settings>> {
    pub(crate) me: Uid,
    pub(crate) view: View,
    pub(crate) settings: Settings,
    pub(crate) machine: P,
    effects: Effects<P>,
}

/// What one or more steps wanted done, in order.
#[derive(Debug)]
pub(crate) struct Wanted<P: Protocol>(pub(crate) Vec<Effect<P>>);

impl<P: Protocol<Link = NodeId, Settings = Settings>> Bench<P> {
    pub(crate) fn start(me: u32, view: View, settings: Settings, stored: Option<P::Durable>) -> (Self, Wanted<P>) {
        let me = view.uid(NodeId(me)).expect("a member");
        let mut effects = Effects::default();
        let machine = P::start(&Ctx { me, view: &view, settings: &settings, dice: 7 }, stored, &mut effects);
        let mut bench = Bench { me, view, settings, machine, effects };
        let wanted = bench.take();
        (bench, wanted)
    }

    pub(crate) fn step(&mut self, input: Input<P>) -> Wanted<P> {
        let ctx = Ctx { me: self.me, view: &self.view, settings: &self.settings, dice: 7 };
        self.machine.step(&ctx, input, &mut self.effects);
        self.take()
    }

    pub(crate) fn get(&mut self, from: u32, message: P::Message) -> Wanted<P> {
        self.step(Input::Message { from: NodeId(from), message })
    }

    pub(crate) fn fire(&mut self, timer: P::Timer) -> Wanted<P> {
        self.step(Input::Timer(timer))
    }

    pub(crate) fn tell(&mut self, command: P::Command) -> Wanted<P> {
        self.step(Input::Command(command))
    }

    pub(crate) fn up(&mut self, peer: u32) -> Wanted<P> {
        self.step(Input::PeerUp(NodeId(peer)))
    }

    pub(crate) fn down(&mut self, peer: u32) -> Wanted<P> {
        self.step(Input::PeerDown(NodeId(peer)))
    }

    pub(crate) fn ctx(&self) -> Ctx<'_, Settings> {
        Ctx { me: self.me, view: &self.view, settings: &self.settings, dice: 7 }
    }

    fn take(&mut self) -> Wanted<P> {
        Wanted(std::iter::from_fn(|| self.effects.pop()).collect())
    }
}

impl<P: Protocol<Link = NodeId>> Wanted<P> {
    pub(crate) fn sent(&self) -> Vec<(u32, P::Message)> {
        let sent = self.0.iter().filter_map(|effect| match effect {
            Effect::Send { to, message, .. } => Some((to.0, message.clone())),
            _ => None,
        });
        sent.collect()
    }

    pub(crate) fn announced(&self) -> Vec<P::Event> {
        let announced = self.0.iter().filter_map(|effect| match effect {
            Effect::Announce(event) => Some(event.clone()),
            _ => None,
        });
        announced.collect()
    }

    /// What must be on the disk before anything else happens.
    pub(crate) fn persisted(&self) -> Vec<P::Durable> {
        let persisted = self.0.iter().filter_map(|effect| match effect {
            Effect::Persist(record) => Some(record.clone()),
            _ => None,
        });
        persisted.collect()
    }

    /// What this timer was last set to.
    pub(crate) fn set(&self, timer: P::Timer) -> Option<Span> {
        self.0.iter().rev().find_map(|effect| match effect {
            Effect::SetTimer(name, span) if *name == timer => Some(*span),
            _ => None,
        })
    }

    pub(crate) fn cancels(&self, timer: P::Timer) -> bool {
        self.0.contains(&Effect::CancelTimer(timer))
    }

    /// Where the first effect of this kind stands.
    pub(crate) fn place(&self, of: impl Fn(&Effect<P>) -> bool) -> Option<usize> {
        self.0.iter().position(of)
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }
}

pub(crate) fn mesh(ids: &[u32]) -> View {
    View::mesh(ids.iter().map(|&id| Uid::plain(id)).collect())
}

pub(crate) fn ring(ids: &[u32]) -> View {
    View::ring(ids.iter().map(|&id| Uid::plain(id)).collect())
}
