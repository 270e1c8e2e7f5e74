//! Known wrong readings of the papers, as copies of the machines: the harness must catch each of them.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::ops::RangeInclusive;

use algorithms::catalog;
use algorithms::election::{chang_roberts, hirschberg_sinclair_reply as hs, le_lann, peterson, time_slice};
use algorithms::{Campaign, Ctx, Election, Input, Next, Outbox, Outcome, Protocol, Rounds, Side, Uid, View};

use crate::audit::{Survey, check, cyclic_orders, survey};
use crate::subject::{Lockstep, Machine, Plan, Schedule, Subject, uids};

/// The harness with a mutant in the place of a row's own machine.
fn survey_of(name: &str, mutant: &dyn Subject) -> Survey {
    let row = catalog::row(name).expect("a row");
    survey(row, mutant, row.wins, 5)
}

/// On how many rings of these sizes the mutant elects wrongly, and how many rings there are; all start at once.
fn wrong_rings(name: &str, mutant: &dyn Subject, sizes: RangeInclusive<usize>) -> (usize, usize) {
    let row = catalog::row(name).expect("a row");
    let mut survey = Survey::default();
    for n in sizes {
        let initiators: Vec<usize> = (0..n).collect();
        for ids in cyclic_orders(n) {
            let view = View::ring(uids(&ids));
            let (wins, schedule) = (row.wins, Schedule::Synchronous);
            let plan = Plan { view: &view, wins, initiators: &initiators, dead: &[], schedule, seed: 0 };
            survey.add(check(row, mutant, &plan));
        }
    }
    (survey.wrong_result, survey.runs)
}

fn machine<E: Election>() -> Machine<E> {
    Machine(PhantomData)
}

#[test]
fn le_lann_that_forwards_before_its_own_id_is_caught() {
    assert!(survey_of("le-lann", &machine::<OthersFirst>()).wrong_result > 0);
}

#[test]
fn chang_roberts_without_the_latch_is_caught_by_a_late_start() {
    let survey = survey_of("chang-roberts", &machine::<NoLatch>());
    assert!(survey.first.is_some_and(|problem| problem.contains("[Won, Won]")));
}

#[test]
fn hirschberg_sinclair_that_does_not_wake_on_from_is_caught() {
    assert!(survey_of("hirschberg-sinclair-reply", &machine::<NoWake>()).wrong_result > 0);
}

#[test]
fn peterson_that_sends_ntid_and_tests_the_initial_id_is_caught() {
    assert!(survey_of("peterson", &machine::<PlainNtid>()).wrong_result > 0);
    assert_eq!(wrong_rings("peterson", &machine::<PlainNtid>(), 2..=7), (523, 873));
}

#[test]
fn time_slice_with_n_too_small_by_two_elects_two_leaders() {
    let mutant = Lockstep::<Slices<2>>(PhantomData);
    assert!(survey_of("time-slice", &mutant).wrong_result > 0);
    assert_eq!(wrong_rings("time-slice", &mutant, 3..=7), (153, 872));
}

#[test]
fn time_slice_with_n_too_small_by_one_elects_rightly_but_too_early() {
    let survey = survey_of("time-slice", &Lockstep::<Slices<1>>(PhantomData));
    assert!(survey.wrong_result == 0 && survey.wrong_price > 0);
}

#[test]
fn a_record_persisted_after_a_send_is_caught() {
    let survey = survey_of("chang-roberts", &machine::<SendsFirst>());
    assert!(survey.first.is_some_and(|problem| problem.contains("persisted after")));
}

