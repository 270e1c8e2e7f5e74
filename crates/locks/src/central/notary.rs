//! The clerk's side of the copies: which notes each voter has got and acknowledged, and what waits for a majority.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use algorithms::{NodeId, Outbox};

use super::keeper::Copy;
use super::messages::{BATCH_MAX, CentralMsg, Label, Note, Place, Term};
use super::{Central, Context};
use crate::wire::{RequestId, SendNumber, SessionId};

/// More voters than a list of members has: a bound on what members can make this one keep.
const LINKS_MAX: usize = 256;
/// Within a turn there may be more notes than are to be kept, by this part of them.
const SPARE_PART: usize = 16;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Notary {
    term: Term,
    /// The label that the table of this office had before: a voter with this label needs no table. `None`: the office began
    /// with an empty table.
    base: Option<Label>,
    /// The latest notes; the last one is the newest of the table.
    notes: VecDeque<Note>,
    links: BTreeMap<NodeId, Link>,
    /// Answers that wait until a majority has noted what they say, the earliest first.
    pending: VecDeque<Pending>,
    /// Which voters get notes when the turn ends.
    due: Due,
    /// The timer runs that sends notes which may wait.
    lazy: bool,
    /// The voter that was the first to acknowledge the newest note that any has acknowledged.
    fastest: Option<NodeId>,
    /// The number of the last note when the present voters came into force.
    since: u64,
    /// A majority of the present voters has acknowledged that note, so the voters may be changed.
    may_change: bool,
}

/// The voters that get the notes they lack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
enum Due {
    #[default]
    Nothing,
    /// As many as make a majority; the others get them later.
    Majority,
    All,
}

/// A voter that has granted this epoch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Link {
    /// Its copy is the table after this note of this epoch, or a later one.
    acked: Option<u64>,
    /// Every note up to this one was sent.
    sent: u64,
    install: Install,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Install {
    /// It has a whole table: notes are enough.
    Done,
    /// It gets the first part of the table when the turn ends.
    Due,
    /// It gets the part behind this place when the turn ends.
    Pulled(Place),
    /// It has a part and has not asked for the next one.
    Partly,
}

/// Waits for the acknowledgement of a note.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Pending {
    seq: u64,
    pub(super) answer: Answer,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Answer {
    Granted { session: SessionId, request: RequestId, number: Option<SendNumber> },
    Released { session: SessionId, request: RequestId },
}

impl Notary {
    pub(super) fn new(term: Term, base: Option<Label>) -> Self {
        Notary {
            term,
            base,
            notes: VecDeque::new(),
            links: BTreeMap::new(),
            pending: VecDeque::new(),
            due: Due::Nothing,
            lazy: false,
            fastest: None,
            since: 0,
            may_change: false,
        }
    }

    pub fn may_change(&self) -> bool {
        self.may_change
    }

    pub(super) fn owes(&self) -> bool {
        let wants = |link: &Link| matches!(link.install, Install::Due | Install::Pulled(_));
        self.links.values().any(wants) || (self.due != Due::Nothing && !self.links.is_empty())
    }

    /// Changes the table. A Remove may wait for the next Add; then the timer that this asks for sends it.
    pub(super) fn note(&mut self, ctx: &Context<'_>, copy: &mut Copy, note: Note) {
        if matches!(note, Note::Add(_)) {
            self.due = self.due.max(Due::Majority);
        }
        copy.table.apply(note.clone());
        copy.label.seq = copy.label.seq.saturating_add(1);
        self.notes.push_back(note);
        let kept = ctx.settings.limits.notes_kept;
        if self.notes.len() > kept + kept / SPARE_PART {
            self.trim(ctx, copy.label.seq);
        }
    }

    /// Forgets the oldest notes, and none that a voter has yet to get. At the end of a turn, and in it where they are too many by
    /// then.
    fn trim(&mut self, ctx: &Context<'_>, seq: u64) {
        // A voter that gets its first part of the table next needs no earlier notes.
        let follows = |link: &&Link| link.install != Install::Due;
        let unsent = self.links.values().filter(follows).map(|link| seq.saturating_sub(link.sent)).max().unwrap_or(0);
        let kept = unsent.max(ctx.settings.limits.notes_kept as u64);
        while self.notes.len() as u64 > kept {
            self.notes.pop_front();
        }
    }

