//! A desk with a queue, once right and once with each of several mistakes: the checks must tell them apart.

use std::fmt::Write as _;

use algorithms::catalog::mutex::{Links, Purpose, Row};
use algorithms::theory::mutex;
use algorithms::{
    Ctx, Input, Kind, Message, Mutex, MutexSettings, NodeId, Outbox, Protocol, Section, Stage, Token, Topology, Want,
};
use serde::{Deserialize, Serialize};
use sim::{Contention, MutexExperiment, Schedule};

use super::{ids, plan};

const NONE: u8 = 0;
/// Gives the section to every member that asks.
const LETS_TWO_IN: u8 = 1;
/// Serves the latest request first.
const STARVES: u8 = 2;
const SAME_TOKEN: u8 = 3;
/// Every seventh request is forgotten.
const FORGETS: u8 = 4;
/// Members tell the desk twice that they are out.
const CHATTERS: u8 = 5;
/// Enters again without a request.
const UNCALLED: u8 = 6;

/// The member at position 0 is the desk.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Desk<const FLAW: u8> {
    stage: Stage,
    busy: bool,
    queue: Vec<NodeId>,
    token: u64,
    asked: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
enum Msg {
    Request,
    Grant(u64),
    Release,
}

impl Message for Msg {
    const KINDS: &'static [Kind] = &[Kind::mutex("request"), Kind::mutex("grant"), Kind::mutex("release")];

    fn kind(&self) -> usize {
        match self {
            Msg::Request => 0,
            Msg::Grant(_) => 1,
            Msg::Release => 2,
        }
    }
}

impl<const FLAW: u8> Protocol for Desk<FLAW> {
    type Link = NodeId;
    type Message = Msg;
    type Timer = ();
    type Command = Want;
    type Event = Section;
    type Durable = ();
    type Settings = MutexSettings;

    fn start(_: &Ctx<'_, MutexSettings>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
        Desk { stage: Stage::Released, busy: false, queue: Vec::new(), token: 0, asked: 0 }
    }

    fn step(&mut self, ctx: &Ctx<'_, MutexSettings>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        let desk = ctx.view.members()[0].id;
        let here = ctx.me.id == desk;
        match input {
            Input::Command(Want::Request(_)) => {
                self.stage = Stage::Wanted;
                if here { self.ask(ctx.me.id) } else { out.send(desk, Msg::Request) }
            }
            Input::Command(Want::Exit) => {
                self.stage = Stage::Released;
                if here {
                    self.busy = false;
                } else {
                    out.send(desk, Msg::Release);
                    if FLAW == CHATTERS {
                        out.send(desk, Msg::Release);
                    }
                }
                if FLAW == UNCALLED {
                    out.announce(Section::Enter(Token(self.token)));
                }
            }
            Input::Message { from, message: Msg::Request } => self.ask(from),
            Input::Message { from: _, message: Msg::Release } => self.busy = false,
            Input::Message { from: _, message: Msg::Grant(token) } => {
                self.stage = Stage::Held;
                self.token = token;
                out.announce(Section::Enter(Token(token)));
            }
            _ => {}
        }
        self.serve(ctx.me.id, out);
    }
}

impl<const FLAW: u8> Desk<FLAW> {
    fn ask(&mut self, who: NodeId) {
        self.asked += 1;
        if FLAW != FORGETS || !self.asked.is_multiple_of(7) {
            self.queue.push(who);
        }
    }

    fn serve(&mut self, me: NodeId, out: &mut impl Outbox<Self>) {
        while !self.queue.is_empty() && (!self.busy || FLAW == LETS_TWO_IN) {
            let next = if FLAW == STARVES { self.queue.len() - 1 } else { 0 };
            let who = self.queue.remove(next);
            self.busy = true;
            self.token += u64::from(FLAW != SAME_TOKEN || self.token == 0);
            if who == me {
                self.stage = Stage::Held;
                out.announce(Section::Enter(Token(self.token)));
            } else {
                out.send(who, Msg::Grant(self.token));
            }
        }
    }
}

impl<const FLAW: u8> Mutex for Desk<FLAW> {
    fn stage(&self) -> Stage {
        self.stage
    }
}

const RIGHT: Row = Row {
    name: "desk",
    paper: "",
    topology: Topology::Mesh,
    assumes: "",
    links: Links::AnyOrder,
    fair: false,
    shared: false,
    endless: false,
    purpose: Purpose::Simulated,
    cost: mutex::central,
};

static DESK: Row = RIGHT;

/// A row that promises an order that a desk does not keep.
static BOASTFUL: Row = Row { name: "boastful", fair: true, ..RIGHT };

/// A row that promises shorter delays.
static HASTY: Row = Row { name: "hasty", cost: hasty, ..RIGHT };

fn hasty(n: usize, at: usize) -> mutex::Cost {
    let one = algorithms::theory::Range::exactly(1);
    mutex::Cost { sync_delay: one, ..mutex::central(n, at) }
}

/// What the checks say about a machine, over all workloads.
fn caught<const FLAW: u8>(row: &'static Row) -> String {
    let mut all = String::new();
    for contention in super::CONTENTIONS {
        for schedule in [Schedule::Sync, Schedule::Random] {
            let report = plan(row, 5, 1000, contention.clone(), schedule).run_as::<Desk<FLAW>>().expect("can be run");
            for what in report.violations {
                let _ = writeln!(all, "{} {schedule}: {what}", contention.name());
            }
        }
    }
    all
}

#[test]
fn every_planted_mistake_is_caught_and_the_right_machine_is_not() {
    assert_eq!(caught::<NONE>(&DESK), "");
    for (found, expected) in [
        (caught::<LETS_TWO_IN>(&DESK), "exclusion: a member entered while another one was inside"),
        (caught::<STARVES>(&DESK), "starvation:"),
        (caught::<SAME_TOKEN>(&DESK), "fencing tokens: a section has no larger token"),
        (caught::<FORGETS>(&DESK), "progress: "),
        (caught::<CHATTERS>(&DESK), "messages: "),
        (caught::<UNCALLED>(&DESK), "a member entered that had not asked"),
        (caught::<NONE>(&BOASTFUL), "fairness: "),
        (caught::<NONE>(&HASTY), "synchronisation delay in message times"),
    ] {
        assert!(found.contains(expected), "expected \"{expected}\", found: {found}");
    }
}

#[test]
fn a_forgotten_request_ends_the_run_and_names_the_members_that_wait() {
    let plan = MutexExperiment { contention: Contention::Saturated, ..MutexExperiment::new(&DESK, ids(3), 100) };
    let report = plan.run_as::<Desk<FORGETS>>().expect("can be run");
    assert!(report.seen.entries < 100);
    assert!(report.violations[0].contains("members wait for ever (1, 2, 3)"), "{:?}", report.violations);
}
