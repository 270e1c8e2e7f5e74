//! What all members know of the member lists. The config may be older than the list, so members that only the list names
//! are asked too.

use client::{Answer, ClientError, Endpoint, MemberStatus};
use types::{MemberList, Membership, Stamp};

use crate::connection_options::{Target, no_member_answered};
use crate::failure::Failure;

type Told = Answer<(MemberStatus, Membership)>;

#[derive(Debug)]
pub(in crate::commands) struct Overview {
    /// Of all endpoints that were asked.
    answers: Vec<Told>,
}

impl Overview {
    pub(in crate::commands) async fn of(target: &Target) -> Result<Self, Failure> {
        let mut overview = Overview { answers: ask(target, &target.endpoints).await };
        if overview.told().next().is_none() {
            return Err(overview.failure());
        }
        let unasked = overview.unasked();
        overview.answers.extend(ask(target, &unasked).await);
        Ok(overview)
    }

    /// The members that answered.
    pub(in crate::commands) fn told(&self) -> impl Iterator<Item = (&Endpoint, &MemberStatus, &Membership)> {
        self.answers.iter().filter_map(|answer| {
            let (status, membership) = answer.result.as_ref().ok()?;
            Some((&answer.endpoint, status, membership))
        })
    }

    /// The member that leads, and its word.
    pub(in crate::commands) fn leader(&self) -> Option<(u32, &Membership)> {
        let leading =
            self.told().filter(|(_, status, told)| status.leader == Some(status.id) && told.in_force.is_some());
        leading.max_by_key(|(_, status, _)| status.epoch).map(|(_, status, told)| (status.id, told))
    }

    /// The list that the leader goes by; without a leader the newest that any member knows.
    pub(in crate::commands) fn list(&self) -> &MemberList {
        static NONE: MemberList = MemberList { stamp: Stamp::FIRST, members: Vec::new() };
        let newest = || self.told().map(|(_, _, told)| &told.known).max_by_key(|list| list.stamp);
        self.leader().map(|(_, told)| &told.known).or_else(newest).unwrap_or(&NONE)
    }

    /// The list with this stamp, if a member has it.
    pub(in crate::commands) fn with_stamp(&self, stamp: Stamp) -> Option<&MemberList> {
        self.told().map(|(_, _, told)| &told.known).find(|list| list.stamp == stamp)
    }

    /// What this member answered, by its id.
    pub(in crate::commands) fn by(&self, id: u32) -> Option<(&MemberStatus, &Membership)> {
        self.told().find(|(_, status, _)| status.id == id).map(|(_, status, told)| (status, told))
    }

    /// All addresses under which members may be found: those that were asked.
    pub(in crate::commands) fn endpoints(&self) -> Vec<Endpoint> {
        self.answers.iter().map(|answer| answer.endpoint.clone()).collect()
    }

    /// Members of the newest lists that did not answer at the endpoints asked so far.
    fn unasked(&self) -> Vec<Endpoint> {
        let mut unasked: Vec<Endpoint> = Vec::new();
        for (_, _, told) in self.told() {
            for listed in &told.known.members {
                let id = listed.uid.id.0;
                let asked = |endpoint: &Endpoint| endpoint.address == listed.address;
                let known = self.by(id).is_some() || self.answers.iter().any(|answer| asked(&answer.endpoint));
                if !known && !unasked.iter().any(asked) {
                    unasked.push(Endpoint::member(id, listed.address.clone()));
                }
            }
        }
        unasked
    }

    /// No member told its list.
    fn failure(&self) -> Failure {
        let errors = self.answers.iter().filter_map(|answer| Some((&answer.endpoint, answer.result.as_ref().err()?)));
        let failures: Vec<(&Endpoint, &ClientError)> = errors.collect();
        let said = failures.iter().find_map(|(_, error)| match error {
            ClientError::Failed { reason, code: client::FailCode::BadRequest } => Some(reason),
            _ => None,
        });
        match said {
            Some(reason) => Failure::usage("this cluster cannot tell or change its member list").because(reason.clone()).hint(
                "safety = \"quorum\" in the config; a classic cluster is stopped, its config changed, and started again",
            ),
            None => no_member_answered(&failures),
        }
    }
}

async fn ask(target: &Target, endpoints: &[Endpoint]) -> Vec<Told> {
    client::ask_members(endpoints, &target.settings, target.member_timeout.min(target.timeout)).await
}
