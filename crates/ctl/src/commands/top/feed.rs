//! What the screen shows: the members' events as they happen, their answers, and the leader's locks.

use std::sync::Arc;
use std::time::Duration;

use client::json::{Event, Locks, Status};
use client::{Endpoint, News, Observer, now_ms};
use tokio::sync::{Notify, mpsc};

use super::super::{locks, watch};
use crate::args::Globals;
use crate::connection_options::Target;
use crate::failure::Failure;

/// Leases and silences change without events.
const REFRESH: Duration = Duration::from_secs(1);
/// Locks have no events.
const LOCKS_EVERY: Duration = Duration::from_millis(500);
/// A cluster that grants no locks, or has no leader, is asked less often.
const LOCKS_AGAIN: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) enum Update {
    Status(Box<Status>),
    Locks(Result<Locks, String>),
    /// An event, in words.
    Event(String),
    /// How an order ended.
    Notice(String),
}

pub(super) struct Feed {
    observer: Observer,
    /// The members' ids as far as their streams have told them.
    ids: Vec<Option<u32>>,
    answers: mpsc::UnboundedReceiver<Answered>,
    /// Members are asked again.
    ask: Arc<Notify>,
    observe: Box<dyn Fn(Vec<Endpoint>) -> Observer + Send>,
}

enum Answered {
    Shown(Update),
    /// The member list has changed.
    Members(Vec<Endpoint>),
}

impl Feed {
    pub(super) fn start(target: Target, globals: &Globals) -> Result<Self, Failure> {
        let (sender, answers) = mpsc::unbounded_channel();
        let ask = Arc::new(Notify::new());
        let settings = target.settings.clone();
        let observe = Box::new(move |endpoints| Observer::of_everything(endpoints, &settings));
        let observer = observe(target.endpoints.clone());
        let ids = ids(&target.endpoints);
        let mut lock_target = Target::resolve(globals)?;
        lock_target.timeout = lock_target.timeout.min(LOCKS_AGAIN);
        lock_target.endpoints.clone_from(&target.endpoints);
        tokio::spawn(ask_members(target, Arc::clone(&ask), sender.clone()));
        tokio::spawn(ask_locks(lock_target, sender));
        Ok(Feed { observer, ids, answers, ask, observe })
    }

    /// Cancel-safe.
    pub(super) async fn next(&mut self) -> Update {
        loop {
            tokio::select! {
                report = self.observer.next() => {
                    self.ask.notify_one();
                    return Update::Event(self.in_words(report.at, &report.news));
                }
                Some(answered) = self.answers.recv() => match answered {
                    Answered::Shown(update) => return update,
                    Answered::Members(endpoints) => {
                        self.ids = ids(&endpoints);
                        self.observer = (self.observe)(endpoints);
                    }
                },
            }
        }
    }

    fn in_words(&mut self, at: usize, news: &News) -> String {
        let address = &self.observer.endpoints()[at].address;
        match news {
            News::Became { announcement, .. } | News::Announced(announcement) => {
                self.ids[at] = Some(announcement.member);
                watch::plain_line(&Event::announced(announcement, address))
            }
            News::Gap { missed } => format!("{missed} events of {address} were missed"),
            News::Lost(error) => watch::plain_line(&Event::lost(self.ids[at], address, now_ms(), error.to_string())),
        }
    }
}

fn ids(endpoints: &[Endpoint]) -> Vec<Option<u32>> {
    endpoints.iter().map(|endpoint| endpoint.id).collect()
}

/// Asks all members after every event, and once a second without events.
async fn ask_members(mut target: Target, ask: Arc<Notify>, answers: mpsc::UnboundedSender<Answered>) {
    loop {
        let asked = target.endpoints.clone();
        let told = target.ask_listed().await;
        if asked != target.endpoints && answers.send(Answered::Members(target.endpoints.clone())).is_err() {
            return;
        }
        let status = Box::new(target.status(&told));
        if answers.send(Answered::Shown(Update::Status(status))).is_err() {
            return;
        }
        let _ = tokio::time::timeout(REFRESH, ask.notified()).await;
    }
}

async fn ask_locks(target: Target, answers: mpsc::UnboundedSender<Answered>) {
    loop {
        let told = locks::ask(&target, None).await.map_err(|failure| failure.in_a_line());
        let pause = if told.is_ok() { LOCKS_EVERY } else { LOCKS_AGAIN };
        if answers.send(Answered::Shown(Update::Locks(told))).is_err() {
            return;
        }
        tokio::time::sleep(pause).await;
    }
}
