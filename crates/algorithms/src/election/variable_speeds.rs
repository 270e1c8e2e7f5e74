//! VariableSpeeds: better tokens run faster (Frederickson and Lynch 1987).
//!
//! Model: synchronous unidirectional ring, n unknown, ids are small integers; nodes wake by themselves in any round,
//! and a node that receives a token before it woke is a relay.
//!
//! A token runs at full speed to the first node that is awake, and from there on needs 2^v rounds per hop, v being its
//! owner's number. A token ends at a node that a better token has visited. The best candidate's token completes its lap
//! before the other tokens, each half as fast as the next better, have made many hops.
//!
//! Messages: fewer than 3n if all start at once, at most 4n otherwise; LEADER adds n. Rounds to the election, all
//! starting at once: 1 + (n-1)·2^v, v the smallest number. Only candidates can win, not the relays.
//!
//! Chosen where the sources differ: a hop is delayed by 2^v - 1 rounds (not 2^(v-1), with which speeds are not powers of
//! two), and relays delay only tokens that have met a node awake. As published the lowest id wins; for the highest the
//! ids are counted down from it, and the highest has number 1. Numbers above a limit are refused: time is exponential.
//! The published form has no announcement: one lap of LEADER.

use serde::{Deserialize, Serialize};

use crate::election::numbers;
use crate::protocol::{Ctx, Next, Outcome, Rounds};
use crate::view::View;
use types::{Uid, Wins};

/// The largest number: 2^16 rounds per hop.
pub const LIMIT: u32 = 16;

/// The number of the best id when ids are counted down.
pub(crate) const FIRST: u32 = 1;

pub fn check(view: &View, wins: Wins) -> Result<(), String> {
    numbers::check(view, wins, FIRST, LIMIT)
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct VariableSpeeds {
    status: Status,
    /// The best token seen, the own one included.
    best: Option<Uid>,
    /// When the best token moves on. Only the best token may: all other tokens end here.
    due: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Status {
    Asleep,
    Awake,
    Relay,
    Done,
    /// Ids that this algorithm cannot count with.
    Refused,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    /// `slow`: it has met a node that was awake.
    Token {
        id: Uid,
        slow: bool,
    },
    Leader(Uid),
}

kinds!(Msg { Token: election("token"), Leader: announcement("leader") });

impl Rounds for VariableSpeeds {
    type Message = Msg;

    fn new(ctx: &Ctx<'_>) -> Self {
        let status = if check(ctx.view, ctx.wins()).is_ok() { Status::Asleep } else { Status::Refused };
        VariableSpeeds { status, best: None, due: None }
    }

    fn round(&mut self, ctx: &Ctx<'_>, r: u64, awake: bool, inbox: &[Msg], out: &mut Vec<Msg>) -> Next {
        if self.status == Status::Refused {
            self.status = Status::Done;
            return Next::Decided(Outcome::GaveUp);
        }
        if awake && self.status == Status::Asleep {
            self.status = Status::Awake;
            self.best = Some(ctx.me);
            out.push(Msg::Token { id: ctx.me, slow: false });
        }
        let mut decided = None;
        for &message in inbox {
            decided = decided.or(match message {
                Msg::Token { id, slow } => self.token(ctx, r, id, slow, out),
                Msg::Leader(x) => self.leader(x, out),
            });
        }
        if let (Some(due), Some(id)) = (self.due, self.best)
            && due <= r
        {
            self.due = None;
            out.push(Msg::Token { id, slow: true });
        }
        match decided {
            Some(outcome) => Next::Decided(outcome),
            None => Next::Quiet { until: self.due.unwrap_or(u64::MAX) },
        }
    }
}

impl VariableSpeeds {
    fn token(&mut self, ctx: &Ctx<'_>, r: u64, id: Uid, slow: bool, out: &mut Vec<Msg>) -> Option<Outcome> {
        if self.status == Status::Asleep {
            self.status = Status::Relay;
        }
        if self.status == Status::Awake && id == ctx.me {
            self.status = Status::Done;
            out.push(Msg::Leader(ctx.me));
            return Some(Outcome::Won);
        }
        if self.best.is_some_and(|best| !ctx.beats(id, best)) {
            return None;
        }
        self.best = Some(id);
        if slow || self.status == Status::Awake {
            let number = numbers::numbering(ctx.view.members(), ctx.wins(), FIRST)(id);
            let wait = 1_u64.checked_shl(number).unwrap_or(u64::MAX) - 1;
            self.due = Some(r.saturating_add(wait));
        } else {
            self.due = None;
            out.push(Msg::Token { id, slow });
        }
        None
    }

    fn leader(&mut self, x: Uid, out: &mut Vec<Msg>) -> Option<Outcome> {
        if self.status == Status::Done {
            return None;
        }
        self.status = Status::Done;
        out.push(Msg::Leader(x));
        Some(Outcome::Follow(Some(x)))
    }
}
