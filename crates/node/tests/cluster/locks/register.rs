//! A register that accepts only tokens that do not fall, written by many clients under one lock, while members are killed,
//! paused, cut off and robbed of their disks, and clients hang, are killed and are paused.
//! `CONCLAVE_LOCK_SECONDS=600` runs it for ten minutes, `CONCLAVE_LOCK_SEED` chooses other faults.

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::Stdio;
use std::rc::Rc;
use std::time::{Duration, Instant};

use client::{Fence, FenceError, LeaderClient, LockError, Session};
use rustix::process::{Pid, Signal, kill_process};
use testkit::mutex_history::{Section, judge};
use testkit::{Live, PATIENCE, Plan, Scratch, ctl_binary, number};
use tokio::process::{Child, Command};
use tokio::task::LocalSet;
use types::{Dice, since_boot};

use super::{ALL, soon, three};

const NAME: &str = "register";
const CLIENTS: u32 = 4;
/// Longer than every fault: no session of a program that polls may be lost.
const TTL: Duration = Duration::from_secs(8);
/// Of processes that are killed and paused: the others wait so long for them.
const SHORT_TTL: &str = "500ms";

/// What all clients write down.
#[derive(Default)]
struct Record {
    sections: Vec<Section>,
    /// Tokens in the order in which the register accepted them.
    accepted: Vec<u64>,
    /// Late writes that it refused.
    refused: usize,
    served: usize,
}

struct Register {
    fence: PathBuf,
    record: RefCell<Record>,
}

impl Register {
    fn served(&self, section: Section) {
        let mut record = self.record.borrow_mut();
        record.sections.push(section);
        record.served += 1;
    }

