//! Waiting until a cluster is idle, so that a measurement begins at rest.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use client::{Client, Electorate, Observer, Request, format_duration, within};

use crate::cluster::Cluster;

/// Members that need longer have failed.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
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
    let _ = tokio::time::timeout(PATIENCE, observer.until(|observer| agreed(observer).is_some())).await;
    agreed(observer).ok_or_else(|| {
        let logs = cluster.ids().map(|id| format!("{id}: {}", cluster.log_tail(id, LOG_LINES)));
        let logs = logs.collect::<Vec<_>>().join("\n");
        let wanted = best.map_or_else(|| "one leader".to_owned(), |best| best.to_string());
        let (verdict, patience) = (observer.verdict(&Electorate::Anybody), format_duration(PATIENCE));
        anyhow!("members are {verdict} after {patience}, not all following {wanted}\n{logs}")
    })
}

/// Waits until the writes of a start are done: a member records a peer a second after it connected, and a process that
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
