//! The reports of the survivors of one fault, and when they reached this process.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use client::{News, Report, Transition};
use types::boot_clock;

use super::machine::Machine;

/// One fault and its consequences.
#[derive(Clone, Debug)]
pub(super) struct Course {
    pub(super) old: u32,
    /// Positions among the endpoints.
    survivors: Vec<usize>,
    start: Instant,
    start_wall_ms: u64,
    /// On the clock of the ledgers' stamps.
    pub(super) start_boot: Duration,
    last: Vec<Option<Seen>>,
    /// A survivor had left the old leader before the fault.
    spoiled: bool,
    machine: Machine,
    /// When the old leader's stream ended here, from the fault. Its connections to members end earlier, and members then need the
    /// processors on which this process would read it.
    pub(super) eof: Option<Duration>,
    /// From the fault to when the first survivor left the old leader, by its own stamp.
    noticed: Option<Duration>,
}

/// The last report of a survivor since the fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    pub(super) member: u32,
    pub(super) leader: Option<u32>,
    leads: bool,
    /// From the fault to its arrival here.
    pub(super) after: Duration,
    /// From the fault to when the member announced it, by the member's stamp.
    announced: Duration,
}

/// How a course ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Ending {
    pub(super) successor: u32,
    /// The last report of the successor.
    pub(super) last: Seen,
    /// From the fault to the last survivor's announcement, by the members' stamps: nothing that is read late here is in it.
    pub(super) announced: Duration,
    /// From the fault to when the first survivor left the old leader, by its own stamp.
    pub(super) noticed: Duration,
}

impl Course {
    /// Must be called right before the fault.
    pub(super) fn begin(old: u32, survivors: Vec<usize>, endpoints: usize) -> Self {
        // Before the clock starts: this reads files.
        let machine = Machine::now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (start_wall_ms, last, spoiled) = (wall.as_millis() as u64, vec![None; endpoints], false);
        let (start_boot, start) = (boot_clock(), Instant::now());
        Course { old, survivors, start, start_wall_ms, start_boot, last, spoiled, machine, eof: None, noticed: None }
    }

    pub(super) fn take(&mut self, report: &Report) {
        let after = report.when.saturating_duration_since(self.start);
        match &report.news {
            News::Became { announcement, transition } if self.survivors.contains(&report.at) => {
                self.spoiled |= self.is_too_early(report.when, announcement.wall_ms, transition);
                let (leader, leads) = (transition.leader(), transition.leads());
                let announced = Duration::from_nanos(announcement.boot_ns).saturating_sub(self.start_boot);
                if leader != Some(self.old) {
                    self.noticed = Some(self.noticed.map_or(announced, |first| first.min(announced)));
                }
                let member = announcement.member;
                self.last[report.at] = Some(Seen { member, leader, leads, after, announced });
            }
            // The first dials of a restarting process fail: only the first loss is the end.
            News::Lost(_) if report.at == self.old as usize - 1 => {
                self.eof.get_or_insert(after);
            }
            _ => {}
        }
    }

    /// A change that the fault did not cause: it arrived before the fault, or the member stamped it before the fault.
    fn is_too_early(&self, when: Instant, stamped_ms: u64, transition: &Transition) -> bool {
        transition.leader() != Some(self.old) && (when < self.start || stamped_ms < self.start_wall_ms)
    }

    /// Must be called when the failover has ended.
    pub(super) fn stop(&mut self) {
        self.machine = Machine::now().since(self.machine);
    }

    /// The machine's counters from the beginning to the stop.
    pub(super) fn machine(&self) -> Machine {
        self.machine
    }

    #[cfg(test)]
    pub(super) fn after(&self, time: Duration) -> Instant {
        self.start + time
    }

    /// A survivor had left the old leader before the fault, so the fault is not measured.
    pub(super) fn is_spoiled(&self) -> bool {
        self.spoiled
    }

