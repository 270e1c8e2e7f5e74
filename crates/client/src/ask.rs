//! Asking all members at once. One that is dead, stopped or far away costs the member timeout and nothing more, and
//! nothing at all when it refuses at once.

use std::future::Future;
use std::time::Duration;

use tokio::task::JoinSet;
use transport::ClientSettings;

use crate::connection::{Client, ClientError};
use crate::endpoint::Endpoint;
use crate::wire::MemberStatus;

/// What came of asking one endpoint.
#[derive(Debug)]
pub struct Answer {
    pub endpoint: Endpoint,
    pub result: Result<MemberStatus, ClientError>,
}

/// Asks every endpoint for its status, in parallel; the answers stand in the order of the endpoints. Returns as soon
/// as all have answered or failed, and when `member_timeout` has passed at the latest.
pub async fn ask_all(endpoints: &[Endpoint], settings: &ClientSettings, member_timeout: Duration) -> Vec<Answer> {
    let settings = ClientSettings { deadline: member_timeout, ..settings.clone() };
    let mut asked = JoinSet::new();
    for (at, endpoint) in endpoints.iter().cloned().enumerate() {
        let settings = settings.clone();
        asked.spawn(async move {
            let result =
                within(member_timeout, async { Client::connect(&endpoint.address, &settings).await?.status().await });
            (at, Answer { result: result.await, endpoint })
        });
    }
    let mut answers = asked.join_all().await;
    answers.sort_unstable_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Puts a deadline on a conversation.
pub async fn within<T>(
    deadline: Duration,
    conversation: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    tokio::time::timeout(deadline, conversation).await.unwrap_or(Err(ClientError::Timeout))
}
