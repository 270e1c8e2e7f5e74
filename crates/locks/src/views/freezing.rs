//! What a participant does: it asks for its tenancy, stops its machines at Freeze and starts new ones at Thaw.

use std::collections::{BTreeMap, BTreeSet};

use algorithms::{Data, Mutex, Outbox, Span};
use types::NodeId;

use super::locks::machine_view;
use super::messages::{Condition, Holding, ViewId, ViewsMsg, in_parts};
use super::seat::{Answer, Phase};
use super::tenancy::{Fired, Turn};
use super::{Context, Msg, Views, ViewsTimer};
use crate::name::LockName;

/// A cluster has at most so many members.
const MEMBERS_MAX: usize = 256;

impl<M: Mutex> Views<M>
where
    M::Link: Data,
{
    /// Asks the leader of its view for the next tenancy; a member that is in no view of the leader asks to be let in.
    pub(super) fn beat(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let seated = self.seat.phase != Phase::Out;
        if let Some(leader) = self.leader
            && self.settled
            && leader != ctx.me.id
            && !(seated && leader == self.seat.leader)
        {
            let apart = self.missing(ctx.me.id);
            self.say(ctx, leader, ViewsMsg::Knock { apart }, out);
        }
        if seated {
            self.seated_beat(ctx, out);
        }
    }

    fn seated_beat(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let mut number = 0;
        if ctx.settings.quorum {
            let sent = self.tenancy.beat();
            number = sent.number;
            if let Some(turn) = sent.sets {
                out.set_timer(ViewsTimer::Tenancy(turn), Span::exactly(ctx.settings.promise()));
            }
        }
        let condition = Condition {
            runs: self.seat.phase == Phase::Runs,
            broken: self.seat.broken,
            apart: self.apart(ctx.me.id),
            full: self.full,
        };
        self.say(ctx, self.seat.leader, ViewsMsg::Beat { view: self.seat.view, number, condition }, out);
    }

    /// Clients wait for a beat that was not sent yet.
    pub(super) fn beat_if_due(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        if ctx.settings.quorum && self.seat.phase != Phase::Out && self.tenancy.is_due() {
            self.seated_beat(ctx, out);
        }
    }

    /// The other participants that it has no connection to.
    pub(super) fn apart(&self, me: NodeId) -> Vec<NodeId> {
        self.seat.set.iter().copied().filter(|&id| id != me && !self.up.contains(&id)).collect()
    }

    pub(super) fn acknowledged(
        &mut self,
        ctx: &Context<'_>,
        from: NodeId,
        view: ViewId,
        number: u64,
        out: &mut impl Outbox<Self>,
    ) {
        if self.seat.phase == Phase::Out || view != self.seat.view || from != self.seat.leader {
            return;
        }
        let Some(renewed) = self.tenancy.acknowledge(number) else { return };
        if let Some(turn) = renewed.cancels {
            out.cancel_timer(ViewsTimer::Tenancy(turn));
        }
        if renewed.begins {
            self.serve(ctx, out);
        }
        self.answer_waiting(out);
        if renewed.wants_more {
            self.seated_beat(ctx, out);
        }
    }

    pub(super) fn tenancy_fired(&mut self, ctx: &Context<'_>, turn: Turn, out: &mut impl Outbox<Self>) {
        match self.tenancy.fired(turn) {
            Fired::Lapsed => self.lapse(ctx, out),
            Fired::Abandoned => self.beat_if_due(ctx, out),
            Fired::Nothing => {}
        }
    }

    pub(super) fn freeze(
        &mut self,
        ctx: &Context<'_>,
        from: NodeId,
        view: ViewId,
        mut set: Vec<NodeId>,
        fresh: bool,
        out: &mut impl Outbox<Self>,
    ) {
        // Clients of the process before this one may still act, unless nothing was ever held.
        self.settled |= fresh;
        if !self.settled {
            return;
        }
        set.sort_unstable();
        set.dedup();
        if set.len() > MEMBERS_MAX || !set.contains(&ctx.me.id) || !set.contains(&from) {
            return;
        }
        match self.seat.answer(from, view) {
            Answer::No => return,
            Answer::Again => {}
            Answer::Stop => self.stop(ctx, from, view, set, out),
        }
        let held = self.locks.held();
        for (part, held, last) in in_parts(&held) {
            self.say(ctx, from, ViewsMsg::Frozen { view, part, held, last }, out);
        }
        if self.tenancy.is_pending() || !self.tenancy.runs() {
            self.seated_beat(ctx, out);
        }
    }

    fn stop(&mut self, ctx: &Context<'_>, leader: NodeId, view: ViewId, set: Vec<NodeId>, out: &mut impl Outbox<Self>) {
        for (number, timer) in self.locks.freeze() {
            out.cancel_timer(ViewsTimer::Machine(number, timer));
        }
        self.full = None;
        self.view = machine_view(M::topology(ctx.settings.machine), ctx.view, &set);
        self.seat.sit(view, leader, set, false);
        self.seat.broken = !self.apart(ctx.me.id).is_empty();
    }

    pub(super) fn thaw(
        &mut self,
        ctx: &Context<'_>,
        from: NodeId,
        view: ViewId,
        (part, holders, last): (u32, Vec<Holding>, bool),
        out: &mut impl Outbox<Self>,
    ) {
        if !self.seat.takes_thaw(from, view) {
            return;
        }
        let limit = ctx.settings.locks.limits.names.saturating_mul(self.seat.set.len());
        let Some(holders) = self.seat.thaw.take(part, holders, last, limit) else { return };
        self.seat.phase = Phase::Runs;
        if !ctx.settings.quorum && self.serves.is_none() {
            self.serve(ctx, out);
        }
        let mut by_name: BTreeMap<LockName, Vec<Holding>> = BTreeMap::new();
        for holding in holders.into_iter().filter(|holding| self.seat.set.contains(&holding.member)) {
            by_name.entry(holding.name.clone()).or_default().push(holding);
        }
        for (name, all) in &by_name {
            self.begin(ctx, name, all, out);
        }
        for name in self.locks.names() {
            self.lose_unless_held(ctx, &name, by_name.get(&name).map_or(&[], Vec::as_slice), out);
            self.attend(ctx, &name, out);
        }
        for early in std::mem::take(&mut self.seat.early) {
            self.in_view(ctx, early.from, early.message, out);
        }
    }

    /// Starts the machine of a lock that the view begins with.
    fn begin(&mut self, ctx: &Context<'_>, name: &LockName, all: &[Holding], out: &mut impl Outbox<Self>) {
        let Some(first) = all.first().map(|holding| holding.member) else { return };
        let readers: BTreeSet<NodeId> = all.iter().skip(1).map(|holding| holding.member).collect();
        let is_guest = readers.contains(&ctx.me.id);
        // The room for locks of the view is that of Thaw.
        let Some(lock) = self.locks.entry(name, usize::MAX) else { return };
        lock.begins = Some(first);
        if first == ctx.me.id {
            lock.guests = readers;
        } else if is_guest {
            lock.host = Some(first);
        }
        let leaves = is_guest && lock.inside.is_none();
        self.start_machine(ctx, name, out);
        if leaves {
            self.leave_host(ctx, name, out);
        }
    }

    /// What this member reported is in Thaw. If not, its clients must stop.
    fn lose_unless_held(&mut self, ctx: &Context<'_>, name: &LockName, all: &[Holding], out: &mut impl Outbox<Self>) {
        let Some(inside) = self.locks.get(name).and_then(|lock| lock.inside.as_ref()) else { return };
        let token = inside.token;
        if !all.iter().any(|holding| holding.member == ctx.me.id && holding.token == token) {
            self.lose(ctx, name, out);
        }
    }

    /// A message of a machine, or about one.
    pub(super) fn in_view(&mut self, ctx: &Context<'_>, from: NodeId, message: Msg<M>, out: &mut impl Outbox<Self>) {
        let view = match &message {
            ViewsMsg::InView { view, .. } | ViewsMsg::Wake { view, .. } | ViewsMsg::Left { view, .. } => *view,
            _ => return,
        };
        if view != self.seat.view || !self.seat.set.contains(&from) {
            return;
        }
        match self.seat.phase {
            Phase::Out => {}
            Phase::Frozen => self.seat.keep(from, message, ctx.settings.kept_messages),
            Phase::Runs => self.deliver(ctx, from, message, out),
        }
    }
}
