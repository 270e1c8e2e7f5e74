//! Waiting until a cluster is idle, so that a measurement begins at rest.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use client::{Client, Electorate, Observer, Request, format_duration, within};

use crate::cluster::Cluster;

/// Members that need longer have failed.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// After this time a best member that was restarted once has taken over. One that was restarted often waits longer, unless
/// an operator orders an election.
const TAKE_OVER: Duration = Duration::from_secs(2);
const LOG_LINES: usize = 3;
/// After this time members have recorded all their peers.
const WRITTEN_DOWN: Duration = Duration::from_millis(1500);
/// A disk that is busy for longer than this is busy all the time.
const DISK_PATIENCE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Waits until all members follow one leader: the best, where the algorithm elects the best.
pub(super) async fn settle(cluster: &Cluster, observer: &mut Observer, best: Option<u32>) -> Result<u32> {
    let nodes = observer.endpoints().len();
    let agreed = |observer: &Observer| {
        let (leader, _) = observer.agreed()?;
        (observer.views().len() == nodes && best.is_none_or(|best| best == leader)).then_some(leader)
    };
    let begun = Instant::now();
    while agreed(observer).is_none() && begun.elapsed() < PATIENCE {
        let _ = tokio::time::timeout(TAKE_OVER, observer.until(|observer| agreed(observer).is_some())).await;
        if let Some((leader, _)) = observer.agreed().filter(|_| agreed(observer).is_none()) {
            elect(cluster, leader).await;
        }
    }
    agreed(observer).ok_or_else(|| {
        let logs = cluster.ids().map(|id| format!("{id}: {}", cluster.log_tail(id, LOG_LINES)));
        let logs = logs.collect::<Vec<_>>().join("\n");
        let wanted = best.map_or_else(|| "one leader".to_owned(), |best| best.to_string());
        let (verdict, patience) = (observer.verdict(&Electorate::Anybody), format_duration(PATIENCE));
        anyhow!("members are {verdict} after {patience}, not all following {wanted}\n{logs}")
    })
}

/// A leader that does not answer is asked again later.
async fn elect(cluster: &Cluster, leader: u32) {
    let endpoint = cluster.endpoints().into_iter().find(|endpoint| endpoint.id == Some(leader));
    let order = async {
        let address = endpoint.map(|endpoint| endpoint.address).unwrap_or_default();
        Client::connect(&address, cluster.settings()).await?.elect().await
    };
    let _ = within(TAKE_OVER, order).await;
}

/// Waits until the writes of a start, or of an agreement, are done: members write what can wait a second later, and a process that
/// is killed inside a write closes its connections only when the disk has answered.
pub(super) async fn quiet(cluster: &Cluster, started: Instant) {
    tokio::time::sleep_until((started + WRITTEN_DOWN).into()).await;
    for endpoint in cluster.endpoints() {
        // A page of the ledger is answered when everything before it is on the disk.
        let page = async {
            let client = Client::connect(&endpoint.address, cluster.settings()).await?;
            client.request(Request::History { after: Some(u64::MAX) }).await
        };
        // A member that does not answer shows up in the measurement.
        let _ = within(DISK_PATIENCE, page).await;
    }
    let begun = Instant::now();
    while cluster.ids().any(|id| cluster.waits_for_disk(id)) && begun.elapsed() < DISK_PATIENCE {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
