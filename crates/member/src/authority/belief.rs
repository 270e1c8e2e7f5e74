//! What every member knows of leadership under every authority: which leader it follows, which member reported that
//! leader, and the highest attempt seen.

use algorithms::{Epoch, NodeId};
use serde::{Deserialize, Serialize};

use super::Reach;
use crate::attempts::{Attempt, Attempts, Climb, Reservation};
use crate::messages::{Claim, Context, News};
use types::{Cause, Incarnation};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Belief {
    incarnation: Incarnation,
    attempts: Attempts,
    leader: Option<Claim>,
    /// The member that reported the leader: the leader itself, unless there is no connection to it.
    source: Option<NodeId>,
    /// The largest epoch followed.
    followed: Epoch,
    climb: Climb,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct BeliefRecord {
    pub incarnation: Incarnation,
    /// Every attempt below may have been used; a restart begins here.
    pub reserved_until: u64,
    /// The largest epoch followed.
    pub followed: Epoch,
}

/// What a heartbeat changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    Nothing,
    /// The leader leads no more.
    Lost(Cause),
    /// This leader is followed from now on, once the record is on the disk if its epoch is a new one.
    Follows {
        claim: Claim,
        new_epoch: bool,
    },
}

impl Belief {
    /// `incarnation`: of this process.
    pub fn start(ctx: &Context<'_>, incarnation: Incarnation, stored: BeliefRecord) -> Self {
        let attempts = Attempts::start(stored.reserved_until, ctx.view);
        let (followed, climb) = (stored.followed, Climb::from(stored.followed.0));
        Belief { incarnation, attempts, leader: None, source: None, followed, climb }
    }

    pub fn record(&self) -> BeliefRecord {
        let Belief { incarnation, followed, .. } = *self;
        BeliefRecord { incarnation, reserved_until: self.attempts.reserved(), followed }
    }

    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    pub fn attempts(&self) -> &Attempts {
        &self.attempts
    }

    /// If the answer is `Store` or `Persist`, the caller writes the record.
    #[must_use]
    pub fn see(&mut self, ctx: &Context<'_>, attempt: Attempt) -> Reservation {
        self.attempts.see(attempt, ctx.view)
    }

    /// Have the attempts or the epochs leapt in this lease?
    pub fn has_leapt(&self) -> bool {
        self.attempts.has_leapt() || self.climb.has_leapt(self.followed.0)
    }

    /// The time of a lease has passed since the last leap.
    pub fn may_leap(&mut self) {
        self.attempts.may_leap();
        self.climb = Climb::from(self.followed.0);
    }

    /// May a leader have this epoch, as far as the epochs tell that this member has followed?
    pub fn is_near(&self, epoch: Epoch) -> bool {
        self.followed > Epoch(0) && epoch.0 <= self.climb.reach()
    }

    /// This record is on the disk.
    pub fn stored(&mut self, record: BeliefRecord) {
        self.attempts.stored(record.reserved_until);
    }

    pub fn leader(&self) -> Option<Claim> {
        self.leader
    }

    pub fn source(&self) -> Option<NodeId> {
        self.source
    }

    pub fn followed(&self) -> Epoch {
        self.followed
    }

    pub fn leads(&self, ctx: &Context<'_>) -> bool {
        self.leader.is_some_and(|claim| claim.is_by(ctx.me))
    }

    /// Returns whether the epoch is a new one.
    pub fn follow(&mut self, claim: Claim, source: NodeId) -> bool {
        self.leader = Some(claim);
        self.source = Some(source);
        if self.followed == Epoch(0) {
            self.climb = Climb::first(claim.epoch.0);
        }
        let new = claim.epoch > self.followed;
        self.followed = self.followed.max(claim.epoch);
        new
    }

    /// Is this leader followed already? The priority with which it came to lead is the leader's own word.
    pub fn knows(&mut self, claim: Claim, from: NodeId) -> bool {
        let Some(mine) = self.leader.as_mut().filter(|mine| mine.is_same(claim)) else { return false };
        if claim.uid.id == from {
            *mine = claim;
        }
        true
    }

    pub fn drop_leader(&mut self) {
        self.leader = None;
        self.source = None;
    }

    /// Another member reported which leader it follows. Only for authorities with leases.
    pub fn hear(&mut self, ctx: &Context<'_>, from: NodeId, news: News, reach: Reach) -> Heard {
        if self.leads(ctx) {
            return Heard::Nothing;
        }
        let Some(claim) = news.leader else {
            let from_leader = self.leader.is_some_and(|claim| claim.uid.id == from);
            if !from_leader && self.source != Some(from) {
                return Heard::Nothing;
            }
            self.drop_leader();
            // Only the leader itself can resign: another member that reported it may have lost its connection to it.
            return Heard::Lost(if from_leader { Cause::LeaderResigned } else { Cause::LeaderLost });
        };
        // A report by the leader itself counts for more than a report by another member. Reports of reports could
        // circulate for ever.
        let of_itself = claim.uid.id == from;
        let hearsay = !of_itself && (reach == Reach::Connected || !news.firsthand);
        let known = ctx.view.contains(claim.uid.id) && !claim.is_by(ctx.me);
        if hearsay && self.source == Some(from) && reach != Reach::Connected {
            // Two members whose reports crossed while the leader died would follow it for ever, each by the other's word.
            self.drop_leader();
            return Heard::Lost(Cause::LeaderLost);
        }
        if hearsay || !known || claim.epoch < self.followed {
            return Heard::Nothing;
        }
        if self.knows(claim, from) {
            self.source = self.source.map(|source| if of_itself { from } else { source });
            return Heard::Nothing;
        }
        Heard::Follows { claim, new_epoch: self.follow(claim, from) }
    }
}
