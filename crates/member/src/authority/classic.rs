//! Classic: the winner of the election leads, as in the papers. One leader per connected component.
//!
//! Of two claims the later epoch is followed, and every heartbeat carries the claim that its sender follows: a member
//! that was left out, restarted or returned from the other side of a cut learns the leader from the first heartbeat it
//! receives. A member that lost its leader follows no further claim of that attempt. A restarted member follows no
//! claim below any epoch that it may have seen, and the sitting leader moves its epoch past that without an election.
//!
//! An algorithm whose decisions have terms brings its own epochs: the term is the epoch, on disk before it is followed.

use algorithms::{Epoch, Features, Input, NodeId, Outbox, Protocol, Topology};
use serde::{Deserialize, Serialize};

use super::{Authority, AuthorityCommand, AuthorityEvent, Belief, BeliefRecord, Guarantee, Reach};
use crate::attempts::{Attempt, Reservation};
use crate::messages::{Claim, Context, News};
use crate::settings::Settings;
use types::Cause;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Classic {
    belief: Belief,
    election: Features,
    /// This member follows no claim below this epoch.
    min_epoch: Epoch,
    has_child: bool,
    /// This member resigns as soon as its children have stopped.
    resigning: bool,
    /// The member that it hands over to, where the election can do that.
    successor: Option<NodeId>,
}

/// Classic members exchange nothing but heartbeats and the algorithm's messages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Nothing {}

impl algorithms::Message for Nothing {
    const KINDS: &'static [algorithms::Kind] = &[];

    fn kind(&self) -> usize {
        match *self {}
    }
}

impl Protocol for Classic {
    type Link = NodeId;
    type Message = Nothing;
    type Timer = Nothing;
    type Command = AuthorityCommand;
    type Event = AuthorityEvent;
    type Durable = BeliefRecord;
    type Settings = Settings;

    fn start(ctx: &Context<'_>, stored: Option<BeliefRecord>, out: &mut impl Outbox<Self>) -> Self {
        let stored = stored.unwrap_or_default();
        let belief = Belief::start(ctx, stored.incarnation.next(ctx.dice), stored);
        let min_epoch = Epoch(belief.attempts().first().0);
        out.persist(belief.record());
        let election = Features::PLAIN;
        Classic { belief, election, min_epoch, has_child: false, resigning: false, successor: None }
    }

    fn step(&mut self, ctx: &Context<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(command) => self.command(ctx, &command, out),
            Input::Stored(record) => self.belief.stored(record),
            Input::Message { message, .. } => match message {},
            Input::Timer(timer) => match timer {},
            Input::PeerUp(_) | Input::PeerDown(_) => {}
        }
    }
}

impl Authority for Classic {
    const GUARANTEE: Guarantee = Guarantee::Component;

    fn belief(&self) -> &Belief {
        &self.belief
    }

    fn record(&self) -> BeliefRecord {
        self.belief.record()
    }

    fn epoch(&self) -> Epoch {
        if self.election.has_terms { self.belief.followed() } else { self.min_epoch }
    }

    fn news(&self, _: &Context<'_>) -> News {
        let next = if self.election.has_terms { Attempt(0) } else { Attempt(self.min_epoch.0) };
        News { next_attempt_min: next, leader: self.leader(), firsthand: false }
    }

    fn admits(&self, attempt: Attempt) -> bool {
        attempt.0 >= self.min_epoch.0
    }

    fn next_attempt(&self, ctx: &Context<'_>) -> Attempt {
        self.attempts().max_seen().next(ctx.view).max(Attempt::from(self.min_epoch.0, ctx.view))
    }

    fn decides(&self, attempt: Attempt) -> bool {
        self.leader().is_some_and(|claim| claim.epoch.0 >= attempt.0)
    }

    fn sends_heartbeats(&self, ctx: &Context<'_>) -> bool {
        ctx.view.topology() != Topology::Mesh || self.belief.leads(ctx)
    }
}

