//! The one member whose leadership counts, and its answers.

use std::fmt;
use std::time::Duration;

use client::{Attachment, Client, ClientError, ClientSettings, Endpoint, Role, within};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use types::since_boot;

use super::deadlines::Terms;
use crate::args::Globals;
use crate::connection_options::{KeyFiles, Target, no_member_answered};
use crate::failure::{Exit, Failure, remark};
use crate::guard::Deadlines;

/// The result of asking.
#[derive(Debug)]
pub(super) enum Answer {
    Leads { epoch: u64, deadlines: Deadlines },
    DoesNotLead { role: Role, leader: Option<u32> },
    Silent(Unreached),
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    endpoint: Endpoint,
    settings: ClientSettings,
    key_files: KeyFiles,
    /// Where its address is looked up again when it cannot be reached; `None`: the address was given with --endpoints.
    source: Option<Globals>,
}

/// Why a member cannot be asked.
#[derive(Debug)]
pub(super) enum Unreached {
    Error(ClientError),
    /// Another member is at its address.
    Other(u32),
}

impl Unreached {
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Unreached::Error(error) if error.is_refusal())
    }
}

impl From<ClientError> for Unreached {
    fn from(error: ClientError) -> Self {
        Unreached::Error(error)
    }
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreached::Error(error) => write!(f, "{error}"),
            Unreached::Other(found) => write!(f, "member {found} is there"),
        }
    }
}

impl Member {
    /// This node's member: the only endpoint, or the endpoint with this id.
    pub(super) fn choose(target: &Target, globals: &Globals, id: Option<u32>) -> Result<Self, Failure> {
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
        let source = globals.endpoints.is_empty().then(|| globals.clone());
        Ok(Member { endpoint, settings: target.settings.clone(), key_files: target.key_files.clone(), source })
    }

    /// Connects for the first time: a failure here is reported to the user.
    pub(super) async fn reach(&mut self) -> Result<Client, Failure> {
        let mut connected = self.connect().await;
        if connected.is_err() && self.look_up().await {
            connected = self.connect().await;
        }
        let client = connected.map_err(|error| self.unreachable(&error))?;
        self.endpoint.id = Some(client.member_id());
        Ok(client)
    }

    /// Reads its address again: the config may have changed, or the member was moved (`ctl member move`). True if it is
    /// another one now.
    pub(super) async fn look_up(&mut self) -> bool {
        let (Some(globals), Some(id)) = (&self.source, self.endpoint.id) else { return false };
        // A config that is being written may be unreadable for a moment.
        let Ok(target) = Target::resolve(globals) else { return false };
        let in_file = || target.endpoints.iter().find(|peer| peer.id == Some(id)).map(|peer| peer.address.clone());
        let Some(address) = target.listed_address(id).await.or_else(in_file) else { return false };
        if address == self.endpoint.address {
            return false;
        }
        self.endpoint.address = address;
        true
    }

    pub(super) fn address(&self) -> &str {
        &self.endpoint.address
    }

    /// It was somewhere else before.
    pub(super) fn tell_address(&self) {
        remark(format!("member {} is at {} now", self.id(), self.address()));
    }

    pub(super) fn id(&self) -> u32 {
        self.endpoint.id.unwrap_or_default()
    }

    pub(super) fn unreachable(&self, why: &Unreached) -> Failure {
        match why {
            Unreached::Error(error) if !error.is_refusal() => {
                Failure::new(Exit::Unreachable, format!("member {} is not reachable", self.endpoint))
                    .because(error.to_string())
                    .hint("start it, or name where it runs with --config or --endpoints")
            }
            Unreached::Error(error) => no_member_answered(&[(&self.endpoint, error)]),
            Unreached::Other(found) => {
                let what = format!("member {found} answers at {}, not {}", self.endpoint.address, self.id());
                Failure::usage(what)
                    .hint("name the address of this node's own member with --endpoints, or its id with --id")
            }
        }
    }

    /// `grace`: how long the command may need to stop.
    pub(super) async fn attach(&self, grace: Duration) -> Result<Attachment, Unreached> {
        let attach = async { Ok(Box::pin(self.attach_now(grace)).await) };
        within(self.settings.deadline, attach).await.unwrap_or_else(|error| Err(error.into()))
    }

    async fn attach_now(&self, grace: Duration) -> Result<Attachment, Unreached> {
        Ok(self.connect().await?.attach(grace).await?)
    }

    /// A command may run for months: the keys that it began with may have been replaced since.
    async fn connect(&self) -> Result<Client, Unreached> {
        let client = match Client::connect(&self.endpoint.address, &self.settings).await {
            Err(error) if error.is_refusal() && self.key_files.read_again(&self.settings.keyring) => {
                Client::connect(&self.endpoint.address, &self.settings).await
            }
            connected => connected,
        }?;
        let found = client.member_id();
        match self.endpoint.id {
            Some(wanted) if wanted != found => Err(Unreached::Other(found)),
            _ => Ok(client),
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

    /// How long the command may need to stop, while the member waits for it.
    pub(super) fn handover(&self) -> Duration {
        self.terms.handover
    }

    /// The member is at another address now.
    pub(super) fn follow(&mut self, member: &Member) {
        self.member = member.clone();
        self.client = None;
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
            Err(error) => return Answer::Silent(error.into()),
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
