//! The checker is checked: planted mistakes, each of which must be found.

use algorithms::Mutex;
use algorithms::catalog::mutex;
use algorithms::mutex::{central, maekawa, raymond, suzuki_kasami};
use model::check::{Limits, Report, examine};
use model::mutex::{COST, EXCLUSION, ORDER, SERVED, Sections, TOKENS};

use crate::planted::damaged::{AsPublished, Damaged, NoInquire, NoNumbers, NoToken, NotAgain};
use crate::planted::queue::{self, Queue};
use crate::planted::replies::{self, Replies};
use crate::planted::ring::{self, Ring};
use crate::requests;

const LIMITS: Limits = Limits { search: 100_000, walks: 400_000, depth: 100 };

/// The model of a row with a mutant in its place.
fn model<M: Mutex>(name: &str, times: &[usize]) -> Sections<M> {
    let row = mutex::row(name).expect("a row");
    Sections::new(row, &requests(row, times))
}

fn find<M: Mutex>(name: &str, times: &[usize]) -> Report {
    examine(format!("{name} with a mistake"), &model::<M>(name, times), LIMITS)
}

fn find_under_holder<M: Mutex>(name: &str, times: &[usize]) -> Report {
    examine(format!("{name} with a mistake"), &model::<M>(name, times).under_every_holder(), LIMITS)
}

const READERS: &str = "ricart-agrawala-readers";

#[test]
fn the_copies_without_a_mistake_hold() {
    find::<Replies<{ replies::NONE }>>(READERS, &[2, 2]).holds().is_complete();
    find::<Queue<{ queue::NONE }>>("lamport", &[2, 2]).holds().is_complete();
    find::<Ring<{ ring::NONE }>>("token-ring", &[2, 2, 2]).holds().is_complete();
}

#[test]
fn mistakes_with_replies_are_found() {
    find::<Replies<{ replies::PRESENT_CLOCK }>>(READERS, &[1, 1]).breaks(EXCLUSION);
    find::<Replies<{ replies::BOTH_REPLY }>>(READERS, &[1, 1]).breaks(EXCLUSION);
    find::<Replies<{ replies::BOTH_DEFER }>>(READERS, &[1, 1]).breaks(SERVED);
    find::<Replies<{ replies::IDS_ALONE }>>(READERS, &[2, 2]).breaks(ORDER);
    find::<Replies<{ replies::NO_TOKEN }>>(READERS, &[1, 1]).breaks(TOKENS);
    find::<Replies<{ replies::REPLIES_INSIDE }>>(READERS, &[1, 1]).breaks(EXCLUSION);
    find::<Replies<{ replies::READER_NEVER_DEFERS }>>(READERS, &[1, 1]).breaks(EXCLUSION);
    find::<Replies<{ replies::READERS_TOKEN_AGAIN }>>(READERS, &[1, 1]).breaks(TOKENS);
    find_under_holder::<Replies<{ replies::NO_HOLDER }>>(READERS, &[1, 1]).breaks(EXCLUSION);
}

#[test]
fn mistakes_with_the_queue_are_found() {
    find::<Queue<{ queue::HEAD }>>("lamport", &[2, 2, 2]).breaks(EXCLUSION);
    find::<Queue<{ queue::TIMES_ALONE }>>("lamport", &[1, 1]).breaks(EXCLUSION);
    find::<Queue<{ queue::NO_WAIT }>>("lamport", &[1, 1]).breaks(EXCLUSION);
    find::<Queue<{ queue::ANY_MESSAGE }>>("lamport", &[2, 1]).breaks(EXCLUSION);
    find_under_holder::<Queue<{ queue::NO_HOLDER }>>("lamport", &[1, 1]).breaks(EXCLUSION);
}

#[test]
fn mistakes_with_tokens_and_votes_are_found() {
    find::<Ring<{ ring::KEEPS }>>("token-ring", &[2, 1]).breaks(COST);
    find::<Ring<{ ring::PASSES_EARLY }>>("token-ring", &[1, 1]).breaks(EXCLUSION);
    find::<Ring<{ ring::OWN_COUNT }>>("token-ring", &[1, 1]).breaks(TOKENS);
    find::<Damaged<raymond::Raymond, NotAgain>>("raymond", &[1, 1, 1]).breaks(SERVED);
    find::<Damaged<suzuki_kasami::SuzukiKasami, NoNumbers>>("suzuki-kasami", &[1, 2]).breaks(SERVED);
    find::<Damaged<central::Central, NoToken>>("central", &[1, 1]).breaks(TOKENS);
    find::<Damaged<maekawa::Maekawa, NoInquire>>("maekawa", &[1, 1, 1, 1]).breaks(SERVED);
    find::<Damaged<maekawa::Maekawa, AsPublished>>("maekawa", &[1, 1, 1, 1]).breaks(SERVED);
}