impl Classic {
    fn command(&mut self, ctx: &Context<'_>, command: &AuthorityCommand, out: &mut impl Outbox<Self>) {
        match *command {
            AuthorityCommand::Election(kind) => {
                self.election = kind;
                if kind.has_terms {
                    self.min_epoch = self.belief.followed();
                }
            }
            AuthorityCommand::Saw(attempt) => self.see(ctx, attempt, out),
            AuthorityCommand::MayLeap => self.belief.may_leap(),
            // The sitting leader has moved past this attempt without an election: it leads, and a better member takes
            // over later. A smaller epoch of the same attempt is another component's: the members of this round follow
            // the epoch of its winner.
            AuthorityCommand::Won { attempt: Some(attempt), .. }
                if self.leader().is_some_and(|claim| claim.epoch > attempt.epoch(ctx, ctx.me)) => {}
            AuthorityCommand::Won { attempt, term } => {
                self.win(ctx, attempt, term, Cause::Elected, out);
                out.announce(AuthorityEvent::TellAll);
            }
            AuthorityCommand::OtherWon { winner: Some(winner), reach, via, attempt, term } => {
                // An algorithm that numbers its own attempts has no epoch here: the winner's heartbeat brings it.
                if let Some(epoch) = term.or_else(|| attempt.map(|attempt| attempt.epoch(ctx, winner))) {
                    self.other_won(ctx, Claim { epoch, uid: winner }, (reach, via), attempt, out);
                }
            }
            AuthorityCommand::Heard { from, news, reach } => self.heard(ctx, from, news, reach, out),
            AuthorityCommand::Halted => self.drop_leader(ctx, Cause::Halted, out),
            AuthorityCommand::LeaderGone | AuthorityCommand::LeaderLeftOut => {
                self.drop_leader(ctx, Cause::LeaderLost, out);
            }
            AuthorityCommand::LeaderResigns => {
                self.drop_leader(ctx, Cause::LeaderResigned, out);
                if !self.election.continuous {
                    out.announce(AuthorityEvent::OpenElection);
                }
            }
            AuthorityCommand::TakeOver | AuthorityCommand::Reelect { .. } => {
                out.announce(AuthorityEvent::OpenElection);
            }
            AuthorityCommand::StepDown { successor } => {
                self.successor = successor.filter(|_| self.election.hands_over);
                self.step_down(ctx, out);
            }
            AuthorityCommand::Transfer(to) if self.election.hands_over => {
                self.successor = Some(to);
                self.step_down(ctx, out);
            }
            AuthorityCommand::Attached(attached) => {
                self.has_child = attached;
                if self.resigning {
                    self.step_down(ctx, out);
                }
            }
            // The heartbeat of an anonymous winner names it; the watchdog waits for that. A chosen successor needs a
            // lease, or an election that can hand over.
            AuthorityCommand::OtherWon { winner: None, .. }
            | AuthorityCommand::Transfer(_)
            | AuthorityCommand::Keep(_)
            | AuthorityCommand::Closed(_)
            | AuthorityCommand::Change(_)
            | AuthorityCommand::Bootstrap => {}
        }
    }

    /// Every number that is seen or used is below the number reserved on disk.
    fn see(&mut self, ctx: &Context<'_>, attempt: Attempt, out: &mut impl Outbox<Self>) {
        match self.belief.see(ctx, attempt) {
            Reservation::Enough => {}
            Reservation::Store => out.store(self.record()),
            Reservation::Persist => out.persist(self.record()),
        }
    }

    fn win(
        &mut self,
        ctx: &Context<'_>,
        attempt: Option<Attempt>,
        term: Option<Epoch>,
        cause: Cause,
        out: &mut impl Outbox<Self>,
    ) {
        let attempt = attempt.unwrap_or_else(|| self.next_attempt(ctx));
        let claim = Claim { epoch: term.unwrap_or_else(|| attempt.epoch(ctx, ctx.me)), uid: ctx.me };
        self.see(ctx, attempt, out);
        self.follow(ctx, claim, ctx.me.id, cause, out);
    }

    fn other_won(
        &mut self,
        ctx: &Context<'_>,
        claim: Claim,
        (reach, via): (Reach, Option<NodeId>),
        attempt: Option<Attempt>,
        out: &mut impl Outbox<Self>,
    ) {
        if reach == Reach::Down {
            // A machine that is never reset hears of the death itself, and elects again.
            if !self.election.continuous {
                out.announce(AuthorityEvent::OpenElection);
            }
            return;
        }
        if let Some(attempt) = attempt {
            self.see(ctx, attempt, out);
        }
        self.follow(ctx, claim, source(ctx, claim, reach, via), Cause::OtherElected, out);
    }

    fn follow(&mut self, ctx: &Context<'_>, claim: Claim, source: NodeId, cause: Cause, out: &mut impl Outbox<Self>) {
        if self.leader().is_some_and(|mine| mine.epoch > claim.epoch) {
            return;
        }
        // A term has one leader: the election itself may name it again after it was lost.
        if self.election.has_terms && claim.epoch < self.belief.followed() {
            return;
        }
        let new_epoch = self.belief.follow(claim, source);
        if self.election.has_terms {
            self.min_epoch = claim.epoch;
            if new_epoch {
                out.persist(self.record());
            }
        } else {
            self.min_epoch = self.min_epoch.max(Epoch(Attempt::of(claim.epoch, ctx.view).0));
        }
        self.resigning &= self.belief.leads(ctx);
        out.announce(AuthorityEvent::Follows { leader: Some(claim), cause });
    }

