//! Asks all members at once. A member that is dead, stopped or far away costs the member timeout and nothing more; a
//! member that refuses at once costs nothing.

use std::future::Future;
use std::time::Duration;

use locks::LockName;
use tokio::task::JoinSet;
use transport::ClientSettings;

use crate::connection::{Client, ClientError};
use crate::endpoint::Endpoint;
use crate::ledger::LedgerPage;
use crate::wire::{LockPage, MemberStatus};
use types::Membership;

/// The result of asking one endpoint.
#[derive(Debug)]
pub struct Answer<T = MemberStatus> {
    pub endpoint: Endpoint,
    pub result: Result<T, ClientError>,
}

/// Asks every endpoint for its status, in parallel; the answers are in the order of the endpoints. Returns as soon as
/// all have answered or failed, and after `member_timeout` at the latest.
pub async fn ask_all(endpoints: &[Endpoint], settings: &ClientSettings, member_timeout: Duration) -> Vec<Answer> {
    ask(endpoints, settings, member_timeout, |client| async move { client.status().await }).await
}

/// Asks every endpoint for its status and its whole ledger, in the same way.
pub async fn ask_ledgers(
    endpoints: &[Endpoint],
    settings: &ClientSettings,
    member_timeout: Duration,
) -> Vec<Answer<(MemberStatus, LedgerPage)>> {
    let both = |client: Client| async move { Ok((client.status().await?, client.history().await?)) };
    ask(endpoints, settings, member_timeout, both).await
}

/// Asks every endpoint for its status and what it knows of the member lists, in the same way.
pub async fn ask_members(
    endpoints: &[Endpoint],
    settings: &ClientSettings,
    member_timeout: Duration,
) -> Vec<Answer<(MemberStatus, Membership)>> {
    let both = |client: Client| async move { Ok((client.status().await?, client.members().await?)) };
    ask(endpoints, settings, member_timeout, both).await
}

/// Asks every endpoint for the locks that it knows of, in the same way.
pub async fn ask_locks(
    endpoints: &[Endpoint],
    settings: &ClientSettings,
    member_timeout: Duration,
    only: Option<&LockName>,
) -> Vec<Answer<LockPage>> {
    let only = only.cloned();
    ask(endpoints, settings, member_timeout, |client| async move { client.locks(only).await }).await
}

async fn ask<T, F>(
    endpoints: &[Endpoint],
    settings: &ClientSettings,
    member_timeout: Duration,
    question: impl FnOnce(Client) -> F + Clone + Send + 'static,
) -> Vec<Answer<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T, ClientError>> + Send + 'static,
{
    let settings = ClientSettings { deadline: member_timeout, ..settings.clone() };
    let mut asked = JoinSet::new();
    for (at, endpoint) in endpoints.iter().cloned().enumerate() {
        let (settings, question) = (settings.clone(), question.clone());
        asked.spawn(async move {
            let conversation = async { question(Client::connect_to(&endpoint, &settings).await?).await };
            (at, Answer { result: within(member_timeout, conversation).await, endpoint })
        });
    }
    let mut answers = asked.join_all().await;
    answers.sort_unstable_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Puts a deadline on an exchange with one member.
pub async fn within<T>(
    deadline: Duration,
    conversation: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    tokio::time::timeout(deadline, conversation).await.unwrap_or(Err(ClientError::Timeout))
}
