//! The members of a cluster as a client asks them: those of the config, or of the present member list where it differs.

use std::time::Duration;

use locks::LockName;
use transport::ClientSettings;
use types::{InstanceId, Listed, Safety};

use crate::ask::{Answer, ask_all, ask_locks, ask_members, within};
use crate::cluster_file::ClusterFile;
use crate::connection::{Client, ClientError};
use crate::endpoint::Endpoint;
use crate::json::Locks;
use crate::leader::LeaderClient;
use crate::observe::Observer;
use crate::order::ClaimedName;
use crate::verdict::Electorate;

#[derive(Clone, Debug)]
pub struct Members {
    pub endpoints: Vec<Endpoint>,
    pub settings: ClientSettings,
    /// A member that has not answered by then is unreachable.
    pub member_timeout: Duration,
    pub file: Option<ClusterFile>,
    /// The election that is asked about.
    pub instance: InstanceId,
    /// The voters of the member list, once a member has told that it differs from the config's.
    listed_voters: Option<Vec<u32>>,
    /// The endpoints are those of the config: members that only the list names may be asked too.
    by_config: bool,
}

impl Members {
    pub fn new(
        mut endpoints: Vec<Endpoint>,
        settings: ClientSettings,
        member_timeout: Duration,
        file: Option<ClusterFile>,
        instance: InstanceId,
    ) -> Self {
        for endpoint in &mut endpoints {
            endpoint.instance = instance;
        }
        Members { endpoints, settings, member_timeout, file, instance, listed_voters: None, by_config: true }
    }

    /// These endpoints alone are asked, whatever list members tell.
    #[must_use]
    pub fn only_these(self) -> Self {
        Members { by_config: false, ..self }
    }

    pub async fn ask_all(&self) -> Vec<Answer> {
        ask_all(&self.endpoints, &self.settings, self.member_timeout).await
    }

    /// Asks all members: of the config, or of the present list where a member tells of other members.
    pub async fn ask_listed(&mut self) -> Vec<Answer> {
        let answers = self.ask_all().await;
        if self.learn_list(&answers).await { self.ask_all().await } else { answers }
    }

    /// True if the members to ask are others now.
    pub async fn learn_list(&mut self, answers: &[Answer]) -> bool {
        let mut known: Vec<u32> = self.endpoints.iter().filter_map(|endpoint| endpoint.id).collect();
        known.sort_unstable();
        let differs = |answer: &Answer| {
            answer.result.as_ref().is_ok_and(|status| {
                let mut members: Vec<u32> = status.peers.iter().map(|peer| peer.id).chain([status.id]).collect();
                members.sort_unstable();
                status.safety == Safety::Quorum && members != known
            })
        };
        if !self.by_config || !answers.iter().any(differs) {
            return false;
        }
        let told = ask_members(&self.endpoints, &self.settings, self.member_timeout).await;
        let lists = told.iter().filter_map(|answer| Some(&answer.result.as_ref().ok()?.1));
        // A leader's word first: a newer list may be pending.
        let Some(newest) = lists.max_by_key(|told| (told.in_force, told.known.stamp)) else { return false };
        let list = &newest.known;
        self.listed_voters = Some(list.voters().map(|id| id.0).collect());
        let instance = self.instance;
        let endpoint =
            |listed: &Listed| Endpoint { instance, ..Endpoint::member(listed.uid.id.0, listed.address.clone()) };
        let endpoints: Vec<Endpoint> = list.members.iter().map(endpoint).collect();
        let changed = endpoints != self.endpoints;
        self.endpoints = endpoints;
        changed
    }

    /// Connects to a member, and tells it by which name orders on this connection are to be known.
    pub async fn connect_as(&self, endpoint: &Endpoint, name: &ClaimedName) -> Result<Client, ClientError> {
        let client = Client::connect_to(endpoint, &self.settings).await?;
        client.introduce(name.clone()).await?;
        Ok(client)
    }

    pub fn observer(&self) -> Observer {
        Observer::new(self.endpoints.clone(), &self.settings)
    }

    /// Follows all announcements of the members, not only changes of standing.
    pub fn observer_of_everything(&self) -> Observer {
        Observer::of_everything(self.endpoints.clone(), &self.settings)
    }

    /// The members whose answers a leader needs. The safety that a member reports takes precedence over the config.
    pub fn electorate(&self, safety: Option<Safety>) -> Electorate {
        match &self.listed_voters {
            Some(voters) => Electorate::Voters(voters.clone()),
            None => electorate(self.file.as_ref(), safety, self.endpoints.len()),
        }
    }

    /// The locks by the leader's word; under a lock algorithm in views also by the words of the others, each of which knows
    /// the locks of its own clients. [`ClientError::Timeout`] if no leader answers within `patience`.
    pub async fn locks(&self, name: Option<&LockName>, patience: Duration) -> Result<Locks, ClientError> {
        let mut cluster = LeaderClient::new(self.endpoints.clone(), &self.settings);
        let question = cluster.ask_leader(|client| {
            let name = name.cloned();
            async move { Ok((client.member_id(), client.locks(name).await?)) }
        });
        let (member, page) = within(patience, question).await?;
        Ok(self.with_others(Locks::new(member, page), name).await)
    }

    /// Under `central` only the leader answers.
    async fn with_others(&self, mut locks: Locks, name: Option<&LockName>) -> Locks {
        let others: Vec<Endpoint> =
            self.endpoints.iter().filter(|endpoint| endpoint.id != Some(locks.member)).cloned().collect();
        let mut in_views = false;
        let mut silent = Vec::new();
        for Answer { endpoint, result } in ask_locks(&others, &self.settings, self.member_timeout, name).await {
            match result {
                Ok(page) => {
                    in_views = true;
                    locks.add(page);
                }
                Err(ClientError::Failed { .. }) => {}
                Err(_) => silent.extend(endpoint.id),
            }
        }
        if in_views {
            locks.silent = silent;
        }
        locks
    }
}

fn electorate(file: Option<&ClusterFile>, said: Option<Safety>, asked: usize) -> Electorate {
    match (said.or(file.map(|file| file.safety)), file) {
        (Some(Safety::Quorum), Some(file)) => Electorate::Voters(file.voters.clone()),
        (Some(Safety::Quorum), None) => Electorate::Members(asked),
        _ => Electorate::Anybody,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_config_without_a_safety_means_quorum_and_only_its_voters_count() {
        let peer = |id: u32, role: &str| format!("[[peers]]\nid = {id}\naddress = \"n{id}:1\"\nrole = \"{role}\"\n");
        let peers = [peer(1, "member"), peer(2, "witness"), peer(3, "learner"), peer(4, "learner")].concat();
        let file = ClusterFile::parse(&format!("[cluster]\nname = \"x\"\n{peers}"), Path::new("x")).unwrap();
        let voters = Electorate::Voters(vec![1, 2]);
        assert_eq!(electorate(Some(&file), None, 4), voters);
        assert_eq!(electorate(Some(&file), Some(Safety::Quorum), 4), voters);
        assert_eq!(electorate(Some(&file), Some(Safety::Classic), 4), Electorate::Anybody, "a member knows better");
        assert_eq!(electorate(None, Some(Safety::Quorum), 4), Electorate::Members(4));
        assert_eq!(electorate(None, None, 4), Electorate::Anybody);
    }
}
