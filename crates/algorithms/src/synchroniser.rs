//! Runs a synchronous algorithm over asynchronous links: in every round every node sends exactly one frame to the
//! right, empty if the algorithm is silent. On FIFO links the frame of round r proves that nothing more of round r
//! comes.
//!
//! A neighbour's frame makes a node take part but does not wake it: only a node that was told to campaign is awake. The
//! winner names the round after which every node stops: n rounds later its frame has passed every node.
//!
//! Frames are not messages of the algorithm: theory counts their payloads only.

use std::collections::VecDeque;

use crate::drive::Counts;
use crate::protocol::{
    Campaign, Ctx, Election, Features, Input, Kind, Message, Next, Outbox, Outcome, Protocol, Rounds,
};
use crate::settings::Settings;
use crate::view::Side;
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Synchronised<R: Rounds> {
    algorithm: R,
    /// The next round to play; `None` before this node takes part.
    next: Option<u64>,
    /// Frames of the left neighbour for rounds not played yet; the first belongs to round `next - 1`.
    inbox: VecDeque<Frame<R::Message>>,
    stop_after: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Frame<M> {
    pub payload: Vec<M>,
    /// The last round, once the winner knows it.
    pub stop_after: Option<u64>,
}

/// Theory counts the payloads: a frame that only says that a round is over is no message of the algorithm.
impl<M: Message> Message for Frame<M> {
    const KINDS: &'static [Kind] = M::KINDS;

    fn kind(&self) -> usize {
        self.payload.first().map_or(0, M::kind)
    }

    fn count(&self, counts: &mut Counts) {
        self.payload.iter().for_each(|message| message.count(counts));
    }
}

impl<R: Rounds> Protocol for Synchronised<R> {
    type Link = Side;
    type Message = Frame<R::Message>;
    type Timer = ();
    type Command = Campaign;
    type Event = Outcome;
    type Durable = ();
    type Settings = Settings;

    fn start(ctx: &Ctx<'_>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
        Synchronised { algorithm: R::new(ctx), next: None, inbox: VecDeque::new(), stop_after: None }
    }

    fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Campaign) if self.next.is_none() => self.play(ctx, 0, true, &[], out),
            Input::Message { from: Side::Left, message } => {
                if self.next.is_none() {
                    self.play(ctx, 0, false, &[], out);
                }
                // No node can be further ahead than the length of the ring.
                if self.inbox.len() <= ctx.view.len() {
                    self.inbox.push_back(message);
                }
                self.catch_up(ctx, out);
            }
            _ => {}
        }
    }
}

impl<R: Rounds> Election for Synchronised<R> {
    const FEATURES: Features = Features { plain_ids: true, ..Features::PLAIN };
}

impl<R: Rounds> Synchronised<R> {
    /// Plays every round whose frame has come.
    fn catch_up(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        while let Some(r) = self.next {
            if self.stop_after.is_some_and(|last| r > last) {
                return;
            }
            let Some(frame) = self.inbox.pop_front() else { return };
            self.stop_after = self.stop_after.or(frame.stop_after);
            self.play(ctx, r, false, &frame.payload, out);
        }
    }

    fn play(&mut self, ctx: &Ctx<'_>, r: u64, awake: bool, inbox: &[R::Message], out: &mut impl Outbox<Self>) {
        let mut payload = Vec::new();
        let next = self.algorithm.round(ctx, r, awake, inbox, &mut payload);
        self.next = Some(r + 1);
        if let Next::Decided(outcome) = next {
            if outcome == Outcome::Won {
                self.stop_after = Some(r + ctx.view.len() as u64 + 1);
            }
            out.announce(outcome);
        }
        out.send(Side::Right, Frame { payload, stop_after: self.stop_after });
    }
}
