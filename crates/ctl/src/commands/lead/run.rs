//! The time in which the command runs: confirming leadership, passing on signals, and ending the command.

use std::os::fd::AsFd;

use algorithms::{Epoch, Token};
use client::{Attachment, Cause, ClientError, Notice, Role, Transition};
use tokio::sync::watch;

use super::deadlines::Terms;
use super::load::{self, Load};
use super::member::{Answer, Member, Poller, Unreached};
use super::{Accession, Args};
use crate::failure::{Exit, Failure};
use crate::guard::{self, Charge, End, Progress, Signals, Turn};

/// What the command writes to `ctl`.
pub(super) struct Pipes {
    pub(super) progress: Option<Progress>,
    pub(super) load: Option<Load>,
}

pub(super) struct Run {
    id: u32,
    epoch: u64,
    charge: Charge,
    pipes: Pipes,
    /// Kept to the end: when it closes, the member knows that no child runs any more.
    attachment: Attachment,
    /// Why the member did not confirm its leadership at the last poll.
    silent: Option<Unreached>,
}

impl Run {
    pub(super) fn start(
        args: &Args,
        member: &Member,
        terms: Terms,
        accession: Accession,
        mut pipes: Pipes,
    ) -> Result<Self, Failure> {
        let Accession { attachment, epoch, deadlines } = accession;
        let token = Token::leader(Epoch(epoch));
        let mut environment = vec![("CONCLAVE_TOKEN", token.to_string()), ("CONCLAVE_EPOCH", epoch.to_string())];
        if let Some(load) = &pipes.load {
            environment.push(("CONCLAVE_LOAD_FD", load.descriptor()));
        }
        if let Some(progress) = &mut pipes.progress {
            environment.push(("CONCLAVE_PROGRESS_FD", progress.descriptor()));
            progress.begin();
        }
        let charge = Charge::start(&guard::Terms {
            command: &args.command,
            environment: &environment,
            attachment: Some(attachment.as_fd()),
            deadlines,
            grace: terms.grace,
            handover: terms.handover,
        })?;
        Ok(Run { id: member.id(), epoch, charge, pipes, attachment, silent: None })
    }

    /// No process of the command is left when this returns.
    pub(super) async fn finish(mut self, poller: Poller, signals: &mut Signals) -> Result<(), Failure> {
        let end = self.follow(poller, signals).await;
        let why = self.charge.finish().await;
        drop(self.attachment);
        end?.exit(why, |why| lost(self.id, why))
    }

    async fn follow(&mut self, poller: Poller, signals: &mut Signals) -> std::io::Result<End> {
        let (mut answers, asking) = poller.keep_asking();
        let (newest, to_tell) = watch::channel(None);
        let telling = tokio::spawn(load::tell(self.attachment.reporter(), to_tell));
        let end = loop {
            let lost = self.charge.is_lost();
            tokio::select! {
                biased;
                turn = self.charge.next(signals) => match turn? {
                    Turn::Unconfirmed => self.charge.give_up_late(self.not_confirmed())?,
                    Turn::Over(end) => break end,
                },
                notice = self.attachment.next(), if !lost => self.hear(notice)?,
                Some(answer) = answers.recv(), if !lost => self.take(answer)?,
                written = Progress::next_of(&mut self.pipes.progress), if !lost => {
                    written?;
                    if let Some(progress) = self.pipes.progress.as_ref().filter(|progress| progress.is_stalled()) {
                        self.charge.give_up(progress.complaint())?;
                    }
                }
                // Read to the end: a command that is told to stop must not hang in a write.
                work = Load::next_of(&mut self.pipes.load) => {
                    let _ = newest.send(Some(work?));
                }
            }
        };
        asking.abort();
        // Its connection tells the member that the command may still run.
        telling.abort();
        let _ = telling.await;
        Ok(end)
    }

    fn take(&mut self, answer: Answer) -> std::io::Result<()> {
        match answer {
            Answer::Leads { deadlines, .. } => {
                self.silent = None;
                self.charge.renew(deadlines)
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
            return self.charge.give_up(format!("it was elected again, in epoch {epoch}"));
        }
        self.deposed(became.now.role, became.leader())
    }

    fn hear(&mut self, notice: Result<Option<Notice>, ClientError>) -> std::io::Result<()> {
        match notice {
            Ok(Some(Notice::Stop)) => self.charge.hand_over("it hands leadership over".to_owned()),
            Ok(Some(Notice::Announced(announcement))) => match announcement.transition() {
                Some(became) => self.became(became),
                None => Ok(()),
            },
            // Without a lease, the successor of a dead member may lead before its answers have expired.
            Ok(None) => self.charge.give_up("it closed the connection".to_owned()),
            Err(error) => self.charge.give_up(error.to_string()),
        }
    }

    fn deposed(&mut self, role: Role, leader: Option<u32>) -> std::io::Result<()> {
        let whom = leader.map_or_else(String::new, |leader| format!(" of {leader}"));
        self.charge.give_up(format!("it is now a {role}{whom}"))
    }

    fn not_confirmed(&self) -> String {
        let why = self.silent.as_ref().map_or_else(|| "no answer".to_owned(), ToString::to_string);
        format!("it did not confirm its leadership in time: {why}")
    }
}

fn lost(id: u32, why: String) -> Failure {
    Failure::new(Exit::Lost, format!("member {id} does not lead any more, so the command was stopped"))
        .because(why)
        .hint("start it again: it waits until the member leads")
}
