//! What the members of a view send each other, and how views and their tokens are numbered.

use std::fmt;

use algorithms::{Data, Kind, Message};
use serde::{Deserialize, Serialize};
use types::{Epoch, NodeId, Token};

use crate::name::LockName;
use crate::wire::Mode;

/// The most entries of one part of a list: with the longest names a tenth of the largest frame.
pub const PART_MAX: usize = 256;

/// The bits of a token below the number of its view: the counter of the machine.
const COUNTER_BITS: u32 = 16;

/// Names a view. A later epoch is a later view, whatever the numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct ViewId {
    pub epoch: Epoch,
    /// From 1 in each epoch.
    pub number: u32,
}

impl ViewId {
    /// The largest number of a view: 12 bits of a token.
    pub const NUMBER_MAX: u32 = (1 << 12) - 1;

    /// No token of this view is at or below this one; every token of an earlier view is.
    pub fn floor(self) -> Token {
        Token::new(self.epoch, self.number.min(Self::NUMBER_MAX) << COUNTER_BITS)
    }

    /// How many tokens a lock has used when it gives this one; `None` if the token is not of this view.
    pub fn count(self, token: Token) -> Option<u32> {
        let count = token.0.checked_sub(self.floor().0)?;
        u32::try_from(count).ok().filter(|&count| count > 0 && count < 1 << COUNTER_BITS)
    }
}

impl fmt::Display for ViewId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.number)
    }
}

/// A lock that clients of a member hold, as the member reports it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Kept {
    pub name: LockName,
    pub token: Token,
    pub mode: Mode,
}

/// A lock that a view begins with.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Holding {
    pub name: LockName,
    pub member: NodeId,
    pub token: Token,
}

/// What a member says of itself with every beat.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Condition {
    /// Does it run the machines of the view, or wait for Thaw?
    pub runs: bool,
    /// A connection to another participant broke since it answered Freeze, or was broken then: messages of its machines
    /// may be lost.
    pub broken: bool,
    /// The other participants that it has no connection to now.
    pub apart: Vec<NodeId>,
    /// It can name no further locks, or a lock has used its tokens up.
    pub full: Option<Full>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Full {
    /// A new view forgets the names that are not in use.
    Names,
    /// A lock needs tokens of the next epoch.
    Tokens,
}

/// `L` and `X`: link and message of the algorithm's machines.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum ViewsMsg<L, X> {
    /// Of a settled member that is in no view of this leader: "let me in". `apart`: the members that it has no connection
    /// to.
    Knock { apart: Vec<NodeId> },
    /// Of a participant that answered the Freeze of this view: asks the leader for a tenancy from the first time that it
    /// sent this number.
    Beat { view: ViewId, number: u64, condition: Condition },
    /// The leader's lease held when it had read this beat.
    BeatAck { view: ViewId, number: u64 },
    /// Of the leader: stop the machines of the view before, and say what is held. `fresh`: nothing was ever held before
    /// this view.
    Freeze { view: ViewId, set: Vec<NodeId>, fresh: bool },
    /// One part of the answer; part 0 begins it.
    Frozen { view: ViewId, part: u32, held: Vec<Kept>, last: bool },
    /// Of the leader, when all of the set have answered: start the machines of this view. One part; part 0 begins it.
    Thaw { view: ViewId, part: u32, holders: Vec<Holding>, last: bool },
    /// Of one machine to another. `link`: the receiver's name of the link.
    InView { view: ViewId, name: LockName, link: L, message: X },
    /// A machine waits at the sender and has asked nobody: run the machine of this lock.
    Wake { view: ViewId, name: LockName },
    /// A reader that was inside when the view began has left. Sent to the participant whose machine holds the lock.
    Left { view: ViewId, name: LockName },
}

impl<L, X> ViewsMsg<L, X> {
    /// The same with another message of the algorithm inside, if there is one inside.
    pub fn with_message<Y, E>(self, message: impl FnOnce(X) -> Result<Y, E>) -> Result<ViewsMsg<L, Y>, E> {
        Ok(match self {
            ViewsMsg::InView { view, name, link, message: inner } => {
                ViewsMsg::InView { view, name, link, message: message(inner)? }
            }
            ViewsMsg::Knock { apart } => ViewsMsg::Knock { apart },
            ViewsMsg::Beat { view, number, condition } => ViewsMsg::Beat { view, number, condition },
            ViewsMsg::BeatAck { view, number } => ViewsMsg::BeatAck { view, number },
            ViewsMsg::Freeze { view, set, fresh } => ViewsMsg::Freeze { view, set, fresh },
            ViewsMsg::Frozen { view, part, held, last } => ViewsMsg::Frozen { view, part, held, last },
            ViewsMsg::Thaw { view, part, holders, last } => ViewsMsg::Thaw { view, part, holders, last },
            ViewsMsg::Wake { view, name } => ViewsMsg::Wake { view, name },
            ViewsMsg::Left { view, name } => ViewsMsg::Left { view, name },
        })
    }
}

