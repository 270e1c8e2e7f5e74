//! Hirschberg and Sinclair 1980, with explicit replies: FROM is answered by OK or NO.
//!
//! Model: asynchronous bidirectional ring, unique ids, n unknown, no failure inside an election.
//!
//! A candidate sends FROM over `maxnum` nodes each way. A node that beats it answers NO, the last node in range OK; two
//! OKs double `maxnum`. A node that saw a better FROM has lost and starts no further phase, even if its own replies are
//! good. The best id returns to its owner once `maxnum` reaches n.
//!
//! Messages: the refusals make it more expensive than the version without replies: at least 6n - 8 + 4·2^ceil(log2 n)
//! for n >= 2. The count depends on the schedule, since a passing better FROM may stop a candidate one phase early; it
//! is exact only if all messages take the same time and all start at once. The announcement adds n.
//!
//! Chosen where the sources are silent: a sleeping node wakes on FROM (else a better sleeper refuses the only candidate
//! and no node ever wins), the FROM that returns on both sides counts once, and the result is sent around clockwise.
//! `num` is incremented before the test, so FROM visits exactly `maxnum` nodes: 1, 2, 4, ...

use serde::{Deserialize, Serialize};

use crate::protocol::{Ctx, Election, MessageDriven, Outbox, Outcome};
use crate::view::Side;
use types::Uid;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HirschbergSinclairReply {
    status: Status,
    decided: bool,
    maxnum: u32,
    /// This phase's first reply: its side and whether it was OK.
    reply: Option<(Side, bool)>,
}

impl Default for HirschbergSinclairReply {
    fn default() -> Self {
        HirschbergSinclairReply { status: Status::Idle, decided: false, maxnum: 1, reply: None }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Status {
    Idle,
    Candidate,
    Lost,
    Won,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    From { value: Uid, num: u32, maxnum: u32 },
    Ok(Uid),
    No(Uid),
    Announce(Uid),
}

kinds!(Msg { From: election("from"), Ok: election("ok"), No: election("no"), Announce: announcement("announce") });

impl MessageDriven for HirschbergSinclairReply {
    type Link = Side;
    type Message = Msg;

    fn begin(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if self.status == Status::Idle {
            self.status = Status::Candidate;
            self.probe(ctx, out);
        }
    }

    #[inline]
    fn message(&mut self, ctx: &Ctx<'_>, from: Side, message: Msg, out: &mut impl Outbox<Self>) {
        match message {
            Msg::From { value, num, maxnum } => self.from(ctx, from, value, num, maxnum, out),
            Msg::Ok(value) => self.reply(ctx, from, value, true, out),
            Msg::No(value) => self.reply(ctx, from, value, false, out),
            Msg::Announce(x) => self.announced(x, out),
        }
    }
}

impl Election for HirschbergSinclairReply {}

impl HirschbergSinclairReply {
    fn probe(&self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let message = Msg::From { value: ctx.me, num: 0, maxnum: self.maxnum };
        out.send(Side::Left, message);
        out.send(Side::Right, message);
    }

    fn from(&mut self, ctx: &Ctx<'_>, side: Side, value: Uid, num: u32, maxnum: u32, out: &mut impl Outbox<Self>) {
        self.begin(ctx, out);
        if value == ctx.me {
            if self.status != Status::Won {
                self.status = Status::Won;
                self.decided = true;
                out.announce(Outcome::Won);
                out.send(Side::Right, Msg::Announce(ctx.me));
            }
        } else if ctx.beats(value, ctx.me) {
            self.status = Status::Lost;
            let num = num.saturating_add(1);
            if num < maxnum {
                out.forward(side.opposite(), Msg::From { value, num, maxnum });
            } else {
                out.send(side, Msg::Ok(value));
            }
        } else {
            out.send(side, Msg::No(value));
        }
    }

    fn reply(&mut self, ctx: &Ctx<'_>, side: Side, value: Uid, ok: bool, out: &mut impl Outbox<Self>) {
        if value != ctx.me {
            return out.forward(side.opposite(), if ok { Msg::Ok(value) } else { Msg::No(value) });
        }
        match self.reply {
            None => self.reply = Some((side, ok)),
            Some((first, _)) if first == side => {}
            Some((_, first_ok)) => {
                self.reply = None;
                if self.status != Status::Candidate {
                    return;
                }
                if ok && first_ok {
                    self.maxnum = self.maxnum.saturating_mul(2);
                    self.probe(ctx, out);
                } else {
                    self.status = Status::Lost;
                }
            }
        }
    }

    fn announced(&mut self, x: Uid, out: &mut impl Outbox<Self>) {
        if !self.decided {
            self.decided = true;
            out.announce(Outcome::Follow(Some(x)));
            out.forward(Side::Right, Msg::Announce(x));
        }
    }
}
