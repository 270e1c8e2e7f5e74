//! Real members whose disk fails them, or who are killed at every step of a write: `strace` stands between the process
//! and the kernel.
//!
//! `CONCLAVE_DISK_WRITES=N` kills at every step of the first N writes of a run instead of the first three: its own
//! start, an epoch it follows, an epoch it grants.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use algorithms::catalog;
use client::{Client, LedgerEntry, LedgerKind, Notice, Role, Safety};
use testkit::claims::Pollers;
use testkit::volume::{record, run};
use testkit::{Live, PATIENCE, Plan, stderr, stdout, strace};

const ALL: &[u32] = &[1, 2, 3];

/// What one write does, in order: a system call, and whether it is on the directory instead of the new file.
const STEPS: &[(&str, bool)] =
    &[("openat", false), ("write", false), ("fsync", false), ("rename", false), ("openat", true), ("fsync", true)];
/// Two leases: whatever a voter may have promised before its start is over.
const SETTLED: Duration = Duration::from_secs(1);
/// From this step on the new record is in place.
const RENAMED: usize = 4;

fn three() -> Plan {
    Plan { safety: Safety::Quorum, ..Plan::new(3, catalog::row(catalog::DEFAULT).unwrap()) }
}

/// Puts faults on the calls that touch the new state file, or the directory.
fn wrapper(data: &Path, directory: bool, faults: &[String]) -> Vec<String> {
    let path = if directory { data.to_path_buf() } else { data.join("state.tmp") };
    strace::inject(&path, faults)
}

/// Runs a member under strace until it ends. The others have a new epoch for it to follow and, when it has waited long
/// enough after its start, to grant; and more of them, should it still run then.
async fn run_to_its_end(live: &mut Live, id: u32, directory: bool, faults: &[String]) -> Output {
    let (config, data) = (live.cluster.config(), live.cluster.data_directory(id));
    let wrapper = wrapper(&data, directory, faults);
    new_epoch(live, &others(id)).await;
    let epochs = async {
        loop {
            tokio::time::sleep(SETTLED).await;
            new_epoch(live, &others(id)).await;
        }
    };
    let output = tokio::select! {
        output = run(&wrapper, &live.cluster, &config, id, &data) => output,
        () = epochs => unreachable!(),
    };
    live.observer.forget(id as usize - 1);
    output
}

/// Whoever does not lead refuses, and that is fine.
async fn new_epoch(live: &Live, among: &[u32]) {
    agreed(live, among).await;
    for &id in among {
        let _ = live.client(id).await.elect().await;
    }
}

fn others(id: u32) -> Vec<u32> {
    ALL.iter().copied().filter(|&other| other != id).collect()
}

