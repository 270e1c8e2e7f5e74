//! The "modified ring" taken literally: a bare id travels, and every node passes on the better of that id and its own.
//!
//! Model: asynchronous unidirectional ring, unique ids, n unknown, no failure inside an election.
//!
//! The source says: an initiator sends its id; each node forwards the greater of the received id and its own; "if the
//! received id equals that of the initial sender, it declares itself leader". The row `modified-ring` reads this with
//! an origin in the message. This row has no origin: a node that receives its *own* id has won, because only the best
//! id is never replaced. It is then Chang and Roberts with the substituting wake rule and without their flag: no id is
//! ever dropped on its way, so every initiator's token makes the journey to the best node and a whole lap from there.
//!
//! Messages: one initiator d + n, where d is the distance from it to the best node; m initiators that start at once the
//! sum of d + n over all of them (with suppression, in `modified-ring`, n·H_m on average); COORDINATOR adds n. For one
//! initiator the other reading needs n, without d.
//!
//! Chosen where the source is silent: the winner drops every token that reaches it after its decision, and a node that
//! knows the leader starts nothing.

use serde::{Deserialize, Serialize};

use crate::protocol::{Ctx, Election, MessageDriven, Outbox, Outcome};
use crate::view::Side;
use types::Uid;

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ModifiedRingLiteral {
    began: bool,
    decided: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    Elect(Uid),
    Coordinator(Uid),
}

kinds!(Msg { Elect: election("elect"), Coordinator: announcement("coordinator") });

impl MessageDriven for ModifiedRingLiteral {
    type Link = Side;
    type Message = Msg;

    fn begin(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if !self.began && !self.decided {
            self.began = true;
            out.send(Side::Right, Msg::Elect(ctx.me));
        }
    }

    #[inline]
    fn message(&mut self, ctx: &Ctx<'_>, _: Side, message: Msg, out: &mut impl Outbox<Self>) {
        match message {
            Msg::Elect(id) => self.elect(ctx, id, out),
            Msg::Coordinator(leader) => {
                if leader != ctx.me && !self.decided {
                    self.decided = true;
                    out.announce(Outcome::Follow(Some(leader)));
                    out.forward(Side::Right, Msg::Coordinator(leader));
                }
            }
        }
    }
}

impl Election for ModifiedRingLiteral {}

impl ModifiedRingLiteral {
    fn elect(&mut self, ctx: &Ctx<'_>, id: Uid, out: &mut impl Outbox<Self>) {
        if ctx.beats(id, ctx.me) {
            return out.forward(Side::Right, Msg::Elect(id));
        }
        if id == ctx.me {
            if !self.decided {
                self.decided = true;
                out.announce(Outcome::Won);
                out.send(Side::Right, Msg::Coordinator(ctx.me));
            }
        } else if !self.decided {
            // A new id on its first hop, as far as hop limits are concerned.
            out.send(Side::Right, Msg::Elect(ctx.me));
        }
    }
}
