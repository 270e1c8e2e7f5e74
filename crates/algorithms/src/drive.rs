//! The driver core: everything between a machine and its environment that is the same wherever a machine runs. The
//! daemon, the fault simulator, the model checker and the golden tests run machines through [`Driver`]; they differ in
//! what a moment is (`W`) and in what they do with the effects that [`Driver::next_effect`] returns.
//!
//! Three rules are implemented here and nowhere else:
//!
//! - **Order.** Effects happen in call order.
//! - **Barrier.** Behind [`Effect::Persist`] every effect waits until [`Driver::written`] reports that the record is on
//!   the disk. The machine itself continues to take input: it may be ahead of its own effects.
//! - **Timers.** Due timers fire in the order of their moments. A timer that is set again or cancelled never fires for
//!   its old setting, not even while the new setting waits behind a barrier.

mod counts;
mod effects;
mod timers;

pub use counts::Counts;
pub use effects::{Effect, Effects};
pub use timers::Timers;
pub use types::Dice;

use crate::protocol::{Ctx, Input, Protocol, Span};

/// A machine with its timers and its open effects. `W` is a moment: a time of the clock for a daemon or a simulator,
/// the rest of a countdown for a model.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Driver<P: Protocol, W> {
    machine: P,
    effects: Effects<P>,
    timers: Timers<P::Timer, W>,
    /// A record that effects wait for is on its way to the disk.
    blocked: bool,
}

impl<P: Protocol, W: Copy + Ord> Driver<P, W> {
    /// `stored`: the record of the last process with this disk.
    pub fn start(ctx: &Ctx<'_, P::Settings>, stored: Option<P::Durable>) -> Self {
        let mut effects = Effects::default();
        let machine = P::start(ctx, stored, &mut effects);
        Driver { machine, effects, timers: Timers::default(), blocked: false }
    }

    pub fn step(&mut self, ctx: &Ctx<'_, P::Settings>, input: Input<P>) {
        let known = self.effects.len();
        self.machine.step(ctx, input, &mut self.effects);
        for timer in self.effects.iter().skip(known).filter_map(Effect::timer) {
            self.timers.cancel(timer);
        }
    }

    /// The next effect to be carried out; `None` if there is none, or if it waits for the disk. This also sets and
    /// cancels timers: `when` returns the moment at which a timer fires that is set now.
    pub fn next_effect(&mut self, when: impl FnOnce(P::Timer, Span) -> W) -> Option<Effect<P>> {
        if self.blocked {
            return None;
        }
        let effect = self.effects.pop()?;
        match effect {
            Effect::SetTimer(timer, after) => self.timers.set(timer, when(timer, after)),
            Effect::CancelTimer(timer) => self.timers.cancel(timer),
            Effect::Persist(_) => self.blocked = true,
            Effect::Send { .. } | Effect::Store(_) | Effect::Announce(_) => {}
        }
        Some(effect)
    }

    /// The record of the last [`Effect::Persist`] is on the disk: effects that waited for it can be carried out.
    pub fn written(&mut self) {
        assert!(self.blocked, "barrier: a write was reported that no effect waits for");
        self.blocked = false;
    }

    /// Does the machine wait for the disk?
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Are there effects that were not returned yet?
    pub fn owes_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// What is to be announced and was not returned yet.
    pub fn announcements(&self) -> impl Iterator<Item = &P::Event> {
        self.effects.iter().filter_map(|effect| match effect {
            Effect::Announce(event) => Some(event),
            _ => None,
        })
    }

    /// Removes a timer and fires it, whatever its moment: models choose the order themselves.
    pub fn fire(&mut self, ctx: &Ctx<'_, P::Settings>, timer: P::Timer) {
        self.timers.cancel(timer);
        self.step(ctx, Input::Timer(timer));
    }

    pub fn machine(&self) -> &P {
        &self.machine
    }

    /// For a driver that replaces the view: the machine must move to it before the next step.
    pub fn machine_mut(&mut self) -> &mut P {
        &mut self.machine
    }

    pub fn timers(&self) -> &Timers<P::Timer, W> {
        &self.timers
    }

    /// For models: time passes there by shortening every timer.
    pub fn timers_mut(&mut self) -> &mut Timers<P::Timer, W> {
        &mut self.timers
    }

    /// The moment at which the announced leadership ends, if the event has one.
    pub fn deadline_of(&self, event: &P::Event) -> Option<W> {
        self.timers.get(P::lasts_until(event)?)
    }
}

impl<P: Protocol, W: Copy + Ord> Driver<P, W> {
    /// Removes and returns the earliest timer that is due at `now`; the caller passes it to [`Driver::step`].
    pub fn pop_due(&mut self, now: W) -> Option<P::Timer> {
        self.timers.pop_due(now)
    }

    /// When the next timer is due.
    pub fn next_due(&self) -> Option<W> {
        self.timers.next_due()
    }
}

#[cfg(test)]
mod tests;
