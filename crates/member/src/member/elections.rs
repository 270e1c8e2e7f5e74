//! Opening, joining and ending rounds of an election.

use algorithms::drive::Effect;
use algorithms::{Campaign, Election, Input, Outbox, Outcome, Span, Topology};

use super::Member;
use crate::authority::{Authority, AuthorityCommand, Reach};
use crate::candidacy::FORGIVE;
use crate::messages::{Context, Envelope, Record, Round, Timer};
use crate::positions::{FullPos, NodeSet};

impl<E: Election, A: Authority> Member<E, A> {
    /// Starts an election: the leader is gone, a participant was lost during a round, or this member wants to take
    /// over.
    pub(super) fn open(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let leaderless = self.authority.leader().is_none();
        if !self.stands(ctx) || (A::ELECTION_PROPOSES && !leaderless) {
            return;
        }
        self.candidacy.start();
        if self.round.is_continuous() {
            return self.drive(ctx, Input::Command(Campaign), 0, out);
        }
        // Each attempt that gets stuck at a dead neighbour leaves one participant out, so this ends.
        loop {
            self.round.unstick();
            let attempt = self.authority.next_attempt(ctx);
            let round = Round { attempt, initiator: ctx.me.id, incarnation: self.incarnation().counter };
            self.enter(ctx, round, self.participants(ctx), out);
            self.drive(ctx, Input::Command(Campaign), 0, out);
            if self.round.stuck().is_none() || self.may_still_connect() {
                return;
            }
        }
    }

    /// The participants of a round of this member: those of the last round and all connected members, without members
    /// known to be down or not to stand. On a ring no member knows all: a member left out of one round stays out of the
    /// next. In a graph they are the members to which a path of links leads over participants.
    fn participants(&self, ctx: &Context<'_>) -> NodeSet {
        let takes_part = |at: FullPos| {
            let reachable = self.detector.is_up(at) || self.is_believed_up(ctx, at);
            at == self.at || (self.detector.stands(at) && !self.candidacy.passes_over(at) && reachable)
        };
        if ctx.view.topology() != Topology::Graph {
            return FullPos::all(ctx.view).filter(|&at| takes_part(at)).collect();
        }
        let distances = ctx.view.distances(self.at.0, |at| takes_part(FullPos(at)));
        FullPos::all(ctx.view).filter(|at| distances[at.0].is_some()).collect()
    }

    /// On a ring a member dials only its neighbours, so that "not connected" does not mean dead.
    fn is_believed_up(&self, ctx: &Context<'_>, at: FullPos) -> bool {
        let leads = self.authority.leader().is_some_and(|claim| claim.is_by(at.uid(ctx.view)));
        !self.detector.links_all() && (self.round.includes(at) || leads) && !self.detector.is_down(at)
    }

    /// Was the neighbour that this round is stuck at never reached, nor given up?
    fn may_still_connect(&self) -> bool {
        self.round.stuck().is_some_and(|at| self.detector.is_unknown(at))
    }

    fn enter(&mut self, ctx: &Context<'_>, round: Round, participants: NodeSet, out: &mut impl Outbox<Self>) {
        self.consult(ctx, AuthorityCommand::Saw(round.attempt), out);
        self.cancel_algorithm_timers(out);
        let decided = self.authority.decides(round.attempt);
        self.round.enter(ctx, round, participants, decided);
        self.carry_out_algorithm(ctx, out);
        let leader = self.authority.leader().and_then(|claim| FullPos::of(ctx.view, claim.uid.id));
        if leader.is_some_and(|at| !participants.contains(at)) && !decided {
            self.consult(ctx, AuthorityCommand::LeaderLeftOut, out);
        }
    }

    /// May a message of this round reach the machine? Joins the round if it is newer than the present one.
    pub(super) fn admit(
        &mut self,
        ctx: &Context<'_>,
        from: FullPos,
        round: Round,
        participants: NodeSet,
        out: &mut impl Outbox<Self>,
    ) -> bool {
        let listed = participants.contains(self.at) && participants.iter().all(|at| at.0 < ctx.view.len());
        if self.round.is_continuous() || !listed {
            return false;
        }
        if !self.authority.attempts().plausible(round.attempt.0) {
            self.leap_towards(ctx, round.attempt.0, out);
            return false;
        }
        let newer = self.round.round().filter(|&mine| round < mine);
        if let Some(mine) = newer.filter(|_| !self.round.is_decided()) {
            // Algorithms that wait for answers would take silence for a death.
            let participants = self.round.participants();
            let list = ctx.settings.list.stamp;
            out.send(from.id(ctx.view), Envelope::Join { round: mine, list, participants });
            return false;
        }
        if !self.stands(ctx) || !self.authority.admits(round.attempt) || newer.is_some() {
            // The sender does not know that its round is outdated, that a member leads, or that this member does not
            // stand.
            self.send_beat(ctx, from, false, out);
            return false;
        }
        if self.round.round().is_none_or(|mine| round > mine) {
            self.round.unstick();
            // The initiator of the round knows more about members that this member does not dial.
            for at in participants.iter() {
                if self.detector.is_down(at) && !self.detector.links(ctx.view).contains(at) {
                    self.detector.forget(at);
                }
            }
            self.enter(ctx, round, participants, out);
        }
        true
    }

