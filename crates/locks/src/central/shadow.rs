//! A table that arrives in parts while it changes: at a voter the clerk's table, at a new leader a voter's copy.
//!
//! Parts come in the order of the table. A note that comes between two parts is applied at once. For a place that has not
//! arrived yet that does no harm: the part that brings it has the change as well.

use super::keeper::follow;
use super::messages::{BATCH_MAX, Chunk, Note, Place};
use super::table::Table;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Shadow {
    /// The table is what it is after this note.
    seq: u64,
    /// Everything up to here has arrived.
    arrived: Option<Place>,
    table: Table,
}

/// What a part brings.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Taken {
    /// It does not follow what has arrived, is malformed, or there is no room for it.
    Nothing,
    /// More is to come, behind this place.
    Part(Shadow, Place),
    Whole(Table),
}

impl Shadow {
    pub(super) fn new(seq: u64) -> Self {
        Shadow { seq, arrived: None, table: Table::default() }
    }

    pub(super) fn take(mut self, seq: u64, chunk: Chunk, room: usize) -> Taken {
        let Chunk { after, entries, last } = chunk;
        let fits = entries.len() <= BATCH_MAX && self.table.len().saturating_add(entries.len()) <= room;
        if seq != self.seq || after != self.arrived || !fits {
            return Taken::Nothing;
        }
        for entry in entries {
            let place = entry.place();
            if self.arrived.as_ref().is_some_and(|arrived| *arrived >= place) {
                return Taken::Nothing;
            }
            self.table.add(entry);
            self.arrived = Some(place);
        }
        match self.arrived.clone().filter(|_| !last) {
            _ if last => Taken::Whole(self.table),
            // A part without entries would be asked for for ever.
            Some(arrived) if Some(&arrived) != after.as_ref() => Taken::Part(self, arrived),
            _ => Taken::Nothing,
        }
    }

    /// False if a note is missing.
    pub(super) fn follow(&mut self, first: u64, notes: Vec<Note>, room: usize) -> bool {
        follow(&mut self.table, &mut self.seq, (first, notes), room)
    }
}
