//! Rounds: a textbook election, repeated until one gets through without a failure.
//!
//! A round is numbered (attempt, initiator, life) and carries the participants its initiator chose. Older rounds are
//! dropped; a newer one starts a fresh machine at every member it reaches. So the algorithm never meets a failure
//! inside its election: the round with the failure is simply replaced by the next one.

use algorithms::{Campaign, Ctx, Election, Input, Life, Link, Outbox, Outcome};

use crate::contacts::Contact;
use crate::epochs::epoch_of;
use crate::member::Member;
use crate::types::{Cause, Claim, Envelope, NodeSet, Round};

impl<E: Election> Member<E> {
    /// Starts an election: the leader is gone, somebody was lost on the way, or this member wants to take over.
    pub(crate) fn open(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if !self.stands(ctx) || (self.reign.is_some() && self.leader.is_some()) {
            return;
        }
        self.started = true;
        if E::LIFE == Life::Continuous {
            return self.drive(ctx, Input::Command(Campaign), 0, out);
        }
        // Each attempt that gets stuck at a dead neighbour leaves one participant out, so this ends.
        loop {
            self.stuck = None;
            let round = Round { attempt: self.next_attempt(ctx.view), initiator: ctx.me.id, life: self.life() };
            let set = self.participants(ctx);
            self.enter(ctx, round, set, out);
            self.drive(ctx, Input::Command(Campaign), 0, out);
            if self.stuck.is_none() || self.may_still_connect() {
                return;
            }
        }
    }

    /// Who takes part in a round of mine: those of the last round, and all I am connected to, but nobody known to be
    /// down or not to stand. On a ring nobody knows everybody: what one member leaves out, the next round keeps out.
    fn participants(&self, ctx: &Ctx<'_>) -> NodeSet {
        (0..ctx.view.len())
            .filter(|&at| {
                let peer = self.contacts.get(at);
                at == self.at
                    || (peer.stands
                        && !self.passed_over.contains(at)
                        && (self.contacts.is_up(at) || self.believed(ctx, at)))
            })
            .collect()
    }

    /// Not connected, but on a ring that says little.
    fn believed(&self, ctx: &Ctx<'_>, at: usize) -> bool {
        let leads = self.leader.is_some_and(|claim| claim.uid == ctx.view.members()[at]);
        !self.contacts.links_everybody() && (self.set.contains(at) || leads) && !self.contacts.is_down(at)
    }

    /// Is the neighbour this round is stuck at one that was never reached, nor given up?
    pub(crate) fn may_still_connect(&self) -> bool {
        self.stuck.is_some_and(|at| self.contacts.get(at).contact == Contact::Unknown)
    }

    pub(crate) fn enter(&mut self, ctx: &Ctx<'_>, round: Round, set: NodeSet, out: &mut impl Outbox<Self>) {
        self.note(ctx, round.attempt, out);
        self.round = Some(round);
        self.set = set;
        self.view = ctx.view.subset(|at| set.contains(at));
        self.restart_machine(ctx, out);
        self.winner = None;
        if self.reign.is_some() {
            self.settled = false;
            return;
        }
        self.settled = self.leader.is_some_and(|claim| claim.epoch >= round.attempt);
        let left_out = self.leader.is_some_and(|claim| !self.view.contains(claim.uid.id));
        if left_out && !self.settled {
            self.drop_leader(ctx.view);
            self.publish(ctx, Cause::LeaderLost, out);
        }
    }

