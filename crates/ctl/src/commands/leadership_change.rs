//! Shared by `elect`, `step-down` and `transfer`: read the state, ask one member to act, await the result.

use client::json::Change;
use client::{Client, Observer, Verdict, find_leader, format_duration, within};

use crate::connection_options::{Target, failures, no_member_answered};
use crate::failure::{Exit, Failure};
use crate::output::Output;

pub(super) fn show(change: &Change, output: Output) -> Result<(), Failure> {
    Ok(output.show(change, || in_words(change))?)
}

pub(super) fn in_words(change: &Change) -> String {
    let was = match change.was {
        Some(was) if was == change.leader => " again".to_owned(),
        Some(was) => format!(", after {was}"),
        None => String::new(),
    };
    format!("{} leads in epoch {}{was}", change.leader, change.epoch)
}

/// Streams to all members, and their first announcements.
pub(super) struct Scene {
    pub(super) observer: Observer,
    before: Verdict,
}

/// The one leader that members name and that claims to lead, with its epoch. Members that know no leader do not count:
/// a member that is cut off must not keep operators from moving leadership.
fn claimed(observer: &Observer) -> Option<(u32, u64)> {
    let views = observer.views();
    let leader = find_leader(&views, |_| true).ok()?;
    views.iter().find(|view| view.id == leader).map(|view| (leader, view.epoch))
}

impl Scene {
    /// Opens the streams before any request, so that no event is missed.
    pub(super) async fn open(target: &Target) -> Result<Self, Failure> {
        let mut observer = target.observer();
        let look = observer.until(Observer::all_tried);
        let _ = tokio::time::timeout(target.member_timeout.min(target.timeout), look).await;
        if observer.views().is_empty() {
            // Asks again for the reasons: the streams only keep dialling.
            let answers = target.ask_all().await;
            let failures = failures(&answers);
            if failures.len() == answers.len() {
                return Err(no_member_answered(&failures));
            }
        }
        let before = observer.verdict(&target.electorate(observer.safety()));
        Ok(Scene { observer, before })
    }

    /// The leader; an error if no member leads that could do this.
    pub(super) fn leader(&self, what: &str) -> Result<u32, Failure> {
        self.found().ok_or_else(|| {
            Failure::new(Exit::NoLeader, format!("no leader can {what}"))
                .because(format!("no leader: {}", self.before))
                .hint("ctl leader --wait 5s, then again; `ctl explain` says why nobody leads")
        })
    }

    pub(super) fn found(&self) -> Option<u32> {
        claimed(&self.observer).map(|(leader, _)| leader)
    }

    /// A connection to the member with this id.
    pub(super) async fn connect(&self, target: &Target, id: u32) -> Result<Client, Failure> {
        let at = (0..target.endpoints.len())
            .find(|&at| self.observer.view(at).is_some_and(|view| view.id == id))
            .or_else(|| target.endpoints.iter().position(|endpoint| endpoint.id == Some(id)));
        let Some(at) = at else {
            return Err(Failure::usage(format!("no member {id} among those asked")).hint("look at `ctl status`"));
        };
        let endpoint = &target.endpoints[at];
        within(target.member_timeout, target.connect(endpoint)).await.map_err(|error| {
            crate::connection_options::request_failed(&format!("member {endpoint} cannot be asked"), &error)
        })
    }

    /// Waits until members name a leader that satisfies the condition, and it claims to lead.
    pub(super) async fn settle(
        mut self,
        target: &Target,
        fits: impl Fn(u32, u64) -> bool,
    ) -> Result<(u32, u64), Failure> {
        let agreed = |observer: &Observer| claimed(observer).filter(|&(leader, epoch)| fits(leader, epoch));
        let settled = self.observer.until(|observer| agreed(observer).is_some());
        let _ = tokio::time::timeout(target.timeout, settled).await;
        agreed(&self.observer).ok_or_else(|| {
            Failure::new(Exit::NoLeader, "no new leader")
                .because(format!(
                    "the request was accepted, but members are {} after {}",
                    self.observer.verdict(&target.electorate(self.observer.safety())),
                    format_duration(target.timeout)
                ))
                .hint("ctl status, or the same with a longer --timeout")
        })
    }
}
