//! The cluster's id: the voters agree on one random number, once. With it a volume knows which cluster it belongs to.
//!
//! Candidates cannot bring the id with their bids: two candidates of the first epoch would leave two ids on the disks,
//! and neither could be taken back. So the id is agreed on as Paxos does it, and the grant of an epoch is the promise of
//! the first phase. The leader of an epoch asks the voters that granted it which id they know, and a majority answers.
//! It proposes the id of the latest epoch among the answers, or a new one. When a majority has that id on disk, it is
//! agreed, and every later leader finds it among the answers of its own majority. A learner takes no part in it.
//!
//! Messages are repeated with every renewal until each voter has answered.

use algorithms::{Epoch, NodeId, Outbox, View};
use types::ClusterId;

use super::{ClusterMark, Holder, Msg, NamingMsg, Reign, is_majority};
use crate::messages::Context;
use crate::positions::{FullPos, NodeSet};

/// How far the leader of one epoch has come.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Naming {
    epoch: Epoch,
    /// Proposed to the voters; `None`: they are asked first.
    mark: Option<ClusterMark>,
    /// The latest id among the answers.
    best: Option<ClusterMark>,
    /// Voters that have answered the present question.
    answers: NodeSet,
}

impl Reign {
    /// The leader asks, proposes or tells, whichever comes next.
    pub(super) fn name_cluster(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let Some(epoch) = self.leads().filter(|_| ctx.settings.names_cluster) else { return };
        // A bid for a later epoch is under way: this voter has promised to accept nothing more in this one.
        if self.voter.epoch() != epoch {
            return;
        }
        if self.naming.is_none_or(|naming| naming.epoch != epoch) {
            let mark = self.voter.mark();
            let agreed = mark.filter(|mark| mark.agreed);
            let answers = FullPos::of(ctx.view, ctx.me.id).into_iter().collect();
            self.naming = Some(Naming { epoch, mark: agreed, best: mark, answers });
            self.proceed(ctx, out);
        }
        self.repeat(ctx, out);
    }

    /// To every voter that has not answered.
    fn repeat(&self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let Some(naming) = self.naming else { return };
        let (holder, epoch) = (self.me, naming.epoch);
        let message = match naming.mark {
            None => NamingMsg::Ask { holder, epoch },
            Some(mark) => NamingMsg::Propose { holder, epoch, mark },
        };
        let answered = |id| FullPos::of(ctx.view, id).is_some_and(|at| naming.answers.contains(at));
        for id in self.voter.list().voters().filter(|&id| id != ctx.me.id && !answered(id)) {
            out.send(id, Msg::Naming(message));
        }
    }

    /// Does a majority of the list in force have the agreed id on disk, where there is one?
    pub(super) fn is_named(&self, ctx: &Context<'_>) -> bool {
        let agreed = |naming: &Naming| naming.mark.is_some_and(|mark| mark.agreed);
        let force = self.proposal().map(|(force, _)| force);
        let has = |naming: &Naming| force.is_some_and(|force| is_majority(ctx, force, &naming.answers));
        !ctx.settings.names_cluster || self.naming.as_ref().is_some_and(|naming| agreed(naming) && has(naming))
    }

    /// The view has changed.
    pub(super) fn reseat_answers(&mut self, old: &View, new: &View) {
        if let Some(naming) = &mut self.naming {
            naming.answers = naming.answers.reseated(old, new);
        }
    }

    /// A voter that was away, or has lost its disk, is asked or told again.
    pub(super) fn forget_answer(&mut self, ctx: &Context<'_>, peer: NodeId) {
        if let (Some(naming), Some(at)) = (&mut self.naming, FullPos::of(ctx.view, peer)) {
            naming.answers.remove(at);
        }
    }

    pub(super) fn naming(&mut self, ctx: &Context<'_>, from: FullPos, message: NamingMsg, out: &mut impl Outbox<Self>) {
        let to = from.id(ctx.view);
        if !ctx.settings.names_cluster || !self.voter.list().votes(ctx.me.id) {
            return;
        }
        match message {
            NamingMsg::Ask { holder, epoch } if holder.id == to && self.has_granted(epoch, holder) => {
                let mark = self.voter.mark();
                out.send(to, Msg::Naming(NamingMsg::Answer { epoch, mark }));
            }
            NamingMsg::Propose { holder, epoch, mark } if holder.id == to && self.has_granted(epoch, holder) => {
                if self.voter.take(mark, out) {
                    out.send(to, Msg::Naming(NamingMsg::Accepted(mark)));
                }
            }
            NamingMsg::Answer { epoch, mark } => self.answered(ctx, from, epoch, mark, out),
            NamingMsg::Accepted(mark) => self.accepted(ctx, from, mark, out),
            // Another leader's epoch: this voter has promised to accept nothing in it.
            NamingMsg::Ask { .. } | NamingMsg::Propose { .. } => {}
        }
    }

    fn has_granted(&self, epoch: Epoch, to: Holder) -> bool {
        !self.voter.is_blank() && (self.voter.epoch(), self.voter.holder()) == (epoch, Some(to))
    }

    fn answered(
        &mut self,
        ctx: &Context<'_>,
        from: FullPos,
        epoch: Epoch,
        mark: Option<ClusterMark>,
        out: &mut impl Outbox<Self>,
    ) {
        let Some(naming) = self.naming.as_mut().filter(|naming| naming.epoch == epoch && naming.mark.is_none()) else {
            return;
        };
        naming.answers.insert(from);
        naming.best = naming.best.max(mark);
        if self.proceed(ctx, out) {
            self.repeat(ctx, out);
        }
    }

    fn accepted(&mut self, ctx: &Context<'_>, from: FullPos, mark: ClusterMark, out: &mut impl Outbox<Self>) {
        let Some(naming) = self.naming.as_mut().filter(|naming| naming.mark == Some(mark)) else { return };
        naming.answers.insert(from);
        if self.proceed(ctx, out) {
            self.repeat(ctx, out);
        }
    }

    /// True if a majority has answered, so that the next question begins.
    fn proceed(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) -> bool {
        let before = self.naming.and_then(|naming| naming.mark);
        while let Some(naming) = self.naming.filter(|naming| self.voter.epoch() == naming.epoch)
            && self.proposal().is_some_and(|(force, _)| is_majority(ctx, force, &naming.answers))
        {
            let epoch = naming.epoch;
            let mark = match naming.mark {
                Some(ClusterMark { agreed: true, .. }) => break,
                Some(mark) => ClusterMark { agreed: true, ..mark },
                None => {
                    let new =
                        || ClusterId::from_dice(ctx.dice, u64::from(ctx.me.id.0) ^ self.me.incarnation.counter << 32);
                    let agreed = naming.best.is_some_and(|best| best.agreed);
                    ClusterMark { id: naming.best.map_or_else(new, |best| best.id), epoch, agreed }
                }
            };
            if !self.voter.take(mark, out) {
                break;
            }
            let answers = FullPos::of(ctx.view, ctx.me.id).into_iter().collect();
            self.naming = Some(Naming { mark: Some(mark), answers, ..naming });
        }
        before != self.naming.and_then(|naming| naming.mark)
    }
}
