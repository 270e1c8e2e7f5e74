//! The present election: a textbook machine and the round it runs in.
//!
//! Papers assume that nothing fails during an election. A round is one such election, numbered (attempt, initiator,
//! incarnation) and carrying the participants its initiator chose. Older rounds are dropped; a newer one starts a fresh
//! machine at every member it reaches. So the algorithm never meets a failure inside its election: the next round
//! replaces a round with a failure. An algorithm that numbers its own attempts runs without rounds and is never reset.

use std::collections::BTreeSet;

use algorithms::drive::{Effect, Effects};
use algorithms::{Ctx, Election, Features, Input, Link, NodeId, View};

use crate::messages::{Context, Round};
use crate::positions::{FullPos, NodeSet, RoundPos};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RoundState<E: Election> {
    features: Features,
    /// `None` before the first round, and for an algorithm that runs without rounds.
    round: Option<Round>,
    participants: NodeSet,
    /// The participants as the machine sees them, and the position of each in the list of all members; `None`: it is in
    /// that list no more.
    view: View,
    full: Vec<Option<FullPos>>,
    machine: E,
    /// The last record of the algorithm.
    record: Option<E::Durable>,
    /// The machine's timers that are set.
    timers: BTreeSet<E::Timer>,
    /// Effects of the machine that are not carried out yet; empty between two steps.
    effects: Effects<E>,
    /// Has the round a result, or was it given up?
    decided: bool,
    /// The participant at which this round is stuck, because there is no connection to it.
    stuck: Option<FullPos>,
    /// The round's winner, until a leader is known.
    winner: Option<FullPos>,
}

impl<E: Election> RoundState<E> {
    pub(crate) fn start(ctx: &Context<'_>, record: Option<E::Durable>) -> Self {
        let mut effects = Effects::default();
        let machine = E::start(&inner(ctx, ctx.view), record.clone(), &mut effects);
        RoundState {
            features: E::features(&ctx.settings.election),
            round: None,
            participants: FullPos::all(ctx.view).collect(),
            view: ctx.view.clone(),
            full: FullPos::all(ctx.view).map(Some).collect(),
            machine,
            record,
            timers: BTreeSet::new(),
            effects,
            decided: true,
            stuck: None,
            winner: None,
        }
    }

    pub(crate) fn features(&self) -> Features {
        self.features
    }

    pub(crate) fn is_continuous(&self) -> bool {
        self.features.continuous
    }

    pub(crate) fn machine(&self) -> &E {
        &self.machine
    }

    pub(crate) fn record(&self) -> Option<E::Durable> {
        self.record.clone()
    }

    pub(crate) fn keep(&mut self, record: E::Durable) {
        self.record = Some(record);
    }

    pub(crate) fn round(&self) -> Option<Round> {
        self.round
    }

    pub(crate) fn participants(&self) -> NodeSet {
        self.participants
    }

    pub(crate) fn includes(&self, at: FullPos) -> bool {
        self.participants.contains(at)
    }

    pub(crate) fn is_decided(&self) -> bool {
        self.decided
    }

    pub(crate) fn decide(&mut self) {
        self.decided = true;
        self.stuck = None;
    }

    /// No result of this round is expected any more.
    pub(crate) fn give_up(&mut self) {
        self.decided = true;
    }

    pub(crate) fn stuck(&self) -> Option<FullPos> {
        self.stuck
    }

    pub(crate) fn unstick(&mut self) {
        self.stuck = None;
    }

    pub(crate) fn get_stuck(&mut self, at: FullPos) {
        self.stuck = Some(at);
    }

    pub(crate) fn set_winner(&mut self, winner: Option<FullPos>) {
        self.winner = winner;
    }

    pub(crate) fn take_winner(&mut self) -> Option<FullPos> {
        self.winner.take()
    }

    /// A fresh machine for this round; the caller carries out the effects of its start.
    pub(crate) fn enter(&mut self, ctx: &Context<'_>, round: Round, participants: NodeSet, decided: bool) {
        self.round = Some(round);
        self.participants = participants;
        self.view = ctx.view.subset(|at| participants.contains(FullPos(at)));
        self.full = participants.iter().map(Some).collect();
        self.decided = decided;
        self.winner = None;
        self.machine = E::start(&inner(ctx, &self.view), self.record.clone(), &mut self.effects);
    }

    /// The view has changed. A round goes on among its participants; a machine that is never reset sees the new view.
    pub(crate) fn reseat(&mut self, old: &View, new: &View) {
        let moved = |at: FullPos| FullPos::of(new, at.id(old));
        self.participants = self.participants.reseated(old, new);
        self.stuck = self.stuck.and_then(moved);
        self.winner = self.winner.and_then(moved);
        if self.features.continuous || self.round.is_none() {
            self.view = new.clone();
            self.participants = FullPos::all(new).collect();
            self.full = FullPos::all(new).map(Some).collect();
        } else {
            self.full.iter_mut().for_each(|at| *at = at.and_then(moved));
        }
    }

    /// Priorities have changed. A round keeps those it began with; a machine that is never reset compares priorities only
    /// while it elects.
    pub(crate) fn rank(&mut self, new: &View) {
        if self.features.continuous {
            self.view = new.clone();
        }
    }

    /// A fresh machine for the same round.
    pub(crate) fn restart(&mut self, ctx: &Context<'_>) {
        self.decided = true;
        self.machine = E::start(&inner(ctx, &self.view), self.record.clone(), &mut self.effects);
    }

    /// The machine's timers, none of which is set any more.
    pub(crate) fn take_timers(&mut self) -> impl Iterator<Item = E::Timer> + use<E> {
        std::mem::take(&mut self.timers).into_iter()
    }

    pub(crate) fn timer_set(&mut self, timer: E::Timer) {
        self.timers.insert(timer);
    }

    /// False if it was not set.
    pub(crate) fn timer_gone(&mut self, timer: E::Timer) -> bool {
        self.timers.remove(&timer)
    }

    /// Feeds the machine; the caller carries out its effects. `hops`: of the present message.
    pub(crate) fn step(&mut self, ctx: &Context<'_>, input: Input<E>, hops: u16) {
        if RoundPos::of(&self.view, ctx.me.id).is_some() {
            self.effects.received(hops);
            self.machine.step(&inner(ctx, &self.view), input, &mut self.effects);
            // States that differ only in the hops of the last message are one state to the model checker.
            self.effects.received(0);
        }
    }

    /// Leadership is to go to this member; the caller carries out the effects.
    pub(crate) fn hand_over(&mut self, ctx: &Context<'_>, to: NodeId) {
        self.machine.hand_over(&inner(ctx, &self.view), to, &mut self.effects);
    }

    pub(crate) fn next_effect(&mut self) -> Option<Effect<E>> {
        self.effects.pop()
    }

    /// The member at the far end of this link, and its name of the link.
    pub(crate) fn far_end(&self, ctx: &Context<'_>, link: E::Link) -> Option<(FullPos, E::Link)> {
        let RoundPos(me) = RoundPos::of(&self.view, ctx.me.id)?;
        let (there, theirs) = link.far_end(me, &self.view)?;
        Some(((*self.full.get(there)?)?, theirs))
    }
}

/// What the textbook machine may look at.
fn inner<'a>(ctx: &Context<'a>, participants: &'a View) -> Ctx<'a> {
    let me = participants.uid(ctx.me.id).unwrap_or(ctx.me);
    Ctx { me, view: participants, settings: &ctx.settings.election, dice: ctx.dice }
}
