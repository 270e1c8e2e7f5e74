//! Shared by `history`, `audit` and `explain`: all members' status and ledgers.

use std::time::{SystemTime, UNIX_EPOCH};

use client::history::{Ledgers, MemberLedger, Missing};
use client::{ClientError, ClusterFile, Endpoint, Evidence, MemberStatus, Safety};
use types::Stamp;

use super::member::overview::Overview;
use crate::connection_options::{Target, no_member_answered};
use crate::failure::Failure;

#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) statuses: Vec<MemberStatus>,
    pub(super) ledgers: Ledgers,
    pub(super) members: Vec<u32>,
    /// Of the config: the first member list, unless ledgers tell otherwise.
    pub(super) voters: Vec<u32>,
    /// Of the present member list.
    voters_now: Vec<u32>,
    pub(super) now_ms: u64,
}

impl Gathered {
    pub(super) async fn from(target: &Target) -> Result<Self, Failure> {
        let timeout = target.member_timeout.min(target.timeout);
        let mut answers = client::ask_ledgers(&target.endpoints, &target.settings, timeout).await;
        let failures: Vec<(&Endpoint, &ClientError)> =
            answers.iter().filter_map(|answer| Some((&answer.endpoint, answer.result.as_ref().err()?))).collect();
        if failures.len() == answers.len() {
            return Err(no_member_answered(&failures));
        }
        // The config may be older than the member list. A classic cluster has no list.
        let overview = Overview::of(target).await.ok();
        if let Some(overview) = &overview {
            let unasked = overview.endpoints().split_off(target.endpoints.len());
            answers.extend(client::ask_ledgers(&unasked, &target.settings, timeout).await);
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
        let lists = overview.iter().flat_map(Overview::told).map(|(_, _, told)| told.known.clone());
        ledgers.lists = lists.collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut gathered = Gathered {
            statuses,
            ledgers,
            members: Vec::new(),
            voters: Vec::new(),
            voters_now: Vec::new(),
            now_ms: now.as_millis() as u64,
        };
        gathered.name_members(target.file.as_ref(), overview.as_ref());
        Ok(gathered)
    }

    /// Who belongs to the cluster: the members of its list once that differs from the config's, and those of the config.
    fn name_members(&mut self, file: Option<&ClusterFile>, overview: Option<&Overview>) {
        let listed = overview.map(Overview::list).filter(|list| list.stamp > Stamp::FIRST);
        let missing = self.ledgers.missing.iter().filter_map(|missing| missing.id);
        let asked: Vec<u32> = self.statuses.iter().map(|status| status.id).chain(missing).collect();
        let configured = || file.map_or_else(|| asked.clone(), |file| file.peers.iter().filter_map(|p| p.id).collect());
        self.members =
            listed.map_or_else(configured, |list| list.members.iter().map(|listed| listed.uid.id.0).collect());
        // Members that were not asked have ledgers too.
        if self.ledgers.missing.iter().all(|missing| missing.id.is_some()) {
            let unasked = self.members.iter().copied().filter(|id| !asked.contains(id));
            self.ledgers.missing.extend(unasked.map(|id| Missing {
                id: Some(id),
                address: "no endpoint".to_owned(),
                why: "it was not among the endpoints asked".to_owned(),
            }));
        }
        self.voters = file.map_or_else(|| self.members.clone(), |file| file.voters.clone());
        self.voters_now = listed.map_or_else(|| self.voters.clone(), |list| list.voters().map(|id| id.0).collect());
    }

    /// Adds a ledger that no running member has.
    pub(super) fn add(&mut self, ledger: MemberLedger) {
        self.ledgers.missing.retain(|missing| missing.id != Some(ledger.id));
        self.ledgers.members.retain(|known| known.id != ledger.id);
        self.ledgers.members.push(ledger);
    }

    pub(super) fn safety(&self) -> Safety {
        let quorum = self.statuses.iter().any(|status| status.safety == Safety::Quorum);
        if quorum { Safety::Quorum } else { Safety::Classic }
    }

    pub(super) fn evidence(&self) -> Evidence<'_> {
        let Gathered { statuses, ledgers, members, voters_now, now_ms, .. } = self;
        Evidence { statuses, ledgers, members, voters: voters_now, now_ms: *now_ms }
    }

    /// Prints what is missing, beside an answer.
    pub(super) fn say_flaws(&self) {
        for flaw in self.ledgers.flaws() {
            eprintln!("incomplete: {flaw}");
        }
    }
}
