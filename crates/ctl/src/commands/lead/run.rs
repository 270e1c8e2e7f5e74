//! The time in which the command runs: confirming leadership, passing on signals, and ending the command.

use std::os::fd::AsFd;
use std::time::Duration;

use algorithms::{Epoch, Token};
use client::{Alarm, Attachment, Cause, ClientError, Notice, Role, Transition};
use types::since_boot;

use super::deadlines::Terms;
use super::member::{Answer, Member, Poller};
use super::signals::Signals;
use super::{Accession, Args};
use crate::failure::{Exit, Failure};
use crate::guard::{Deadlines, GuardHandle, Report};

pub(super) struct Run {
    id: u32,
    epoch: u64,
    terms: Terms,
    guard: GuardHandle,
    /// Kept to the end: when it closes, the member knows that no child runs any more.
    attachment: Attachment,
    alarm: Alarm,
    deadlines: Deadlines,
    /// Why leadership is lost, if it is.
    lost: Option<String>,
    /// Why the member did not confirm its leadership at the last poll.
    silent: Option<ClientError>,
}

/// How the run ended.
enum End {
    Ended { code: u8 },
    NotStarted { code: u8, reason: String },
    Lost,
    GuardGone,
}

impl Run {
    pub(super) fn start(args: &Args, member: &Member, terms: Terms, accession: Accession) -> Result<Self, Failure> {
        let Accession { attachment, epoch, deadlines } = accession;
        let id = member.id();
        let token = Token::leader(Epoch(epoch));
        let environment = [("CONCLAVE_TOKEN", token.to_string()), ("CONCLAVE_EPOCH", epoch.to_string())];
        let mut alarm = Alarm::never_late()?;
        alarm.set(Some(deadlines.soft))?;
        let guard = GuardHandle::start(&args.command, &environment, attachment.as_fd(), deadlines, terms.grace)?;
        Ok(Run { id, epoch, terms, guard, attachment, alarm, deadlines, lost: None, silent: None })
    }

    /// No process of the command is left when this returns.
    pub(super) async fn finish(mut self, poller: Poller, signals: Signals) -> Result<(), Failure> {
        let end = self.follow(poller, signals).await;
        self.guard.end().await;
        drop(self.attachment);
        match (end?, self.lost) {
            (End::NotStarted { code, reason }, _) => {
                eprintln!("ctl: {reason}");
                Err(Failure::passed(code))
            }
            (_, Some(why)) => Err(lost(self.id, why)),
            (End::Lost, None) => Err(lost(self.id, "its lease ended".to_owned())),
            (End::Ended { code: 0 }, None) => Ok(()),
            (End::Ended { code }, None) => Err(Failure::passed(code)),
            (End::GuardGone, None) => {
                Err(Failure::new(Exit::Failed, "the guard was killed, so the command was killed too")
                    .hint("start it again, and leave the process `ctl guard` alone"))
            }
        }
    }

    async fn follow(&mut self, poller: Poller, mut signals: Signals) -> std::io::Result<End> {
        let (mut answers, asking) = poller.keep_asking();
        let end = loop {
            tokio::select! {
                biased;
                due = self.alarm.due() => {
                    due?;
                    if self.lost.is_some() {
                        // The guard's time is over. If the guard has not done its work, this process does it.
                        break End::Lost;
                    }
                    self.give_up(self.not_confirmed(), self.deadlines.hard)?;
                }
                report = self.guard.report() => match report {
                    Some(Report::Started) => {}
                    Some(Report::Failed { code, reason }) => break End::NotStarted { code, reason },
                    Some(Report::Ended { stopped: true, .. }) => break End::Lost,
                    Some(Report::Ended { code, .. }) => break End::Ended { code },
                    None => break End::GuardGone,
                },
                number = signals.next() => if self.guard.signal(number).is_err() {
                    eprintln!("ctl: signal {number} was not passed on: the guard does not read");
                },
                notice = self.attachment.next(), if self.lost.is_none() => self.hear(notice)?,
                Some(answer) = answers.recv(), if self.lost.is_none() => self.take(answer)?,
            }
        };
        asking.abort();
        Ok(end)
    }

    fn take(&mut self, answer: Answer) -> std::io::Result<()> {
        match answer {
            Answer::Leads { deadlines, .. } => {
                self.silent = None;
                self.deadlines = self.deadlines.later(deadlines);
                self.alarm.set(Some(self.deadlines.soft))?;
                self.guard.renew(self.deadlines);
                Ok(())
            }
            Answer::DoesNotLead { role, leader } => self.deposed(role, leader),
            Answer::Silent(error) => {
                self.silent = Some(error);
                Ok(())
            }
        }
    }

    fn became(&mut self, became: &Transition) -> std::io::Result<()> {
        let (leads, epoch) = (became.leads(), became.now.epoch.0);
        // A larger epoch within one reign: a restarted member was ahead. After any other cause another member may have
        // led in between, and a resource that has seen its token refuses the command's token.
        let same_reign = epoch == self.epoch || became.cause == Cause::Bumped;
        // Epochs never decrease, so a smaller one is news from before the confirmation.
        if epoch < self.epoch || (leads && same_reign) {
            return Ok(());
        }
        if leads {
            return self.give_up_now(format!("it was elected again, in epoch {epoch}"));
        }
        self.deposed(became.now.role, became.leader())
    }

    fn hear(&mut self, notice: Result<Option<Notice>, ClientError>) -> std::io::Result<()> {
        match notice {
            Ok(Some(Notice::Stop)) => self.give_up_now("it hands leadership over".to_owned()),
            Ok(Some(Notice::Announced(announcement))) => match announcement.transition() {
                Some(became) => self.became(became),
                None => Ok(()),
            },
            // Without a lease, the successor of a dead member may lead before its answers have expired.
            Ok(None) => self.give_up_now("it closed the connection".to_owned()),
            Err(error) => self.give_up_now(error.to_string()),
        }
    }

    fn deposed(&mut self, role: Role, leader: Option<u32>) -> std::io::Result<()> {
        let whom = leader.map_or_else(String::new, |leader| format!(" of {leader}"));
        self.give_up_now(format!("it is now a {role}{whom}"))
    }

    fn not_confirmed(&self) -> String {
        let why = self.silent.as_ref().map_or_else(|| "no answer".to_owned(), ToString::to_string);
        format!("it did not confirm its leadership in time: {why}")
    }

    fn give_up_now(&mut self, why: String) -> std::io::Result<()> {
        self.give_up(why, since_boot() + self.terms.grace)
    }

    fn give_up(&mut self, why: String, kill_at: Duration) -> std::io::Result<()> {
        let kill_at = self.deadlines.kill_at(None, kill_at);
        self.lost = Some(why);
        self.guard.stop(kill_at);
        self.alarm.set(Some(kill_at))
    }
}

fn lost(id: u32, why: String) -> Failure {
    Failure::new(Exit::Lost, format!("member {id} does not lead any more, so the command was stopped"))
        .because(why)
        .hint("start it again: it waits until the member leads")
}
