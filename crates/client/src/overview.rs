//! What all members know of the member lists. The config may be older than the list, so members that only the list names
//! are asked too.

use types::{MemberList, Membership, Stamp};

use crate::ask::{Answer, ask_members};
use crate::endpoint::Endpoint;
use crate::members::Members;
use crate::wire::MemberStatus;

type Told = Answer<(MemberStatus, Membership)>;

#[derive(Debug)]
pub struct Overview {
    /// Of all endpoints that were asked.
    answers: Vec<Told>,
}

impl Overview {
    /// The answers if no member told its list.
    pub async fn of(members: &Members) -> Result<Self, Vec<Answer<(MemberStatus, Membership)>>> {
        let mut overview = Overview { answers: ask(members, &members.endpoints).await };
        if overview.told().next().is_none() {
            return Err(overview.answers);
        }
        let unasked = overview.unasked();
        overview.answers.extend(ask(members, &unasked).await);
        Ok(overview)
    }

    /// The members that answered.
    pub fn told(&self) -> impl Iterator<Item = (&Endpoint, &MemberStatus, &Membership)> {
        self.answers.iter().filter_map(|answer| {
            let (status, membership) = answer.result.as_ref().ok()?;
            Some((&answer.endpoint, status, membership))
        })
    }

    /// The member that leads, and its word.
    pub fn leader(&self) -> Option<(u32, &Membership)> {
        let leading =
            self.told().filter(|(_, status, told)| status.leader == Some(status.id) && told.in_force.is_some());
        leading.max_by_key(|(_, status, _)| status.epoch).map(|(_, status, told)| (status.id, told))
    }

    /// The list that the leader goes by; without a leader the newest that any member knows.
    pub fn list(&self) -> &MemberList {
        static NONE: MemberList = MemberList { stamp: Stamp::FIRST, members: Vec::new() };
        let newest = || self.told().map(|(_, _, told)| &told.known).max_by_key(|list| list.stamp);
        self.leader().map(|(_, told)| &told.known).or_else(newest).unwrap_or(&NONE)
    }

    /// The list with this stamp, if a member has it.
    pub fn with_stamp(&self, stamp: Stamp) -> Option<&MemberList> {
        self.told().map(|(_, _, told)| &told.known).find(|list| list.stamp == stamp)
    }

    /// What this member answered, by its id.
    pub fn by(&self, id: u32) -> Option<(&MemberStatus, &Membership)> {
        self.told().find(|(_, status, _)| status.id == id).map(|(_, status, told)| (status, told))
    }

    /// All addresses under which members may be found: those that were asked.
    pub fn endpoints(&self) -> Vec<Endpoint> {
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
}

async fn ask(members: &Members, endpoints: &[Endpoint]) -> Vec<Told> {
    ask_members(endpoints, &members.settings, members.member_timeout).await
}
