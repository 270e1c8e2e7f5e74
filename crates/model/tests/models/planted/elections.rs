//! Copies of elections, each with one known mistake.

use std::collections::BTreeSet;

use algorithms::{
    Campaign, Ctx, Election, Input, Kind, Message, NodeId, Outbox, Outcome, Protocol, Settings, Side, Span, Uid,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub(crate) enum Msg {
    Id(Uid),
    Leader(Uid),
}

impl Message for Msg {
    const KINDS: &'static [Kind] = &[Kind::election("id"), Kind::announcement("leader")];

    fn kind(&self) -> usize {
        usize::from(matches!(self, Msg::Leader(_)))
    }
}

/// A machine on a unidirectional ring: what differs is what it does with an id and with the news of a leader.
macro_rules! ring_election {
    ($machine:ident, $fresh:expr) => {
        impl Protocol for $machine {
            type Link = Side;
            type Message = Msg;
            type Timer = ();
            type Command = Campaign;
            type Event = Outcome;
            type Durable = ();
            type Settings = Settings;

            fn start(_: &Ctx<'_>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
                $fresh
            }

            fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
                match input {
                    Input::Command(Campaign) => self.join(ctx, out),
                    Input::Message { message: Msg::Id(id), .. } => self.id(ctx, id, out),
                    Input::Message { message: Msg::Leader(leader), .. } => self.leader(ctx, leader, out),
                    _ => {}
                }
            }
        }

        impl Election for $machine {}
    };
}

/// Chang and Roberts: the winner clears `participant` and remembers nothing else.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NoLatchRing {
    participant: bool,
}

ring_election!(NoLatchRing, NoLatchRing { participant: false });

impl NoLatchRing {
    fn join(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if !self.participant {
            self.participant = true;
            out.send(Side::Right, Msg::Id(ctx.me));
        }
    }

    fn id(&mut self, ctx: &Ctx<'_>, id: Uid, out: &mut impl Outbox<Self>) {
        if id == ctx.me {
            self.participant = false;
            out.announce(Outcome::Won);
            return out.send(Side::Right, Msg::Leader(ctx.me));
        }
        self.join(ctx, out);
        if ctx.beats(id, ctx.me) {
            out.forward(Side::Right, Msg::Id(id));
        }
    }

    fn leader(&mut self, ctx: &Ctx<'_>, leader: Uid, out: &mut impl Outbox<Self>) {
        if leader != ctx.me {
            self.participant = false;
            out.announce(Outcome::Follow(Some(leader)));
            out.forward(Side::Right, Msg::Leader(leader));
        }
    }
}

/// Le Lann: a node woken by an id passes it on before it sends its own.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct OwnIdLast {
    list: BTreeSet<Uid>,
    done: bool,
}

ring_election!(OwnIdLast, OwnIdLast { list: BTreeSet::new(), done: false });

impl OwnIdLast {
    fn join(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if self.list.insert(ctx.me) {
            out.send(Side::Right, Msg::Id(ctx.me));
        }
    }

    fn id(&mut self, ctx: &Ctx<'_>, id: Uid, out: &mut impl Outbox<Self>) {
        if id != ctx.me {
            out.forward(Side::Right, Msg::Id(id));
            self.join(ctx, out);
            self.list.insert(id);
        } else if !self.done {
            self.done = true;
            let best = ctx.wins().best(self.list.iter().copied());
            out.announce(if best == Some(ctx.me) { Outcome::Won } else { Outcome::Follow(best) });
        }
    }

    #[expect(clippy::unused_self, reason = "this algorithm announces nothing")]
    fn leader(&mut self, _: &Ctx<'_>, _: Uid, _: &mut impl Outbox<Self>) {}
}

/// Peterson with the second message of Dolev, Klawe and Rodeh, but still the test on the initial id.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum SecondMessageWrong {
    Idle,
    First(Uid),
    Second(Uid, Uid),
    Relay,
    Halt,
}

ring_election!(SecondMessageWrong, SecondMessageWrong::Idle);

impl SecondMessageWrong {
    fn join(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if *self == SecondMessageWrong::Idle {
            *self = SecondMessageWrong::First(ctx.me);
            out.send(Side::Right, Msg::Id(ctx.me));
        }
    }

