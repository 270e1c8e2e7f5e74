//! Mistakes with the token of a ring.

use algorithms::mutex::token_ring::Pass;
use algorithms::{Access, Input, Mutex, MutexSettings, Outbox, Protocol, Section, Side, Span, Stage, Token, Want};

use super::{Context, chosen};

/// Keeps the token after an exit and may enter again with it.
pub(crate) const KEEPS: u8 = 1;
/// Passes the token on when it enters, not when it leaves.
pub(crate) const PASSES_EARLY: u8 = 2;
/// Does not take the number of entries from the token.
pub(crate) const OWN_COUNT: u8 = 3;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ring {
    bug: u8,
    stage: Stage,
    here: bool,
    known: Token,
}

impl Protocol for Ring {
    type Link = Side;
    type Message = Pass;
    type Timer = ();
    type Command = Want;
    type Event = Section;
    type Durable = ();
    type Settings = MutexSettings;

    fn start(ctx: &Context<'_>, _: Option<()>, out: &mut impl Outbox<Self>) -> Self {
        let machine = Ring {
            bug: chosen(ctx),
            stage: Stage::at_start(ctx.me.id, ctx.settings),
            here: ctx.settings.holder.unwrap_or(ctx.view.members()[0].id) == ctx.me.id,
            known: ctx.settings.floor,
        };
        if machine.here && machine.stage == Stage::Released {
            Self::idle(ctx, out);
        }
        machine
    }

    fn step(&mut self, ctx: &Context<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Want::Request(access)) => self.ask(access, out),
            Input::Command(Want::Exit) => self.exit(ctx, out),
            Input::Message { message, .. } => self.message(ctx, message, out),
            Input::Timer(()) => self.pass(out),
            Input::PeerUp(_) | Input::PeerDown(_) | Input::Stored(()) => {}
        }
    }
}

impl Mutex for Ring {
    fn stage(&self) -> Stage {
        self.stage
    }
}

impl Ring {
    fn ask(&mut self, _: Access, out: &mut impl Outbox<Self>) {
        self.stage = Stage::Wanted;
        if self.here {
            out.cancel_timer(());
            self.enter(out);
        }
    }

    fn message(&mut self, ctx: &Context<'_>, message: Pass, out: &mut impl Outbox<Self>) {
        if self.bug != OWN_COUNT {
            self.known = self.known.max(message.0);
        }
        self.here = true;
        match self.stage {
            Stage::Wanted => self.enter(out),
            Stage::Released | Stage::Held => Self::idle(ctx, out),
        }
    }

    fn idle(ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        if ctx.view.len() > 1 {
            out.set_timer((), Span::exactly(ctx.settings.idle_hold));
        }
    }

    fn enter(&mut self, out: &mut impl Outbox<Self>) {
        self.stage = Stage::Held;
        self.known = Token(self.known.0 + 1);
        out.announce(Section::Enter(self.known));
        if self.bug == PASSES_EARLY {
            self.pass(out);
        }
    }

    fn exit(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        self.stage = Stage::Released;
        if self.bug == KEEPS {
            Self::idle(ctx, out);
        } else if self.here && ctx.view.len() > 1 {
            self.pass(out);
        }
    }

    fn pass(&mut self, out: &mut impl Outbox<Self>) {
        self.here = false;
        out.send(Side::Right, Pass(self.known));
    }
}
