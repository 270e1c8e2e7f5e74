//! Judges the history of one lock: is it what a mutex may do?
//!
//! Every critical section has a *core*: from the moment at which its client knew that it had the lock to the last moment at
//! which the client acted on it, before it asked for the release. An acquire takes effect between its request and its answer,
//! a release between its request and its answer. If the cores do not overlap, every acquire can be placed at the end of its
//! span and every release at the beginning, and that order is one of a mutex. If two cores overlap, no order is. So a history
//! is linearizable exactly if no two cores overlap. Tokens must rise in that order.

use std::time::Duration;

use types::Token;

/// One critical section, on one clock for all clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Section {
    pub client: u32,
    pub token: Token,
    /// When the lock was granted, as the client saw it.
    pub entered: Duration,
    /// The client acted for the last time.
    pub left: Duration,
}

/// What is wrong with a history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// Two clients acted at the same time.
    Overlap(Section, Section),
    /// A later section has a token that is not larger.
    TokenFell(Section, Section),
}

/// The first flaw, in the order of time.
pub fn judge(sections: &[Section]) -> Result<(), Flaw> {
    let mut ordered = sections.to_vec();
    ordered.sort_by_key(|section| (section.entered, section.left));
    for pair in ordered.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        if first.left > second.entered {
            return Err(Flaw::Overlap(first, second));
        }
        if first.token >= second.token {
            return Err(Flaw::TokenFell(first, second));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(client: u32, token: u64, entered: u64, left: u64) -> Section {
        let at = Duration::from_millis;
        Section { client, token: Token(token), entered: at(entered), left: at(left) }
    }

    #[test]
    fn sections_one_after_another_are_a_mutex_whatever_the_order_they_are_written_down_in() {
        let all = [section(1, 5, 10, 20), section(2, 9, 25, 30), section(1, 7, 20, 25)];
        assert_eq!(judge(&all), Ok(()));
        assert_eq!(judge(&[]), Ok(()));
    }

    #[test]
    fn two_at_a_time_are_found_also_if_one_is_inside_the_other_or_long_before() {
        let (outer, inner) = (section(1, 5, 10, 90), section(2, 6, 30, 40));
        assert_eq!(judge(&[outer, inner]), Err(Flaw::Overlap(outer, inner)));
        assert_eq!(judge(&[section(3, 7, 50, 60), inner, outer]), Err(Flaw::Overlap(outer, inner)));
        let late = section(2, 6, 89, 95);
        assert_eq!(judge(&[late, outer]), Err(Flaw::Overlap(outer, late)));
    }

    #[test]
    fn a_token_that_does_not_rise_is_found() {
        for token in [5, 4] {
            let (first, second) = (section(1, 5, 10, 20), section(2, token, 30, 40));
            assert_eq!(judge(&[first, second]), Err(Flaw::TokenFell(first, second)));
        }
    }
}