    /// The voters that get notes as soon as there are any: as many as make a majority, the clerk included, and of those the
    /// ones that have acknowledged most, the fastest before its equals. `None`: all of them.
    fn first_voters(&self, ctx: &Context<'_>, voters: &[NodeId]) -> Option<Vec<NodeId>> {
        let needed = (voters.len() / 2 + 1).saturating_sub(usize::from(voters.contains(&ctx.me.id)));
        let rank = |&id: &NodeId| {
            let link = self.links.get(&id).filter(|link| link.install == Install::Done)?;
            Some((link.acked, self.fastest == Some(id), id))
        };
        let mut known: Vec<(Option<u64>, bool, NodeId)> = voters.iter().filter_map(rank).collect();
        if ctx.settings.spread.is_zero() || known.len() <= needed {
            return None;
        }
        known.sort_unstable_by(|one, other| other.cmp(one));
        Some(known.into_iter().take(needed).map(|(_, _, id)| id).collect())
    }

    /// Are there notes that no timer and no end of a turn would send?
    pub(super) fn start_waiting(&mut self, seq: u64) -> bool {
        let starts = !self.lazy && self.due == Due::Nothing && self.links.values().any(|link| link.sent < seq);
        self.lazy |= starts;
        starts
    }

    /// Notes have waited long enough.
    pub(super) fn hurry(&mut self) {
        self.lazy = false;
        self.due = Due::All;
    }

    /// This voter has granted the epoch and reports its copy.
    pub(super) fn report(&mut self, voter: NodeId, copy: Option<Label>, seq: u64) {
        if self.links.len() >= LINKS_MAX && !self.links.contains_key(&voter) {
            return;
        }
        // The first of the notes that are kept follows this one.
        let before = seq.saturating_sub(self.notes.len() as u64);
        let link = match copy {
            Some(label) if label.epoch == self.term.epoch && (before..=seq).contains(&label.seq) => {
                Link { acked: Some(label.seq), sent: label.seq, install: Install::Done }
            }
            _ => Link { acked: None, sent: 0, install: Install::Due },
        };
        if link.sent < seq {
            self.due = self.due.max(Due::Majority);
        }
        self.links.insert(voter, link);
    }

    /// A voter whose copy is the table of this office before its first note.
    pub(super) fn adopts(&mut self, voter: NodeId, copy: Option<Label>, seq: u64) -> Option<CentralMsg> {
        let base = self.base.filter(|_| copy == self.base && self.notes.len() as u64 >= seq)?;
        let link = self.links.get_mut(&voter)?;
        *link = Link { acked: None, sent: 0, install: Install::Done };
        Some(CentralMsg::Adopt { term: self.term, label: base })
    }

    pub(super) fn pulled(&mut self, voter: NodeId, after: Place) {
        if let Some(link) = self.links.get_mut(&voter).filter(|link| link.install == Install::Partly) {
            link.install = Install::Pulled(after);
        }
    }

    /// An acknowledgement of this epoch.
    pub(super) fn ack(&mut self, voter: NodeId, seq: u64, newest: u64) {
        let is_first = self.links.values().all(|link| link.acked < Some(seq));
        if is_first && seq <= newest && self.links.contains_key(&voter) {
            self.fastest = Some(voter);
        }
        if let Some(link) = self.links.get_mut(&voter).filter(|_| seq <= newest) {
            link.acked = link.acked.max(Some(seq));
        }
    }

    pub(super) fn lose(&mut self, voter: NodeId) {
        self.links.remove(&voter);
    }

    /// Other voters are in force. Grants of an earlier set were noted by a majority of that set. Two sets that follow each
    /// other have a voter in common in any two majorities, and the next set but one need not: so the voters may not be
    /// changed before a majority of this set has the table as it is now, or as it is at a later moment. Grants from now
    /// on are counted in this set.
    pub(super) fn recount(&mut self, seq: u64) {
        self.since = seq;
        self.may_change = false;
    }

    /// True if the voters may be changed now, and might not before.
    pub(super) fn allows_change(&mut self, committed: Option<u64>) -> bool {
        let allows = !self.may_change && committed.is_some_and(|seq| seq >= self.since);
        self.may_change |= allows;
        allows
    }

