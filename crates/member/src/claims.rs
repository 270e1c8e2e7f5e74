//! Heartbeats, and whom to believe.
//!
//! A heartbeat says whom its sender follows. The later claim is believed wherever two meet, so a member that was
//! left out, restarted or came back from the other side of a cut learns the leader from the first heartbeat it hears.

use algorithms::{Campaign, Ctx, Election, Input, Life, Outbox, Topology};

use crate::epochs::{attempt_of, epoch_of};
use crate::member::Member;
use crate::types::{Beat, Cause, Claim, Envelope};

impl<E: Election> Member<E> {
    pub(crate) fn beat(&mut self, ctx: &Ctx<'_>, from: usize, beat: Beat, out: &mut impl Outbox<Self>) {
        if !self.plausible(beat.floor) || beat.leader.is_some_and(|claim| !self.plausible(claim.epoch)) {
            return;
        }
        let stood = self.contacts.get(from).stands;
        self.contacts.heard(from, beat.life, beat.stands);
        if stood != beat.stands {
            self.standing_changed(ctx, from, beat.stands, out);
        }
        self.others_follow |= beat.leader.is_some() && E::LIFE == Life::PerRound;
        if self.reign.is_some() {
            self.note(ctx, beat.floor, out);
            self.heard_of_reign(ctx, from, beat, out);
        } else {
            self.heard_classic(ctx, from, beat, out);
        }
        self.start_when_complete(ctx, out);
        if beat.ask {
            self.send_beat(ctx, from, false, out);
        }
    }

    fn heard_classic(&mut self, ctx: &Ctx<'_>, from: usize, beat: Beat, out: &mut impl Outbox<Self>) {
        let before = (self.floor, self.leader);
        self.raise_floor(ctx, beat.floor, out);
        match beat.leader {
            Some(claim) => self.heard_claim(ctx, from, claim, out),
            None if beat.ask => {}
            None => self.catch_up(ctx, out),
        }
        // A rival that cannot be followed is no restarted member: it would answer in kind, for ever.
        let rival = |claim: Claim| claim.uid != ctx.me && self.leader.is_some_and(|mine| claim.epoch > mine.epoch);
        if !beat.leader.is_some_and(rival) {
            self.bump(ctx, out);
        }
        if before != (self.floor, self.leader) {
            self.pass_on(ctx, from, out);
        }
    }

    fn heard_claim(&mut self, ctx: &Ctx<'_>, from: usize, claim: Claim, out: &mut impl Outbox<Self>) {
        if self.leader == Some(claim) || claim.uid == ctx.me {
            return;
        }
        if self.leader.is_some_and(|mine| mine.epoch > claim.epoch) {
            // The sender follows somebody older: tell it.
            return self.send_beat(ctx, from, false, out);
        }
        let known = ctx.view.position(claim.uid.id).filter(|&at| ctx.view.members()[at] == claim.uid);
        let Some(at) = known else { return };
        let its_own = claim.epoch == epoch_of(ctx, attempt_of(claim.epoch, ctx.view), claim.uid);
        if !its_own || claim.epoch < self.floor || self.contacts.surely_down(at, ctx.view) {
            return;
        }
        if self.contacts.is_down(at) {
            self.contacts.forget(at);
        }
        if E::LIFE == Life::Continuous && self.leads(ctx) && ctx.beats(ctx.me, claim.uid) {
            // Two coordinators met: the algorithm itself must merge their groups.
            self.note(ctx, claim.epoch, out);
            return self.drive(ctx, Input::Command(Campaign), 0, out);
        }
        self.note(ctx, claim.epoch, out);
        if self.round.is_none_or(|round| round.attempt <= claim.epoch) {
            self.settled = true;
            self.stuck = None;
        }
        self.follow(ctx, claim, Cause::Heard, out);
    }

    /// The sender cannot follow anybody below its floor: an election that would end below it is started over.
    fn catch_up(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let below = self.round.is_some_and(|round| round.attempt < self.floor);
        if self.started && !self.settled && below {
            self.open(ctx, out);
        }
    }

    /// A member that restarted begins above all it may have seen; its leader moves past it.
    fn bump(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if self.leads(ctx) && self.leader.is_some_and(|claim| claim.epoch < self.floor) {
            let epoch = epoch_of(ctx, self.next_attempt(ctx.view), ctx.me);
            self.note(ctx, epoch, out);
            self.settled = true;
            self.follow(ctx, Claim { epoch, uid: ctx.me }, Cause::Bumped, out);
            self.tell_all(ctx, out);
        }
    }

    pub(crate) fn follow(&mut self, ctx: &Ctx<'_>, claim: Claim, cause: Cause, out: &mut impl Outbox<Self>) {
        if self.leader.is_some_and(|mine| mine.epoch > claim.epoch) {
            return;
        }
        self.leader = Some(claim);
        self.floor = self.floor.max(attempt_of(claim.epoch, ctx.view));
        if claim.uid != ctx.me {
            self.abstain_from_now(out);
        }
        self.publish(ctx, cause, out);
    }

    /// A peer stepped down, or stands again. For the algorithm a member that does not stand is down.
    fn standing_changed(&mut self, ctx: &Ctx<'_>, at: usize, stands: bool, out: &mut impl Outbox<Self>) {
        let peer = ctx.view.members()[at];
        if E::LIFE == Life::Continuous {
            let input = if stands { Input::PeerUp(peer.id) } else { Input::PeerDown(peer.id) };
            self.drive(ctx, input, 0, out);
        }
        // Under quorum a leader that wants to step down still leads until it says otherwise.
        if !stands && self.reign.is_none() && self.leader.is_some_and(|claim| claim.uid == peer) {
            self.drop_leader(ctx.view);
            self.publish(ctx, Cause::LeaderResigned, out);
            if E::LIFE == Life::PerRound {
                self.open(ctx, out);
            }
        }
    }

    pub(crate) fn send_beat(&self, ctx: &Ctx<'_>, to: usize, ask: bool, out: &mut impl Outbox<Self>) {
        if to != self.at && self.contacts.is_up(to) {
            out.send(ctx.view.members()[to].id, Envelope::Beat(self.beat_now(ctx, ask)));
        }
    }

    /// To everybody there is a connection to.
    pub(crate) fn tell_all(&self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        for at in 0..ctx.view.len() {
            self.send_beat(ctx, at, false, out);
        }
    }

    /// The regular heartbeat: a mesh leader asks everybody, elsewhere neighbours tell each other.
    pub(crate) fn beat_watched(&self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let ask = self.contacts.links_everybody();
        for at in self.contacts.watched.iter() {
            self.send_beat(ctx, at, ask, out);
        }
    }

    /// Where not everybody hears the leader, news go on from neighbour to neighbour.
    fn pass_on(&self, ctx: &Ctx<'_>, from: usize, out: &mut impl Outbox<Self>) {
        if ctx.view.topology() != Topology::Mesh {
            for at in self.contacts.watched.iter().filter(|&at| at != from) {
                self.send_beat(ctx, at, false, out);
            }
        }
    }
}
