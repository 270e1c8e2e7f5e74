//! Shared by `history`, `audit` and `explain`: all members' status and ledgers.

use std::time::{SystemTime, UNIX_EPOCH};

use client::history::{Ledgers, MemberLedger, Missing};
use client::{ClientError, Endpoint, Evidence, MemberStatus, Safety};

use crate::connection_options::{Target, no_member_answered};
use crate::failure::Failure;

#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) statuses: Vec<MemberStatus>,
    pub(super) ledgers: Ledgers,
    pub(super) members: Vec<u32>,
    pub(super) voters: Vec<u32>,
    pub(super) now_ms: u64,
}

impl Gathered {
    pub(super) async fn from(target: &Target) -> Result<Self, Failure> {
        let timeout = target.member_timeout.min(target.timeout);
        let answers = client::ask_ledgers(&target.endpoints, &target.settings, timeout).await;
        let failures: Vec<(&Endpoint, &ClientError)> =
            answers.iter().filter_map(|answer| Some((&answer.endpoint, answer.result.as_ref().err()?))).collect();
        if failures.len() == answers.len() {
            return Err(no_member_answered(&failures));
        }
        let (mut statuses, mut ledgers) = (Vec::new(), Ledgers::default());
        for answer in answers {
            let Endpoint { id, address, .. } = answer.endpoint;
            match answer.result {
                Ok((status, page)) => {
                    ledgers.members.push(MemberLedger::new(status.id, page));
                    statuses.push(status);
                }
                Err(error) => ledgers.missing.push(Missing { id, address, why: error.to_string() }),
            }
        }
        let file = target.file.as_ref();
        let asked = || statuses.iter().map(|status| status.id).chain(ledgers.missing.iter().filter_map(|m| m.id));
        let members: Vec<u32> =
            file.map_or_else(|| asked().collect(), |file| file.peers.iter().filter_map(|peer| peer.id).collect());
        // Members that were not asked have ledgers too.
        if ledgers.missing.iter().all(|missing| missing.id.is_some()) {
            let unasked: Vec<u32> = members.iter().copied().filter(|id| asked().all(|known| known != *id)).collect();
            ledgers.missing.extend(unasked.into_iter().map(|id| Missing {
                id: Some(id),
                address: "no endpoint".to_owned(),
                why: "it was not among the endpoints asked".to_owned(),
            }));
        }
        let voters = file.map_or_else(|| members.clone(), |file| file.voters.clone());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Gathered { statuses, ledgers, members, voters, now_ms: now.as_millis() as u64 })
    }

    pub(super) fn safety(&self) -> Safety {
        let quorum = self.statuses.iter().any(|status| status.safety == Safety::Quorum);
        if quorum { Safety::Quorum } else { Safety::Classic }
    }

    pub(super) fn evidence(&self) -> Evidence<'_> {
        let Gathered { statuses, ledgers, members, voters, now_ms } = self;
        Evidence { statuses, ledgers, members, voters, now_ms: *now_ms }
    }

    /// Prints what is missing, beside an answer.
    pub(super) fn say_flaws(&self) {
        for flaw in self.ledgers.flaws() {
            eprintln!("incomplete: {flaw}");
        }
    }
}
