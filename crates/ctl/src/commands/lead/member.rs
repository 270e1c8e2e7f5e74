//! The one member whose leadership counts, and its answers.

use std::time::Duration;

use client::{Attachment, Client, ClientError, ClientSettings, Endpoint, Role, within};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use types::since_boot;

use super::deadlines::Terms;
use crate::connection_options::{KeyFiles, Target, no_member_answered};
use crate::failure::Failure;
use crate::guard::Deadlines;

/// The result of asking.
#[derive(Debug)]
pub(super) enum Answer {
    Leads { epoch: u64, deadlines: Deadlines },
    DoesNotLead { role: Role, leader: Option<u32> },
    Silent(ClientError),
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    endpoint: Endpoint,
    settings: ClientSettings,
    key_files: KeyFiles,
}

impl Member {
    /// This node's member: the only endpoint, or the endpoint with this id.
    pub(super) fn choose(target: &Target, id: Option<u32>) -> Result<Self, Failure> {
        let endpoints = &target.endpoints;
        let known = |id: u32| endpoints.iter().find(|endpoint| endpoint.id == Some(id));
        let chosen = match (endpoints.as_slice(), id) {
            ([only], None) => only,
            ([only], Some(id)) if only.id.is_none_or(|known| known == id) => only,
            (_, Some(id)) => known(id).ok_or_else(|| {
                Failure::usage(format!("no endpoint is known to be member {id}"))
                    .hint("name a config that lists it with --config, or its address alone with --endpoints")
            })?,
            (several, None) => {
                let several: Vec<String> = several.iter().map(ToString::to_string).collect();
                return Err(Failure::usage("which of the members is this node's?")
                    .because(format!("there are {}", several.join(", ")))
                    .hint("ctl lead --id N -- COMMAND (or CONCLAVE_ID=N), or --endpoints with one address"));
            }
        };
        let endpoint = Endpoint::new(chosen.id.or(id), chosen.address.clone());
        Ok(Member { endpoint, settings: target.settings.clone(), key_files: target.key_files.clone() })
    }

    /// Connects for the first time: a failure here is reported to the user.
    pub(super) async fn reach(&mut self) -> Result<Client, Failure> {
        let client = self.connect().await.map_err(|error| self.unreachable(&error))?;
        let found = client.member_id();
        if let Some(wanted) = self.endpoint.id.filter(|&wanted| wanted != found) {
            return Err(Failure::usage(format!("member {found} answers at {}, not {wanted}", self.endpoint.address))
                .hint("name the address of this node's own member with --endpoints, or its id with --id"));
        }
        self.endpoint.id = Some(found);
        Ok(client)
    }

    pub(super) fn id(&self) -> u32 {
        self.endpoint.id.unwrap_or_default()
    }

    pub(super) fn unreachable(&self, error: &ClientError) -> Failure {
        no_member_answered(&[(&self.endpoint, error)])
    }

    pub(super) async fn attach(&self) -> Result<Attachment, ClientError> {
        let deadline = self.settings.deadline;
        within(deadline, async { self.connect().await?.attach().await }).await
    }

    /// A command may run for months: the keys that it began with may have been replaced since.
    async fn connect(&self) -> Result<Client, ClientError> {
        match Client::connect(&self.endpoint.address, &self.settings).await {
            Err(error) if error.is_refusal() && self.key_files.read_again(&self.settings.keyring) => {
                Client::connect(&self.endpoint.address, &self.settings).await
            }
            connected => connected,
        }
    }
}

/// The answer to a request, and the moment before the request was sent: an answer is older than its arrival.
async fn timed<T>(question: impl Future<Output = T>) -> (Duration, T) {
    let sent = since_boot();
    (sent, question.await)
}

/// Asks one member repeatedly.
#[derive(Debug)]
pub(super) struct Poller {
    member: Member,
    terms: Terms,
    client: Option<Client>,
}

impl Poller {
    pub(super) fn new(member: Member, terms: Terms, client: Client) -> Self {
        Poller { member, terms, client: Some(client) }
    }

    pub(super) async fn ask(&mut self) -> Answer {
        let client = match self.client.take() {
            Some(client) => client,
            None => match self.member.connect().await {
                Ok(client) => client,
                Err(error) => return Answer::Silent(error),
            },
        };
        let (sent, answer) = timed(within(self.terms.patience(), client.status())).await;
        let status = match answer {
            Ok(status) => status,
            // The connection cannot be used any more: a late answer may still arrive on it.
            Err(error) => return Answer::Silent(error),
        };
        self.client = Some(client);
        let left = status.lease_ms.map(Duration::from_millis);
        let deadlines = self.terms.deadlines(sent, left).filter(|_| status.role == Role::Leader);
        match deadlines {
            Some(deadlines) => Answer::Leads { epoch: status.epoch, deadlines },
            None => Answer::DoesNotLead { role: status.role, leader: status.leader },
        }
    }

    /// Keeps asking in the background, until the receiver is dropped.
    pub(super) fn keep_asking(mut self) -> (mpsc::UnboundedReceiver<Answer>, JoinHandle<()>) {
        let (answers, receiver) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            while !answers.is_closed() {
                tokio::time::sleep(self.terms.poll_every()).await;
                if answers.send(self.ask().await).is_err() {
                    return;
                }
            }
        });
        (receiver, task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_moment_of_a_question_is_before_it_is_sent_however_long_the_answer_takes() {
        let (sent, asked) = timed(async {
            let asked = since_boot();
            tokio::time::sleep(Duration::from_millis(2)).await;
            asked
        })
        .await;
        assert!(sent <= asked, "{sent:?} is after {asked:?}");
    }
}
