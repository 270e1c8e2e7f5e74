//! How long a lock service is away when its clerk is killed: until the first lock is granted again, and until every session
//! that holds a lock is attached to the new clerk.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use client::{LockError, LockGuard, Session};
use serde::Serialize;
use tokio::task::JoinSet;

use super::locks::{PATIENCE, TTL};
use super::settle::{quiet, settle};
use super::statistics::summary;
use crate::cluster::Cluster;

#[derive(Serialize)]
pub(super) struct Failover {
    pub(super) encrypted: bool,
    pub(super) holders: u32,
    pub(super) trials: usize,
    /// From the kill to the first grant of the next clerk: median and worst.
    pub(super) first_grant_ms: f64,
    pub(super) first_grant_max_ms: f64,
    /// From the kill until the last of the holders has heard of the next clerk.
    pub(super) last_holder_ms: f64,
    pub(super) last_holder_max_ms: f64,
}

/// Every holder is a session with a connection of its own.
pub(super) async fn failovers(
    cluster: &mut Cluster,
    (trials, holders): (u32, u32),
    encrypted: bool,
) -> Result<Failover> {
    let mut observer = cluster.observer();
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for trial in 1..=trials {
        let leader = settle(cluster, &mut observer, None).await?;
        quiet(cluster, Instant::now()).await;
        let (granted, attached) =
            strike(cluster, leader, holders).await.with_context(|| format!("failover {trial}"))?;
        first.push(granted.as_secs_f64() * 1e3);
        last.push(attached.as_secs_f64() * 1e3);
        cluster.restart(leader).await?;
        observer.forget(leader as usize - 1);
    }
    let (Some(first), Some(last)) = (summary(&first), summary(&last)) else { bail!("no trial") };
    let ms = |ms: f64| (ms * 10.0).round() / 10.0;
    Ok(Failover {
        encrypted,
        holders,
        trials: trials as usize,
        first_grant_ms: ms(first.median),
        first_grant_max_ms: ms(first.max),
        last_holder_ms: ms(last.median),
        last_holder_max_ms: ms(last.max),
    })
}

/// Every holder asks for a second lock, and a session that holds none for another one. A request is answered only over a session
/// that is attached to the new clerk.
async fn strike(cluster: &Cluster, leader: u32, count: u32) -> Result<(Duration, Duration)> {
    let mut holders = Vec::new();
    for number in 0..count {
        let session = open(cluster).await.with_context(|| format!("session {number}"))?;
        let guard = session.lock(&format!("held-{number}")).await?;
        holders.push((session, guard));
    }
    let bystander = open(cluster).await.context("a session that holds nothing")?;
    cluster.kill(leader)?;
    let killed = Instant::now();
    let mut asked = JoinSet::new();
    for (number, (session, guard)) in holders.into_iter().enumerate() {
        asked.spawn(async move {
            let second = granted(&session, &format!("after-{number}")).await?;
            let after = killed.elapsed();
            give_back(&session, [guard, second]).await?;
            anyhow::Ok(after)
        });
    }
    let free = granted(&bystander, "free").await?;
    let first = killed.elapsed();
    drop(free);
    let mut last = first;
    while let Some(attached) = asked.join_next().await {
        last = last.max(attached??);
    }
    Ok((first, last))
}

/// Nothing polls the sessions while the next ones are opened, which takes longer than their time to live where the machine has
/// other work.
async fn open(cluster: &Cluster) -> Result<Session> {
    let session = Session::open_within(cluster.endpoints(), cluster.settings(), TTL, PATIENCE).await?;
    session.keep_alive_in_background();
    Ok(session)
}

/// Takes a lock that nobody else wants as soon as there is a clerk. A request that waits would stand in line with those that
/// waited at the clerk before, which have some time to come back.
async fn granted(session: &Session, name: &str) -> Result<LockGuard> {
    let begun = Instant::now();
    loop {
        match session.try_lock(name).await {
            Ok(guard) => return Ok(guard),
            Err(LockError::Unavailable(_) | LockError::Client(_)) if begun.elapsed() < PATIENCE => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A holder that was lost over the change of clerks is an error.
async fn give_back(session: &Session, guards: [LockGuard; 2]) -> Result<()> {
    for guard in guards {
        if guard.remaining().is_zero() {
            bail!("the lock {:?} was lost with its clerk", guard.name());
        }
        guard.release().await?;
    }
    session.close().await;
    Ok(())
}
