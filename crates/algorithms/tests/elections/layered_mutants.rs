//! Wrong readings of newer rows, as layers around the machines: the harness must catch each of them.

use std::collections::BTreeSet;
use std::marker::PhantomData;

use algorithms::election::dolev_klawe_rodeh_b::{self, DolevKlaweRodehB};
use algorithms::election::franklin::{self, Franklin};
use algorithms::election::{improved_bully, modified_bully};
use algorithms::{Campaign, Ctx, Election, Input, NodeId, Outbox, Outcome, Protocol, Side, Span, catalog};

use crate::audit::{First, Survey, survey, survey_deaths};
use crate::subject::Machine;

/// One mistake around a machine.
trait Mistake<E: Election>: Clone + Eq + std::hash::Hash + std::fmt::Debug + Send + Sync + 'static {
    fn send(_: &Ctx<'_>, to: E::Link, message: E::Message) -> (E::Link, E::Message) {
        (to, message)
    }

    /// Is this message lost on a machine in this state?
    fn drops(_: &E, _: E::Link, _: &E::Message) -> bool {
        false
    }

    /// Does this message make the node begin an election as well?
    fn begins_after(_: &E::Message) -> bool {
        false
    }

    fn stored(record: Option<E::Durable>) -> Option<E::Durable> {
        record
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Mutant<E, M> {
    machine: E,
    mistake: PhantomData<M>,
}

struct Changed<'a, 'c, O, M> {
    out: &'a mut O,
    ctx: &'a Ctx<'c>,
    mistake: PhantomData<M>,
}

impl<E: Election, M: Mistake<E>, O: Outbox<Mutant<E, M>>> Outbox<E> for Changed<'_, '_, O, M> {
    fn send(&mut self, to: E::Link, message: E::Message) {
        let (to, message) = M::send(self.ctx, to, message);
        self.out.send(to, message);
    }
    fn forward(&mut self, to: E::Link, message: E::Message) {
        self.out.forward(to, message);
    }
    fn set_timer(&mut self, timer: E::Timer, after: Span) {
        self.out.set_timer(timer, after);
    }
    fn cancel_timer(&mut self, timer: E::Timer) {
        self.out.cancel_timer(timer);
    }
    fn persist(&mut self, record: E::Durable) {
        self.out.persist(record);
    }
    fn store(&mut self, record: E::Durable) {
        self.out.store(record);
    }
    fn announce(&mut self, event: Outcome) {
        self.out.announce(event);
    }
}

impl<E: Election, M: Mistake<E>> Protocol for Mutant<E, M> {
    type Link = E::Link;
    type Message = E::Message;
    type Timer = E::Timer;
    type Command = Campaign;
    type Event = Outcome;
    type Durable = E::Durable;
    type Settings = algorithms::Settings;

    fn start(ctx: &Ctx<'_>, stored: Option<E::Durable>, out: &mut impl Outbox<Self>) -> Self {
        let machine = E::start(ctx, M::stored(stored), &mut Changed { out, ctx, mistake: PhantomData::<M> });
        Mutant { machine, mistake: PhantomData }
    }

    fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        let mut out = Changed { out, ctx, mistake: PhantomData::<M> };
        if matches!(&input, Input::Message { from, message } if M::drops(&self.machine, *from, message)) {
            return;
        }
        let begins = matches!(&input, Input::Message { message, .. } if M::begins_after(message));
        let input = match input {
            Input::Message { from, message } => Input::Message { from, message },
            Input::Timer(timer) => Input::Timer(timer),
            Input::PeerUp(peer) => Input::PeerUp(peer),
            Input::PeerDown(peer) => Input::PeerDown(peer),
            Input::Command(Campaign) => Input::Command(Campaign),
            Input::Stored(record) => Input::Stored(record),
        };
        self.machine.step(ctx, input, &mut out);
        if begins {
            self.machine.step(ctx, Input::Command(Campaign), &mut out);
        }
    }
}

impl<E: Election, M: Mistake<E>> Election for Mutant<E, M> {}

fn survey_of<E: Election, M: Mistake<E>>(name: &str, first: First) -> Survey {
    let row = catalog::row(name).expect("a row");
    survey_deaths(row, &Machine::<Mutant<E, M>>(PhantomData), first, 5).0
}