    /// Leaves the present round for a newer one, as one more of its initiators.
    pub(super) fn join(
        &mut self,
        ctx: &Context<'_>,
        from: FullPos,
        round: Round,
        participants: NodeSet,
        out: &mut impl Outbox<Self>,
    ) {
        let newer = self.round.round().is_none_or(|mine| round > mine);
        if newer && self.admit(ctx, from, round, participants, out) {
            self.drive(ctx, Input::Command(Campaign), 0, out);
            self.get_unstuck(ctx, out);
        }
    }

    fn get_unstuck(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        if self.round.stuck().is_some() && self.candidacy.has_started() && !self.may_still_connect() {
            self.open(ctx, out);
        }
    }

    pub(super) fn deliver(
        &mut self,
        ctx: &Context<'_>,
        from: FullPos,
        (link, hops, message): (E::Link, u16, E::Message),
        out: &mut impl Outbox<Self>,
    ) {
        // The sender names the link; the round knows which member is at its far end.
        if self.round.far_end(ctx, link).is_some_and(|(sender, _)| sender == from) {
            self.drive(ctx, Input::Message { from: link, message }, hops, out);
            self.get_unstuck(ctx, out);
        }
    }

    /// Feeds the textbook machine and handles its announcements.
    pub(super) fn drive(&mut self, ctx: &Context<'_>, input: Input<E>, hops: u16, out: &mut impl Outbox<Self>) {
        let from = if let Input::Message { from, .. } = &input { Some(*from) } else { None };
        let sender = from.and_then(|link| self.round.far_end(ctx, link)).map(|(sender, _)| sender);
        self.round.step(ctx, input, hops);
        self.carry_out(ctx, sender, out);
    }

    /// A machine that runs in rounds is not told of failures: the round is replaced instead.
    pub(super) fn tell_algorithm(&mut self, ctx: &Context<'_>, at: FullPos, up: bool, out: &mut impl Outbox<Self>) {
        if self.round.is_continuous() {
            let peer = at.id(ctx.view);
            self.drive(ctx, if up { Input::PeerUp(peer) } else { Input::PeerDown(peer) }, 0, out);
        }
    }

    /// Wraps the machine's messages into envelopes and its timers into the member's. Its announcements are handled
    /// after all its other effects.
    pub(super) fn carry_out_algorithm(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        self.carry_out(ctx, None, out);
    }

    /// `sender`: of the message in hand.
    fn carry_out(&mut self, ctx: &Context<'_>, sender: Option<FullPos>, out: &mut impl Outbox<Self>) {
        let (mut outcome, mut unreachable) = (None, None);
        while let Some(effect) = self.round.next_effect() {
            match effect {
                Effect::Send { to, message, hops } => {
                    unreachable = self.post(ctx, to, message, hops, out).or(unreachable);
                }
                Effect::SetTimer(timer, after) => {
                    self.round.timer_set(timer);
                    out.set_timer(Timer::Algorithm(timer), after);
                }
                Effect::CancelTimer(timer) => {
                    if self.round.timer_gone(timer) {
                        out.cancel_timer(Timer::Algorithm(timer));
                    }
                }
                Effect::Persist(record) => {
                    self.round.keep(record);
                    out.persist(self.record());
                }
                Effect::Store(record) => {
                    self.round.keep(record.clone());
                    out.store(Record { algorithm: Some(record), ..self.record() });
                }
                Effect::Announce(announced) => outcome = Some(announced),
            }
        }
        if let Some(outcome) = outcome {
            self.outcome(ctx, outcome, sender, out);
        }
        // A mesh algorithm waits for answers anyway; on a ring no message gets past a missing link.
        if let Some(at) = unreachable
            && ctx.view.topology() != Topology::Mesh
            && !self.round.is_decided()
        {
            self.round.get_stuck(at);
        }
    }

    /// Sends a message of the algorithm. Returns the intended receiver if there is no connection to it.
    fn post(
        &mut self,
        ctx: &Context<'_>,
        to: E::Link,
        message: E::Message,
        hops: u16,
        out: &mut impl Outbox<Self>,
    ) -> Option<FullPos> {
        // No member removes the ids of dead members: the hop limit ends them.
        if usize::from(hops) > 2 * ctx.view.len() {
            return None;
        }
        let (there, link) = self.round.far_end(ctx, to)?;
        if !self.detector.is_up(there) {
            return Some(there);
        }
        let participants = self.round.participants();
        let envelope = match self.round.round() {
            Some(round) => Envelope::Round { round, list: ctx.settings.list.stamp, participants, link, hops, message },
            None => Envelope::Plain { link, hops, message },
        };
        out.send(there.id(ctx.view), envelope);
        None
    }

