//! `ctl bootstrap`: a new cluster begins by the operator's word.

use client::within;
use serde::Serialize;

use super::leadership_change::Scene;
use crate::args::Globals;
use crate::connection_options::{Target, request_failed};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Begin a new cluster whose config says bootstrap = "manual"
///
/// Once, when all voters of the config run with empty data directories. One member is told and tells the others. A cluster
/// that has begun before stays as it is: the command does nothing and succeeds.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl bootstrap
  ctl bootstrap --timeout 30s

Exit codes: 0 a member leads, 1 refused by the members (it says why), 3 no member reachable, 4 no leader after --timeout,
8 refused (no or wrong secret).")]
pub(crate) struct Args {}

/// `conclave.bootstrap/1`
#[derive(Serialize, Debug)]
struct Begun {
    schema: &'static str,
    /// The member that was told; null if a member led before.
    member: Option<u32>,
    leader: u32,
    epoch: u64,
}

pub(crate) async fn run(_: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    let mut target = Target::election_only(globals)?;
    // The cluster may have begun long ago: a member that the config does not name may lead it.
    target.ask_listed().await;
    let scene = Scene::open(&target).await?;
    let member = match scene.found() {
        Some(_) => None,
        None => Some(tell(&target).await?),
    };
    let (leader, epoch) = scene.settle(&target, |_, _| true).await?;
    let already = if member.is_none() { "; the cluster has begun before" } else { "" };
    let begun = Begun { schema: "conclave.bootstrap/1", member, leader, epoch };
    Ok(output.show(&begun, || format!("{leader} leads in epoch {epoch}{already}"))?)
}

/// Tells the first member that takes the word.
async fn tell(target: &Target) -> Result<u32, Failure> {
    let mut last = None;
    for endpoint in &target.endpoints {
        let asked = async {
            let client = target.connect(endpoint).await?;
            client.bootstrap().await?;
            Ok(client.member_id())
        };
        match within(target.member_timeout, asked).await {
            Ok(member) => return Ok(member),
            Err(error) => last = Some(request_failed(&format!("member {endpoint} does not begin a cluster"), &error)),
        }
    }
    Err(last.unwrap_or_else(|| Failure::new(Exit::Unreachable, "there is no member to tell")))
}
