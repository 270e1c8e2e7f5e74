//! Itai and Rodeh 1981: symmetry breaking in distributive networks. Election without ids.
//!
//! Model: asynchronous unidirectional ring, FIFO links, n known to all, *no ids*, private random numbers.
//!
//! No deterministic algorithm elects on an anonymous ring, since all nodes always do the same. So each active node
//! draws a number in 1..=n for the round and sends it around, as in Chang and Roberts. A token that has made n hops is
//! its sender's own; if no other node had the same number its sender has won, else the nodes with that number draw
//! again.
//!
//! Messages: random, at least 2n - 1; 7 expected for n = 2. Measured means with all nodes starting: 14.0 for n = 4, 32.3
//! for n = 8, 385 for n = 64, 1846 for n = 256, which is n·H_n (a round without ties) and 1.1 n to 1.4 n more for the
//! ties; 1.6 to 1.4 rounds. The announcement adds n. Always correct; terminates with probability 1.
//!
//! This machine never uses its own id, so followers do not know which node they follow. Chosen where the sources leave
//! room: the round number travels with the token (without it links must be FIFO for safety, not only for the count),
//! and the leader, which knows that it won, drops the announcement when it is back.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::protocol::{Ctx, Election, Features, MessageDriven, Outbox, Outcome};
use crate::view::Side;

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum ItaiRodeh {
    #[default]
    Asleep,
    Active {
        round: u32,
        number: u32,
    },
    Passive,
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    Token(Token),
    Announce,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Token {
    pub round: u32,
    pub number: u32,
    /// Hops made when it arrives: n means that it is the receiver's own token.
    pub hop: u32,
    pub unique: bool,
}

kinds!(Msg { Token: election("token"), Announce: announcement("announce") });

impl MessageDriven for ItaiRodeh {
    type Link = Side;
    type Message = Msg;

    fn begin(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if *self == ItaiRodeh::Asleep {
            self.draw(ctx, 1, out);
        }
    }

    #[inline]
    fn message(&mut self, ctx: &Ctx<'_>, _: Side, message: Msg, out: &mut impl Outbox<Self>) {
        match message {
            Msg::Token(token) => {
                self.begin(ctx, out);
                self.token(ctx, token, out);
            }
            Msg::Announce => {
                if *self != ItaiRodeh::Done {
                    *self = ItaiRodeh::Done;
                    out.announce(Outcome::Follow(None));
                    out.forward(Side::Right, Msg::Announce);
                }
            }
        }
    }
}

impl Election for ItaiRodeh {
    const FEATURES: Features = Features { chance_decides: true, ..Features::PLAIN };
}

impl ItaiRodeh {
    fn draw(&mut self, ctx: &Ctx<'_>, round: u32, out: &mut impl Outbox<Self>) {
        // The high word of a product is uniform over 0..n for any n, to within n / 2^64.
        let number = 1 + ((u128::from(ctx.dice) * ctx.view.len() as u128) >> 64) as u32;
        *self = ItaiRodeh::Active { round, number };
        out.send(Side::Right, Msg::Token(Token { round, number, hop: 1, unique: true }));
    }

    fn token(&mut self, ctx: &Ctx<'_>, token: Token, out: &mut impl Outbox<Self>) {
        let onward = Token { hop: token.hop.saturating_add(1), ..token };
        let ItaiRodeh::Active { round, number } = *self else {
            if *self == ItaiRodeh::Passive {
                out.forward(Side::Right, Msg::Token(onward));
            }
            return;
        };
        if token.hop as usize == ctx.view.len() {
            if !token.unique {
                return self.draw(ctx, round.saturating_add(1), out);
            }
            *self = ItaiRodeh::Done;
            out.announce(Outcome::Won);
            return out.send(Side::Right, Msg::Announce);
        }
        match (token.round, token.number).cmp(&(round, number)) {
            Ordering::Greater => {
                *self = ItaiRodeh::Passive;
                out.forward(Side::Right, Msg::Token(onward));
            }
            Ordering::Equal => out.forward(Side::Right, Msg::Token(Token { unique: false, ..onward })),
            Ordering::Less => {}
        }
    }
}
