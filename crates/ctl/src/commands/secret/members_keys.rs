//! Which keys the members hold, and asking them to read their files again.

use client::{Client, ClientError, Endpoint, MemberStatus, within};
use serde::Serialize;

use crate::args::Globals;
use crate::connection_options::{Target, no_member_answered};
use crate::failure::{Exit, Failure};
use crate::output::{Output, Table};

/// What one member holds after it was asked to read its files again.
#[derive(Debug, Serialize)]
pub(super) struct Held {
    pub(super) id: u32,
    pub(super) address: String,
    pub(super) key_ids: Vec<String>,
    /// Why it did not read them, or did not answer.
    pub(super) trouble: Option<String>,
}

#[derive(Serialize)]
struct Reloaded<'a> {
    schema: &'static str,
    members: &'a [Held],
}

pub(super) async fn reload(globals: &Globals, output: Output) -> Result<(), Failure> {
    let target = Target::election_only(globals)?;
    let held = reload_all(&target).await?;
    if output.is_json() {
        Output::json(&Reloaded { schema: "conclave.secret.reload/1", members: &held })?;
    } else {
        let mut table = Table::new(&["ID", "KEYS", "ADDRESS"]);
        for member in &held {
            let keys = member.trouble.clone().unwrap_or_else(|| member.key_ids.join(", "));
            table.row([(member.id.to_string(), None), (keys, None), (member.address.clone(), None)]);
        }
        Output::line(table.render(output))?;
    }
    if held.iter().any(|member| member.trouble.is_some()) { Err(Failure::silent(Exit::Failed)) } else { Ok(()) }
}

/// Asks every member over a new connection, which proves that the keys of this client are accepted.
pub(super) async fn reload_all(target: &Target) -> Result<Vec<Held>, Failure> {
    let mut held = Vec::new();
    let mut failures: Vec<(&Endpoint, ClientError)> = Vec::new();
    for endpoint in &target.endpoints {
        let asked = within(target.timeout, ask(target, endpoint)).await;
        let (id, address) = (endpoint.id.unwrap_or(0), endpoint.address.clone());
        held.push(match asked {
            Ok(status) => Held { id: status.id, address, key_ids: status.key_ids, trouble: None },
            Err(error) => {
                let trouble = Some(error.to_string());
                failures.push((endpoint, error));
                Held { id, address, key_ids: Vec::new(), trouble }
            }
        });
    }
    let answered = |(_, error): &(_, ClientError)| matches!(error, ClientError::Failed { .. });
    if failures.len() == target.endpoints.len() && !failures.iter().any(answered) {
        let failures: Vec<_> = failures.iter().map(|(endpoint, error)| (*endpoint, error)).collect();
        return Err(no_member_answered(&failures));
    }
    Ok(held)
}

async fn ask(target: &Target, endpoint: &Endpoint) -> Result<MemberStatus, ClientError> {
    let member: Client = target.connect(endpoint).await?;
    member.reload().await?;
    member.status().await
}
