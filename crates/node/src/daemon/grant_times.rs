//! Since when locks are held, for people: in bounded memory, whatever the number of grants.

use std::time::Duration;

use types::Token;

/// Grants closer together than this share one entry.
const APART: Duration = Duration::from_millis(100);
const ENTRIES_MAX: usize = 4096;

/// Tokens rise with time: a few pairs of them tell the time of all between.
#[derive(Debug, Default)]
pub(super) struct GrantTimes(Vec<(Token, Duration)>);

impl GrantTimes {
    pub(super) fn granted(&mut self, token: Token, now: Duration) {
        if self.0.last().is_some_and(|&(last, at)| token <= last || now < at + APART) {
            return;
        }
        if self.0.len() == ENTRIES_MAX {
            // The older half loses every second entry: the older a grant, the less its tenths of a second matter.
            let mut place = 0;
            self.0.retain(|_| {
                place += 1;
                place > ENTRIES_MAX / 2 || place % 2 == 1
            });
        }
        self.0.push((token, now));
    }

    /// About when the lock with this token was granted; `None` if that was before the first entry.
    pub(super) fn of(&self, token: Token) -> Option<Duration> {
        let after = self.0.partition_point(|&(known, _)| known <= token);
        Some(self.0.get(after.checked_sub(1)?)?.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_about_right_and_memory_is_bounded() {
        let mut times = GrantTimes::default();
        let at = |token: u64| Duration::from_millis(7 * token);
        for token in 10..200_000 {
            times.granted(Token(token), at(token));
        }
        assert!(times.0.len() <= ENTRIES_MAX);
        assert_eq!(times.of(Token(9)), None, "before the first");
        for token in [10, 1000, 100_000, 199_999] {
            let (found, real) = (times.of(Token(token)).unwrap(), at(token));
            let error = real.saturating_sub(found);
            assert!(found <= real && error <= APART + at(199_999).saturating_sub(real) / 50, "{token}: {error:?}");
        }
    }
}
