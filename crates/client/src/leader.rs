//! A client of the whole cluster, for programs: it finds the leader, follows it from member to member, and reconnects
//! by itself.

use std::future::Future;
use std::time::Duration;

use transport::ClientSettings;
use types::InstanceId;

use crate::announcement::Transition;
use crate::connection::{Client, ClientError};
use crate::endpoint::Endpoint;
use crate::observe::{News, Observer};
use crate::verdict::{View, find_leader};
use crate::wire::{FailCode, MemberStatus};

/// The pause after a failure that means "not now": the members are about to agree.
const AGAIN: Duration = Duration::from_millis(10);

/// The leader that the reachable members name, and its epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leader {
    pub id: u32,
    pub epoch: u64,
}

/// Follows the leader of a cluster.
///
/// ```
/// # use testkit::{Live, Plan};
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # runtime.block_on(async {
/// # let mut live = Live::start(&Plan::new(3, algorithms::catalog::row("bully").unwrap()));
/// # let (endpoints, settings) = (live.cluster.endpoints(), live.cluster.settings().clone());
/// use client::LeaderClient;
///
/// // Endpoints and settings come from `ClusterFile::read`, or are written by hand.
/// let mut cluster = LeaderClient::new(endpoints, &settings);
/// let first = cluster.leader().await;
/// println!("{} leads in epoch {}", first.id, first.epoch);
///
/// // Asks the leader, also if leadership moves to another member in the meantime.
/// let status = cluster.ask_leader(|client| async move { client.status().await }).await?;
/// assert_eq!(status.leader, Some(status.id));
///
/// # live.kill(first.id).await;
/// // Waits until another member leads, or the same member in a later epoch, however long that takes: put a time limit
/// // around it.
/// let next = cluster.next_leader(first).await;
/// assert!(next.epoch > first.epoch);
/// # Ok::<(), client::ClientError>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct LeaderClient {
    observer: Observer,
    settings: ClientSettings,
    /// The connection to the last leader that was asked.
    connection: Option<(u32, Client)>,
}

impl LeaderClient {
    /// Begins to follow; `settings.deadline` bounds each attempt to connect. Must be called inside a tokio runtime.
    pub fn new(endpoints: Vec<Endpoint>, settings: &ClientSettings) -> Self {
        let observer = Observer::new(endpoints, settings);
        LeaderClient { observer, settings: settings.clone(), connection: None }
    }

    /// Another election of the same cluster: `[[instances]]` of its config lists them.
    pub fn of_instance(endpoints: Vec<Endpoint>, settings: &ClientSettings, instance: InstanceId) -> Self {
        let endpoints = endpoints.into_iter().map(|endpoint| Endpoint { instance, ..endpoint });
        LeaderClient::new(endpoints.collect(), settings)
    }

    /// The leader as far as it is known now, without waiting: the reachable members name it and it claims to lead.
    pub fn known_leader(&self) -> Option<Leader> {
        let views = self.observer.views();
        let leader = find_leader(&views, |_| true).ok()?;
        let claims = |view: &&View| view.id == leader && view.leads;
        views.iter().find(claims).map(|view| Leader { id: leader, epoch: view.epoch })
    }

    /// Waits until a leader is known. No time limit: put one around it. Cancel-safe.
    pub async fn leader(&mut self) -> Leader {
        loop {
            if let Some(leader) = self.known_leader() {
                return leader;
            }
            self.observer.next().await;
        }
    }

    /// Waits until there is another leader than this one, or the same member in a later epoch. Cancel-safe.
    pub async fn next_leader(&mut self, than: Leader) -> Leader {
        loop {
            match self.known_leader() {
                Some(leader) if leader != than && leader.epoch >= than.epoch => return leader,
                _ => self.observer.next().await,
            };
        }
    }

    /// The next change of any member's standing: the member and what it became. Cancel-safe.
    pub async fn next_change(&mut self) -> (u32, Transition) {
        loop {
            if let News::Became { announcement, transition } = self.observer.next().await.news {
                return (announcement.member, transition);
            }
        }
    }

    /// Sends a request to the leader. If the leader changed, died or lost leadership in the meantime, the next leader
    /// is asked, so the request may be sent more than once. Only a refusal, or the answer "no" of a leader, is an
    /// error.
    pub async fn ask_leader<T, F>(&mut self, question: impl Fn(Client) -> F) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        loop {
            let leader = self.leader().await;
            let asked = match self.connected(leader.id).await {
                Ok(client) => question(client).await,
                Err(error) => Err(error),
            };
            match asked {
                Err(error) if is_final(&error) => return Err(error),
                Ok(answer) => return Ok(answer),
                Err(_) => {
                    self.connection = None;
                    // News come from the streams; the pause is for a leader whose end is not noticed yet.
                    let _ = tokio::time::timeout(AGAIN, self.observer.next()).await;
                }
            }
        }
    }

    /// The leader's status of itself.
    pub async fn leader_status(&mut self) -> Result<MemberStatus, ClientError> {
        self.ask_leader(|client| async move { client.status().await }).await
    }

    async fn connected(&mut self, leader: u32) -> Result<Client, ClientError> {
        if let Some((_, client)) = self.connection.as_ref().filter(|(id, _)| *id == leader) {
            return Ok(client.clone());
        }
        let at = self.observer.position_of(leader).ok_or(ClientError::Closed)?;
        let client = Client::connect_to(&self.observer.endpoints()[at], &self.settings).await?;
        self.connection = Some((leader, client.clone()));
        Ok(client)
    }
}

/// Would a repetition fail too?
fn is_final(error: &ClientError) -> bool {
    match error {
        ClientError::Failed { code, .. } => *code != FailCode::NoLeader,
        ClientError::Unexpected | ClientError::Codec(_) => true,
        error => error.is_refusal(),
    }
}
