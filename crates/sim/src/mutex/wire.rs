//! The outbox of a run: every effect is carried out directly.

use algorithms::{Link, Mutex, Outbox, Section, Span, View};

use super::watch::MutexObserver;
use super::world::Net;

/// One step's view of the net.
pub(crate) struct Wire<'a, M: Mutex, O: MutexObserver> {
    pub net: &'a mut Net<M, O>,
    pub view: &'a View,
    pub me: usize,
    pub dice: u64,
}

impl<M: Mutex, O: MutexObserver> Outbox<M> for Wire<'_, M, O> {
    #[inline]
    fn send(&mut self, to: M::Link, message: M::Message) {
        let (to, link) = to.far_end(self.me, self.view).expect("machines send on links of the view");
        self.net.send(self.me, to, link, message);
    }

    #[inline]
    fn forward(&mut self, to: M::Link, message: M::Message) {
        self.send(to, message);
    }

    fn set_timer(&mut self, timer: M::Timer, after: Span) {
        let after = after.draw(self.dice.rotate_left(32)).as_nanos() as u64;
        self.net.timers.set(self.me as u32, timer, self.net.now + after);
    }

    fn cancel_timer(&mut self, timer: M::Timer) {
        self.net.timers.cancel(self.me as u32, timer);
    }

    /// Nothing of a mutual exclusion is durable.
    fn persist(&mut self, (): ()) {}

    fn store(&mut self, (): ()) {}

    fn announce(&mut self, Section::Enter(token): Section) {
        self.net.observer.entered(self.net.now, self.me, token);
        self.net.entered.push((self.me, token));
    }
}
