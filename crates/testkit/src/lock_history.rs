//! Judges the history of one lock: is it what a mutex with rising tokens may do?
//!
//! An acquire takes effect at some moment between its request and its answer. Its lock is freed at some later moment, after the last
//! one at which its client acted on it, and before the answer to the release, if there is one: by the release, or by the end of
//! the session. A client that was paused may hear of a grant when its session has ended: it does not act. A history is *linearizable* if such moments can be chosen for all operations, so that nobody acquires a lock that
//! is not free, and every token is larger than all before it.
//!
//! Tokens decide the order, so nothing has to be searched: the earliest moments are chosen one after another, in the order of the
//! tokens. If they do not fit, no others do; a test compares this with a search of all orders. An acquire without an answer
//! may have had no effect, so it forbids nothing.

use std::time::Duration;

use types::Token;

/// A lock that was granted, on one clock for all clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    pub client: u32,
    pub token: Token,
    pub asked: Duration,
    pub granted: Duration,
    /// When the client acted on the lock for the last time, or asked for its release while it still had the right to act.
    /// `None`: it never had the right.
    pub acted: Option<Duration>,
    /// The answer to the release. `None`: there was none, or the client had lost the lock before.
    pub freed: Option<Duration>,
}

/// What is wrong with a history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// No history at all: something was answered before it was asked for.
    Impossible(Hold),
    /// Two grants with one token.
    TokenTwice(Hold, Hold),
    /// The second one has the larger token and was granted while the client of the first one acted, or before.
    Overlap(Hold, Hold),
}

/// The first flaw, in the order of the tokens; `None` if the history is linearizable.
pub fn judge(holds: &[Hold]) -> Option<Flaw> {
    let mut ordered = holds.to_vec();
    ordered.sort_by_key(|hold| (hold.token, hold.granted));
    // When the lock before was freed, at the earliest.
    let mut free = Duration::ZERO;
    for (at, hold) in ordered.iter().enumerate() {
        let (acted, ends) = (hold.acted.unwrap_or(hold.granted), hold.freed.unwrap_or(Duration::MAX));
        if hold.asked > hold.granted || hold.granted > acted || acted > ends {
            return Some(Flaw::Impossible(*hold));
        }
        let before = at.checked_sub(1).map(|at| ordered[at]);
        if let Some(before) = before {
            if before.token == hold.token {
                return Some(Flaw::TokenTwice(before, *hold));
            }
            if free > hold.granted {
                return Some(Flaw::Overlap(before, *hold));
            }
        }
        free = hold.acted.unwrap_or(free.max(hold.asked));
    }
    None
}

#[cfg(test)]
mod tests {
    use types::Dice;

    use super::*;

    fn at(moment: u64) -> Duration {
        Duration::from_millis(moment)
    }

    fn hold(token: u64, [asked, granted, acted]: [u64; 3], freed: Option<u64>) -> Hold {
        Hold {
            client: 1,
            token: Token(token),
            asked: at(asked),
            granted: at(granted),
            acted: Some(at(acted)),
            freed: freed.map(at),
        }
    }

    #[test]
    fn sections_one_after_another_are_a_mutex_whatever_the_order_they_are_written_down_in() {
        let all = [
            hold(5, [1, 10, 20], Some(24)),
            hold(9, [2, 25, 30], None),
            // Granted before the release of the one before was answered.
            hold(7, [3, 21, 22], Some(23)),
        ];
        assert_eq!(judge(&all), None);
        assert_eq!(judge(&[]), None);
    }

    #[test]
    fn two_at_a_time_are_found_also_if_one_is_inside_the_other() {
        let (outer, inner) = (hold(5, [1, 10, 90], None), hold(6, [2, 30, 40], Some(41)));
        assert_eq!(judge(&[outer, inner]), Some(Flaw::Overlap(outer, inner)));
        let late = hold(6, [2, 89, 95], None);
        assert_eq!(judge(&[late, outer]), Some(Flaw::Overlap(outer, late)));
    }

