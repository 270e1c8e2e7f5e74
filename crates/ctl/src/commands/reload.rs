//! `ctl reload`: members read their config again.

use client::{ClientError, Endpoint, FailCode, ReloadedKey, within};
use serde::Serialize;

use crate::args::Globals;
use crate::connection_options::{Target, no_member_answered};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Let members read their config, and the files that it names, again
///
/// Every member reads its own file, as on SIGHUP, and tells which keys differ from those in force: those that have changed
/// now, those that need a restart, and those that are refused. A file with a problem changes nothing: the member goes on
/// with what it has. `config/example.toml` says which keys change while a member runs. The order is recorded (`ctl history`).
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl reload
  ctl reload 3

Exit codes: 0 all of them have read their files, 1 a member is not reachable, 2 a file cannot be used, or no such member,
3 no member reachable, 8 refused.")]
pub(crate) struct Args {
    /// The members; all of them without an id
    #[arg(value_name = "ID")]
    members: Vec<u32>,
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    members: Vec<Member>,
}

#[derive(Serialize)]
struct Member {
    id: u32,
    address: String,
    keys: Vec<ReloadedKey>,
    /// Why nothing changed.
    trouble: Option<String>,
}

pub(crate) async fn run(args: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    let target = Target::resolve_listed(globals).await?;
    let endpoints = chosen(&target, &args.members)?;
    let mut members = Vec::new();
    let mut failures = Vec::new();
    for endpoint in endpoints {
        let asked = within(target.timeout, async {
            let client = target.connect(endpoint).await?;
            Ok((client.member_id(), client.reload().await?))
        });
        let (address, id) = (endpoint.address.clone(), endpoint.id.unwrap_or(0));
        members.push(match asked.await {
            Ok((id, keys)) => Member { id, address, keys, trouble: None },
            Err(error) => {
                let trouble = Some(error.to_string());
                failures.push((endpoint, error));
                Member { id, address, keys: Vec::new(), trouble }
            }
        });
    }
    let answers = |(_, error): &(_, ClientError)| matches!(error, ClientError::Failed { .. });
    if failures.len() == members.len() && !failures.iter().any(answers) {
        return Err(no_member_answered(
            &failures.iter().map(|(endpoint, error)| (*endpoint, error)).collect::<Vec<_>>(),
        ));
    }
    if output.is_json() {
        Output::json(&Document { schema: "conclave.reload/1", members })?;
    } else {
        members.iter().flat_map(lines).try_for_each(Output::line)?;
    }
    outcome(&failures)
}

fn chosen<'t>(target: &'t Target, ids: &[u32]) -> Result<Vec<&'t Endpoint>, Failure> {
    let known = |id: &u32| target.endpoints.iter().any(|endpoint| endpoint.id == Some(*id));
    if let Some(unknown) = ids.iter().find(|id| !known(id)) {
        return Err(Failure::usage(format!("there is no member {unknown}")).hint("`ctl status` shows the members"));
    }
    let wanted = |endpoint: &&Endpoint| ids.is_empty() || endpoint.id.is_some_and(|id| ids.contains(&id));
    Ok(target.endpoints.iter().filter(wanted).collect())
}

fn lines(member: &Member) -> Vec<String> {
    let id = member.id;
    if let Some(trouble) = &member.trouble {
        return vec![format!("{id}: nothing changed: {trouble}")];
    }
    if member.keys.is_empty() {
        return vec![format!("{id}: nothing differs")];
    }
    let line = |ReloadedKey { key, old, new, outcome, note }: &ReloadedKey| {
        let note = note.as_ref().map_or_else(String::new, |note| format!(" ({note})"));
        format!("{id}: {}: {key}: {old} -> {new}{note}", outcome.in_words())
    };
    member.keys.iter().map(line).collect()
}

/// What was printed says why.
fn outcome(failures: &[(&Endpoint, ClientError)]) -> Result<(), Failure> {
    let with = |code| {
        failures.iter().any(|(_, error)| matches!(error, ClientError::Failed { code: found, .. } if *found == code))
    };
    match failures.len() {
        0 => Ok(()),
        _ if with(FailCode::BadConfig) => Err(Failure::silent(Exit::Usage)),
        _ if failures.iter().any(|(_, error)| error.is_refusal()) => Err(Failure::silent(Exit::Refused)),
        _ => Err(Failure::silent(Exit::Failed)),
    }
}
