//! A voter's copy of the table, in memory only: it has none when its process starts.

use std::collections::BTreeSet;

use algorithms::{NodeId, Outbox};
use types::{Epoch, Incarnation};

use super::messages::{BATCH_MAX, CentralMsg, Chunk, Label, Note, Place, Term};
use super::shadow::{Shadow, Taken};
use super::table::Table;
use super::{Central, Context};
use crate::service::Grantee;

/// A table and the label of its state.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Copy {
    pub label: Label,
    pub table: Table,
}

/// What this voter keeps for the clerk. While this member is the clerk itself, `copy` is the clerk's table; it stays when
/// the office ends.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Keeper {
    granted: Option<(Epoch, Grantee)>,
    pub(super) copy: Option<Copy>,
    /// The table that is being installed.
    shadow: Option<Shadow>,
    /// The clerk gets an acknowledgement when the turn ends.
    owes_ack: bool,
    /// The clerk was told that its notes do not follow this copy, and has not sent what does.
    asked: bool,
    /// Connected members of an earlier build, which would take an heir for a holder: they see no table that has one.
    pub(super) without_heirs: BTreeSet<NodeId>,
}

impl Keeper {
    /// The last epoch granted, and to which process.
    pub fn granted(&self) -> Option<(Epoch, Grantee)> {
        self.granted
    }

    pub fn copy(&self) -> Option<&Copy> {
        self.copy.as_ref()
    }

    pub fn is_installing(&self) -> bool {
        self.shadow.is_some()
    }

    pub(super) fn label(&self) -> Option<Label> {
        self.copy.as_ref().map(|copy| copy.label)
    }

    pub(super) fn owes(&self) -> bool {
        self.owes_ack
    }

    /// This voter granted an epoch: nothing of an earlier clerk counts from now on, and the new one learns which copy is
    /// here.
    pub(super) fn grant(&mut self, ctx: &Context<'_>, epoch: Epoch, to: Grantee, out: &mut impl Outbox<Central>) {
        if self.granted != Some((epoch, to)) {
            self.granted = Some((epoch, to));
            self.shadow = None;
            self.owes_ack = false;
        }
        self.report(ctx, out);
    }

    /// This member leads in this epoch, so it has granted it to itself. False if it has granted a later one to another.
    pub(super) fn takes_office(&mut self, ctx: &Context<'_>, epoch: Epoch) -> bool {
        let me = Grantee { id: ctx.me.id, incarnation: ctx.settings.incarnation };
        let newer = self.granted.is_some_and(|(granted, to)| granted > epoch || (granted == epoch && to != me));
        if !newer {
            self.granted = Some((epoch, me));
            self.shadow = None;
            self.owes_ack = false;
        }
        !newer
    }

    /// The connection to this member is new.
    pub(super) fn peer_up(&mut self, ctx: &Context<'_>, peer: NodeId, out: &mut impl Outbox<Central>) {
        if self.granted.is_some_and(|(_, to)| to.id == peer) {
            self.report(ctx, out);
        }
    }

    /// What was installed over this connection is incomplete for ever.
    pub(super) fn peer_down(&mut self, peer: NodeId) {
        self.without_heirs.remove(&peer);
        if self.granted.is_some_and(|(_, to)| to.id == peer) {
            self.shadow = None;
            self.owes_ack = false;
        }
    }

    fn report(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Central>) {
        if let Some((epoch, to)) = self.granted.filter(|(_, to)| to.id != ctx.me.id) {
            self.asked = false;
            let copy = self.copy.as_ref().filter(|copy| self.may_see(to.id, copy)).map(|copy| copy.label);
            let life = ctx.settings.incarnation;
            out.send(to.id, CentralMsg::Report { epoch, life, copy });
        }
    }

    /// May this member have this copy? To one that may not, this member has none: then no lock is granted before all sessions
    /// have expired.
    fn may_see(&self, peer: NodeId, copy: &Copy) -> bool {
        !self.without_heirs.contains(&peer) || !copy.table.has_heirs()
    }

    /// Is this the clerk that was granted the last epoch?
    fn obeys(&self, ctx: &Context<'_>, from: NodeId, term: Term) -> bool {
        let clerk = Grantee { id: from, incarnation: term.life };
        from != ctx.me.id && self.granted == Some((term.epoch, clerk))
    }

    /// The copy is not what the clerk takes it for: the clerk is told, once.
    fn ask(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Central>) {
        if !self.asked {
            self.report(ctx, out);
            self.asked = true;
        }
    }

