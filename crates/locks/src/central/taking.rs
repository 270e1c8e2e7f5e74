//! Taking office: the new leader learns what is held before it grants anything.
//!
//! The copies of a majority of the voters contain every lock that was ever granted and not released, because each was
//! granted after a majority had noted it. So the copy with the largest label among a majority becomes the table. Where too
//! many voters have lost their copies, the leader waits until every session of an earlier clerk has expired, and begins
//! with an empty table: never with a part of what was held.

use std::collections::BTreeMap;
use std::time::Duration;

use algorithms::NodeId;
use types::{Epoch, Incarnation};

use super::keeper::Copy;
use super::messages::{CentralMsg, Chunk, Label, Place, Term};
use super::shadow::{Shadow, Taken};
use super::table::Table;
use crate::wire::Unavailable;

/// As for links.
pub(super) const REPORTS_MAX: usize = 256;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Taking {
    pub(super) epoch: Epoch,
    /// The longest that a session of an earlier clerk may live.
    pub(super) wait: Duration,
    /// Nothing can be held: no epoch was granted before.
    pub(super) first: bool,
    /// What voters that granted this epoch have reported.
    reports: BTreeMap<NodeId, Header>,
    fetch: Option<Fetch>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Header {
    pub(super) life: Incarnation,
    pub(super) copy: Option<Label>,
}

/// The copy that becomes the table, on its way to this member.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Fetch {
    from: NodeId,
    header: Header,
    label: Label,
    shadow: Shadow,
}

/// What the leader does next.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Next {
    Wait,
    Send(NodeId, CentralMsg),
    /// The own copy, which has this label, is the table.
    Own,
    /// This is the table, and had this label.
    Table(Table, Label),
}

impl Taking {
    pub(super) fn new(epoch: Epoch, first: bool, wait: Duration) -> Self {
        Taking { epoch, wait, first, reports: BTreeMap::new(), fetch: None }
    }

    pub(super) fn into_reports(self) -> impl Iterator<Item = (NodeId, Header)> {
        self.reports.into_iter()
    }

    pub(super) fn report(&mut self, voter: NodeId, header: Header) {
        if self.reports.len() >= REPORTS_MAX && !self.reports.contains_key(&voter) {
            return;
        }
        // No copy has a label of this epoch, or of a later one, before its clerk has begun.
        let header = Header { copy: header.copy.filter(|label| label.epoch < self.epoch), ..header };
        self.reports.insert(voter, header);
        self.fetch.take_if(|fetch| fetch.from == voter && fetch.header != header);
    }

    /// The voter may have restarted: it reports anew when it is connected.
    pub(super) fn lose(&mut self, voter: NodeId) {
        self.reports.remove(&voter);
        self.fetch.take_if(|fetch| fetch.from == voter);
    }

    /// Why nothing is granted.
    pub(super) fn why(&self, me: NodeId, voters: &[NodeId]) -> Unavailable {
        let told = voters.iter().filter(|&&id| id == me || self.reports.contains_key(&id)).count();
        if 2 * told > voters.len() && self.fetch.is_none() {
            Unavailable::WaitingForTtl { left: self.wait }
        } else {
            Unavailable::TakingOffice
        }
    }

    pub(super) fn next(&mut self, me: NodeId, life: Incarnation, voters: &[NodeId], own: Option<&Copy>) -> Next {
        if self.fetch.is_some() {
            return Next::Wait;
        }
        let own = own.map(|copy| copy.label);
        let label = |id: &NodeId| if *id == me { own } else { self.reports.get(id)?.copy };
        let copies = voters.iter().filter(|id| label(id).is_some()).count();
        let Some(best) = voters.iter().filter_map(label).max().filter(|_| 2 * copies > voters.len()) else {
            return Next::Wait;
        };
        if own == Some(best) {
            return Next::Own;
        }
        let Some(&from) = voters.iter().find(|id| label(id) == Some(best)) else { return Next::Wait };
        let Some(&header) = self.reports.get(&from) else { return Next::Wait };
        self.fetch = Some(Fetch { from, header, label: best, shadow: Shadow::new(best.seq) });
        Next::Send(from, self.fetch_message(life, &header, best, None))
    }

    fn fetch_message(&self, life: Incarnation, header: &Header, label: Label, after: Option<Place>) -> CentralMsg {
        let term = Term { epoch: self.epoch, life };
        CentralMsg::Fetch { term, life: header.life, label, after }
    }

    /// A part of the copy that is being fetched.
    pub(super) fn fetched(
        &mut self,
        from: NodeId,
        life: Incarnation,
        (label, chunk): (Label, Chunk),
        room: usize,
    ) -> Next {
        let asked = |fetch: &mut Fetch| fetch.from == from && fetch.label == label;
        let Some(Fetch { header, shadow, .. }) = self.fetch.take_if(asked) else { return Next::Wait };
        match shadow.take(label.seq, chunk, room) {
            Taken::Whole(table) => Next::Table(table, label),
            Taken::Part(shadow, after) => {
                let message = self.fetch_message(life, &header, label, Some(after));
                self.fetch = Some(Fetch { from, header, label, shadow });
                Next::Send(from, message)
            }
            Taken::Nothing => {
                // What this voter sends is no table: it counts as a voter without a copy.
                self.reports.insert(from, Header { copy: None, ..header });
                Next::Wait
            }
        }
    }
}