    /// True if the write was accepted.
    fn write(&self, token: u64) -> bool {
        // Opened anew each time: other processes write too.
        let mut fence = Fence::open(&self.fence).unwrap();
        match fence.check(token) {
            Ok(()) => {
                self.record.borrow_mut().accepted.push(token);
                true
            }
            Err(FenceError::Stale { .. }) => {
                self.record.borrow_mut().refused += 1;
                false
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn plan() -> Plan {
    Plan { chaos: true, ..three() }
}

#[tokio::test]
async fn no_stale_write_is_accepted_and_no_waiter_is_lost_whatever_fails() {
    let seconds = Duration::from_secs(number("CONCLAVE_LOCK_SECONDS", 6));
    let mut dice = Dice(number("CONCLAVE_LOCK_SEED", 1));
    let mut live = Live::alone_with(&plan(), "\n[locks]\nmax_ttl = \"8s\"\n");
    live.agreement(ALL).await;
    live.voting(ALL).await;
    let scratch = Scratch::new("register").unwrap();
    let register = Rc::new(Register { fence: scratch.path().join("fence"), record: RefCell::new(Record::default()) });
    let end = Instant::now() + seconds;
    LocalSet::new()
        .run_until(async {
            let mut clients = Vec::new();
            for client in 0..CLIENTS {
                let session = super::session(&live, TTL).await;
                let (register, dice) = (Rc::clone(&register), Dice(dice.roll()));
                clients.push(tokio::task::spawn_local(work(client, session, register, dice, end)));
            }
            faults(&mut live, &register, &mut dice, end).await;
            for client in clients {
                tokio::time::timeout(3 * PATIENCE, client).await.expect("a client is not served").unwrap();
            }
        })
        .await;
    check(&live, &register).await;
}

async fn check(live: &Live, register: &Register) {
    let record = register.record.take();
    assert!(record.served >= 5, "only {} sections: nothing was tested", record.served);
    assert!(record.accepted.is_sorted(), "a stale write was accepted: {:?}", record.accepted);
    assert_eq!(judge(&record.sections), Ok(()));
    // Killed processes leave their locks to their ttl.
    let mut cluster = LeaderClient::new(live.cluster.endpoints(), live.cluster.settings());
    let empty = async {
        loop {
            let page = cluster.ask_leader(|client| async move { client.locks(None).await }).await.unwrap();
            if page.locks.is_empty() {
                return;
            }
            eprintln!("left: {:?}", page.locks);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, empty).await.expect("a lock is left");
}

/// One client: takes the lock, writes while it may, and now and then hangs while it holds the lock.
async fn work(client: u32, session: Session, register: Rc<Register>, mut dice: Dice, end: Instant) {
    while Instant::now() < end {
        let guard = match session.lock(NAME).await {
            Ok(guard) => guard,
            Err(LockError::SessionLost(why)) => panic!("a waiter that polled was lost: {why}"),
            Err(error) => panic!("{error}"),
        };
        let (token, entered) = (guard.token(), since_boot());
        let mut left = entered;
        for _ in 0..=dice.roll() % 3 {
            let may = guard.remaining() > Duration::ZERO;
            let now = since_boot();
            if may {
                left = now;
                assert!(register.write(token.0), "the holder's write was refused");
            }
            let pause = Duration::from_millis(dice.roll() % 10);
            if guard.protect(tokio::time::sleep(pause)).await.is_err() {
                break;
            }
        }
        register.served(Section { client, token, entered, left });
        drop(guard);
        tokio::time::sleep(Duration::from_millis(dice.roll() % 20)).await;
    }
    session.close().await;
}

/// One fault after another; a majority of the members runs and is connected at any time.
async fn faults(live: &mut Live, register: &Register, dice: &mut Dice, end: Instant) {
    let mut processes: Vec<Child> = Vec::new();
    while Instant::now() < end {
        let id = ALL[dice.roll() as usize % ALL.len()];
        let pause = Duration::from_millis(200 + dice.roll() % 600);
        let fault = dice.roll() % 6;
        eprintln!("fault {fault} at member {id}, {pause:?}");
        match fault {
            0 => restart(live, id, false).await,
            1 => restart(live, id, true).await,
            2 => {
                signal(live.cluster.pid(id), Signal::STOP);
                tokio::time::sleep(pause).await;
                signal(live.cluster.pid(id), Signal::CONT);
            }
            3 => {
                let (member, others) = (id.to_string(), ALL.iter().filter(|&&other| other != id));
                let others = others.map(u32::to_string).collect::<Vec<_>>().join(",");
                let _ = live.ctl(&["chaos", "cut", &member, &others]).await;
                tokio::time::sleep(pause).await;
                soon(async { while !live.ctl(&["chaos", "heal"]).await.status.success() {} }).await;
            }
            4 => {
                let process = guarded(live, register);
                tokio::time::sleep(pause).await;
                signal(process.id(), Signal::KILL);
                processes.push(process);
            }
            _ => {
                let process = guarded(live, register);
                tokio::time::sleep(pause).await;
                signal(process.id(), Signal::STOP);
                tokio::time::sleep(Duration::from_secs(1)).await;
                signal(process.id(), Signal::CONT);
                processes.push(process);
            }
        }
        // Processes that have just been started do not listen yet.
        live.statuses_that(ALL, |all| all.iter().all(|status| !status.blank)).await;
        live.agreement(ALL).await;
    }
    for process in &mut processes {
        let ended = tokio::time::timeout(2 * PATIENCE, process.wait()).await;
        ended.expect("a `ctl lock` hangs").unwrap();
    }
}

/// `lose_disk`: the member comes back with an empty data directory.
async fn restart(live: &mut Live, id: u32, lose_disk: bool) {
    live.kill(id).await;
    if lose_disk {
        std::fs::remove_dir_all(live.cluster.data_directory(id)).unwrap();
        std::fs::create_dir_all(live.cluster.data_directory(id)).unwrap();
    }
    live.cluster.start(id).unwrap();
}

/// A `ctl lock` whose command writes to the register once and ends soon.
fn guarded(live: &Live, register: &Register) -> Child {
    let script = format!("'{}' fence-check '{}'; sleep 0.3", ctl_binary().display(), register.fence.display());
    Command::new(ctl_binary())
        .arg("--config")
        .arg(live.cluster.config())
        .args(["lock", NAME, "--ttl", SHORT_TTL, "--timeout", "20s", "--", "sh", "-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

fn signal(pid: Option<u32>, signal: Signal) {
    if let Some(pid) = pid.and_then(|pid| Pid::from_raw(pid.cast_signed())) {
        // It may have ended meanwhile.
        let _ = kill_process(pid, signal);
    }
}