fn ring_survey_of<E: Election, M: Mistake<E>>(name: &str) -> Survey {
    let row = catalog::row(name).expect("a row");
    survey(row, &Machine::<Mutant<E, M>>(PhantomData), row.wins, 5)
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct KeepsNothing;
impl Mistake<Franklin> for KeepsNothing {
    fn drops(machine: &Franklin, from: Side, _: &franklin::Msg) -> bool {
        matches!(machine, Franklin::Half { side, .. } if *side == from)
    }
}

#[test]
fn franklin_that_forgets_the_message_of_the_next_phase_is_caught() {
    assert!(ring_survey_of::<_, KeepsNothing>("franklin").wrong_result > 0);
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct WaitsOn;
impl Mistake<DolevKlaweRodehB> for WaitsOn {
    fn drops(machine: &DolevKlaweRodehB, _: Side, message: &dolev_klawe_rodeh_b::Msg) -> bool {
        let first = matches!(message, dolev_klawe_rodeh_b::Msg::M1 { .. });
        matches!(machine, DolevKlaweRodehB::Waiting { .. }) && first
    }
}

#[test]
fn algorithm_b_that_swallows_the_message_on_which_it_becomes_passive_is_caught() {
    assert!(ring_survey_of::<_, WaitsOn>("dolev-klawe-rodeh-b").wrong_result > 0);
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct NoMistake;
impl Mistake<improved_bully::ImprovedBully> for NoMistake {}

#[test]
fn the_layer_alone_changes_nothing() {
    let survey = survey_of::<_, NoMistake>("improved-bully", First::Over);
    assert!(survey.first.is_none(), "{survey:?}");
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct GrantsTheWorst;
impl Mistake<modified_bully::ModifiedBully> for GrantsTheWorst {
    fn send(ctx: &Ctx<'_>, to: NodeId, message: modified_bully::Msg) -> (NodeId, modified_bully::Msg) {
        let worst = ctx.view.better(ctx.me, ctx.wins()).reduce(|a, b| if ctx.beats(a, b) { b } else { a });
        (if message == modified_bully::Msg::Grant { worst.map_or(to, |uid| uid.id) } else { to }, message)
    }
}

#[test]
fn a_grant_that_does_not_go_to_the_best_is_caught() {
    assert!(survey_of::<_, GrantsTheWorst>("modified-bully", First::Election).wrong_result > 0);
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct AnswersAndBegins;
impl Mistake<modified_bully::ModifiedBully> for AnswersAndBegins {
    fn begins_after(message: &modified_bully::Msg) -> bool {
        *message == modified_bully::Msg::Election
    }
}

#[test]
fn an_answer_that_begins_an_election_costs_too_much() {
    let survey = survey_of::<_, AnswersAndBegins>("modified-bully", First::Election);
    assert!(survey.wrong_result == 0 && survey.wrong_price > 0, "{survey:?}");
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ForgetsTheList;
impl Mistake<improved_bully::ImprovedBully> for ForgetsTheList {
    fn stored(_: Option<Vec<NodeId>>) -> Option<Vec<NodeId>> {
        None
    }
}

#[test]
fn successors_that_are_forgotten_cost_the_election_of_bully() {
    let survey = survey_of::<_, ForgetsTheList>("improved-bully", First::Over);
    assert!(survey.wrong_result == 0 && survey.wrong_price > 0, "{survey:?}");
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct HidesSuspects;
impl Mistake<improved_bully::ImprovedBully> for HidesSuspects {
    fn send(_: &Ctx<'_>, to: NodeId, message: improved_bully::Msg) -> (NodeId, improved_bully::Msg) {
        let hidden = improved_bully::Msg::Crashed(BTreeSet::new());
        (to, if matches!(message, improved_bully::Msg::Crashed(_)) { hidden } else { message })
    }
}

#[test]
fn a_successor_that_is_not_told_the_suspects_asks_them_again() {
    let survey = survey_of::<_, HidesSuspects>("improved-bully", First::Over);
    assert!(survey.first.is_some(), "{survey:?}");
}
