//! Setbacks: failed successions, short reigns and restarts. They make a member wait longer before it takes over from a
//! healthy leader. They never delay an election without a leader, nor what an operator asks for.
//!
//! A member notices its own failures. A restart makes it forget them, so every other member counts its restarts and
//! reports the count to it in heartbeats.

use std::time::Duration;

use algorithms::View;

use crate::positions::FullPos;
use crate::settings::Settings;

/// One setback of every member is forgiven after this time. A leadership that ends before is a short reign.
pub(crate) const MEMORY: Duration = Duration::from_mins(5);
/// A failure weighs as much as two restarts: the first restart delays nothing, the first failure does.
const FAILURE: u8 = 2;
const MAX: u8 = 6;
/// Each setback after the first makes the wait this many times longer.
const FACTOR: u32 = 4;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Setbacks {
    /// By position.
    counts: Vec<u8>,
    /// This member leads, and has not led for long.
    new_reign: bool,
}

impl Setbacks {
    pub(crate) fn start(view: &View) -> Self {
        Setbacks { counts: vec![0; view.len()], new_reign: false }
    }

    /// This member failed to succeed a leader.
    pub(crate) fn fail(&mut self, me: FullPos) {
        self.add(me, FAILURE);
    }

    pub(crate) fn restarted(&mut self, peer: FullPos, times: u64) {
        self.add(peer, u8::try_from(times).unwrap_or(MAX));
    }

    fn add(&mut self, at: FullPos, weight: u8) {
        self.counts[at.0] = self.counts[at.0].saturating_add(weight).min(MAX);
    }

    /// Another member remembers this many setbacks of this member.
    pub(crate) fn told(&mut self, me: FullPos, setbacks: u8) {
        self.counts[me.0] = self.counts[me.0].max(setbacks.min(MAX));
    }

    pub(crate) fn of(&self, at: FullPos) -> u8 {
        self.counts[at.0]
    }

    /// The view has changed.
    pub(crate) fn reseat(&mut self, old: &View, new: &View) {
        let of = |at: FullPos| FullPos::of(old, at.id(new)).map_or(0, |at| self.counts[at.0]);
        self.counts = FullPos::all(new).map(of).collect();
    }

    pub(crate) fn any(&self) -> bool {
        self.counts.iter().any(|&count| count > 0)
    }

    pub(crate) fn pardon(&mut self) {
        for count in &mut self.counts {
            *count = count.saturating_sub(1);
        }
    }

    pub(crate) fn reign_begins(&mut self) {
        self.new_reign = true;
    }

    /// This member has led long enough, or gave its leadership away.
    pub(crate) fn forget_reign(&mut self) {
        self.new_reign = false;
    }

    pub(crate) fn is_new_reign(&self) -> bool {
        self.new_reign
    }

    /// This member lost its leadership.
    pub(crate) fn reign_lost(&mut self, me: FullPos) {
        if std::mem::take(&mut self.new_reign) {
            self.fail(me);
        }
    }
}

/// How long a member with so many setbacks waits before it takes over from a healthy leader.
pub(crate) fn patience(setbacks: u8, settings: &Settings) -> Duration {
    let longer = settings.preempt_after.saturating_mul(FACTOR.pow(u32::from(setbacks.saturating_sub(1))));
    longer.min(settings.preempt_after_max).max(settings.preempt_after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use algorithms::Uid;

    const ME: FullPos = FullPos(0);

    fn setbacks() -> Setbacks {
        Setbacks::start(&View::mesh(vec![Uid::plain(1), Uid::plain(2)]))
    }

    fn seconds(setbacks: &Setbacks) -> u64 {
        patience(setbacks.of(ME), &Settings::default()).as_secs()
    }

    #[test]
    fn the_first_restart_delays_nothing_and_further_setbacks_delay_exponentially() {
        let mut restarts = setbacks();
        let waits = [0; 8].map(|_| {
            restarts.restarted(ME, 1);
            seconds(&restarts)
        });
        assert_eq!(waits, [1, 4, 16, 64, 256, 300, 300, 300]);
        let mut failures = setbacks();
        failures.fail(ME);
        assert_eq!(seconds(&failures), 4);
        failures.restarted(FullPos(1), u64::MAX);
        assert_eq!((seconds(&failures), failures.of(FullPos(1))), (4, MAX), "each member has its own");
    }

    #[test]
    fn a_long_wait_that_the_operator_chose_is_never_shortened() {
        let settings = Settings { preempt_after: Duration::from_mins(15), ..Settings::default() };
        assert_eq!(patience(MAX, &settings), settings.preempt_after);
    }

    #[test]
    fn setbacks_are_forgiven_one_by_one_and_a_report_never_lowers_them() {
        let mut one = setbacks();
        one.told(ME, u8::MAX);
        one.told(ME, 1);
        for left in (0..MAX).rev() {
            assert!(one.any());
            one.pardon();
            assert_eq!(one.of(ME), left);
        }
        assert!(!one.any());
    }

    #[test]
    fn only_a_short_reign_that_was_lost_is_a_failure() {
        let mut one = setbacks();
        one.reign_begins();
        one.forget_reign();
        one.reign_lost(ME);
        assert_eq!(one.of(ME), 0);
        one.reign_begins();
        one.reign_lost(ME);
        assert_eq!(one.of(ME), FAILURE);
    }
}
