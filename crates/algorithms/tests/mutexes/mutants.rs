//! The harness is checked: every planted mistake must be caught, and the copies without one must pass.

use algorithms::catalog::mutex;
use algorithms::drive::Effects;
use algorithms::mutex::ricart_agrawala::{self, RicartAgrawala};
use algorithms::mutex::{central, maekawa, raymond, suzuki_kasami};
use algorithms::{Ctx, Input, Mutex, NodeId, Protocol, Stage, Want};

use crate::audit::survey;
use crate::planted::NONE;
use crate::planted::damaged::{AsPublished, Damaged, NoInquire, NoNumbers, NoToken, NotAgain};
use crate::planted::queue::{self, Queue};
use crate::planted::replies::{self, Replies};
use crate::planted::ring::{self, Ring};
use crate::run::{FLOOR, Problem, machine, view};

/// The harness with a mutant in the place of a row's own machine. It ends at the first run with the problem.
fn has<M: Mutex>(name: &str, bug: u8, problem: Problem) -> bool {
    let row = mutex::row(name).expect("a row");
    let survey = survey(row, &machine::<M>(bug), row.links, 150, Some(problem));
    println!("{name}: {:?} in {} runs: {}", survey.found, survey.runs, survey.first.as_deref().unwrap_or("clean"));
    survey.has(problem)
}

fn is_clean<M: Mutex>(name: &str) -> bool {
    let row = mutex::row(name).expect("a row");
    survey(row, &machine::<M>(NONE), row.links, 50, None).first.is_none()
}

fn replies(bug: u8, problem: Problem) -> bool {
    has::<Replies>("ricart-agrawala-readers", bug, problem)
}

#[test]
fn the_copies_without_a_mistake_are_clean() {
    assert!(is_clean::<Replies>("ricart-agrawala-readers"));
    assert!(is_clean::<Queue>("lamport"));
    assert!(is_clean::<Ring>("token-ring"));
}

#[test]
fn every_mistake_with_replies_is_caught() {
    assert!(replies(replies::PRESENT_CLOCK, Problem::Overlap));
    assert!(replies(replies::BOTH_REPLY, Problem::Overlap));
    assert!(replies(replies::BOTH_DEFER, Problem::Starved));
    assert!(replies(replies::IDS_ALONE, Problem::Order));
    assert!(replies(replies::NO_CLOCK, Problem::Unfair));
    assert!(replies(replies::NO_TOKEN, Problem::Token));
    assert!(replies(replies::REPLIES_INSIDE, Problem::Overlap));
    assert!(replies(replies::READER_NEVER_DEFERS, Problem::Overlap));
    assert!(replies(replies::READERS_TOKEN_AGAIN, Problem::Token));
    assert!(replies(replies::NO_HOLDER, Problem::Overlap));
}

#[test]
fn every_mistake_with_the_queue_is_caught() {
    assert!(has::<Queue>("lamport", queue::HEAD, Problem::Overlap));
    assert!(has::<Queue>("lamport", queue::HEAD, Problem::Starved));
    assert!(has::<Queue>("lamport", queue::TIMES_ALONE, Problem::Overlap));
    assert!(has::<Queue>("lamport", queue::NO_WAIT, Problem::Overlap));
    assert!(has::<Queue>("lamport", queue::ANY_MESSAGE, Problem::Overlap));
    assert!(has::<Queue>("lamport", queue::NO_HOLDER, Problem::Overlap));
}

#[test]
fn every_mistake_with_the_token_is_caught() {
    assert!(has::<Ring>("token-ring", ring::KEEPS, Problem::Cost));
    assert!(has::<Ring>("token-ring", ring::PASSES_EARLY, Problem::Overlap));
    assert!(has::<Ring>("token-ring", ring::OWN_COUNT, Problem::Token));
    assert!(has::<Damaged<raymond::Raymond, NotAgain>>("raymond", NONE, Problem::Starved));
    assert!(has::<Damaged<suzuki_kasami::SuzukiKasami, NoNumbers>>("suzuki-kasami", NONE, Problem::Starved));
    assert!(has::<Damaged<central::Central, NoToken>>("central", NONE, Problem::Token));
}

#[test]
fn quorums_without_inquiries_or_as_first_published_deadlock() {
    assert!(has::<Damaged<maekawa::Maekawa, NoInquire>>("maekawa", NONE, Problem::Starved));
    assert!(has::<Damaged<maekawa::Maekawa, AsPublished>>("maekawa", NONE, Problem::Starved));
}

/// No run has a reply to an old request, because a member enters only when all have replied: it is given one here.
#[test]
fn a_reply_to_an_old_request_is_not_counted() {
    fn enters_with_an_old_reply<M: Mutex + Protocol<Link = NodeId, Message = ricart_agrawala::Msg>>(bug: u8) -> bool {
        let view = view(algorithms::Topology::Mesh, &[1, 2]);
        let settings = algorithms::MutexSettings { floor: FLOOR, clock: 8, ..Default::default() };
        let ctx = Ctx { me: view.members()[0], view: &view, settings: &settings, dice: u64::from(bug) };
        let mut out = Effects::<M>::default();
        let mut machine = M::start(&ctx, None, &mut out);
        machine.step(&ctx, Input::Command(Want::ENTER), &mut out);
        let message = ricart_agrawala::Msg::Reply { to: 3, time: 4, token: FLOOR };
        machine.step(&ctx, Input::Message { from: NodeId(2), message }, &mut out);
        machine.stage() == Stage::Held
    }
    assert!(!enters_with_an_old_reply::<RicartAgrawala>(NONE));
    assert!(enters_with_an_old_reply::<Replies>(replies::OLD_REPLY));
}