/// What all mutants share: a ring, no timers, and one function.
macro_rules! mutant {
    ($name:ident, $message:ty, $durable:ty) => {
        impl Protocol for $name {
            type Link = Side;
            type Message = $message;
            type Timer = ();
            type Command = Campaign;
            type Event = Outcome;
            type Durable = $durable;
            type Settings = algorithms::Settings;

            fn start(_: &Ctx<'_>, _: Option<$durable>, _: &mut impl Outbox<Self>) -> Self {
                $name::default()
            }

            fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
                match input {
                    Input::Command(Campaign) => self.join(ctx, out),
                    Input::Message { from, message } => self.message(ctx, from, message, out),
                    _ => {}
                }
            }
        }

        impl Election for $name {}
    };
    ($name:ident, $message:ty) => {
        mutant!($name, $message, ());
    };
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct OthersFirst {
    list: BTreeSet<Uid>,
}

mutant!(OthersFirst, le_lann::Elect);

impl OthersFirst {
    fn join(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if self.list.insert(ctx.me) {
            out.send(Side::Right, le_lann::Elect(ctx.me));
        }
    }

    fn message(&mut self, ctx: &Ctx<'_>, _: Side, le_lann::Elect(j): le_lann::Elect, out: &mut impl Outbox<Self>) {
        if j == ctx.me {
            let leader = ctx.wins().best(self.list.iter().copied());
            return out.announce(if leader == Some(ctx.me) { Outcome::Won } else { Outcome::Follow(leader) });
        }
        out.forward(Side::Right, le_lann::Elect(j));
        self.join(ctx, out);
        self.list.insert(j);
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct NoLatch {
    participant: bool,
}

mutant!(NoLatch, chang_roberts::Msg);

impl NoLatch {
    fn join(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if !self.participant {
            self.participant = true;
            out.send(Side::Right, chang_roberts::Msg::Probe(ctx.me));
        }
    }

    fn message(&mut self, ctx: &Ctx<'_>, _: Side, message: chang_roberts::Msg, out: &mut impl Outbox<Self>) {
        match message {
            chang_roberts::Msg::Probe(k) if k == ctx.me => {
                self.participant = false;
                out.announce(Outcome::Won);
                out.send(Side::Right, chang_roberts::Msg::Selected(k));
            }
            chang_roberts::Msg::Probe(k) => {
                self.join(ctx, out);
                if ctx.beats(k, ctx.me) {
                    out.forward(Side::Right, message);
                }
            }
            chang_roberts::Msg::Selected(x) if x == ctx.me => {}
            chang_roberts::Msg::Selected(x) => {
                // The others keep the flag, so that only the winner's late start is at stake.
                out.announce(Outcome::Follow(Some(x)));
                out.forward(Side::Right, message);
            }
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct NoWake {
    candidate: bool,
    over: bool,
    decided: bool,
    maxnum: u32,
    reply: Option<(Side, bool)>,
}

mutant!(NoWake, hs::Msg);

impl NoWake {
    fn join(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if !self.candidate && !self.over {
            self.candidate = true;
            self.maxnum = 1;
            self.probe(ctx, out);
        }
    }

    fn probe(&self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        for side in [Side::Left, Side::Right] {
            out.send(side, hs::Msg::From { value: ctx.me, num: 0, maxnum: self.maxnum });
        }
    }

    fn message(&mut self, ctx: &Ctx<'_>, side: Side, message: hs::Msg, out: &mut impl Outbox<Self>) {
        match message {
            hs::Msg::From { value, .. } if value == ctx.me => {
                if !self.decided {
                    self.decided = true;
                    out.announce(Outcome::Won);
                    out.send(Side::Right, hs::Msg::Announce(ctx.me));
                }
            }
            hs::Msg::From { value, .. } if ctx.beats(ctx.me, value) => out.send(side, hs::Msg::No(value)),
            hs::Msg::From { value, num, maxnum } => {
                (self.candidate, self.over) = (false, true);
                if num + 1 < maxnum {
                    out.forward(side.opposite(), hs::Msg::From { value, num: num + 1, maxnum });
                } else {
                    out.send(side, hs::Msg::Ok(value));
                }
            }
            hs::Msg::Ok(value) | hs::Msg::No(value) if value != ctx.me => out.forward(side.opposite(), message),
            hs::Msg::Ok(_) | hs::Msg::No(_) => {
                let ok = matches!(message, hs::Msg::Ok(_));
                let Some((_, first_ok)) = self.reply.take() else {
                    self.reply = Some((side, ok));
                    return;
                };
                if self.candidate && !self.decided && ok && first_ok {
                    self.maxnum *= 2;
                    self.probe(ctx, out);
                }
            }
            hs::Msg::Announce(x) => {
                if !self.decided {
                    self.decided = true;
                    out.announce(Outcome::Follow(Some(x)));
                    out.forward(Side::Right, message);
                }
            }
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
enum PlainNtid {
    #[default]
    Idle,
    First(Uid),
    Second(Uid, Uid),
    Relay,
    Halt,
}

mutant!(PlainNtid, peterson::Msg);

impl PlainNtid {
    fn join(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if *self == PlainNtid::Idle {
            *self = PlainNtid::First(ctx.me);
            out.send(Side::Right, peterson::Msg::Tid(ctx.me));
        }
    }

    fn message(&mut self, ctx: &Ctx<'_>, _: Side, message: peterson::Msg, out: &mut impl Outbox<Self>) {
        self.join(ctx, out);
        match (message, self.clone()) {
            (_, PlainNtid::Halt) => {}
            (peterson::Msg::Elected(v), _) => {
                *self = PlainNtid::Halt;
                out.announce(Outcome::Follow(Some(v)));
                out.forward(Side::Right, message);
            }
            (peterson::Msg::Tid(v), _) if v == ctx.me => {
                *self = PlainNtid::Halt;
                out.announce(Outcome::Won);
                out.send(Side::Right, peterson::Msg::Elected(v));
            }
            (peterson::Msg::Tid(v), PlainNtid::First(tid)) => {
                *self = PlainNtid::Second(tid, v);
                out.forward(Side::Right, message);
            }
            (peterson::Msg::Tid(v), PlainNtid::Second(tid, ntid)) => {
                if ctx.beats(tid, ntid) || ctx.beats(v, ntid) {
                    *self = PlainNtid::Relay;
                } else {
                    *self = PlainNtid::First(ntid);
                    out.send(Side::Right, peterson::Msg::Tid(ntid));
                }
            }
            (peterson::Msg::Tid(_), PlainNtid::Relay | PlainNtid::Idle) => out.forward(Side::Right, message),
        }
    }
}

/// TimeSlice with phases that are too short.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Slices<const SHORT: usize> {
    silent: bool,
}

impl<const SHORT: usize> Rounds for Slices<SHORT> {
    type Message = time_slice::Token;

    fn new(_: &Ctx<'_>) -> Self {
        Slices { silent: false }
    }

    fn round(&mut self, ctx: &Ctx<'_>, r: u64, _: bool, inbox: &[Self::Message], out: &mut Vec<Self::Message>) -> Next {
        if let Some(&time_slice::Token(u)) = inbox.first() {
            self.silent = true;
            if u == ctx.me {
                return Next::Decided(Outcome::Won);
            }
            out.push(time_slice::Token(u));
            return Next::Decided(Outcome::Follow(Some(u)));
        }
        let mine = u64::from(ctx.me.id.0) * ctx.view.len().saturating_sub(SHORT).max(1) as u64;
        if self.silent || r > mine {
            return Next::Quiet { until: u64::MAX };
        }
        if r == mine {
            self.silent = true;
            out.push(time_slice::Token(ctx.me));
        }
        Next::Quiet { until: mine }
    }
}

/// Wins alone, but tells before it is on the disk.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct SendsFirst {
    term: u32,
}

mutant!(SendsFirst, chang_roberts::Msg, u32);

impl SendsFirst {
    fn join(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        self.term += 1;
        out.send(Side::Right, chang_roberts::Msg::Probe(ctx.me));
        out.persist(self.term);
    }

    fn message(&mut self, _: &Ctx<'_>, _: Side, _: chang_roberts::Msg, out: &mut impl Outbox<Self>) {
        if self.term > 0 {
            out.announce(Outcome::Won);
        }
    }
}
