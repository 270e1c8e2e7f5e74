//! What all members know of the member lists, or why none of them tells.

use client::{Answer, ClientError, Endpoint, MemberStatus, Overview};
use types::Membership;

use crate::connection_options::{Target, no_member_answered};
use crate::failure::Failure;

pub(in crate::commands) async fn overview(target: &Target) -> Result<Overview, Failure> {
    Overview::of(target).await.map_err(|answers| failure(&answers))
}

/// No member told its list.
fn failure(answers: &[Answer<(MemberStatus, Membership)>]) -> Failure {
    let errors = answers.iter().filter_map(|answer| Some((&answer.endpoint, answer.result.as_ref().err()?)));
    let failures: Vec<(&Endpoint, &ClientError)> = errors.collect();
    let said = failures.iter().find_map(|(_, error)| match error {
        ClientError::Failed { reason, code: client::FailCode::BadRequest } => Some(reason),
        _ => None,
    });
    match said {
        Some(reason) => Failure::usage("this cluster cannot tell or change its member list").because(reason.clone()).hint(
            "safety = \"quorum\" in the config; a classic cluster is stopped, its config changed, and started again",
        ),
        None => no_member_answered(&failures),
    }
}
