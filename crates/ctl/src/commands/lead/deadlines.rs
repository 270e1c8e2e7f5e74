//! How long an answer of the member is valid, and how much time that leaves to end the command.

use std::time::Duration;

use client::{Client, GRACE_MAX, Safety, format_duration, parse_duration};

use crate::failure::Failure;
use crate::guard::Deadlines;

/// Without a lease an answer is valid for this long: about the time in which the other members notice a silent leader.
const CLASSIC: Duration = Duration::from_millis(500);
/// For killing a process tree: finding it, and scheduling delays.
const MARGIN_MIN: Duration = Duration::from_millis(5);

/// The cluster's settings that matter for a command. The member sends them in its handshake.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Terms {
    /// `None`: classic, there is no lease.
    lease: Option<Duration>,
    drift: f64,
    /// Between SIGTERM and SIGKILL where leadership is lost: within the lease.
    pub(super) grace: Duration,
    /// The same where the member gives leadership away, and waits for the command.
    pub(super) handover: Duration,
}

impl Terms {
    pub(super) fn of(member: &Client, grace: Option<Duration>) -> Result<Self, Failure> {
        let quorum = member.member_fact("safety") == Some(Safety::Quorum.name());
        let lease = member.member_fact("lease").and_then(|text| parse_duration(text).ok());
        let drift = member.member_fact("max_drift").and_then(|text| text.parse().ok());
        let (Some(lease), Some(drift)) = (lease, drift) else {
            return Err(Failure::usage("the member does not report its lease")
                .hint("use a `ctl` of the members' version: `ctl --version`, `node --version`"));
        };
        let (grace_of_loss, handover) = (Duration::ZERO, Duration::ZERO);
        Terms { lease: quorum.then_some(lease), drift, grace: grace_of_loss, handover }.with_grace(grace)
    }

    pub(super) fn is_classic(&self) -> bool {
        self.lease.is_none()
    }

    /// A grace that does not fit the lease is that of a handover alone: the member renews its lease while it waits.
    fn with_grace(self, wanted: Option<Duration>) -> Result<Self, Failure> {
        if let Some(longest) = wanted.filter(|&grace| grace > GRACE_MAX) {
            let what = format!("a grace of {} is too long", format_duration(longest));
            return Err(Failure::usage(what)
                .because("a leader that is told to leave does not wait longer for its commands")
                .hint(format!("--grace {} or less", format_duration(GRACE_MAX))));
        }
        let fits = wanted.filter(|&grace| grace <= self.grace_max());
        let grace = fits.unwrap_or_else(|| (self.usable() / 5).min(self.grace_max()));
        Ok(Terms { grace, handover: wanted.unwrap_or(grace), ..self })
    }

    /// How often the member is asked.
    pub(super) fn poll_every(&self) -> Duration {
        self.usable() / 8
    }

    /// How long to wait for an answer.
    pub(super) fn patience(&self) -> Duration {
        self.usable()
    }

    /// The deadlines that an answer gives. They count from the moment at which its request was *sent*: the answer is
    /// older than its arrival, by an unknown time. `None`: the answer gives no deadlines.
    pub(super) fn deadlines(&self, sent: Duration, lease_left: Option<Duration>) -> Option<Deadlines> {
        let good_for = match (self.lease, lease_left) {
            (Some(_), Some(left)) => left.mul_f64(self.shrink()),
            (Some(_), None) => return None,
            (None, _) => CLASSIC,
        };
        let hard = sent + good_for.saturating_sub(self.margin());
        Some(Deadlines { soft: hard.saturating_sub(self.grace).max(sent), hard })
    }

    /// At an answer the member's last renewal may be a third of its lease old, one poll may be lost, and the process
    /// tree must be dead a margin before the end: the grace gets the remaining time.
    fn grace_max(&self) -> Duration {
        (self.usable() * 2 / 3).saturating_sub(self.margin() + 2 * self.poll_every())
    }

    /// The longest time for which an answer can be valid. The member's own lease is already shorter than the voters'
    /// promise, by the same factor.
    fn usable(&self) -> Duration {
        self.lease.map_or(CLASSIC, |lease| lease.mul_f64(self.shrink() * self.shrink()))
    }

    fn margin(&self) -> Duration {
        (self.usable() / 20).max(MARGIN_MIN)
    }

    /// Both clocks may err by the drift, in opposite directions.
    fn shrink(&self) -> f64 {
        (1.0 - self.drift) / (1.0 + self.drift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: Duration = Duration::from_secs(1000);

    fn terms(lease_ms: Option<u64>, drift: f64) -> Terms {
        Terms { lease: lease_ms.map(Duration::from_millis), drift, grace: Duration::ZERO, handover: Duration::ZERO }
    }

    #[test]
    fn an_answer_counts_from_its_request_and_ends_before_both_clocks_can_disagree() {
        let terms = terms(Some(500), 0.1).with_grace(Some(Duration::from_millis(50))).unwrap();
        let left = Duration::from_millis(400);
        let Deadlines { soft, hard } = terms.deadlines(SENT, Some(left)).unwrap();
        assert!(hard < SENT + left.mul_f64(0.9 / 1.1), "{hard:?}");
        assert_eq!(hard, soft + Duration::from_millis(50));
        assert_eq!(terms.deadlines(SENT, None), None, "a quorum leader without a lease is none");
    }

    #[test]
    fn a_lease_that_is_nearly_over_leaves_no_time_at_all() {
        let terms = terms(Some(500), 0.01).with_grace(None).unwrap();
        let deadlines = terms.deadlines(SENT, Some(Duration::from_millis(3))).unwrap();
        assert_eq!(deadlines, Deadlines { soft: SENT, hard: SENT });
    }

    #[test]
    fn classic_answers_are_good_for_half_a_second() {
        let terms = terms(None, 0.01).with_grace(None).unwrap();
        let deadlines = terms.deadlines(SENT, None).unwrap();
        assert!(deadlines.soft < deadlines.hard && deadlines.hard < SENT + CLASSIC, "{deadlines:?}");
    }

    #[test]
    fn the_default_grace_fits_every_lease_and_a_longer_one_than_fits_is_that_of_handovers() {
        for lease in [Some(20), Some(100), Some(500), Some(60_000), None] {
            for drift in [0.0, 0.01, 0.1, 0.49] {
                let terms = terms(lease, drift);
                let default = terms.with_grace(None).unwrap();
                assert!(default.grace <= terms.grace_max());
                assert!(terms.with_grace(Some(terms.grace_max().min(GRACE_MAX))).is_ok());
                let longer = (terms.grace_max() + Duration::from_millis(1)).min(GRACE_MAX);
                let long = terms.with_grace(Some(longer)).unwrap();
                assert!(long.grace <= terms.grace_max() && long.handover == longer, "{long:?}");
                let refused = terms.with_grace(Some(GRACE_MAX + Duration::from_millis(1))).unwrap_err();
                assert_eq!(refused.exit, crate::failure::Exit::Usage, "{refused}");
                // Also with the shortest remaining lease between two renewals, a lost poll does not end the command.
                let left = lease.map(|ms| Duration::from_millis(ms).mul_f64(terms.shrink()) * 2 / 3);
                let soft = default.deadlines(SENT, left).unwrap().soft;
                if terms.grace_max() > Duration::ZERO {
                    let rounding = Duration::from_micros(1);
                    assert!(soft + rounding >= SENT + 2 * terms.poll_every(), "{lease:?} {drift}");
                }
            }
        }
    }
}
