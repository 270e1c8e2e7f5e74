//! Claims to lead, asked of every member as fast as it answers, and the property that judges them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use client::{Client, ClientError, ClientSettings, Endpoint, Role};
use tokio::task::JoinSet;

use crate::{Live, PATIENCE};

/// An answer "I lead in this epoch", with the moment before its request was sent and the one after it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    pub sent: Instant,
    pub received: Instant,
    pub member: u32,
    pub epoch: u64,
}

/// No request that was sent after a claim was received is answered with a claim of an earlier epoch, and no epoch is
/// claimed by two members. Returns the first two claims that contradict each other.
pub fn conflict(claims: &[Claim]) -> Option<(Claim, Claim)> {
    let mut owners: BTreeMap<u64, Claim> = BTreeMap::new();
    for &claim in claims {
        let owner = *owners.entry(claim.epoch).or_insert(claim);
        if owner.member != claim.member {
            return Some((owner, claim));
        }
    }
    let (mut by_received, mut by_sent) = (claims.to_vec(), claims.to_vec());
    by_received.sort_by_key(|claim| claim.received);
    by_sent.sort_by_key(|claim| claim.sent);
    let mut known = by_received.into_iter().peekable();
    let mut latest: Option<Claim> = None;
    for later in by_sent {
        while let Some(claim) = known.next_if(|claim| claim.received < later.sent) {
            if latest.is_none_or(|latest| latest.epoch < claim.epoch) {
                latest = Some(claim);
            }
        }
        if let Some(earlier) = latest.filter(|latest| latest.epoch > later.epoch) {
            return Some((earlier, later));
        }
    }
    None
}

/// Asks every member for its status over a connection of its own, repeatedly, until the claims are judged.
#[derive(Debug)]
pub struct Pollers {
    claims: Arc<Mutex<Vec<Claim>>>,
    asked: Arc<AtomicU64>,
    tasks: JoinSet<()>,
}

impl Pollers {
    pub fn start(live: &Live) -> Self {
        let (claims, asked) = <(Arc<Mutex<Vec<Claim>>>, Arc<AtomicU64>)>::default();
        let mut tasks = JoinSet::new();
        for endpoint in live.cluster.endpoints() {
            tasks.spawn(poll(endpoint, live.cluster.settings().clone(), claims.clone(), asked.clone()));
        }
        Pollers { claims, asked, tasks }
    }

    /// One more request, over a connection that was opened before. A paused member reads it when it continues.
    pub fn ask_once(&mut self, client: Client) {
        let claims = self.claims.clone();
        self.tasks.spawn(async move {
            // A member that was killed in the meantime claims nothing.
            let _ = ask(&client, &claims).await;
        });
    }

    /// No two claims so far may contradict each other. Returns the number of answers, and of claims.
    pub fn judge(&self, live: &Live) -> (u64, usize) {
        let claims = self.claims.lock().unwrap().clone();
        if let Some((earlier, later)) = conflict(&claims) {
            panic!("two claims do not go together:\n{earlier:?}\n{later:?}\n{}", live.logs());
        }
        (self.asked.load(Ordering::Relaxed), claims.len())
    }

    /// Waits until a poller has received a claim of this epoch, or of a later one.
    pub async fn heard(&self, epoch: u64) {
        let found = async {
            while !self.claims.lock().unwrap().iter().rev().take(100).any(|claim| claim.epoch >= epoch) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("no member claimed epoch {epoch}"));
    }
}

async fn poll(endpoint: Endpoint, settings: ClientSettings, claims: Arc<Mutex<Vec<Claim>>>, asked: Arc<AtomicU64>) {
    loop {
        if let Ok(client) = Client::connect(&endpoint.address, &settings).await {
            while ask(&client, &claims).await.is_ok() {
                asked.fetch_add(1, Ordering::Relaxed);
            }
        }
        // Killed, or not started: its return takes a while.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn ask(client: &Client, claims: &Mutex<Vec<Claim>>) -> Result<(), ClientError> {
    let sent = Instant::now();
    let status = client.status().await?;
    let received = Instant::now();
    if status.role == Role::Leader {
        claims.lock().unwrap().push(Claim { sent, received, member: status.id, epoch: status.epoch });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(spans: &[(u64, u64, u32, u64)]) -> Vec<Claim> {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let claim = |&(sent, received, member, epoch)| Claim { sent: at(sent), received: at(received), member, epoch };
        spans.iter().map(claim).collect()
    }

    #[test]
    fn claims_that_follow_each_other_go_together() {
        assert_eq!(conflict(&[]), None);
        assert_eq!(conflict(&claims(&[(0, 1, 5, 7), (2, 3, 5, 7), (4, 5, 4, 8), (6, 7, 5, 9)])), None);
    }

    #[test]
    fn an_answer_to_an_earlier_question_may_be_out_of_date() {
        // Asked before the later claim was known, answered after it: the member may have been paused before its answer
        // arrived.
        assert_eq!(conflict(&claims(&[(0, 1, 5, 7), (2, 9, 5, 7), (3, 4, 4, 8)])), None);
    }

    #[test]
    fn an_old_claim_after_a_later_one_is_found() {
        let planted = claims(&[(0, 1, 5, 7), (2, 3, 4, 8), (4, 5, 5, 7), (6, 7, 4, 8)]);
        assert_eq!(conflict(&planted), Some((planted[1], planted[2])));
        // The order of recording does not matter, and neither does a third claim in between.
        let planted = claims(&[(8, 9, 5, 7), (6, 7, 3, 6), (0, 1, 4, 8)]);
        assert_eq!(conflict(&planted), Some((planted[2], planted[1])));
    }

    #[test]
    fn one_epoch_of_two_members_is_found() {
        let planted = claims(&[(0, 9, 5, 7), (1, 8, 4, 7)]);
        assert_eq!(conflict(&planted), Some((planted[0], planted[1])));
    }
}
