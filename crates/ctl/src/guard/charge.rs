//! A guarded command while it runs: its deadlines move on with every confirmation, and it is stopped when they do not.
//! `ctl lead` and `ctl lock` differ in what confirms the right to run; everything else is here.

use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use client::Alarm;
use types::since_boot;

use super::schedule::Schedule;
use super::signals::Signals;
use super::{Deadlines, GuardHandle, Report};
use crate::failure::{Exit, Failure, remark};

/// What a command runs with.
#[derive(Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) command: &'a [OsString],
    pub(crate) environment: &'a [(&'a str, String)],
    /// A connection that must not close before the last process of the command has ended.
    pub(crate) attachment: Option<BorrowedFd<'a>>,
    pub(crate) deadlines: Deadlines,
    /// Between SIGTERM and SIGKILL.
    pub(crate) grace: Duration,
    /// The same where the right to run lasts until the command has stopped.
    pub(crate) handover: Duration,
}

pub(crate) struct Charge {
    guard: GuardHandle,
    alarm: Alarm,
    schedule: Schedule,
    grace: Duration,
    handover: Duration,
    /// Why the right to run is lost, or ends when the command has stopped.
    lost: Option<String>,
    /// The right to run lasts until the command has stopped: confirmations still count.
    hands_over: bool,
}

/// What happens to a command.
#[derive(Debug)]
pub(crate) enum Turn {
    /// The soft deadline has passed: the caller gives up and says why.
    Unconfirmed,
    Over(End),
}

/// How a run ended.
#[derive(Debug)]
pub(crate) enum End {
    Ended { code: u8 },
    NotStarted { code: u8, reason: String },
    Lost,
    GuardGone,
}

impl Charge {
    pub(crate) fn start(terms: &Terms<'_>) -> io::Result<Self> {
        let Terms { command, environment, attachment, deadlines, grace, handover } = *terms;
        let schedule = Schedule::new(deadlines);
        let mut alarm = Alarm::never_late()?;
        alarm.set(Some(schedule.due_at()))?;
        let guard = GuardHandle::start(command, environment, attachment, deadlines, grace)?;
        Ok(Charge { guard, alarm, schedule, grace, handover, lost: None, hands_over: false })
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.is_some() && !self.hands_over
    }

    /// The right to run was confirmed: deadlines only move on.
    pub(crate) fn renew(&mut self, deadlines: Deadlines) -> io::Result<()> {
        if self.is_lost() {
            return Ok(());
        }
        self.schedule.renew(deadlines);
        self.alarm.set(Some(self.schedule.due_at()))?;
        self.guard.renew(self.schedule.deadlines());
        Ok(())
    }

    /// Stops the command, which has its grace.
    pub(crate) fn give_up(&mut self, why: String) -> io::Result<()> {
        self.stop(why, since_boot() + self.grace)
    }

    /// Stops the command at its soft deadline: the rest until the hard one is its grace.
    pub(crate) fn give_up_late(&mut self, why: String) -> io::Result<()> {
        self.stop(why, self.schedule.deadlines().hard)
    }

    /// Stops the command, which has the grace of a handover: what gave the right to run waits for its end.
    pub(crate) fn hand_over(&mut self, why: String) -> io::Result<()> {
        if self.lost.is_some() {
            return Ok(());
        }
        self.stop(why, since_boot() + self.handover)?;
        self.hands_over = true;
        Ok(())
    }

    fn stop(&mut self, why: String, kill_at: Duration) -> io::Result<()> {
        if self.is_lost() {
            return Ok(());
        }
        self.hands_over = false;
        self.lost.get_or_insert(why);
        self.guard.stop(self.schedule.stop(kill_at));
        self.alarm.set(Some(self.schedule.due_at()))
    }

    /// Passes signals on until something happens that the caller must know. Cancel-safe.
    pub(crate) async fn next(&mut self, signals: &mut Signals) -> io::Result<Turn> {
        loop {
            tokio::select! {
                biased;
                due = self.alarm.due() => {
                    due?;
                    // Lost: the guard's time is over. If the guard has not done its work, this process does it.
                    return Ok(if self.lost.is_some() { Turn::Over(End::Lost) } else { Turn::Unconfirmed });
                }
                report = self.guard.report() => return Ok(Turn::Over(match report {
                    Some(Report::Started) => continue,
                    Some(Report::Failed { code, reason }) => End::NotStarted { code, reason },
                    Some(Report::Ended { stopped: true, .. }) => End::Lost,
                    Some(Report::Ended { code, .. }) => End::Ended { code },
                    None => End::GuardGone,
                })),
                number = signals.next() => if self.guard.signal(number).is_err() {
                    remark(format!("signal {number} was not passed on: the guard does not read"));
                },
            }
        }
    }

    /// No process of the command is left when this returns. The reason if the right to run was lost.
    pub(crate) async fn finish(self) -> Option<String> {
        self.guard.end().await;
        self.lost
    }
}

impl End {
    /// The exit of `ctl`. `lost`: why the right to run ended, if it did; `failure` says that to the user.
    pub(crate) fn exit(self, lost: Option<String>, failure: impl FnOnce(String) -> Failure) -> Result<(), Failure> {
        match (self, lost) {
            (End::NotStarted { code, reason }, _) => {
                remark(reason);
                Err(Failure::passed(code))
            }
            (_, Some(why)) => Err(failure(why)),
            (End::Lost, None) => Err(failure("its time ended without a confirmation".to_owned())),
            (End::Ended { code: 0 }, None) => Ok(()),
            (End::Ended { code }, None) => Err(Failure::passed(code)),
            (End::GuardGone, None) => {
                Err(Failure::new(Exit::Failed, "the guard was killed, so the command was killed too")
                    .hint("start it again, and leave the process `ctl guard` alone"))
            }
        }
    }
}
