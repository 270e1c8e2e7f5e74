//! Does some work under a lock of a cluster, in a loop: `cargo run -p client --example locked_work -- .conclave/cluster.toml`.
//! Start it several times: one of them works at a time, and the token grows with every turn.

use std::time::Duration;

use client::{ClientSettings, ClusterFile, Keyring, Session, read_certificate, read_secrets};

const NAME: &str = "example";
const TTL: Duration = Duration::from_secs(5);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| client::DEFAULT_CONFIG.to_owned());
    let file = ClusterFile::read(path.as_ref())?;
    let settings = ClientSettings { cluster: file.name.clone(), keyring: keyring(&file)?, deadline: TTL };
    let session = Session::open_within(file.peers.clone(), &settings, TTL, 2 * TTL).await?;
    let mut turn = 0;
    loop {
        turn += 1;
        // Waits until it is this program's turn. Dropping the future would withdraw the request.
        let guard = session.lock(NAME).await?;
        // The lock is kept alive while the work is polled. Work that blocks the thread would lose it.
        let done = guard.protect(work(turn, guard.token().0)).await;
        match done {
            Ok(()) => guard.release().await?,
            Err(why) => eprintln!("the lock was lost: {why}"),
        }
    }
}

/// The resource gets the token with every write, and refuses smaller ones than it has seen.
async fn work(turn: u32, token: u64) {
    println!("turn {turn} with the token {token}");
    tokio::time::sleep(Duration::from_millis(300)).await;
}

fn keyring(file: &ClusterFile) -> Result<Keyring, Box<dyn std::error::Error>> {
    if let Some(files) = &file.tls {
        return Ok(read_certificate(&files.of_client(), file.secret_permissions)?.into());
    }
    match &file.secret_file {
        Some(path) => Ok(read_secrets(path, file.secret_permissions)?.into()),
        None => Ok(Keyring::default()),
    }
}