    /// All survivors name one successor, and it claims to lead.
    pub(super) fn ending(&self) -> Option<Ending> {
        let seen: Vec<Seen> = self.survivors.iter().map(|&at| self.last[at]).collect::<Option<_>>()?;
        let successor = seen.first()?.leader?;
        let claimed = seen.iter().any(|seen| seen.member == successor && seen.leads);
        let agreed = seen.iter().all(|seen| seen.leader == Some(successor));
        let last = *seen.iter().max_by_key(|seen| seen.after)?;
        let announced = seen.iter().map(|seen| seen.announced).max()?;
        let noticed = self.noticed?;
        (successor != self.old && claimed && agreed).then_some(Ending { successor, last, announced, noticed })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use client::{Announcement, Cause, ClientError, Happened, InstanceId, Role, Standing};
    use types::{Epoch, NodeId};

    use super::*;

    /// A member reports its leader.
    pub(crate) fn reported(member: u32, leader: Option<u32>, wall_ms: u64) -> News {
        let role = if leader == Some(member) { Role::Leader } else { Role::Follower };
        let now = Standing { role, leader: leader.map(NodeId), epoch: Epoch(1) };
        let transition = Transition { old: None, now, cause: Cause::Heard, lease_until_ns: None };
        let (instance, what) = (InstanceId::ELECTION, Happened::Became(transition));
        let announcement = Announcement { member, instance, sequence: 1, wall_ms, boot_ns: 1, what };
        News::Became { announcement, transition }
    }

    /// Members 1 and 2 survive member 3.
    fn begun() -> Course {
        Course::begin(3, vec![0, 1], 3)
    }

    /// `at_ms`: milliseconds after the fault by the member's clock; `when_ms`: by the clock of this process.
    fn report(course: &Course, at: usize, leader: Option<u32>, at_ms: i64, when_ms: i64) -> Report {
        let id = at as u32 + 1;
        let at_ms = course.start_wall_ms.saturating_add_signed(at_ms);
        let late = Duration::from_millis(when_ms.unsigned_abs());
        let when = if when_ms < 0 { course.start.checked_sub(late).unwrap() } else { course.start + late };
        Report { at, when, news: reported(id, leader, at_ms) }
    }

    fn course(reports: &[(usize, Option<u32>, i64, i64)]) -> Course {
        let mut course = begun();
        for &(at, leader, at_ms, when_ms) in reports {
            let report = report(&course, at, leader, at_ms, when_ms);
            course.take(&report);
        }
        course
    }

    #[test]
    fn it_ends_with_the_last_survivors_report_of_a_successor_that_claims_it() {
        assert_eq!(begun().ending(), None, "what was said before the fault does not count");
        assert_eq!(course(&[(0, Some(2), 1, 2)]).ending(), None, "the other one has said nothing");
        assert_eq!(course(&[(0, None, 0, 1), (1, Some(2), 1, 2)]).ending(), None);
        assert_eq!(course(&[(0, Some(3), 0, 1), (1, Some(3), 1, 2)]).ending(), None, "the old leader");
        let ended = course(&[(0, None, 0, 1), (1, Some(2), 1, 2), (0, Some(2), 2, 4)]);
        let ending = ended.ending().unwrap();
        assert_eq!((ending.successor, ending.last.member), (2, 1));
        assert_eq!(ending.last.after, Duration::from_millis(4));
        assert!(!ended.is_spoiled());
        let bystander = course(&[(2, None, -5, -5), (0, Some(2), 1, 1), (1, Some(2), 1, 2)]);
        assert!(bystander.ending().is_some() && !bystander.is_spoiled(), "the old leader's own words do not count");
    }

    #[test]
    fn the_first_survivor_that_left_the_old_leader_by_its_own_stamp_has_noticed_first() {
        let mut course = begun();
        let stamps = [(0, Some(3), 1), (1, None, 7), (0, None, 5), (1, Some(2), 8), (0, Some(2), 9)];
        for (at, leader, stamp_ms) in stamps {
            let mut report = report(&course, at, leader, 1, 10);
            let stamp = course.start_boot + Duration::from_millis(stamp_ms);
            if let News::Became { announcement, .. } = &mut report.news {
                announcement.boot_ns = u64::try_from(stamp.as_nanos()).unwrap();
            }
            course.take(&report);
        }
        let Ending { announced, noticed, .. } = course.ending().unwrap();
        assert_eq!([noticed, announced], [5, 9].map(Duration::from_millis));
    }

    #[test]
    fn the_end_of_the_old_leaders_stream_is_the_first_loss_of_its_own() {
        let mut course = begun();
        for (at, ms) in [(0, 1), (2, 3), (2, 9)] {
            let when = course.after(Duration::from_millis(ms));
            course.take(&Report { at, when, news: News::Lost(ClientError::Closed) });
        }
        assert_eq!(course.eof, Some(Duration::from_millis(3)));
        assert_eq!(course.ending(), None, "a lost stream names no successor");
    }

    #[test]
    fn a_successor_from_before_the_fault_spoils_it_however_late_its_report_arrives() {
        assert!(course(&[(0, Some(2), -3, -2), (1, Some(2), -3, -1)]).is_spoiled(), "read after the fault");
        assert!(course(&[(0, Some(2), -3, 1)]).is_spoiled(), "on its way during the fault");
        assert!(course(&[(0, None, -1, 1)]).is_spoiled(), "it had lost the leader already");
        assert!(!course(&[(0, Some(3), -1, 1)]).is_spoiled(), "it still followed the leader");
        assert!(!course(&[(0, None, 0, 1)]).is_spoiled());
    }
}