    fn id(&mut self, ctx: &Ctx<'_>, id: Uid, out: &mut impl Outbox<Self>) {
        self.join(ctx, out);
        if id == ctx.me && *self != SecondMessageWrong::Halt {
            *self = SecondMessageWrong::Halt;
            out.announce(Outcome::Won);
            return out.send(Side::Right, Msg::Leader(ctx.me));
        }
        match *self {
            SecondMessageWrong::First(tid) => {
                *self = SecondMessageWrong::Second(tid, id);
                out.send(Side::Right, Msg::Id(id));
            }
            SecondMessageWrong::Second(tid, ntid) if ctx.beats(tid, ntid) || ctx.beats(id, ntid) => {
                *self = SecondMessageWrong::Relay;
            }
            SecondMessageWrong::Second(_, ntid) => {
                *self = SecondMessageWrong::First(ntid);
                out.send(Side::Right, Msg::Id(ntid));
            }
            SecondMessageWrong::Relay => out.forward(Side::Right, Msg::Id(id)),
            SecondMessageWrong::Idle | SecondMessageWrong::Halt => {}
        }
    }

    fn leader(&mut self, _: &Ctx<'_>, leader: Uid, out: &mut impl Outbox<Self>) {
        if *self != SecondMessageWrong::Halt {
            *self = SecondMessageWrong::Halt;
            out.announce(Outcome::Follow(Some(leader)));
            out.forward(Side::Right, Msg::Leader(leader));
        }
    }
}

/// Bully: the member that announced itself last is believed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NoLatchMesh {
    waiting: Option<Wait>,
    leader: Option<Uid>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Wait {
    Answer,
    Coordinator,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub(crate) enum Call {
    Election,
    Answer,
    Coordinator,
}

impl Message for Call {
    const KINDS: &'static [Kind] =
        &[Kind::election("election"), Kind::election("answer"), Kind::announcement("coordinator")];

    fn kind(&self) -> usize {
        *self as usize
    }
}

impl Protocol for NoLatchMesh {
    type Link = NodeId;
    type Message = Call;
    type Timer = Wait;
    type Command = Campaign;
    type Event = Outcome;
    type Durable = ();
    type Settings = Settings;

    fn start(_: &Ctx<'_>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
        NoLatchMesh { waiting: None, leader: None }
    }

    fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Campaign) => self.campaign(ctx, out),
            Input::Timer(Wait::Answer) => self.win(ctx, out),
            Input::Timer(Wait::Coordinator) => {
                self.waiting = None;
                self.campaign(ctx, out);
            }
            Input::Message { from, message: Call::Election } => {
                out.send(from, Call::Answer);
                self.campaign(ctx, out);
            }
            Input::Message { message: Call::Answer, .. } if self.waiting == Some(Wait::Answer) => {
                self.wait(Wait::Coordinator, ctx, out);
            }
            Input::Message { from, message: Call::Coordinator } => {
                self.rest(out);
                self.leader = ctx.view.uid(from);
                out.announce(Outcome::Follow(self.leader));
            }
            _ => {}
        }
    }
}

impl Election for NoLatchMesh {}

impl NoLatchMesh {
    fn campaign(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if self.waiting.is_some() || self.leader.is_some() {
            return;
        }
        if ctx.view.better(ctx.me, ctx.wins()).next().is_none() {
            return self.win(ctx, out);
        }
        for peer in ctx.view.better(ctx.me, ctx.wins()) {
            out.send(peer.id, Call::Election);
        }
        self.wait(Wait::Answer, ctx, out);
    }

    fn win(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        self.rest(out);
        self.leader = Some(ctx.me);
        out.announce(Outcome::Won);
        for peer in ctx.view.worse(ctx.me, ctx.wins()) {
            out.send(peer.id, Call::Coordinator);
        }
    }

    fn wait(&mut self, what: Wait, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        self.rest(out);
        self.waiting = Some(what);
        let settings = ctx.settings;
        let after = match what {
            Wait::Answer => settings.answer_timeout,
            Wait::Coordinator => settings.coordinator_timeout,
        };
        out.set_timer(what, Span::exactly(after));
    }

    fn rest(&mut self, out: &mut impl Outbox<Self>) {
        if let Some(wait) = self.waiting.take() {
            out.cancel_timer(wait);
        }
    }
}