    /// The last note that a majority of the voters has acknowledged. The clerk's own table has them all.
    pub(super) fn committed(&self, me: NodeId, voters: &[NodeId], newest: u64) -> Option<u64> {
        let acked = |id: &NodeId| if *id == me { Some(newest) } else { self.links.get(id)?.acked };
        let is_noted = |seq: u64| 2 * voters.iter().filter(|id| acked(id).is_some_and(|has| has >= seq)).count();
        voters.iter().filter_map(acked).filter(|&seq| is_noted(seq) > voters.len()).max()
    }

    /// This answer waits until a majority has all notes up to now.
    pub(super) fn await_majority(&mut self, seq: u64, answer: Answer) {
        self.due = self.due.max(Due::Majority);
        self.await_note(seq, answer);
    }

    /// This answer waits until a majority has the notes up to this one, which were sent or are about to be.
    pub(super) fn await_note(&mut self, seq: u64, answer: Answer) {
        let before = self.pending.iter().rposition(|pending| pending.seq <= seq);
        self.pending.insert(before.map_or(0, |at| at + 1), Pending { seq, answer });
    }

    /// Has a majority of the voters noted all that the first answer waits for? What [`Notary::committed`] says of one note, for
    /// less: this is asked in every step.
    pub(super) fn has_answer(&self, me: NodeId, voters: &[NodeId]) -> bool {
        let Some(first) = self.pending.front() else { return false };
        let has = |id: &&NodeId| **id == me || self.links.get(id).is_some_and(|link| link.acked >= Some(first.seq));
        2 * voters.iter().filter(has).count() > voters.len()
    }

    pub(super) fn next_answer(&mut self, committed: Option<u64>) -> Option<Answer> {
        let noted = self.pending.front().is_some_and(|pending| committed.is_some_and(|seq| pending.seq <= seq));
        if noted { self.pending.pop_front().map(|pending| pending.answer) } else { None }
    }

    /// Sends what was collected: at most one batch of notes and one part of the table to each voter, unless there is more
    /// than one message takes. `barred`: these get nothing now.
    pub(super) fn turn_ends(
        &mut self,
        ctx: &Context<'_>,
        copy: &Copy,
        (voters, barred): (&[NodeId], &BTreeSet<NodeId>),
        out: &mut impl Outbox<Central>,
    ) {
        let (term, seq) = (self.term, copy.label.seq);
        let due = std::mem::take(&mut self.due);
        let first = if due == Due::Majority { self.first_voters(ctx, voters) } else { None };
        for (&voter, link) in self.links.iter_mut().filter(|(voter, _)| !barred.contains(voter)) {
            let after = match std::mem::replace(&mut link.install, Install::Partly) {
                Install::Due => {
                    link.sent = seq;
                    Some(None)
                }
                Install::Pulled(after) => Some(Some(after)),
                other => {
                    link.install = other;
                    None
                }
            };
            let may_wait = first.as_ref().is_some_and(|first| !first.contains(&voter)) && link.install == Install::Done;
            if (due != Due::Nothing && !may_wait) || after.is_some() {
                send_notes(term, &self.notes, seq, voter, link, out);
            }
            if let Some(after) = after {
                let chunk = copy.table.chunk(after);
                if chunk.last {
                    link.install = Install::Done;
                }
                out.send(voter, CentralMsg::Install { term, seq, chunk });
            }
        }
        self.trim(ctx, seq);
    }
}

fn send_notes(
    term: Term,
    notes: &VecDeque<Note>,
    seq: u64,
    voter: NodeId,
    link: &mut Link,
    out: &mut impl Outbox<Central>,
) {
    while link.sent < seq {
        let unsent = usize::try_from(seq - link.sent).unwrap_or(usize::MAX);
        let Some(at) = notes.len().checked_sub(unsent) else { return };
        let batch: Vec<Note> = notes.iter().skip(at).take(BATCH_MAX).cloned().collect();
        let first = link.sent + 1;
        link.sent += batch.len() as u64;
        out.send(voter, CentralMsg::Notes { term, first, notes: batch });
    }
}