    /// A claim of a lost leader is not followed again: a member that has not noticed the loss may still repeat it.
    fn drop_leader(&mut self, ctx: &Context<'_>, cause: Cause, out: &mut impl Outbox<Self>) {
        self.resigning = false;
        if let Some(claim) = self.leader() {
            self.belief.drop_leader();
            let next = if self.election.has_terms {
                claim.epoch.next()
            } else {
                Epoch(Attempt::of(claim.epoch, ctx.view).next(ctx.view).0)
            };
            self.min_epoch = self.min_epoch.max(next);
        }
        out.announce(AuthorityEvent::Follows { leader: None, cause });
    }

    fn step_down(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        if !self.belief.leads(ctx) {
            return;
        }
        self.resigning = true;
        if self.has_child {
            return out.announce(AuthorityEvent::StopChildren);
        }
        if let Some(to) = self.successor.take() {
            // It leads until its successor has been elected.
            self.resigning = false;
            return out.announce(AuthorityEvent::HandOver(to));
        }
        out.announce(AuthorityEvent::ResetElection);
        self.drop_leader(ctx, Cause::SteppedDown, out);
    }

    fn heard(&mut self, ctx: &Context<'_>, from: NodeId, news: News, reach: Reach, out: &mut impl Outbox<Self>) {
        let before = (self.min_epoch, self.leader());
        self.raise_min(ctx, news.next_attempt_min, out);
        match news.leader {
            Some(claim) => self.heard_claim(ctx, from, claim, reach, out),
            // The sender follows no leader below its minimum, so an election that would end below it is started again.
            None => out.announce(AuthorityEvent::Outdated(Attempt(self.min_epoch.0))),
        }
        // A sender with a rival claim is no restarted member: two leaders would answer each other for ever.
        let rival = |claim: Claim| !claim.is_by(ctx.me) && self.leader().is_some_and(|mine| claim.epoch > mine.epoch);
        if !news.leader.is_some_and(rival) {
            self.bump(ctx, out);
        }
        if before != (self.min_epoch, self.leader()) {
            out.announce(AuthorityEvent::PassOn { except: from });
        }
    }

    fn raise_min(&mut self, ctx: &Context<'_>, attempt: Attempt, out: &mut impl Outbox<Self>) {
        if attempt.0 > self.min_epoch.0 && !self.election.has_terms {
            let attempt = Attempt::from(attempt.0, ctx.view);
            self.min_epoch = Epoch(attempt.0);
            self.see(ctx, attempt, out);
        }
    }

    fn heard_claim(
        &mut self,
        ctx: &Context<'_>,
        from: NodeId,
        claim: Claim,
        reach: Reach,
        out: &mut impl Outbox<Self>,
    ) {
        if claim.is_by(ctx.me) || self.belief.knows(claim, from) {
            return;
        }
        if self.leader().is_some_and(|mine| mine.epoch > claim.epoch) {
            // The sender follows an older claim: send it the newer one.
            return out.announce(AuthorityEvent::Tell(from));
        }
        let attempt = Attempt::of(claim.epoch, ctx.view);
        let known = ctx.view.contains(claim.uid.id);
        let its_own = self.election.has_terms || claim.epoch == attempt.epoch(ctx, claim.uid);
        if !known || !its_own || claim.epoch < self.min_epoch || reach == Reach::Down {
            return;
        }
        if reach == Reach::DownOnce {
            out.announce(AuthorityEvent::Forget(claim.uid.id));
        }
        if !self.election.has_terms {
            self.see(ctx, attempt, out);
        }
        let merges = self.election.continuous && !self.election.has_terms;
        if merges && self.belief.leads(ctx) && ctx.beats(ctx.me, claim.uid) {
            // Two coordinators met: the algorithm itself must merge their groups.
            return out.announce(AuthorityEvent::OpenElection);
        }
        out.announce(AuthorityEvent::Decided(attempt));
        self.follow(ctx, claim, source(ctx, claim, reach, Some(from)), Cause::Heard, out);
    }

    /// A restarted member begins above every epoch that it may have seen; its leader moves past that epoch.
    fn bump(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let behind = self.leader().is_some_and(|claim| claim.epoch < self.min_epoch);
        if self.belief.leads(ctx) && behind && !self.election.has_terms {
            let attempt = self.next_attempt(ctx);
            out.announce(AuthorityEvent::Decided(attempt));
            self.win(ctx, Some(attempt), None, Cause::Bumped, out);
            out.announce(AuthorityEvent::TellAll);
        }
    }
}

/// The member whose loss ends the belief in this leader: the leader itself. In a graph without a link to the leader it is
/// the neighbour that told of the leader: every member follows a claim after the neighbour that told it, so these members
/// form a tree with the leader as its root. If the leader cannot be reached any more, a member of the path to it is down,
/// and the next member on that path notices.
fn source(ctx: &Context<'_>, claim: Claim, reach: Reach, via: Option<NodeId>) -> NodeId {
    let told = via.filter(|_| ctx.view.topology() == Topology::Graph && reach != Reach::Connected);
    told.unwrap_or(claim.uid.id)
}