    #[test]
    fn a_token_that_falls_or_comes_twice_is_found() {
        let (first, second) = (hold(5, [1, 10, 20], Some(21)), hold(4, [22, 30, 40], None));
        assert_eq!(judge(&[first, second]), Some(Flaw::Overlap(second, first)));
        let again = hold(5, [22, 30, 40], None);
        assert_eq!(judge(&[again, first]), Some(Flaw::TokenTwice(first, again)));
    }

    #[test]
    fn a_grant_that_is_heard_of_too_late_forbids_nothing_and_an_act_on_it_does() {
        let next = hold(6, [2, 30, 40], Some(41));
        let late = Hold { acted: None, ..hold(5, [1, 90, 0], None) };
        assert_eq!(judge(&[late, next]), None);
        let acted = hold(5, [1, 90, 90], None);
        assert_eq!(judge(&[acted, next]), Some(Flaw::Overlap(acted, next)));
    }

    /// One operation of a history, for the search.
    #[derive(Clone, Copy)]
    struct Operation {
        hold: usize,
        acquires: bool,
        invoked: Duration,
        answered: Duration,
    }

    /// Is there any order of the operations that keeps to their times and that a mutex allows? Tries all of them.
    fn searched(holds: &[Hold]) -> bool {
        let operations: Vec<Operation> = (0..)
            .zip(holds)
            .flat_map(|(number, hold)| {
                let acquire = Operation { hold: number, acquires: true, invoked: hold.asked, answered: hold.granted };
                let free = Operation {
                    hold: number,
                    acquires: false,
                    invoked: hold.acted.unwrap_or(hold.asked),
                    answered: hold.freed.unwrap_or(Duration::MAX),
                };
                [acquire, free]
            })
            .collect();
        extend(&operations, holds, None, Token(0))
    }

    fn extend(left: &[Operation], holds: &[Hold], holder: Option<usize>, last: Token) -> bool {
        if left.is_empty() {
            return true;
        }
        // Whatever was answered before another one was invoked comes before it.
        let first_answer = left.iter().map(|operation| operation.answered).min().unwrap_or_default();
        (0..left.len()).any(|at| {
            let next = left[at];
            let token = holds[next.hold].token;
            let fits = if next.acquires { holder.is_none() && token > last } else { holder == Some(next.hold) };
            if next.invoked > first_answer || !fits {
                return false;
            }
            let mut rest = left.to_vec();
            rest.remove(at);
            let (holder, last) = if next.acquires { (Some(next.hold), token) } else { (None, last) };
            extend(&rest, holds, holder, last)
        })
    }

    #[test]
    fn the_judgement_is_the_same_as_that_of_a_search_of_all_orders() {
        let mut dice = Dice(1);
        let mut verdicts = [0; 2];
        for _ in 0..20_000 {
            let count = 2 + dice.below(3);
            let mut clock = 0;
            let holds: Vec<Hold> = (0..count)
                .map(|number| {
                    // Close together, so that some overlap and some do not.
                    clock += dice.roll() % 10;
                    let asked = clock.saturating_sub(dice.roll() % 6);
                    let granted = asked + dice.roll() % 6;
                    let acted = granted + dice.roll() % 4;
                    let freed = (!dice.roll().is_multiple_of(3)).then(|| acted + dice.roll() % 4);
                    let token = if dice.roll().is_multiple_of(8) { dice.roll() % 5 } else { number as u64 };
                    let hold = hold(1 + token, [asked, granted, acted], freed);
                    if freed.is_none() && dice.roll().is_multiple_of(2) { Hold { acted: None, ..hold } } else { hold }
                })
                .collect();
            let fits = judge(&holds).is_none();
            assert_eq!(fits, searched(&holds), "{holds:?}");
            verdicts[usize::from(fits)] += 1;
        }
        assert!(verdicts.iter().all(|count| *count > 2_000), "both verdicts are frequent: {verdicts:?}");
    }
}