    /// May a message of this round reach the machine? Joins the round if it is newer than the one in hand.
    pub(crate) fn admit(
        &mut self,
        ctx: &Ctx<'_>,
        from: usize,
        round: Round,
        set: NodeSet,
        out: &mut impl Outbox<Self>,
    ) -> bool {
        let listed = set.contains(self.at) && set.iter().all(|at| at < ctx.view.len());
        if E::LIFE == Life::Continuous || !listed || !self.plausible(round.attempt) {
            return false;
        }
        if let Some(mine) = self.round.filter(|&mine| round < mine && !self.settled) {
            // Silence would be taken for a death by algorithms that wait for answers.
            out.send(ctx.view.members()[from].id, Envelope::Join { round: mine, view: self.set });
            return false;
        }
        let reigned = self.reign.is_some() && self.leader.is_some();
        if !self.stands(ctx) || reigned || round.attempt < self.floor || self.round.is_some_and(|mine| round < mine) {
            // The sender does not know that it is too late, that somebody reigns, or that I do not stand.
            self.send_beat(ctx, from, false, out);
            return false;
        }
        if self.round.is_none_or(|mine| round > mine) {
            self.stuck = None;
            // Whoever opened the round knows better about those this member does not dial.
            for at in set.iter() {
                if self.contacts.is_down(at) && !self.contacts.surely_down(at, ctx.view) {
                    self.contacts.forget(at);
                }
            }
            self.enter(ctx, round, set, out);
        }
        true
    }

    /// Leaves the round in hand for a newer one, as one more member that starts it.
    pub(crate) fn join(&mut self, ctx: &Ctx<'_>, from: usize, round: Round, set: NodeSet, out: &mut impl Outbox<Self>) {
        let newer = self.round.is_none_or(|mine| round > mine);
        if newer && self.admit(ctx, from, round, set, out) {
            self.drive(ctx, Input::Command(Campaign), 0, out);
            self.get_unstuck(ctx, out);
        }
    }

    fn get_unstuck(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if self.stuck.is_some() && self.started && !self.may_still_connect() {
            self.open(ctx, out);
        }
    }

    pub(crate) fn deliver(
        &mut self,
        ctx: &Ctx<'_>,
        from: usize,
        link: E::Link,
        hops: u16,
        message: E::Message,
        out: &mut impl Outbox<Self>,
    ) {
        // The link is what the sender says; the view knows who really is at its end.
        let Some(at) = self.view.position(ctx.me.id) else { return };
        let Some((sender, _)) = link.far_end(at, &self.view) else { return };
        if self.view.members()[sender] != ctx.view.members()[from] {
            return;
        }
        self.drive(ctx, Input::Message { from: link, message }, hops, out);
        self.get_unstuck(ctx, out);
    }

    /// The machine announced something.
    pub(crate) fn outcome(&mut self, ctx: &Ctx<'_>, outcome: Outcome, out: &mut impl Outbox<Self>) {
        if self.reign.is_some() {
            return self.proposal(ctx, outcome, out);
        }
        let attempt = self.round.map_or_else(|| self.next_attempt(ctx.view), |round| round.attempt);
        let claim_of = |uid| Claim { epoch: epoch_of(ctx, attempt, uid), uid };
        match outcome {
            Outcome::Won => {
                self.settled = true;
                let mine = claim_of(ctx.me);
                self.note(ctx, mine.epoch, out);
                self.follow(ctx, mine, Cause::Elected, out);
                self.tell_all(ctx, out);
            }
            // Numbers its own attempts: the epoch comes with the winner's heartbeat.
            Outcome::Follow(Some(_)) if E::LIFE == Life::Continuous => {}
            Outcome::Follow(Some(uid)) => {
                self.settled = true;
                let gone = ctx.view.position(uid.id).is_none_or(|at| self.contacts.surely_down(at, ctx.view));
                if gone {
                    self.open(ctx, out);
                } else {
                    let theirs = claim_of(uid);
                    self.note(ctx, theirs.epoch, out);
                    self.follow(ctx, theirs, Cause::OtherElected, out);
                }
            }
            // An anonymous winner is named by its heartbeat; the watchdog waits for it.
            Outcome::Follow(None) | Outcome::GaveUp => {}
            Outcome::Halted => {
                self.drop_leader(ctx.view);
                self.publish(ctx, Cause::Halted, out);
            }
        }
    }
}
