//! Token ring (Le Lann 1977): the right to enter goes around.
//!
//! Model: unidirectional ring, reliable links, no failure.
//!
//! One token circulates. A member that wants to enter waits for it, keeps it while it is in its section and passes it
//! to its right neighbour when it leaves. It never enters twice with one visit of the token, else its neighbours could
//! wait for ever.
//!
//! Messages: 1 to N per entry. Where all members always want to enter, exactly 1: the token is in use at every stop.
//! Where one member alone enters and enters again, N: a whole lap for each entry. The token reaches a member that wants
//! it after 0 to N messages, and the next member that wants it 1 to N messages after a holder leaves. Members enter in
//! the order of the ring, not in the order of their requests.
//!
//! The paper's token moves for ever, wanted or not: N messages per idle lap. A driver can run that in three ways:
//! - `idle_hold` = 0: as in the paper. The run never rests, so the driver ends it when its requests are served. The
//!   state does not count laps: a model checker meets the same states again and ends.
//! - `idle_hold` > 0: a member that does not want the token keeps it for this time, then passes it on. A request while
//!   it is kept enters at once. This is how a live cluster runs it: an idle ring of N members sends one message per
//!   `idle_hold`, and a member may wait for N times `idle_hold`.
//! - A ring of one member never sends: the token stays.
//!
//! Pitfalls. A second token (a lost one replaced while its holder is only slow) breaks the exclusion: a machine that
//! has the token ignores another one, and a new view, not a timeout, replaces a lost one.

use serde::{Deserialize, Serialize};

use super::{Mutex, MutexSettings, Section, Stage, Want, learn, next};
use crate::protocol::{Ctx, Input, Kind, Message, Outbox, Protocol, Span};
use crate::view::Side;
use types::Token;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TokenRing {
    stage: Stage,
    /// The token is here.
    here: bool,
    /// The largest fencing token that it knows of.
    known: Token,
}

/// The token of the ring; it carries the largest fencing token that was taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Pass(pub Token);

impl Message for Pass {
    const KINDS: &'static [Kind] = &[Kind::election("token")];

    fn kind(&self) -> usize {
        0
    }
}

/// An idle token has been kept for `idle_hold`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Idle;

impl Protocol for TokenRing {
    type Link = Side;
    type Message = Pass;
    type Timer = Idle;
    type Command = Want;
    type Event = Section;
    type Durable = ();
    type Settings = MutexSettings;

    /// The token begins at the holder, or at the first member of the view.
    fn start(ctx: &Ctx<'_, MutexSettings>, _: Option<()>, out: &mut impl Outbox<Self>) -> Self {
        let first = ctx.view.members().first().map(|member| member.id);
        let mut machine = TokenRing {
            stage: Stage::at_start(ctx.me.id, ctx.settings),
            here: ctx.settings.holder.or(first) == Some(ctx.me.id),
            known: ctx.settings.floor,
        };
        if machine.here && machine.stage == Stage::Released {
            machine.idle(ctx, out);
        }
        machine
    }

    fn step(&mut self, ctx: &Ctx<'_, MutexSettings>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Want::Request(_)) if self.stage == Stage::Released => {
                self.stage = Stage::Wanted;
                if self.here {
                    out.cancel_timer(Idle);
                    self.enter(out);
                }
            }
            Input::Command(Want::Exit) if self.stage == Stage::Held => {
                self.stage = Stage::Released;
                self.pass(ctx, out);
            }
            Input::Message { from: Side::Left, message: Pass(token) } if !self.here => {
                learn(&mut self.known, token);
                self.here = true;
                match self.stage {
                    Stage::Wanted => self.enter(out),
                    Stage::Released | Stage::Held => self.idle(ctx, out),
                }
            }
            Input::Timer(Idle) if self.here && self.stage == Stage::Released => self.pass(ctx, out),
            _ => {}
        }
    }
}

impl Mutex for TokenRing {
    fn stage(&self) -> Stage {
        self.stage
    }
}

impl TokenRing {
    fn enter(&mut self, out: &mut impl Outbox<Self>) {
        self.stage = Stage::Held;
        out.announce(Section::Enter(next(&mut self.known)));
    }

    /// The token is here and not wanted.
    fn idle(&mut self, ctx: &Ctx<'_, MutexSettings>, out: &mut impl Outbox<Self>) {
        if ctx.view.len() < 2 {
            return;
        }
        if ctx.settings.idle_hold.is_zero() {
            self.pass(ctx, out);
        } else {
            out.set_timer(Idle, Span::exactly(ctx.settings.idle_hold));
        }
    }

    fn pass(&mut self, ctx: &Ctx<'_, MutexSettings>, out: &mut impl Outbox<Self>) {
        if ctx.view.len() > 1 {
            self.here = false;
            out.send(Side::Right, Pass(self.known));
        }
    }
}
