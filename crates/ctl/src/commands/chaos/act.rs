//! Asks members for their parts of a fault, and reports which members have applied their part.

use std::io::ErrorKind;
use std::sync::Arc;

use client::json::{Fault, FaultLack};
use client::{Chaos, ClientError, ConnectError, Endpoint, FailCode, within};
use tokio::task::JoinSet;

use crate::connection_options::{Target, no_member_answered, request_failed};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// A fault, and the part of each member in it.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) action: &'static str,
    pub(super) a: Vec<u32>,
    pub(super) b: Vec<u32>,
    pub(super) one_way: bool,
    pub(super) ms: Option<u64>,
    pub(super) parts: Vec<(u32, Vec<Chaos>)>,
}

impl Order {
    pub(super) fn alone(action: &'static str, member: u32, part: Chaos) -> Self {
        let parts = vec![(member, vec![part])];
        Order { action, a: vec![member], b: Vec::new(), one_way: false, ms: None, parts }
    }

    /// All members are reached before the first one is asked to act, so that a fault is applied at all members or at
    /// none, as far as a client can ensure it. A partial fault is reported.
    pub(super) async fn carry_out(self, target: &Target, output: Output) -> Result<(), Failure> {
        let patience = target.member_timeout.min(target.timeout);
        let mut ready = Vec::new();
        for (id, parts) in &self.parts {
            let endpoint = locate(target, *id).await?;
            let client = within(patience, target.connect(&endpoint)).await;
            let client = client.map_err(|error| {
                let what = format!("nothing was injected: member {endpoint} cannot be asked");
                request_failed(&what, &error)
            })?;
            ready.push((*id, endpoint, client, parts));
        }
        let mut line = Fault { action: self.action, one_way: self.one_way, ms: self.ms, ..Fault::default() };
        let mut first = None;
        for (id, endpoint, client, parts) in ready {
            let asked = within(patience, async {
                for part in parts {
                    client.chaos(*part).await?;
                }
                Ok(())
            });
            match asked.await {
                Ok(()) => line.applied.push(id),
                Err(error) => {
                    line.failed.push(FaultLack::new(&Endpoint { id: Some(id), ..endpoint }, &error));
                    first.get_or_insert(error);
                }
            }
        }
        (line.a, line.b) = (self.a, self.b);
        finish(&line, first, output)
    }
}

/// Asks every member. A member that does not run has no faults; a member that is only unreachable may have faults.
pub(super) async fn heal(target: Target, output: Output) -> Result<(), Failure> {
    let patience = target.member_timeout.min(target.timeout);
    let target = Arc::new(target);
    let mut asked = JoinSet::new();
    for endpoint in target.endpoints.clone() {
        let target = Arc::clone(&target);
        asked.spawn(async move {
            let healed = within(patience, async {
                let client = target.connect(&endpoint).await?;
                client.chaos(Chaos::Heal).await?;
                Ok(client.member_id())
            });
            (healed.await, endpoint)
        });
    }
    let mut line = Fault { action: "heal", ..Fault::default() };
    let mut failures = Vec::new();
    for (healed, endpoint) in asked.join_all().await {
        match healed {
            Ok(id) => line.applied.push(id),
            Err(error) => failures.push((endpoint, error)),
        }
    }
    line.applied.sort_unstable();
    if line.applied.is_empty() && !failures.iter().any(|(_, error)| is_refused(error)) {
        return Err(no_member_answered(
            &failures.iter().map(|(endpoint, error)| (endpoint, error)).collect::<Vec<_>>(),
        ));
    }
    let (gone, failed): (Vec<_>, Vec<_>) = failures.into_iter().partition(|(_, error)| nobody_listens(error));
    for (endpoint, _) in gone {
        eprintln!("member {endpoint} does not run: its faults ended with its process");
    }
    line.failed = failed.iter().map(|(endpoint, error)| FaultLack::new(endpoint, error)).collect();
    finish(&line, failed.into_iter().next().map(|(_, error)| error), output)
}

/// Shows the applied parts, and fails if a part is missing.
fn finish(line: &Fault, error: Option<ClientError>, output: Output) -> Result<(), Failure> {
    if !line.applied.is_empty() {
        output.show_words(line, || words(line))?;
    }
    let Some(error) = error else { return Ok(()) };
    let reasons: Vec<String> = line.failed.iter().map(lack_in_words).collect();
    let what = match &line.applied[..] {
        [] => format!("{}: no member has applied it", line.action),
        some => format!("{}: only {} applied it, not all members that it needs", line.action, list(some)),
    };
    let hint = if is_refused(&error) {
        "the operators' secret, and `chaos = true` below [cluster] in the config of members that start again (`ctl up \
         --chaos` locally)"
    } else if line.action == "heal" {
        "ctl chaos heal, again; `ctl status` shows what is still in force"
    } else {
        "ctl chaos heal ends what is there; `ctl status` shows it"
    };
    Err(request_failed(&what, &error).because(reasons.join("\n")).hint(hint))
}

fn words(line: &Fault) -> String {
    let (a, b) = (list(&line.a), list(&line.b));
    let arrow = if line.one_way { "->" } else { "<->" };
    let ms = line.ms.unwrap_or_default();
    match line.action {
        "heal" => format!("healed: {}", list(&line.applied)),
        "pause" => format!("{a} hangs for {ms} ms"),
        "kill" => format!("{a} was killed"),
        "delay" => format!("{a} {arrow} {b}: delayed by {ms} ms; `ctl chaos heal` ends it"),
        _ => format!("{a} {arrow} {b}: cut; `ctl chaos heal` ends it"),
    }
}

fn lack_in_words(lack: &FaultLack) -> String {
    match lack.id {
        Some(id) => format!("{id} at {}: {}", lack.address, lack.why),
        None => format!("{}: {}", lack.address, lack.why),
    }
}

/// The endpoint of a member: known from the config, else found by asking all endpoints.
async fn locate(target: &Target, id: u32) -> Result<Endpoint, Failure> {
    if let Some(known) = target.endpoints.iter().find(|endpoint| endpoint.id == Some(id)) {
        return Ok(known.clone());
    }
    let answers = target.ask_all().await;
    let mut failures = Vec::new();
    for answer in &answers {
        match &answer.result {
            Ok(status) if status.id == id => return Ok(Endpoint::member(id, &answer.endpoint.address)),
            Ok(_) => {}
            Err(error) => failures.push((&answer.endpoint, error)),
        }
    }
    if failures.len() == answers.len() {
        return Err(no_member_answered(&failures));
    }
    let (exit, why) = match failures.first() {
        // The member may be the one that does not answer.
        Some((endpoint, error)) if endpoint.id.is_none() => (Exit::Unreachable, format!("{endpoint}: {error}")),
        _ => (Exit::Usage, "neither the config nor an endpoint has this id".to_owned()),
    };
    Err(Failure::new(exit, format!("nothing was injected: no member {id} among those asked"))
        .because(why)
        .hint("ctl status lists the members"))
}

/// The member accepts this client, but its config forbids chaos.
fn is_refused(error: &ClientError) -> bool {
    matches!(error, ClientError::Failed { code: FailCode::Refused, .. })
}

fn nobody_listens(error: &ClientError) -> bool {
    let ClientError::Connect(error) = error else { return false };
    matches!(error.as_ref(), ConnectError::Unreachable(why) if why.kind() == ErrorKind::ConnectionRefused)
}

fn list(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}