    /// The clerk's table is new here, or has changed.
    fn advanced(&mut self) {
        self.owes_ack = true;
        self.asked = false;
    }

    pub(super) fn adopt(
        &mut self,
        ctx: &Context<'_>,
        from: NodeId,
        (term, label): (Term, Label),
        out: &mut impl Outbox<Central>,
    ) {
        if !self.obeys(ctx, from, term) {
            return;
        }
        match &mut self.copy {
            Some(copy) if copy.label == label && label.epoch < term.epoch => {
                copy.label = Label { epoch: term.epoch, seq: 0 };
                self.shadow = None;
                self.advanced();
            }
            // Sent again, because this voter reported again before it knew of the first.
            Some(copy) if copy.label.epoch == term.epoch => {}
            _ => self.ask(ctx, out),
        }
    }

    pub(super) fn notes(
        &mut self,
        ctx: &Context<'_>,
        from: NodeId,
        (term, first, notes): (Term, u64, Vec<Note>),
        out: &mut impl Outbox<Central>,
    ) {
        if !self.obeys(ctx, from, term) || notes.len() > BATCH_MAX {
            return;
        }
        let room = ctx.settings.limits.requests;
        if let Some(shadow) = &mut self.shadow {
            if !shadow.follow(first, notes, room) {
                self.shadow = None;
                self.ask(ctx, out);
            }
            return;
        }
        let Some(copy) = self.copy.as_mut().filter(|copy| copy.label.epoch == term.epoch) else {
            return self.ask(ctx, out);
        };
        if follow(&mut copy.table, &mut copy.label.seq, (first, notes), room) {
            self.advanced();
        } else {
            self.ask(ctx, out);
        }
    }

    pub(super) fn install(
        &mut self,
        ctx: &Context<'_>,
        from: NodeId,
        (term, seq, chunk): (Term, u64, Chunk),
        out: &mut impl Outbox<Central>,
    ) {
        if !self.obeys(ctx, from, term) {
            return;
        }
        let shadow = if chunk.after.is_none() { Some(Shadow::new(seq)) } else { self.shadow.take() };
        match shadow.map(|shadow| shadow.take(seq, chunk, ctx.settings.limits.requests)) {
            Some(Taken::Whole(table)) => {
                self.shadow = None;
                self.copy = Some(Copy { label: Label { epoch: term.epoch, seq }, table });
                self.advanced();
            }
            Some(Taken::Part(shadow, after)) => {
                self.shadow = Some(shadow);
                self.asked = false;
                out.send(from, CentralMsg::Pull { epoch: term.epoch, after });
            }
            Some(Taken::Nothing) | None => {
                self.shadow = None;
                self.ask(ctx, out);
            }
        }
    }

    /// The leader wants the copy with this label.
    pub(super) fn fetch(
        &mut self,
        ctx: &Context<'_>,
        from: NodeId,
        (term, life, label, after): (Term, Incarnation, Label, Option<Place>),
        out: &mut impl Outbox<Central>,
    ) {
        if !self.obeys(ctx, from, term) {
            return;
        }
        let wanted = |copy: &&Copy| copy.label == label && life == ctx.settings.incarnation && self.may_see(from, copy);
        match self.copy.as_ref().filter(wanted) {
            Some(copy) => {
                let chunk = copy.table.chunk(after);
                out.send(from, CentralMsg::Fetched { epoch: term.epoch, label, chunk });
            }
            None => self.ask(ctx, out),
        }
    }

    /// One acknowledgement for everything that came in this turn.
    pub(super) fn turn_ends(&mut self, out: &mut impl Outbox<Central>) {
        if !std::mem::take(&mut self.owes_ack) {
            return;
        }
        if let (Some((epoch, to)), Some(label)) = (self.granted, self.label())
            && label.epoch == epoch
        {
            out.send(to.id, CentralMsg::Ack { epoch, seq: label.seq });
        }
    }
}

/// Applies the notes that follow note `seq`; the ones up to it were applied before. False if one is missing before the
/// first, or if the table has no room: then nothing was applied.
pub(super) fn follow(table: &mut Table, seq: &mut u64, (first, notes): (u64, Vec<Note>), room: usize) -> bool {
    let Some(known) = seq.checked_add(1).and_then(|next| next.checked_sub(first)) else { return false };
    if table.len().saturating_add(notes.len()) > room.saturating_add(BATCH_MAX) {
        return false;
    }
    for note in notes.into_iter().skip(usize::try_from(known).unwrap_or(usize::MAX)) {
        table.apply(note);
        *seq = seq.saturating_add(1);
    }
    true
}
