//! Watchers beside a failover.

use anyhow::{Context, Result, ensure};
use client::{Client, Watch};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::Args;
use crate::cluster::{Cluster, Plan};

/// One connection that never ends its request for every so many streams of events.
const STREAMS_PER_SLOW_REQUEST: usize = 10;

/// Every second one reads all that it is told; the others keep their connections open and never read.
#[derive(Default)]
pub(super) struct Crowd {
    reading: JoinSet<()>,
    silent: Vec<Client>,
    silent_streams: Vec<TcpStream>,
}

impl Crowd {
    /// Spread over the members that survive.
    pub(super) async fn gather(cluster: &Cluster, plan: &Plan, leader: u32, args: &Args) -> Result<Self> {
        let survivors: Vec<_> = cluster.endpoints().into_iter().filter(|one| one.id != Some(leader)).collect();
        let mut crowd = Crowd::default();
        // The survivors take turns, so that each has both kinds.
        let reads = |number: usize| (number / survivors.len()).is_multiple_of(2);
        for (number, endpoint) in survivors.iter().cycle().take(args.watchers as usize).enumerate() {
            let client = Client::connect_to(endpoint, cluster.settings()).await.context("a watcher")?;
            crowd.watch(client, reads(number)).await?;
        }
        let ports = plan.http_ports.iter().zip(1..).filter(|(_, id)| *id != leader).map(|(&port, _)| port);
        for (number, port) in ports.cycle().take(args.streams as usize).enumerate() {
            crowd.stream(port, reads(number)).await.context("a stream of events")?;
            if number.is_multiple_of(STREAMS_PER_SLOW_REQUEST) {
                let mut slow = TcpStream::connect(("127.0.0.1", port)).await?;
                slow.write_all(b"GET /leader HTTP/1.1\r\nX: ").await?;
                crowd.silent_streams.push(slow);
            }
        }
        Ok(crowd)
    }

    async fn watch(&mut self, client: Client, reads: bool) -> Result<()> {
        let mut watch = client.watch_everything().await?;
        watch.next().await?;
        if reads {
            self.reading.spawn(read(watch));
        } else {
            client.stop_reading();
            self.silent.push(client);
        }
        Ok(())
    }

    async fn stream(&mut self, port: u16, reads: bool) -> Result<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let request = format!("GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await?;
        ensure!(&answer == b"HTTP/1.1 200", "{}", String::from_utf8_lossy(&answer));
        if reads {
            self.reading.spawn(read_bytes(stream));
        } else {
            self.silent_streams.push(stream);
        }
        Ok(())
    }
}

async fn read(mut watch: Watch) {
    while let Ok(Some(_)) = watch.next().await {}
}

async fn read_bytes(mut stream: TcpStream) {
    let mut bytes = [0; 4096];
    while stream.read(&mut bytes).await.is_ok_and(|length| length > 0) {}
}
