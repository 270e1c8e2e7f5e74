//! `ctl pause`: no elections until `ctl resume`.

use client::json::Paused;

use crate::args::Globals;
use crate::connection_options::{Target, failures, no_member_answered, request_failed};
use crate::failure::Failure;
use crate::output::Output;

/// Pause the cluster: no elections until `ctl resume`
///
/// The leader keeps its leadership and its lease, and no better member takes over from it. If it dies or loses its lease,
/// nobody leads until that same member can lead again, or until `ctl resume`: a pause is never less safe, and it gives up
/// failover. `ctl transfer` still moves the leader; `ctl step-down` is refused. One member takes the order, all others learn it
/// from each other, and all keep it over restarts. The order is recorded (`ctl history`).
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl pause
  ctl pause && systemctl restart network; ctl resume")]
pub(crate) struct Args {}

pub(crate) async fn run(_: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    order(true, globals, output).await
}

pub(super) async fn order(paused: bool, globals: &Globals, output: Output) -> Result<(), Failure> {
    let mut target = Target::resolve(globals)?;
    let answers = target.ask_listed().await;
    if answers.iter().all(|answer| answer.result.is_err()) {
        return Err(no_member_answered(&failures(&answers)));
    }
    let what = if paused { "the cluster is not paused" } else { "the pause does not end" };
    let done = target.order_pause(&target.claimed_name(), paused, target.timeout).await;
    let done = done.map_err(|error| request_failed(what, &error))?;
    Ok(output.show(&done, || in_words(&done))?)
}

fn in_words(done: &Paused) -> String {
    let leader = done.leader.map_or_else(|| "nobody leads".to_owned(), |leader| format!("{leader} leads"));
    let what = match (done.paused, done.leader, done.keeps) {
        (false, ..) => "resumed".to_owned(),
        (true, None, Some(keeps)) => format!("PAUSED, only {keeps} may lead until `ctl resume`"),
        (true, None, None) => "PAUSED, and nobody will until `ctl resume`".to_owned(),
        (true, ..) => "PAUSED until `ctl resume`".to_owned(),
    };
    let known: Vec<String> = done.members.iter().map(u32::to_string).collect();
    let lacking = match done.unreachable.as_slice() {
        [] => String::new(),
        some => format!("; not reachable: {}", some.join(", ")),
    };
    format!("{leader}; {what} ({} know it{lacking})", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_says_who_may_lead_and_who_knows_it() {
        let done = |paused, leader, keeps| Paused {
            schema: "",
            paused,
            member: 1,
            leader,
            keeps,
            members: vec![1, 2],
            unreachable: vec!["3 at n3:1".into()],
        };
        let text = in_words(&done(true, Some(2), Some(2)));
        assert_eq!(text, "2 leads; PAUSED until `ctl resume` (1, 2 know it; not reachable: 3 at n3:1)");
        assert!(in_words(&done(true, None, Some(3))).contains("nobody leads; PAUSED, only 3 may lead"));
        assert!(in_words(&done(false, None, None)).starts_with("nobody leads; resumed"));
    }
}
