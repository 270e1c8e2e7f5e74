//! The checker is checked: planted mistakes, each of which must be found.

use algorithms::Mutex;
use algorithms::catalog::mutex;
use algorithms::mutex::{central, maekawa, raymond, suzuki_kasami};
use model::check::{Limits, Report, examine};
use model::mistake::Mistake;
use model::mutex::{COST, EXCLUSION, ORDER, SERVED, Sections, TOKENS};

use crate::planted::NONE;
use crate::planted::damaged::{AsPublished, Damaged, NoInquire, NoNumbers, NoToken, NotAgain};
use crate::planted::queue::{self, Queue};
use crate::planted::replies::{self, Replies};
use crate::planted::ring::{self, Ring};
use crate::requests;

const LIMITS: Limits = Limits { search: 100_000, walks: 400_000, depth: 100 };

/// The model of a row with a mutant in its place.
fn model<M: Mutex>(name: &str, bug: u8, times: &[usize]) -> Sections<M> {
    let row = mutex::row(name).expect("a row");
    let mut model = Sections::new(row, &requests(row, times));
    model.mistake = Mistake::at(usize::from(bug));
    model
}

fn find<M: Mutex>(name: &str, bug: u8, times: &[usize]) -> Report {
    examine(format!("{name} with a mistake"), &model::<M>(name, bug, times), LIMITS)
}

fn find_under_holder<M: Mutex>(name: &str, bug: u8, times: &[usize]) -> Report {
    examine(format!("{name} with a mistake"), &model::<M>(name, bug, times).under_every_holder(), LIMITS)
}

const READERS: &str = "ricart-agrawala-readers";

#[test]
fn the_copies_without_a_mistake_hold() {
    find::<Replies>(READERS, NONE, &[2, 2]).holds().is_complete();
    find::<Queue>("lamport", NONE, &[2, 2]).holds().is_complete();
    find::<Ring>("token-ring", NONE, &[2, 2, 2]).holds().is_complete();
}

#[test]
fn mistakes_with_replies_are_found() {
    find::<Replies>(READERS, replies::PRESENT_CLOCK, &[1, 1]).breaks(EXCLUSION);
    find::<Replies>(READERS, replies::BOTH_REPLY, &[1, 1]).breaks(EXCLUSION);
    find::<Replies>(READERS, replies::BOTH_DEFER, &[1, 1]).breaks(SERVED);
    find::<Replies>(READERS, replies::IDS_ALONE, &[2, 2]).breaks(ORDER);
    find::<Replies>(READERS, replies::NO_TOKEN, &[1, 1]).breaks(TOKENS);
    find::<Replies>(READERS, replies::REPLIES_INSIDE, &[1, 1]).breaks(EXCLUSION);
    find::<Replies>(READERS, replies::READER_NEVER_DEFERS, &[1, 1]).breaks(EXCLUSION);
    find::<Replies>(READERS, replies::READERS_TOKEN_AGAIN, &[1, 1]).breaks(TOKENS);
    find_under_holder::<Replies>(READERS, replies::NO_HOLDER, &[1, 1]).breaks(EXCLUSION);
}

#[test]
fn mistakes_with_the_queue_are_found() {
    find::<Queue>("lamport", queue::HEAD, &[2, 2, 2]).breaks(EXCLUSION);
    find::<Queue>("lamport", queue::TIMES_ALONE, &[1, 1]).breaks(EXCLUSION);
    find::<Queue>("lamport", queue::NO_WAIT, &[1, 1]).breaks(EXCLUSION);
    find::<Queue>("lamport", queue::ANY_MESSAGE, &[2, 1]).breaks(EXCLUSION);
    find_under_holder::<Queue>("lamport", queue::NO_HOLDER, &[1, 1]).breaks(EXCLUSION);
}

#[test]
fn mistakes_with_tokens_and_votes_are_found() {
    find::<Ring>("token-ring", ring::KEEPS, &[2, 1]).breaks(COST);
    find::<Ring>("token-ring", ring::PASSES_EARLY, &[1, 1]).breaks(EXCLUSION);
    find::<Ring>("token-ring", ring::OWN_COUNT, &[1, 1]).breaks(TOKENS);
    find::<Damaged<raymond::Raymond, NotAgain>>("raymond", NONE, &[1, 1, 1]).breaks(SERVED);
    find::<Damaged<suzuki_kasami::SuzukiKasami, NoNumbers>>("suzuki-kasami", NONE, &[1, 2]).breaks(SERVED);
    find::<Damaged<central::Central, NoToken>>("central", NONE, &[1, 1]).breaks(TOKENS);
    find::<Damaged<maekawa::Maekawa, NoInquire>>("maekawa", NONE, &[1, 1, 1, 1]).breaks(SERVED);
    find::<Damaged<maekawa::Maekawa, AsPublished>>("maekawa", NONE, &[1, 1, 1, 1]).breaks(SERVED);
}
