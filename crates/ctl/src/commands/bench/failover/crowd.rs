//! Watchers beside a failover.

use anyhow::{Context, Result};
use client::{Client, Watch};
use tokio::task::JoinSet;

use crate::cluster::Cluster;

/// Every second one reads all that it is told; the others keep their connections open and never read.
pub(super) struct Crowd {
    _reading: JoinSet<()>,
    _silent: Vec<Client>,
}

impl Crowd {
    /// Spread over the members that survive.
    pub(super) async fn gather(cluster: &Cluster, leader: u32, size: u32) -> Result<Self> {
        let survivors: Vec<_> = cluster.endpoints().into_iter().filter(|one| one.id != Some(leader)).collect();
        let (mut reading, mut silent) = (JoinSet::new(), Vec::new());
        for (number, endpoint) in survivors.iter().cycle().take(size as usize).enumerate() {
            let client = Client::connect_to(endpoint, cluster.settings()).await.context("a watcher")?;
            let mut watch = client.watch_everything().await?;
            watch.next().await?;
            // The survivors take turns, so that each has both kinds.
            if number / survivors.len() % 2 == 0 {
                reading.spawn(read(watch));
            } else {
                client.stop_reading();
                silent.push(client);
            }
        }
        Ok(Crowd { _reading: reading, _silent: silent })
    }
}

async fn read(mut watch: Watch) {
    while let Ok(Some(_)) = watch.next().await {}
}