impl<L: Data, X: Data> Message for ViewsMsg<L, X> {
    const KINDS: &'static [Kind] = &[
        Kind::mutex("knock"),
        Kind::mutex("beat"),
        Kind::mutex("beat-ack"),
        Kind::mutex("freeze"),
        Kind::mutex("frozen"),
        Kind::mutex("thaw"),
        Kind::mutex("in-view"),
        Kind::mutex("wake"),
        Kind::mutex("left"),
    ];

    fn kind(&self) -> usize {
        match self {
            ViewsMsg::Knock { .. } => 0,
            ViewsMsg::Beat { .. } => 1,
            ViewsMsg::BeatAck { .. } => 2,
            ViewsMsg::Freeze { .. } => 3,
            ViewsMsg::Frozen { .. } => 4,
            ViewsMsg::Thaw { .. } => 5,
            ViewsMsg::InView { .. } => 6,
            ViewsMsg::Wake { .. } => 7,
            ViewsMsg::Left { .. } => 8,
        }
    }
}

/// A list that arrives in parts, in order. A part that does not follow the one before voids it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Parts<T> {
    next: u32,
    entries: Vec<T>,
}

impl<T> Default for Parts<T> {
    fn default() -> Self {
        Parts { next: 0, entries: Vec::new() }
    }
}

impl<T> Parts<T> {
    /// The whole list, once its last part is here. At most `limit` entries are kept.
    pub fn take(&mut self, part: u32, entries: Vec<T>, last: bool, limit: usize) -> Option<Vec<T>> {
        if part == 0 {
            *self = Parts::default();
        }
        if part != self.next || self.entries.len() + entries.len() > limit {
            *self = Parts { next: u32::MAX, entries: Vec::new() };
            return None;
        }
        self.next += 1;
        self.entries.extend(entries);
        last.then(|| std::mem::take(self).entries)
    }
}

/// The parts of a list, at least one: number, entries, whether it is the last.
pub fn in_parts<T: Clone>(entries: &[T]) -> impl Iterator<Item = (u32, Vec<T>, bool)> + '_ {
    let count = entries.len().div_ceil(PART_MAX).max(1);
    (0..count).map(move |at| {
        let from = at * PART_MAX;
        let to = (from + PART_MAX).min(entries.len());
        (at as u32, entries[from..to].to_vec(), at + 1 == count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(epoch: u64, number: u32) -> ViewId {
        ViewId { epoch: Epoch(epoch), number }
    }

    #[test]
    fn a_token_is_epoch_view_and_counter_and_later_views_have_larger_ones() {
        assert_eq!(view(7, 3).floor(), Token(7 << 28 | 3 << 16));
        assert_eq!(view(7, 3).count(Token(7 << 28 | 3 << 16 | 5)), Some(5));
        assert_eq!(view(7, 3).count(view(7, 3).floor()), None);
        assert_eq!(view(7, 3).count(view(7, 4).floor()), None);
        assert_eq!(view(7, 3).count(Token(view(7, 4).floor().0 - 1)), Some(65_535));
        assert!(view(7, ViewId::NUMBER_MAX).floor() < view(8, 1).floor());
        assert!(view(7, 9) < view(8, 1));
    }

    #[test]
    fn a_list_in_parts_is_whole_or_nothing() {
        let long: Vec<u32> = (0..=PART_MAX as u32 * 2).collect();
        let parts: Vec<_> = in_parts(&long).collect();
        assert_eq!(
            parts.iter().map(|(at, part, last)| (*at, part.len(), *last)).collect::<Vec<_>>(),
            [(0, PART_MAX, false), (1, PART_MAX, false), (2, 1, true)]
        );
        let mut all = Parts::default();
        let whole = parts.iter().find_map(|(at, part, last)| all.take(*at, part.clone(), *last, 10_000));
        assert_eq!(whole, Some(long));
        let mut gap = Parts::default();
        assert_eq!(gap.take(0, vec![1], false, 9), None);
        assert_eq!(gap.take(2, vec![3], true, 9), None);
        assert_eq!(gap.take(1, vec![2], true, 9), None, "a gap voids the list");
        assert_eq!(gap.take(0, vec![4], true, 9), Some(vec![4]));
        assert_eq!(gap.take(0, vec![4; 10], true, 9), None, "more than the limit");
        assert_eq!(in_parts::<u32>(&[]).collect::<Vec<_>>(), [(0, vec![], true)]);
    }
}
