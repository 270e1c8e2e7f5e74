//! What a leader does: it makes views, acknowledges beats while its lease holds, and notices who is silent.

use algorithms::{Data, Mutex, Outbox, Span};
use types::{Epoch, NodeId, Uid};

use super::messages::{Condition, Holding, Kept, ViewId, ViewsMsg, in_parts};
use super::office::{Office, Verdict};
use super::seat::Phase;
use super::{Context, Views, ViewsTimer};
use crate::service::ServiceEvent;

impl<M: Mutex> Views<M>
where
    M::Link: Data,
{
    /// The first view waits a tenancy for every member that does not answer.
    pub(super) fn office_began(&mut self, ctx: &Context<'_>, epoch: Epoch, first: bool, out: &mut impl Outbox<Self>) {
        if self.office.as_ref().is_some_and(|office| office.view.epoch == epoch) {
            return;
        }
        self.office_ended(out);
        self.leader = Some(ctx.me.id);
        let mut members = self.list.clone();
        // Participants of the last view that are no members any more may still act.
        members.extend(self.seat.set.iter().copied());
        members.insert(ctx.me.id);
        if ctx.settings.quorum {
            for &member in members.iter().filter(|&&member| member != ctx.me.id) {
                out.set_timer(ViewsTimer::Silence(member), Span::exactly(ctx.settings.tenancy));
            }
        }
        // Numbers of an epoch are used once.
        let used = if self.seat.view.epoch == epoch { self.seat.view.number } else { 0 };
        // No other process has ever led, and this one has made no view: nothing was ever held.
        let fresh = first && self.seat.phase == Phase::Out;
        self.office = Some(Office::new(ViewId { epoch, number: used }, fresh, members));
        self.new_view(ctx, out);
    }

    pub(super) fn office_ended(&mut self, out: &mut impl Outbox<Self>) {
        let Some(office) = self.office.take() else { return };
        for &member in office.members() {
            out.cancel_timer(ViewsTimer::Silence(member));
        }
        out.cancel_timer(ViewsTimer::Apart);
        if office.thawed {
            out.announce(ServiceEvent::VotersMayChange(false));
        }
    }

    fn new_view(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let Some(office) = &mut self.office else { return };
        if office.view.number >= ctx.settings.views.min(ViewId::NUMBER_MAX) {
            return self.new_epoch(out);
        }
        if office.thawed {
            out.announce(ServiceEvent::VotersMayChange(false));
        }
        out.cancel_timer(ViewsTimer::Apart);
        office.begin_view();
        self.freeze_again(ctx, out);
    }

    /// The daemon opens the next epoch of this leader, and an office begins in it.
    fn new_epoch(&mut self, out: &mut impl Outbox<Self>) {
        if let Some(office) = &mut self.office
            && !office.needs_epoch
        {
            office.needs_epoch = true;
            out.announce(ServiceEvent::NextEpoch);
        }
    }

    /// Sends Freeze to every participant that has not answered it.
    pub(super) fn freeze_again(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let Some(office) = &self.office else { return };
        let (view, fresh) = (office.view, office.fresh);
        let set: Vec<NodeId> = office.set.iter().copied().collect();
        for to in office.waits_for() {
            self.say(ctx, to, ViewsMsg::Freeze { view, set: set.clone(), fresh }, out);
        }
    }

    pub(super) fn frozen(
        &mut self,
        ctx: &Context<'_>,
        from: NodeId,
        view: ViewId,
        (part, held, last): (u32, Vec<Kept>, bool),
        out: &mut impl Outbox<Self>,
    ) {
        let Some(office) = &mut self.office else { return };
        if office.frozen(from, view, part, held, last, ctx.settings.locks.limits.names) {
            office.thaw();
            out.announce(ServiceEvent::VotersMayChange(true));
            let set = office.set.clone();
            for to in set {
                self.send_thaw(ctx, to, out);
            }
        }
    }

    fn send_thaw(&mut self, ctx: &Context<'_>, to: NodeId, out: &mut impl Outbox<Self>) {
        let Some(office) = &self.office else { return };
        let view = office.view;
        let parts: Vec<(u32, Vec<Holding>, bool)> = in_parts(&office.holders).collect();
        for (part, holders, last) in parts {
            self.say(ctx, to, ViewsMsg::Thaw { view, part, holders, last }, out);
        }
    }

    pub(super) fn knock(&mut self, ctx: &Context<'_>, from: NodeId, apart: &[NodeId], out: &mut impl Outbox<Self>) {
        let Some(office) = &mut self.office else { return };
        let verdict = office.let_in(from, apart);
        self.follow(ctx, from, verdict, out);
    }

    pub(super) fn beat_of(
        &mut self,
        ctx: &Context<'_>,
        from: NodeId,
        view: ViewId,
        number: u64,
        condition: &Condition,
        out: &mut impl Outbox<Self>,
    ) {
        let Some(office) = &mut self.office else { return };
        let verdict = office.beat(from, view, number, condition);
        self.follow(ctx, from, verdict, out);
    }

    fn follow(&mut self, ctx: &Context<'_>, from: NodeId, verdict: Verdict, out: &mut impl Outbox<Self>) {
        match verdict {
            Verdict::Nothing => {}
            Verdict::NewView => {
                if ctx.settings.quorum && from != ctx.me.id {
                    self.expects(ctx, from, out);
                }
                self.new_view(ctx, out);
            }
            Verdict::NewEpoch => self.new_epoch(out),
            Verdict::ThawAgain => self.send_thaw(ctx, from, out),
            Verdict::Apart => {
                if ctx.settings.quorum {
                    out.set_timer(ViewsTimer::Apart, Span::exactly(ctx.settings.tenancy / 2));
                }
            }
        }
    }

    /// A member that joins the view and then answers nothing leaves it after a tenancy.
    fn expects(&mut self, ctx: &Context<'_>, member: NodeId, out: &mut impl Outbox<Self>) {
        let in_view = self.office.as_ref().is_some_and(|office| office.set.contains(&member));
        if !in_view {
            out.set_timer(ViewsTimer::Silence(member), Span::exactly(ctx.settings.tenancy));
        }
    }

    /// The clock was read, and the lease holds: the beats that were read before are acknowledged, those of this member
    /// too.
    pub(super) fn lease_holds(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let Some(office) = &mut self.office else { return };
        let (view, owed) = (office.view, office.take_owed());
        for (to, number) in owed.into_iter().filter(|_| ctx.settings.quorum) {
            if to != ctx.me.id {
                out.set_timer(ViewsTimer::Silence(to), Span::exactly(ctx.settings.tenancy));
            }
            self.say(ctx, to, ViewsMsg::BeatAck { view, number }, out);
        }
    }

    pub(super) fn silent(&mut self, ctx: &Context<'_>, member: NodeId, out: &mut impl Outbox<Self>) {
        let Some(office) = &mut self.office else { return };
        if office.silent(member, &self.list) {
            self.new_view(ctx, out);
        }
    }

    pub(super) fn stayed_apart(&mut self, ctx: &Context<'_>) {
        let Some(office) = &mut self.office else { return };
        office.drop_apart(ctx.me.id, |id| ctx.view.uid(id).unwrap_or(Uid::plain(id.0)));
    }

    pub(super) fn voters(&mut self, ctx: &Context<'_>, voters: &[NodeId]) {
        self.list = voters.iter().copied().collect();
        if let Some(office) = &mut self.office {
            office.list(&self.list, ctx.me.id);
        }
    }
}
