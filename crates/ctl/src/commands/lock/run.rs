//! The time in which the command runs: confirming the lock, passing on signals, and ending the command.

use std::time::Duration;

use client::{LockGuard, Right, Session, format_duration};

use super::Args;
use crate::failure::{Exit, Failure};
use crate::guard::grace::{self, Room};
use crate::guard::{self, Charge, Deadlines, End, Progress, Signals, Turn};

/// The clerk is told of the end of the command within this time, or learns of it by the ttl.
pub(super) const GOODBYE: Duration = Duration::from_secs(1);
/// For killing a process tree: finding it, and scheduling delays.
const MARGIN_MIN: Duration = Duration::from_millis(5);

pub(super) struct Run {
    name: String,
    grace: Duration,
    charge: Charge,
    progress: Option<Progress>,
    guard: LockGuard,
    session: Session,
}

/// At a confirmation a third of the ttl may be over, and the next one may be lost: the grace gets the remaining time.
pub(super) fn grace(ttl: Duration, wanted: Option<Duration>) -> Result<Duration, Failure> {
    let what = format!("a ttl of {}", format_duration(ttl));
    let room = Room {
        usable: ttl,
        fits: (ttl / 3).saturating_sub(margin(ttl)),
        what: &what,
        because: "the command must have ended before another holder gets the lock",
        or: "a longer --ttl",
    };
    grace::choose(wanted, &room)
}

fn margin(ttl: Duration) -> Duration {
    (ttl / 50).max(MARGIN_MIN)
}

impl Run {
    pub(super) fn start(
        args: &Args,
        grace: Duration,
        mut progress: Option<Progress>,
        session: Session,
        guard: LockGuard,
    ) -> Result<Self, Failure> {
        let token = guard.token();
        let mut environment = vec![
            ("CONCLAVE_TOKEN", token.to_string()),
            ("CONCLAVE_EPOCH", token.epoch().0.to_string()),
            ("CONCLAVE_LOCK", args.lock.to_string()),
        ];
        if let Some(progress) = &mut progress {
            environment.push(("CONCLAVE_PROGRESS_FD", progress.descriptor()));
            progress.begin();
        }
        let charge = Charge::start(&guard::Terms {
            command: &args.command,
            environment: &environment,
            attachment: None,
            deadlines: deadlines(guard.until(), grace, session.ttl()),
            grace,
            handover: grace,
        })?;
        Ok(Run { name: args.lock.to_string(), grace, charge, progress, guard, session })
    }

    /// No process of the command is left when this returns, and then the lock is released.
    pub(super) async fn finish(mut self, mut signals: Signals) -> Result<(), Failure> {
        let end = self.follow(&mut signals).await;
        let lost = self.charge.finish().await;
        let goodbye = async {
            let _ = self.guard.release().await;
            self.session.close().await;
        };
        let _ = tokio::time::timeout(GOODBYE, goodbye).await;
        end?.exit(lost, |why| not_held(&self.name, why))
    }

    async fn follow(&mut self, signals: &mut Signals) -> std::io::Result<End> {
        loop {
            let lost = self.charge.is_lost();
            // The lock is confirmed only while somebody asks for its state here.
            let stalled = self.progress.as_ref().is_some_and(Progress::is_stalled);
            tokio::select! {
                biased;
                turn = self.charge.next(signals) => match turn? {
                    Turn::Unconfirmed => self.charge.give_up_late(self.not_confirmed())?,
                    Turn::Over(end) => return Ok(end),
                },
                right = self.guard.changed(), if !lost && !stalled => match right {
                    Right::Until(until) => {
                        self.charge.renew(deadlines(until, self.grace, self.session.ttl()))?;
                    }
                    Right::Lost(why) => self.charge.give_up(why.to_string())?,
                },
                written = Progress::next_of(&mut self.progress), if !lost => written?,
            }
        }
    }

    fn not_confirmed(&self) -> String {
        match self.progress.as_ref().filter(|progress| progress.is_stalled()) {
            Some(progress) => progress.complaint(),
            None => "no member confirmed it in time".to_owned(),
        }
    }
}

fn deadlines(until: Duration, grace: Duration, ttl: Duration) -> Deadlines {
    let hard = until.saturating_sub(margin(ttl));
    Deadlines { soft: hard.saturating_sub(grace), hard }
}

fn not_held(name: &str, why: String) -> Failure {
    Failure::new(Exit::Lost, format!("{name} is not held any more, so the command was stopped"))
        .because(why)
        .hint("start it again: it waits for the lock")
}
