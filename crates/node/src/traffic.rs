//! How many messages an instance sent to other members and received, by kind, since the process started.

use algorithms::{Kind, Message};
use face::MessageCount;
use member::Envelope;

/// The kinds that every algorithm has; its own kinds follow.
const COMMON: [&str; 3] = ["heartbeat", "join", "authority"];

#[derive(Debug)]
pub(crate) struct Traffic(Vec<MessageCount>);

impl Traffic {
    /// `kinds`: of the algorithm's messages.
    pub(crate) fn new(kinds: &[Kind]) -> Self {
        let kinds = COMMON.into_iter().chain(kinds.iter().map(|kind| kind.name));
        Traffic(kinds.map(|kind| MessageCount { kind, sent: 0, received: 0 }).collect())
    }

    pub(crate) fn sent<L, M: Message, A>(&mut self, envelope: &Envelope<L, M, A>) {
        self.0[place(envelope)].sent += 1;
    }

    pub(crate) fn received<L, M: Message, A>(&mut self, envelope: &Envelope<L, M, A>) {
        self.0[place(envelope)].received += 1;
    }

    pub(crate) fn counts(&self) -> Vec<MessageCount> {
        self.0.clone()
    }
}

fn place<L, M: Message, A>(envelope: &Envelope<L, M, A>) -> usize {
    match envelope {
        Envelope::Beat(_) => 0,
        Envelope::Join { .. } => 1,
        Envelope::Authority(_) => 2,
        Envelope::Round { message, .. } | Envelope::Plain { message, .. } => COMMON.len() + message.kind(),
    }
}
