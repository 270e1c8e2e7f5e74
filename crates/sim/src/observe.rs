//! Observing a bare run: every send, delivery and decision, at no cost without an observer.

use std::fmt::Debug;

use algorithms::{Kind, Outcome};

/// Time in a bare run: one round is a million ticks, so that random delays have room below it.
pub const ROUND: u64 = 1_000_000;

/// Gets every event as it happens. Times are ticks of [`ROUND`] to the round; nodes are positions.
pub trait Observer: Send {
    /// Travels with a message, so that a delivery can be matched with its send. `()` costs nothing.
    type Tag: Copy + Debug + Send;

    fn sent(&mut self, at: u64, from: usize, to: usize, kind: Kind, message: &dyn Debug) -> Self::Tag;
    fn delivered(&mut self, _at: u64, _tag: Self::Tag) {}
    /// The receiver was dead.
    fn lost(&mut self, _at: u64, _tag: Self::Tag) {}
    fn woke(&mut self, _at: u64, _node: usize) {}
    fn timer(&mut self, _at: u64, _node: usize, _timer: &dyn Debug) {}
    fn decided(&mut self, _at: u64, _node: usize, _outcome: Outcome) {}
    fn crashed(&mut self, _at: u64, _node: usize) {}
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blind;

impl Observer for Blind {
    type Tag = ();

    #[inline]
    fn sent(&mut self, _: u64, _: usize, _: usize, _: Kind, _: &dyn Debug) {}
}

/// A whole run, for drawing and export. Of the messages beyond `limit` only their number is kept.
#[derive(Clone, Debug)]
pub struct Recording {
    pub messages: Vec<Passage>,
    pub marks: Vec<Mark>,
    /// The number of messages beyond the limit.
    pub dropped: u64,
    /// Messages sent per round, and how many nodes sent any: the summary of a run too large to draw.
    pub rounds: Vec<RoundSummary>,
    /// All that happened, in order.
    pub(crate) events: Vec<Event>,
    limit: usize,
    /// By node: the round in which it last sent, plus one.
    sent_in: Vec<u64>,
}

/// One message from its send to its end.
#[derive(Clone, PartialEq, Debug)]
pub struct Passage {
    pub sent: u64,
    pub from: usize,
    pub to: usize,
    pub kind: Kind,
    pub text: String,
    /// When it ended, and whether a living node received it; `None` if it was still in flight at the end.
    pub arrived: Option<(u64, bool)>,
}

impl Passage {
    pub(crate) fn is_received(&self) -> bool {
        self.arrived.is_some_and(|(_, received)| received)
    }
}

/// The names of the kinds that occur, in order of appearance.
pub(crate) fn kinds(messages: &[Passage]) -> Vec<&'static str> {
    let mut kinds = Vec::new();
    for message in messages {
        if !kinds.contains(&message.kind.name) {
            kinds.push(message.kind.name);
        }
    }
    kinds
}

/// The end of a run with these messages and other events; the first round is always whole.
pub(crate) fn end(messages: &[Passage], others: impl Iterator<Item = u64>) -> u64 {
    let ends = messages.iter().map(|message| message.arrived.map_or(message.sent, |end| end.0));
    ends.chain(others).max().unwrap_or(0).max(ROUND)
}

/// Messages and marks are positions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Sent(usize),
    Received(usize),
    Marked(usize),
}

#[derive(Clone, PartialEq, Debug)]
pub struct Mark {
    pub at: u64,
    pub node: usize,
    pub what: What,
}

#[derive(Clone, PartialEq, Debug)]
pub enum What {
    Woke,
    Timer(String),
    Decided(Outcome),
    Crashed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RoundSummary {
    pub round: u64,
    pub messages: u64,
    /// Nodes that sent something.
    pub senders: u64,
    pub decisions: u64,
}

impl Recording {
    pub fn new(limit: usize) -> Self {
        Recording {
            messages: Vec::new(),
            marks: Vec::new(),
            dropped: 0,
            rounds: Vec::new(),
            events: Vec::new(),
            limit,
            sent_in: Vec::new(),
        }
    }

    fn summary(&mut self, at: u64) -> &mut RoundSummary {
        let round = at / ROUND;
        if self.rounds.last().is_none_or(|last| last.round != round) {
            self.rounds.push(RoundSummary { round, ..RoundSummary::default() });
        }
        self.rounds.last_mut().expect("just pushed")
    }

    fn mark(&mut self, at: u64, node: usize, what: What) {
        if self.marks.len() < self.limit {
            self.events.push(Event::Marked(self.marks.len()));
            self.marks.push(Mark { at, node, what });
        }
    }
}

impl Observer for Recording {
    type Tag = usize;

    fn sent(&mut self, at: u64, from: usize, to: usize, kind: Kind, message: &dyn Debug) -> usize {
        if self.sent_in.len() <= from {
            self.sent_in.resize(from + 1, 0);
        }
        let round = at / ROUND + 1;
        let new_sender = std::mem::replace(&mut self.sent_in[from], round) != round;
        let summary = self.summary(at);
        summary.messages += 1;
        summary.senders += u64::from(new_sender);
        if self.messages.len() >= self.limit {
            self.dropped += 1;
            return usize::MAX;
        }
        self.events.push(Event::Sent(self.messages.len()));
        self.messages.push(Passage { sent: at, from, to, kind, text: format!("{message:?}"), arrived: None });
        self.messages.len() - 1
    }

    fn delivered(&mut self, at: u64, tag: usize) {
        if let Some(message) = self.messages.get_mut(tag) {
            message.arrived = Some((at, true));
            self.events.push(Event::Received(tag));
        }
    }

    fn lost(&mut self, at: u64, tag: usize) {
        if let Some(message) = self.messages.get_mut(tag) {
            message.arrived = Some((at, false));
        }
    }

    fn woke(&mut self, at: u64, node: usize) {
        self.mark(at, node, What::Woke);
    }

    fn timer(&mut self, at: u64, node: usize, timer: &dyn Debug) {
        self.mark(at, node, What::Timer(format!("{timer:?}")));
    }

    fn decided(&mut self, at: u64, node: usize, outcome: Outcome) {
        self.summary(at).decisions += 1;
        self.mark(at, node, What::Decided(outcome));
    }

    fn crashed(&mut self, at: u64, node: usize) {
        self.mark(at, node, What::Crashed);
    }
}