    /// The machine announced something; the authority decides what follows from it.
    fn outcome(&mut self, ctx: &Context<'_>, outcome: Outcome, sender: Option<FullPos>, out: &mut impl Outbox<Self>) {
        if outcome == Outcome::Won && !self.stands(ctx) {
            // It ceased to stand while it waited for the others.
            return self.round.give_up();
        }
        let (attempt, term) = (self.round.round().map(|round| round.attempt), self.round.machine().term());
        let command = match outcome {
            Outcome::Won => AuthorityCommand::Won { attempt, term },
            Outcome::Follow(winner) => {
                let at = winner.and_then(|winner| FullPos::of(ctx.view, winner.id));
                let reach = at.map_or(Reach::Down, |at| self.detector.reach(at, ctx.view));
                let via = sender.map(|sender| sender.id(ctx.view));
                AuthorityCommand::OtherWon { winner, reach, via, attempt, term }
            }
            Outcome::Halted => return self.consult(ctx, AuthorityCommand::Halted, out),
            // The watchdog opens the next round.
            Outcome::GaveUp => return,
        };
        // The heartbeat of an anonymous winner names it: until then the round continues, unless the winner must ask the
        // authority first. An algorithm that numbers its own attempts is never done.
        let winner = match outcome {
            Outcome::Follow(uid) => uid.and_then(|uid| FullPos::of(ctx.view, uid.id)),
            _ => Some(self.at),
        };
        if A::ELECTION_PROPOSES || outcome == Outcome::Won || (winner.is_some() && !self.round.is_continuous()) {
            self.round.give_up();
        }
        self.round.set_winner(winner);
        self.consult(ctx, command, out);
    }

    /// The winner of the last round has not come to lead in time: the next round leaves it out.
    pub(super) fn pass_over(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let winner = self.round.take_winner().filter(|&at| at != self.at && A::ELECTION_PROPOSES);
        let Some(winner) = winner else { return };
        self.candidacy.pass_over(winner);
        out.set_timer(Timer::Forgive, Span::exactly(FORGIVE));
        self.tell_algorithm(ctx, winner, false, out);
    }

    pub(super) fn forgive(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        for at in self.candidacy.take_passed_over().iter() {
            if self.detector.is_up(at) {
                self.tell_algorithm(ctx, at, true, out);
            }
        }
    }

    /// The first election begins when every member has been heard; a ring member hears only its neighbours. If a member
    /// follows a leader, a heartbeat will report that leader.
    pub(super) fn start_when_complete(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let waits_for_leader = self.candidacy.others_follow() && self.authority.leader().is_none();
        if self.candidacy.has_started() || waits_for_leader || !self.is_complete(ctx) {
            return;
        }
        if self.round.is_decided() {
            self.first_election(ctx, out);
        } else {
            // It takes part in an election that another member began; a second one would only give its winner a second
            // epoch. If the first one comes to nothing, the watchdog opens the next.
            self.candidacy.start();
            self.get_unstuck(ctx, out);
        }
    }

    fn is_complete(&self, ctx: &Context<'_>) -> bool {
        let n = ctx.view.len();
        let FullPos(at) = self.at;
        match ctx.view.topology() {
            // Voters settle at different times: an election before the best voter stands would only end in a handover.
            _ if A::ELECTION_PROPOSES => {
                self.stands(ctx) && self.detector.all_heard(FullPos::all(ctx.view)) && self.all_stand(ctx)
            }
            _ if self.detector.links_all() => self.detector.all_heard(FullPos::all(ctx.view)),
            Topology::Mesh => false,
            Topology::Ring => self.detector.all_heard([(at + 1) % n, (at + n - 1) % n].map(FullPos).into_iter()),
            Topology::Graph => self.detector.all_heard(ctx.view.neighbours(at).iter().map(|&at| FullPos(at as usize))),
        }
    }

    fn all_stand(&self, ctx: &Context<'_>) -> bool {
        let mut others = FullPos::all(ctx.view).filter(|&at| at != self.at);
        others.all(|at| self.detector.stands(at) || !ctx.settings.may_lead(at.id(ctx.view)))
    }

    pub(super) fn grace_over(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        self.candidacy.end_grace();
        let unsettled = ctx.settings.may_lead(ctx.me.id) && !self.authority.electable(ctx);
        if unsettled {
            out.set_timer(Timer::Grace, Span::exactly(ctx.settings.election.answer_timeout));
        } else if !self.candidacy.has_started() {
            self.first_election(ctx, out);
        }
    }

    fn first_election(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        self.candidacy.start();
        if self.authority.leader().is_none() {
            self.open(ctx, out);
        }
    }

    pub(super) fn cancel_algorithm_timers(&mut self, out: &mut impl Outbox<Self>) {
        for timer in self.round.take_timers() {
            out.cancel_timer(Timer::Algorithm(timer));
        }
    }
}
