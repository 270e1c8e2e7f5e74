//! The outbox of a bare run: every effect is carried out directly.

use algorithms::drive::Counts;
use algorithms::{Election, Link, Message, Outbox, Outcome, Span, View};

use super::Verdict;
use super::queue::{Flight, Queue};
use super::timers::Timers;
use crate::observe::Observer;

/// Everything a step may write to, for all nodes.
#[derive(Debug)]
pub(crate) struct Net<P: Election, Q, O> {
    pub queue: Q,
    pub timers: Timers<P::Timer>,
    /// Records handed to `store`, not yet reported as stored.
    pub stored: Vec<(u32, P::Durable)>,
    pub counts: Counts,
    pub verdicts: Vec<Verdict>,
    /// Living nodes without a result.
    pub undecided: usize,
    pub observer: O,
    pub now: u64,
}

/// One step's view of the net.
pub(crate) struct Wire<'a, P: Election, Q, O> {
    pub net: &'a mut Net<P, Q, O>,
    pub view: &'a View,
    pub me: usize,
    pub dice: u64,
}

impl<P, Q, O> Outbox<P> for Wire<'_, P, Q, O>
where
    P: Election,
    O: Observer,
    Q: Queue<P::Link, P::Message, O::Tag>,
{
    #[inline]
    fn send(&mut self, to: P::Link, message: P::Message) {
        let (to, link) = to.far_end(self.me, self.view).expect("machines send on links of the view");
        self.net.counts.add(&message);
        let tag = self.net.observer.sent(self.net.now, self.me, to, P::Message::KINDS[message.kind()], &message);
        self.net.queue.push(self.net.now, Flight { to: to as u32, link, message, tag });
    }

    #[inline]
    fn forward(&mut self, to: P::Link, message: P::Message) {
        self.send(to, message);
    }

    fn set_timer(&mut self, timer: P::Timer, after: Span) {
        // The upper half of the word: machines mostly use the lower half.
        let after = after.draw(self.dice.rotate_left(32)).as_nanos() as u64;
        self.net.timers.set(self.me as u32, timer, self.net.now + after);
    }

    fn cancel_timer(&mut self, timer: P::Timer) {
        self.net.timers.cancel(self.me as u32, timer);
    }

    /// No node restarts in a bare run: the disk is never read.
    fn persist(&mut self, _: P::Durable) {}

    fn store(&mut self, record: P::Durable) {
        self.net.stored.push((self.me as u32, record));
    }

    fn announce(&mut self, outcome: Outcome) {
        self.net.decide(self.me, outcome);
    }
}

impl<P: Election, Q, O: Observer> Net<P, Q, O> {
    fn decide(&mut self, node: usize, outcome: Outcome) {
        self.observer.decided(self.now, node, outcome);
        let verdict = Verdict::of(outcome);
        let before = std::mem::replace(&mut self.verdicts[node], verdict);
        self.undecided -= usize::from(before.undecided());
        self.undecided += usize::from(verdict.undecided());
    }

    pub(crate) fn kill(&mut self, node: usize) {
        let before = std::mem::replace(&mut self.verdicts[node], Verdict::Dead);
        self.undecided -= usize::from(before.undecided());
        self.observer.crashed(self.now, node);
    }

    pub(crate) fn dead(&self, node: usize) -> bool {
        self.verdicts[node] == Verdict::Dead
    }
}
