//! `ctl unlock`: an operator takes a lock from its holder.

use client::{ClientError, FailCode, LeaderClient, within};
use locks::LockName;
use serde::Serialize;
use types::Token;

use super::locks::no_answer;
use crate::args::Globals;
use crate::connection_options::{Target, request_failed};
use crate::failure::Failure;
use crate::output::Output;

/// Take a lock from its holder
///
/// For a holder that is known to be dead or wrong: the next one in line gets the lock at once, while the old holder may still
/// be at work until it hears of it. Only a resource that compares tokens refuses the old holder's work. The token says which
/// holder is meant, so that a holder that came in the meantime keeps the lock; `ctl locks NAME` shows it. The order is
/// recorded (`ctl history`).
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl locks backup
  ctl unlock backup --token 1879048193

Exit codes: 0 taken, 1 no holder has it with this token, 3 no member reachable, 4 no leader, 8 refused.")]
pub(crate) struct Args {
    /// The lock that is taken away from its holder
    #[arg(value_name = "NAME", value_parser = super::lock::name)]
    lock: LockName,

    /// The token of the holder
    #[arg(long, value_name = "T")]
    token: u64,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    name: &'a str,
    token: String,
}

/// Has a member taken it from one of its clients? Under `central` only the leader takes locks.
async fn others(target: &Target, name: &LockName, token: Token) -> bool {
    for endpoint in &target.endpoints {
        let order = async { target.connect(endpoint).await?.unlock(name, token).await };
        if within(target.member_timeout.min(target.timeout), order).await.is_ok() {
            return true;
        }
    }
    false
}

pub(crate) async fn run(args: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    let target = Target::resolve_listed(globals).await?;
    let mut cluster = LeaderClient::new(target.endpoints.clone(), &target.settings);
    let token = Token(args.token);
    let order = cluster.ask_leader(|client| {
        let (name, claimed) = (args.lock.clone(), target.claimed_name());
        async move {
            client.introduce(claimed).await?;
            client.unlock(&name, token).await
        }
    });
    match within(target.timeout, order).await {
        Ok(()) => {}
        // In views the holder may be a client of another member.
        Err(ClientError::Failed { code: FailCode::Failed, .. }) if others(&target, &args.lock, token).await => {}
        Err(ClientError::Timeout) => return Err(no_answer(&target).await),
        Err(error) => return Err(request_failed(&format!("{} was not taken from a holder", args.lock), &error)),
    }
    let document = Document { schema: "conclave.unlock/1", name: args.lock.as_str(), token: token.to_string() };
    Ok(output.show(&document, || format!("{} was taken from the holder with the token {token}", args.lock))?)
}
