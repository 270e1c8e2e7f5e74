//! This member's priority: an order of an operator, else the last number of the command of `[priority]`, else that of the
//! member list. It holds for all elections of this process. An order is kept on the disk, a printed number is not: after a
//! restart the command runs at once, and an old number says nothing of the present.

use client::{FailCode, PriorityBy, Request, Response};
use member::Command;
use tokio::sync::watch;
use types::InstanceId;

use super::calls::reply;
use super::{Daemon, failed};
use crate::config::priority::refusal;
use crate::disk::Ticket;
use crate::publisher::Subscription;

pub(super) struct Priority {
    /// By an operator, on the disk.
    ordered: Option<u32>,
    /// By the command, if there is one.
    printed: Option<watch::Receiver<Option<u32>>>,
    /// By a config that was read again; `None`: that of the member list.
    configured: Option<u32>,
    /// Orders that are on their way to the disk, in order.
    waiting: Vec<(Ticket, Option<u32>, Subscription)>,
}

impl Priority {
    /// `printed`: by the command, if there is one.
    pub(super) fn new(ordered: Option<u32>, printed: Option<watch::Receiver<Option<u32>>>) -> Self {
        Priority { ordered, printed, configured: None, waiting: Vec::new() }
    }

    /// Ends when the command prints another number. Cancel-safe.
    pub(super) async fn changes(&mut self) {
        let Some(printed) = &mut self.printed else { return std::future::pending().await };
        if printed.changed().await.is_err() {
            // The command has ended with its thread.
            std::future::pending::<()>().await;
        }
    }

    pub(super) fn configure(&mut self, priority: u32) {
        self.configured = Some(priority);
    }

    fn now(&self) -> Option<(u32, PriorityBy)> {
        let printed = self.printed.as_ref().and_then(|printed| *printed.borrow());
        let by = |value: Option<u32>, by| value.map(|value| (value, by));
        by(self.ordered, PriorityBy::Operator)
            .or_else(|| by(printed, PriorityBy::Command))
            .or_else(|| by(self.configured, PriorityBy::List))
    }
}

impl Daemon {
    /// Tells the machines and the visible state. The same priority again changes nothing.
    pub(super) fn share_priority(&mut self) {
        let now = self.priority.now();
        self.process.set_priority(now);
        let value = now.map(|(value, _)| value);
        self.instances.values_mut().for_each(|running| running.machine.command(Command::Priority(value)));
    }

    pub(super) fn order_priority(
        &mut self,
        asked: Subscription,
        instance: InstanceId,
        value: Option<u32>,
    ) -> Option<Response> {
        if let Some(why) = self.no_priorities(instance) {
            return Some(failed(FailCode::Failed, why));
        }
        let ticket = self.volume.set_priority(value);
        self.priority.waiting.push((ticket, value, asked));
        None
    }

    /// Why the members of this election have no priorities.
    fn no_priorities(&self, instance: InstanceId) -> Option<String> {
        let election = self.config.elections().into_iter().find(|election| election.instance == instance)?;
        let view = self.roster.view(election.topology, &self.config.links);
        refusal(election.row, &view, election.settings.election.wins)
    }

    /// This write is on the disk.
    pub(super) fn priority_written(&mut self, ticket: Ticket) {
        let Some(at) = self.priority.waiting.iter().position(|(waits, ..)| *waits == ticket) else { return };
        let (_, value, asked) = self.priority.waiting.remove(at);
        self.priority.ordered = value;
        self.share_priority();
        self.record(asked.client, InstanceId::ELECTION, &Request::Priority { value });
        reply(&mut self.net, asked, Response::Done);
    }
}
