//! The ring algorithm of the textbooks (Tanenbaum): the list of the living nodes travels in the message.
//!
//! Model: asynchronous unidirectional ring that all nodes know, unique ids, no failure inside an election.
//!
//! An initiator sends ELECTION with a list that holds its id; every node adds its own. Back at the origin the list
//! holds all members: the best of it is the leader, and COORDINATOR takes the list around once more.
//!
//! Messages: 2n per initiator; k initiators that start at once cost 2nk. All lists are rotations of each other, so
//! elections that run at the same time have the same result. A message holds up to n ids.
//!
//! Chosen where the sources are silent: the origin is the head of the list; a node drops a list that contains its id
//! but has another origin, because that list has passed a dead origin; a node passes on a COORDINATOR list without its
//! id, but asks for a new round.

use serde::{Deserialize, Serialize};

use crate::protocol::{Ctx, Election, MessageDriven, Outbox, Outcome};
use crate::view::Side;
use types::Uid;

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct RingList {
    began: bool,
    decided: bool,
}

/// The lists begin with their origin.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    Election(Vec<Uid>),
    Coordinator(Vec<Uid>),
}

kinds!(Msg { Election: election("election"), Coordinator: announcement("coordinator") });

impl MessageDriven for RingList {
    type Link = Side;
    type Message = Msg;

    fn begin(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if !self.began && !self.decided {
            self.began = true;
            out.send(Side::Right, Msg::Election(vec![ctx.me]));
        }
    }

    fn message(&mut self, ctx: &Ctx<'_>, _: Side, message: Msg, out: &mut impl Outbox<Self>) {
        match message {
            Msg::Election(list) => self.election(ctx, list, out),
            Msg::Coordinator(list) => {
                self.decide(ctx, &list, out);
                if list.first() != Some(&ctx.me) {
                    out.forward(Side::Right, Msg::Coordinator(list));
                }
            }
        }
    }
}

impl Election for RingList {}

impl RingList {
    fn election(&mut self, ctx: &Ctx<'_>, mut list: Vec<Uid>, out: &mut impl Outbox<Self>) {
        if list.first() == Some(&ctx.me) {
            self.decide(ctx, &list, out);
            out.send(Side::Right, Msg::Coordinator(list));
        } else if !list.contains(&ctx.me) {
            list.push(ctx.me);
            out.forward(Side::Right, Msg::Election(list));
        }
    }

    fn decide(&mut self, ctx: &Ctx<'_>, list: &[Uid], out: &mut impl Outbox<Self>) {
        if self.decided {
            return;
        }
        self.decided = true;
        let leader = ctx.wins().best(list.iter().copied());
        out.announce(match leader {
            _ if !list.contains(&ctx.me) => Outcome::GaveUp,
            Some(me) if me == ctx.me => Outcome::Won,
            leader => Outcome::Follow(leader),
        });
    }
}
