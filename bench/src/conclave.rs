//! Conclave's locks, through its client library.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use client::{ClientSettings, ClusterFile, Keyring, Session, read_secrets};

const TTL: Duration = Duration::from_secs(10);
const CONNECT: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Connection(Session);

impl Connection {
    pub async fn open(config: &Path) -> Result<Self> {
        let file = ClusterFile::read(config)?;
        let keyring = match &file.secret_file {
            Some(secret) => Keyring::from(read_secrets(secret, file.secret_permissions)?),
            None => Keyring::default(),
        };
        let settings = ClientSettings { cluster: file.name, keyring, deadline: CONNECT };
        Ok(Connection(Session::open_within(file.peers, &settings, TTL, PATIENCE).await?))
    }

    pub async fn pair(&mut self, name: &str) -> Result<Duration> {
        let asked = Instant::now();
        let guard = self.0.lock(name).await?;
        let took = asked.elapsed();
        guard.release().await?;
        Ok(took)
    }
}