/// Asks, because the streams may still tell of a run that has ended: do these members all follow one of them?
async fn agreed(live: &Live, among: &[u32]) {
    let asking = async {
        loop {
            let mut leaders = Vec::new();
            for &id in among {
                let address = &live.cluster.endpoints()[id as usize - 1].address;
                let Ok(client) = Client::connect(address, live.cluster.settings()).await else { continue };
                leaders.extend(client.status().await.ok().and_then(|status| status.leader));
            }
            let told = leaders.len();
            leaders.dedup();
            if told == among.len() && leaders.len() == 1 && among.contains(&leaders[0]) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, asking).await.is_ok();
    assert!(in_time, "no agreement among {among:?}\n{}", live.logs());
}

/// An honest start, until it follows.
async fn come_back(live: &mut Live, id: u32) {
    live.cluster.start(id).unwrap();
    agreed(live, ALL).await;
}

/// All that a running member's ledger holds.
async fn ledger(live: &Live, id: u32) -> Vec<LedgerEntry> {
    live.client(id).await.history().await.unwrap().entries
}

/// Notes whom a voter granted an epoch to, or who led in it; there is never a second one.
fn note<K: Ord + std::fmt::Debug>(holders: &mut BTreeMap<K, u32>, key: K, holder: u32, what: &str) {
    let what = format!("{what}: {key:?}");
    let first = *holders.entry(key).or_insert(holder);
    assert_eq!(first, holder, "{what} went to two");
}

#[tokio::test]
async fn a_kill_at_any_step_of_a_write_leaves_the_old_record_or_the_new_one() {
    if !strace::works() {
        return;
    }
    let writes = testkit::number("CONCLAVE_DISK_WRITES", 3);
    let mut live = Live::start(&three());
    live.agreement_on(3, ALL).await;
    live.voting(ALL).await;
    let (mut grants, mut leaders) = (BTreeMap::new(), BTreeMap::new());
    // The one only grants; the other is the best, comes back to lead, and grants to itself first.
    for (victim, writes) in [(1, 1..=writes), (3, 3..=writes + 1)] {
        let mut killed_in_a_grant = false;
        live.kill(victim).await;
        let data = live.cluster.data_directory(victim);
        for (write, (step, &(call, directory))) in
            writes.clone().flat_map(|write| STEPS.iter().enumerate().map(move |step| (write, step)))
        {
            let what = format!(
                "member {victim}, write {write}, {call} of the {}",
                if directory { "directory" } else { "file" }
            );
            let before = record(&data).unwrap().quorum();
            let fault = format!("{call}:signal=SIGKILL:when={write}");
            let output = run_to_its_end(&mut live, victim, directory, &[fault]).await;
            assert_eq!(output.status.signal(), Some(9), "{what}: {:?} {}", output.status, stderr(&output));
            let after = record(&data).unwrap_or_else(|| panic!("{what}: the record is gone")).quorum();
            let raised = after.belief.incarnation.counter - before.belief.incarnation.counter;
            assert_eq!(raised, u64::from(write > 1 || step >= RENAMED), "{what}: old or new, and the right one");
            assert!(after.belief.reserved_until >= before.belief.reserved_until, "{what}");
            assert!(after.belief.followed >= before.belief.followed, "{what}");
            let (old, new) = (before.vote.unwrap(), after.vote.unwrap());
            assert!(new.epoch >= old.epoch, "{what}: {} after {}", new.epoch, old.epoch);
            killed_in_a_grant |= new.epoch > old.epoch;
            if let Some(holder) = new.holder {
                note(&mut grants, (victim, new.epoch.0), holder.id.0, &what);
            }
        }
        assert!(killed_in_a_grant || *writes.end() < 3, "member {victim} was never killed with a grant just written");
        come_back(&mut live, victim).await;
    }
    for &id in ALL {
        for entry in ledger(&live, id).await {
            match entry.kind {
                LedgerKind::Granted { epoch, holder, .. } => note(&mut grants, (id, epoch), holder, "a ledger"),
                LedgerKind::Became(now) if now.leads() => note(&mut leaders, now.now.epoch.0, id, "a reign"),
                _ => {}
            }
        }
        assert!(!live.cluster.log_tail(id, usize::MAX).contains("Stale"), "an honest restart was refused");
    }
    let audit = live.ctl(&["audit"]).await;
    assert_eq!(audit.status.code(), Some(0), "{}{}", stdout(&audit), stderr(&audit));
}

#[tokio::test]
async fn nobody_hears_of_a_run_before_it_is_on_disk() {
    if !strace::works() {
        return;
    }
    let mut live = Live::start(&three());
    live.agreement_on(3, ALL).await;
    live.voting(ALL).await;
    live.kill(1).await;
    let before = record(&live.cluster.data_directory(1)).unwrap();
    // Long enough for every connection to be made, and then it is killed with nothing written.
    let faults = ["fsync:delay_enter=1500000:when=1".to_owned(), "rename:signal=SIGKILL:when=1".to_owned()];
    let output = run_to_its_end(&mut live, 1, false, &faults).await;
    assert_eq!(output.status.signal(), Some(9), "{}", stderr(&output));
    assert_eq!(record(&live.cluster.data_directory(1)), Some(before));
    come_back(&mut live, 1).await;
}

#[tokio::test]
async fn a_member_whose_disk_fails_grants_nothing_and_ends_while_the_others_go_on() {
    if !strace::works() {
        return;
    }
    let mut live = Live::start(&three());
    live.agreement_on(3, ALL).await;
    live.voting(ALL).await;
    // At the first write of a run, and later: of the best member, which would lead, and of one that would follow.
    for (victim, call, error, from) in [
        (3, "fsync", "EIO", 1),
        (3, "fsync", "EIO", 2),
        (1, "fsync", "EIO", 2),
        (1, "write", "ENOSPC", 2),
        (1, "openat", "ENOSPC", 1),
        (3, "openat", "ENOSPC", 2),
    ] {
        let what = format!("{call} of member {victim} fails with {error} from write {from} on");
        let data = live.cluster.data_directory(victim);
        let last = ledger(&live, victim).await.last().map_or(0, |entry| entry.sequence);
        live.kill(victim).await;
        let before = record(&data).unwrap().quorum();
        let output = run_to_its_end(&mut live, victim, false, &[format!("{call}:error={error}:when={from}+")]).await;
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{what}: {said}");
        let file = data.join("state");
        for part in ["cannot write the state file", file.to_str().unwrap(), "start again", "empty data directory"] {
            assert!(said.contains(part), "{what}: no {part:?} in {said}");
        }
        let after = record(&data).unwrap().quorum();
        assert_eq!(after.vote, before.vote, "{what}: what cannot be kept is not given");
        agreed(&live, &others(victim)).await;
        come_back(&mut live, victim).await;
        let run = ledger(&live, victim).await.into_iter().filter(|entry| entry.sequence > last);
        // Up to the start of the honest run, which is the last one.
        let (mut run, mut of_the_faulty) = (run.collect::<Vec<_>>(), Vec::new());
        let is_start = |entry: &LedgerEntry| matches!(entry.kind, LedgerKind::Started { .. });
        let honest = run.iter().rposition(is_start).unwrap();
        of_the_faulty.extend(run.drain(..honest).skip_while(|entry| !is_start(entry)));
        for entry in of_the_faulty {
            let gave = matches!(&entry.kind, LedgerKind::Granted { .. });
            let led = matches!(&entry.kind, LedgerKind::Became(now) if now.leads());
            assert!(!gave && !led, "{what}: {entry:?}");
        }
    }
}

/// The leader asks for the next epoch, and its own grant of that waits for a disk that hangs for eight leases. The others
/// elect another leader meanwhile; what the old one says of itself must have ended with its lease.
#[tokio::test]
async fn a_leader_whose_disk_hangs_claims_nothing_after_its_lease() {
    if !strace::works() {
        return;
    }
    let mut live = Live::start(&three());
    let first = live.agreement_on(3, ALL).await;
    live.voting(ALL).await;
    let state = live.cluster.data_directory(3).join("state.tmp");
    let hang = strace::inject(&state, &["fsync:delay_enter=4000000".to_owned()]);
    let Some(_strace) = strace::attach(&hang, live.cluster.pid(3).unwrap()).await else { return };
    let pollers = Pollers::start(&live);
    pollers.heard(first).await;
    // It may be replaced before it answers.
    let _ = live.client(3).await.elect().await;
    let (_, second) = live.agreement_that(&[1, 2], |leader, _| leader != 3).await;
    assert!(second > first, "epoch {second} after {first}");
    pollers.heard(second).await;
    let said = live.client(3).await.status().await.unwrap();
    assert!(said.role != Role::Leader || said.epoch > second, "{said:?}");
    pollers.judge(&live);
}

/// Waits until the member has heard of this peer over a connection that was made since it was killed.
async fn heard_anew(client: &Client, peer: u32) {
    let about = async || {
        let status = client.status().await.unwrap();
        status.peers.into_iter().find(|about| about.id == peer).unwrap()
    };
    let hearing = async {
        while !about().await.connected {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let connected = Instant::now();
        while about().await.last_heard_ms.is_none_or(|ms| u128::from(ms) >= connected.elapsed().as_millis()) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, hearing).await.expect("the peer is heard");
}

/// A leader steps down while its disk hangs: its clients still see it lead, because that announcement waits for the disk
/// too. A command that starts now would run beside those of the next leader.
#[tokio::test]
async fn no_command_starts_between_the_end_of_a_leadership_and_its_announcement() {
    if !strace::works() {
        return;
    }
    // The write that hangs may be one that no announcement waits for.
    for _ in 0..6 {
        if stepped_down_behind_a_write().await {
            return;
        }
    }
    panic!("the announcement never waited for the disk");
}

/// False if the end of the leadership did not wait for the disk.
async fn stepped_down_behind_a_write() -> bool {
    let mut live = Live::start(&Plan { safety: Safety::Classic, ..three() });
    live.agreement_on(3, ALL).await;
    let data = live.cluster.data_directory(3);
    let hangs = wrapper(&data, false, &["fsync:delay_enter=8000000".to_owned()]);
    let Some(_strace) = strace::attach(&hangs, live.cluster.pid(3).unwrap()).await else { return true };
    // A restarted member begins above every number that it may have seen, so its leader has to write the next ones.
    live.kill(1).await;
    live.cluster.start(1).unwrap();
    let client = live.client(3).await;
    heard_anew(&client, 1).await;
    testkit::until("the leader writes", || data.join("state.tmp").exists().then_some(())).await;
    client.step_down(None).await.unwrap();
    if client.status().await.unwrap().role != Role::Leader {
        return false;
    }
    let mut attached = live.client(3).await.attach(Duration::ZERO).await.unwrap();
    assert_eq!(attached.next().await.unwrap(), Some(Notice::Stop));
    drop(attached);
    let refused = live.ctl(&["lead", "--id", "3", "--wait", "0", "--", "true"]).await;
    assert_eq!(client.status().await.unwrap().role, Role::Leader, "still not announced");
    assert_eq!(refused.status.code(), Some(4), "{}", stderr(&refused));
    true
}
