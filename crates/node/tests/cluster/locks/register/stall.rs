//! Whether anybody is served, and what members and clients believed when nobody is.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use client::{Client, Endpoint, MemberStatus};
use testkit::Live;
use testkit::register::Register;
use types::since_boot;

/// One leader has led in one epoch for so long and nobody was served. It waits for max_ttl at most before it serves, and a holder
/// that is gone keeps the lock as long: 8 s each. A machine that has other work needs some of it as well.
const STALLED: Duration = Duration::from_mins(1);
/// No epoch lasts that long, so the machine does not let members work.
const HOPELESS: Duration = Duration::from_mins(10);
const LOOK_EVERY: Duration = Duration::from_secs(1);
const ANSWER: Duration = Duration::from_secs(2);
const SAY_EVERY: Duration = Duration::from_secs(20);

/// Looks at the register, and says how it goes.
pub(super) struct Progress {
    /// Where the logs of the clients are.
    clients: PathBuf,
    said: Instant,
    written: u64,
}

impl Progress {
    pub(super) fn new(clients: &Path) -> Self {
        Progress { clients: clients.to_owned(), said: Instant::now(), written: 0 }
    }

    pub(super) fn say(&mut self, register: &Register, cycles: u64) {
        let elapsed = self.said.elapsed();
        if elapsed < SAY_EVERY {
            return;
        }
        let written = register.count().unwrap();
        let rate = (written - self.written) as f64 / elapsed.as_secs_f64();
        println!("{written} of {cycles} writes, {rate:.0} a second");
        (self.said, self.written) = (Instant::now(), written);
    }

    /// Waits for a write after so many.
    pub(super) async fn served(&self, live: &Live, register: &Register, before: u64) {
        let began = Instant::now();
        let (mut reign, mut since, mut looked) = (None, began, began);
        while register.count().unwrap() <= before {
            if looked.elapsed() >= LOOK_EVERY {
                let now = reign_of(live).await;
                if now.is_none() || now != reign {
                    (reign, since) = (now, Instant::now());
                }
                looked = Instant::now();
            }
            if since.elapsed() >= STALLED || began.elapsed() >= HOPELESS {
                let (for_long, found) = (since.elapsed(), self.diagnosis(live).await);
                panic!(
                    "nobody is served since {before} writes; the last epoch {reign:?} lasts for {for_long:?}\n{found}"
                );
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn diagnosis(&self, live: &Live) -> String {
        let mut found = String::new();
        for endpoint in live.cluster.endpoints() {
            let _ = writeln!(found, "{}", belief(live, &endpoint).await);
        }
        let mut logs: Vec<PathBuf> =
            std::fs::read_dir(&self.clients).unwrap().map(|file| file.unwrap().path()).collect();
        logs.sort();
        for log in
            logs.iter().filter(|log| log.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-")))
        {
            let text = std::fs::read_to_string(log).unwrap();
            let last = text.lines().last().unwrap_or("nothing");
            let at = last.split(' ').nth(1).and_then(|at| at.parse().ok()).map(Duration::from_nanos);
            let age = at.map(|at| since_boot().saturating_sub(at));
            let _ = writeln!(found, "client {}: {last}, {age:?} ago", log.display());
        }
        found + &live.logs()
    }
}

/// The leader that a majority follows, and its epoch.
async fn reign_of(live: &Live) -> Option<(u32, u64)> {
    let (endpoints, settings) = (live.cluster.endpoints(), live.cluster.settings());
    let answers = client::ask_all(&endpoints, settings, ANSWER).await;
    let told: Vec<MemberStatus> = answers.into_iter().filter_map(|answer| answer.result.ok()).collect();
    let reign = |status: &MemberStatus| Some((status.leader?, status.epoch));
    let newest = told.iter().filter_map(reign).max_by_key(|(_, epoch)| *epoch)?;
    let followers = told.iter().filter(|status| reign(status) == Some(newest)).count();
    (2 * followers > endpoints.len()).then_some(newest)
}

async fn belief(live: &Live, endpoint: &Endpoint) -> String {
    let asking = async {
        let client = Client::connect(&endpoint.address, live.cluster.settings()).await?;
        let status = client.status().await?;
        Ok::<_, client::ClientError>((status, client.locks(None).await))
    };
    match tokio::time::timeout(ANSWER, asking).await {
        Ok(Ok((status, locks))) => format!("member {:?}: {status:?}\n  locks: {locks:?}", endpoint.id),
        other => format!("member {:?} does not answer: {other:?}", endpoint.id),
    }
}
