//! TimeSlice: time instead of messages (Lynch, Distributed Algorithms, section 3.6.1).
//!
//! Model: synchronous unidirectional ring, n known to all, ids are small integers, all begin in round 0.
//!
//! Phase v is the n rounds from v·n on, and belongs to number v alone: if its owner has received no token before, it
//! sends its token around in it. The first token is the smallest number's; it silences and informs all nodes on its
//! way.
//!
//! Messages: exactly n, and no announcement. Rounds: n(v+1), v being the smallest number; v·n of them are silent.
//! Phases and numbers count from 0, as in the sources; other books count them from 1 and then write v·n rounds, of which
//! (v-1)·n are silent.
//!
//! As published the lowest id wins. For the highest the ids are counted down from it. A round is spent per number and
//! node, so numbers above a limit are refused. A token that arrives in the round in which the receiver would send is
//! read first.

use serde::{Deserialize, Serialize};

use crate::election::numbers;
use crate::protocol::{Ctx, Kind, Message, Next, Outcome, Rounds};
use crate::view::View;
use types::{Uid, Wins};

/// The largest number: a larger one would keep the ring silent for too long.
pub const LIMIT: u32 = 4096;

/// The number of the best id when ids are counted down.
pub(crate) const FIRST: u32 = 0;

pub fn check(view: &View, wins: Wins) -> Result<(), String> {
    numbers::check(view, wins, FIRST, LIMIT)
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum TimeSlice {
    /// Nothing heard, nothing sent.
    Waiting {
        number: u32,
    },
    Sent,
    Done,
    /// Ids that this algorithm cannot count with.
    Refused,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Token(pub Uid);

impl Message for Token {
    const KINDS: &'static [Kind] = &[Kind::election("token")];

    fn kind(&self) -> usize {
        0
    }
}

const NOTHING: Next = Next::Quiet { until: u64::MAX };

impl Rounds for TimeSlice {
    type Message = Token;

    const ALL_START: bool = true;

    fn new(ctx: &Ctx<'_>) -> Self {
        match check(ctx.view, ctx.wins()) {
            Ok(()) => TimeSlice::Waiting { number: numbers::numbering(ctx.view.members(), ctx.wins(), FIRST)(ctx.me) },
            Err(_) => TimeSlice::Refused,
        }
    }

    /// The start is round 0 for all nodes, whichever node asked for the election: `awake` does not matter.
    fn round(&mut self, ctx: &Ctx<'_>, r: u64, _: bool, inbox: &[Token], out: &mut Vec<Token>) -> Next {
        if *self == TimeSlice::Refused {
            *self = TimeSlice::Done;
            return Next::Decided(Outcome::GaveUp);
        }
        if let (Some(&Token(u)), false) = (inbox.first(), *self == TimeSlice::Done) {
            *self = TimeSlice::Done;
            if u == ctx.me {
                return Next::Decided(Outcome::Won);
            }
            out.push(Token(u));
            return Next::Decided(Outcome::Follow(Some(u)));
        }
        let TimeSlice::Waiting { number } = *self else { return NOTHING };
        let mine = u64::from(number) * ctx.view.len() as u64;
        if r < mine {
            return Next::Quiet { until: mine };
        }
        *self = TimeSlice::Sent;
        out.push(Token(ctx.me));
        NOTHING
    }
}
