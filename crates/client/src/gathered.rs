//! All members' status and ledgers, for history, audit and explanation.

use types::{Safety, Stamp};

use crate::ask::{Answer, ask_ledgers};
use crate::cluster_file::ClusterFile;
use crate::endpoint::Endpoint;
use crate::explain::{Evidence, now_ms};
use crate::history::{Audit, Ledgers, MemberLedger, Missing, audit};
use crate::ledger::LedgerPage;
use crate::members::Members;
use crate::overview::Overview;
use crate::wire::MemberStatus;

#[derive(Debug)]
pub struct Gathered {
    pub statuses: Vec<MemberStatus>,
    pub ledgers: Ledgers,
    pub members: Vec<u32>,
    /// Of the config: the first member list, unless ledgers tell otherwise.
    pub voters: Vec<u32>,
    /// Of the present member list.
    voters_now: Vec<u32>,
    /// The safety of a cluster whose members were not asked.
    stopped: Option<Safety>,
    pub now_ms: u64,
}

impl Gathered {
    /// The answers if no member answered.
    pub async fn from(members: &Members) -> Result<Self, Vec<Answer<(MemberStatus, LedgerPage)>>> {
        let timeout = members.member_timeout;
        let mut answers = ask_ledgers(&members.endpoints, &members.settings, timeout).await;
        if answers.iter().all(|answer| answer.result.is_err()) {
            return Err(answers);
        }
        // The config may be older than the member list. A classic cluster has no list.
        let overview = Overview::of(members).await.ok();
        if let Some(overview) = &overview {
            let unasked = overview.endpoints().split_off(members.endpoints.len());
            answers.extend(ask_ledgers(&unasked, &members.settings, timeout).await);
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
        let mut gathered = Gathered {
            statuses,
            ledgers,
            members: Vec::new(),
            voters: Vec::new(),
            voters_now: Vec::new(),
            stopped: None,
            now_ms: now_ms(),
        };
        gathered.name_members(members.file.as_ref(), overview.as_ref());
        Ok(gathered)
    }

    /// Of members that do not run: their ledgers, and the lists on their disks among them. `file`: who belongs to the
    /// cluster, as long as no list says otherwise.
    pub fn of_stopped(mut ledgers: Ledgers, file: Option<&ClusterFile>) -> Self {
        let newest = ledgers.lists.iter().filter(|list| !list.members.is_empty()).max_by_key(|list| list.stamp);
        let found: Vec<u32> = ledgers.members.iter().map(|ledger| ledger.id).collect();
        let configured = || file.map_or_else(|| found.clone(), |file| file.peers.iter().filter_map(|p| p.id).collect());
        let members: Vec<u32> =
            newest.map_or_else(configured, |list| list.members.iter().map(|listed| listed.uid.id.0).collect());
        let listed: Option<Vec<u32>> = newest.map(|list| list.voters().map(|id| id.0).collect());
        let voters = file.map_or_else(|| listed.clone().unwrap_or_else(|| members.clone()), |file| file.voters.clone());
        ledgers.missing.extend(members.iter().filter(|id| !found.contains(id)).map(|&id| Missing {
            id: Some(id),
            address: "no directory".to_owned(),
            why: "its data directory was not named".to_owned(),
        }));
        let safety = if ledgers.lists.is_empty() { Safety::Classic } else { Safety::Quorum };
        Gathered {
            statuses: Vec::new(),
            ledgers,
            members,
            voters_now: listed.unwrap_or_else(|| voters.clone()),
            voters,
            stopped: Some(safety),
            now_ms: now_ms(),
        }
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
    pub fn add(&mut self, ledger: MemberLedger) {
        self.ledgers.missing.retain(|missing| missing.id != Some(ledger.id));
        self.ledgers.members.retain(|known| known.id != ledger.id);
        self.ledgers.members.push(ledger);
    }

    pub fn safety(&self) -> Safety {
        if let Some(safety) = self.stopped {
            return safety;
        }
        let quorum = self.statuses.iter().any(|status| status.safety == Safety::Quorum);
        if quorum { Safety::Quorum } else { Safety::Classic }
    }

    pub fn evidence(&self) -> Evidence<'_> {
        let Gathered { statuses, ledgers, members, voters_now, now_ms, .. } = self;
        Evidence { statuses, ledgers, members, voters: voters_now, now_ms: *now_ms }
    }

    /// Were successive reigns ordered?
    pub fn audit(&self) -> Audit {
        audit(&self.ledgers, &self.voters, self.safety() == Safety::Quorum, self.now_ms)
    }
}
