//! The table of holders: which sessions hold which locks. The clerk has one, and so has every voter that copies it.
//!
//! A lock that one session holds alone may have two entries. The entry with the smaller token is the holder's. The entry with
//! the larger token is that of the **heir**: the session that gets the lock next. When the holder's entry is removed, the heir is the holder.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use types::Token;

use super::messages::{BATCH_MAX, Chunk, Note, Place};
use crate::name::LockName;
use crate::wire::{Mode, RequestId, SessionId};

/// A session that holds a lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Holder {
    pub session: SessionId,
    pub request: RequestId,
    pub mode: Mode,
    /// Of the session.
    pub ttl: Duration,
}

/// One holder of one lock, or its heir.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Entry {
    pub name: LockName,
    pub token: Token,
    pub holder: Holder,
}

impl Entry {
    pub(super) fn place(&self) -> Place {
        Place { name: self.name.clone(), token: self.token }
    }
}

/// Ordered by name, then token, so that it can be sent in parts while it changes.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Table {
    holders: BTreeMap<Place, Holder>,
}

impl Table {
    pub fn len(&self) -> usize {
        self.holders.len()
    }

    pub fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Place, &Holder)> {
        self.holders.iter()
    }

    /// The holders of this lock, the smallest token first. Behind one that holds it alone there is at most its heir.
    pub fn holders(&self, name: &LockName) -> impl Iterator<Item = (Token, &Holder)> {
        let mut alone = false;
        self.entries(name).take_while(move |(_, holder)| {
            let before = alone;
            alone |= holder.mode == Mode::Exclusive;
            !before
        })
    }

    /// The holders of this lock and its heir, the smallest token first.
    pub fn entries(&self, name: &LockName) -> impl Iterator<Item = (Token, &Holder)> {
        let first = Place { name: name.clone(), token: Token(0) };
        let of_name = self.holders.range(first..).take_while(move |(place, _)| place.name == *name);
        of_name.map(|(place, holder)| (place.token, holder))
    }

    pub fn has_heirs(&self) -> bool {
        let mut entries = self.holders.iter().peekable();
        std::iter::from_fn(|| entries.next().map(|entry| (entry, entries.peek().copied()))).any(
            |((one, first), next)| first.mode == Mode::Exclusive && next.is_some_and(|(two, _)| two.name == one.name),
        )
    }

    /// The names of the locks that are held, in order, from this one on.
    pub fn names(&self, from: Option<&LockName>) -> impl Iterator<Item = &LockName> {
        use std::ops::Bound::{Included, Unbounded};
        let from = from.map(|name| Place { name: name.clone(), token: Token(0) });
        let entries = self.holders.range((from.map_or(Unbounded, Included), Unbounded));
        let mut last = None;
        entries.map(|(place, _)| &place.name).filter(move |&name| last.replace(name) != Some(name))
    }

    pub fn is_held(&self, name: &LockName) -> bool {
        self.entries(name).next().is_some()
    }

    pub fn get(&self, place: &Place) -> Option<&Holder> {
        self.holders.get(place)
    }

    pub(super) fn apply(&mut self, note: Note) {
        match note {
            Note::Add(entry) => self.add(entry),
            Note::Remove { name, token } => {
                self.holders.remove(&Place { name, token });
            }
        }
    }

    pub(super) fn add(&mut self, Entry { name, token, holder }: Entry) {
        self.holders.insert(Place { name, token }, holder);
    }

    /// The entries behind this place, as many as one message takes.
    pub(super) fn chunk(&self, after: Option<Place>) -> Chunk {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.as_ref().map_or(Unbounded, Excluded);
        let mut rest = self.holders.range((from, Unbounded));
        let entry = |(Place { name, token }, holder): (&Place, &Holder)| Entry {
            name: name.clone(),
            token: *token,
            holder: *holder,
        };
        let entries: Vec<Entry> = rest.by_ref().take(BATCH_MAX).map(entry).collect();
        let last = rest.next().is_none();
        Chunk { after, entries, last }
    }
}
