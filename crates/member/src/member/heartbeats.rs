//! Heartbeats: each carries its sender's knowledge of elections and of the leader.

use algorithms::{Election, NodeId, Outbox, Topology};

use super::Member;
use crate::authority::{Authority, AuthorityCommand, Reach};
use crate::messages::{Beat, Context, Envelope};
use crate::positions::FullPos;

impl<E: Election, A: Authority> Member<E, A> {
    pub(super) fn beat(&mut self, ctx: &Context<'_>, from: FullPos, beat: Beat, out: &mut impl Outbox<Self>) {
        if !self.authority.plausible(&beat.news) {
            return self.leap_towards(ctx, self.authority.latest(&beat.news), out);
        }
        self.remember(ctx, from, beat);
        let stood = self.detector.stands(from);
        self.detector.heard(from, beat.incarnation, beat.stands);
        if stood != beat.stands {
            self.peer_stands(ctx, from, beat.stands, out);
        }
        if beat.news.leader.is_some() && !self.round.is_continuous() {
            self.candidacy.hear_of_leader();
        }
        let leader = beat.news.leader.and_then(|claim| FullPos::of(ctx.view, claim.uid.id));
        let reach = leader.map_or(Reach::Unknown, |at| self.detector.reach(at, ctx.view));
        let heard = AuthorityCommand::Heard { from: from.id(ctx.view), news: beat.news, reach };
        self.consult(ctx, heard, out);
        self.lose_path_to_leader(ctx, from, beat, out);
        self.hear_orders(ctx, from, beat, out);
        self.start_when_complete(ctx, out);
        if beat.ask {
            self.send_beat(ctx, from, false, out);
        }
    }

    /// The neighbour that told of the leader follows none any more. If it stands, it opens a round; if not, this member does.
    fn lose_path_to_leader(&mut self, ctx: &Context<'_>, from: FullPos, beat: Beat, out: &mut impl Outbox<Self>) {
        let told = self.authority.leader().is_some_and(|claim| claim.uid.id != from.id(ctx.view))
            && self.authority.source() == Some(from.id(ctx.view));
        if told && beat.news.leader.is_none() && !beat.stands && !self.detector.links_all() {
            self.consult(ctx, AuthorityCommand::LeaderGone, out);
            self.open(ctx, out);
        }
    }

    /// A number beyond one leap is not believed, but this member moves a leap towards it: it may have been away for long.
    pub(super) fn leap_towards(&mut self, ctx: &Context<'_>, number: u64, out: &mut impl Outbox<Self>) {
        if let Some(next) = self.authority.attempts().towards(number, ctx.view) {
            self.consult(ctx, AuthorityCommand::Saw(next), out);
        }
    }

    /// Counts restarts of the sender, and learns what the sender remembers of this member.
    fn remember(&mut self, ctx: &Context<'_>, from: FullPos, beat: Beat) {
        if self.preempts(ctx) {
            self.setbacks.restarted(from, self.detector.restarts(from, beat.incarnation));
            self.setbacks.told(self.at, beat.setbacks);
        }
    }

    /// A peer stepped down, or stands again. The algorithm sees a member that does not stand as down.
    fn peer_stands(&mut self, ctx: &Context<'_>, at: FullPos, stands: bool, out: &mut impl Outbox<Self>) {
        self.tell_algorithm(ctx, at, stands, out);
        if !stands && self.authority.leader().is_some_and(|claim| claim.is_by(at.uid(ctx.view))) {
            self.consult(ctx, AuthorityCommand::LeaderResigns, out);
        }
    }

    pub(super) fn send_beat(&self, ctx: &Context<'_>, to: FullPos, ask: bool, out: &mut impl Outbox<Self>) {
        if to != self.at && self.detector.is_up(to) {
            let (news, stands) = (self.authority.news(ctx), self.stands(ctx));
            let (incarnation, setbacks) = (self.incarnation().counter, self.setbacks.of(to));
            let mode = self.maintenance.mode();
            let hold = self.maintenance.hold().filter(|_| self.leads(ctx));
            let beat = Beat { news, stands, ask, incarnation, setbacks, priority: ctx.me.priority, mode, hold };
            out.send(to.id(ctx.view), Envelope::Beat(beat));
        }
    }

    pub(super) fn tell(&self, ctx: &Context<'_>, to: NodeId, out: &mut impl Outbox<Self>) {
        if let Some(at) = FullPos::of(ctx.view, to) {
            self.send_beat(ctx, at, false, out);
        }
    }

    /// To every connected member.
    pub(super) fn tell_all(&self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        for at in FullPos::all(ctx.view) {
            self.send_beat(ctx, at, false, out);
        }
    }

    /// The regular heartbeat: where all members are linked the leader asks every member, with every second heartbeat;
    /// elsewhere neighbours exchange heartbeats.
    pub(super) fn beat_watched(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let ask = self.detector.asks(self.leads(ctx), &ctx.settings.timing);
        for at in self.detector.watched().iter() {
            self.send_beat(ctx, at, ask, out);
        }
    }

    /// Where not every member hears the leader, news pass from neighbour to neighbour.
    pub(super) fn pass_on(&self, ctx: &Context<'_>, except: NodeId, out: &mut impl Outbox<Self>) {
        if ctx.view.topology() != Topology::Mesh {
            for at in self.detector.watched().iter().filter(|at| at.id(ctx.view) != except) {
                self.send_beat(ctx, at, false, out);
            }
        }
    }
}
