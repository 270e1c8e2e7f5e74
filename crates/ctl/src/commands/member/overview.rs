//! What all members know of the member lists, or why none of them tells.

use client::{Answer, ClientError, MemberStatus, Overview};
use types::Membership;

use crate::connection_options::{Target, failures, no_member_answered};
use crate::failure::Failure;

pub(in crate::commands) async fn overview(target: &Target) -> Result<Overview, Failure> {
    Overview::of(target).await.map_err(|answers| failure(&answers))
}

/// No member told its list.
fn failure(answers: &[Answer<(MemberStatus, Membership)>]) -> Failure {
    let failures = failures(answers);
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
