//! Members of two neighbouring versions in one cluster. In builds for tests a variable of the environment makes a process play
//! the next version: it speaks versions 4 to 6, sends a kind of message and a field of its heartbeats that version 5 does not
//! know, and knows one request more.

use std::fs;
use std::time::Duration;

use algorithms::catalog;
use client::{CallId, FailCode, InstanceId, MemberStatus, Reply, Response, Safety, Session};
use rustix::process::Signal;
use testkit::{Live, PATIENCE, Plan};
use transport::{codec, connect_client};

const FIVE: &[u32] = &[1, 2, 3, 4, 5];
/// Processes that start once the file exists play the next version.
const NEXT: &str = r#"[ -e "$(dirname "$0")/next" ] && export CONCLAVE_TEST_NEXT_VERSION=1"#;
/// A lease that a busy machine does not miss. After a start with two leaders no lock is granted for `max_ttl`.
const PATIENT: &str = "\n[timing]\nlease = \"2s\"\nsuspect_after = \"1s\"\n[locks]\nmax_ttl = \"10s\"\n";
/// The position of a request that only the next version knows.
const NEW_REQUEST: u32 = 99;

async fn new_request(live: &Live, id: u32) -> Response {
    let mut connection =
        connect_client(&live.cluster.endpoints()[id as usize - 1].address, live.cluster.settings()).await.unwrap();
    let call = codec::to_vec(&(CallId(7), InstanceId::ELECTION, NEW_REQUEST)).unwrap();
    connection.send(&call).await.unwrap();
    let answer = connection.recv().await.unwrap().expect("an answer, and no closed connection");
    let reply: Reply = codec::decode(&answer).unwrap();
    assert_eq!(reply.to, CallId(7));
    reply.response
}

#[tokio::test]
async fn five_members_are_upgraded_one_after_the_other_while_a_leader_leads_and_a_lock_is_held() {
    let row = catalog::row(catalog::DEFAULT).unwrap();
    let mut live = Live::behind_shell(&Plan { safety: Safety::Quorum, preempt: false, ..Plan::new(5, row) }, NEXT);
    let config = fs::read_to_string(live.cluster.config()).unwrap();
    fs::write(live.cluster.config(), config + PATIENT).unwrap();
    live.cluster.start_all().unwrap();
    live.agreement(FIVE).await;
    live.voting(FIVE).await;
    // The first leader of a new cluster may have opened another epoch, for a voter that had no record at first.
    let agreed = |all: &[MemberStatus]| {
        all.iter().all(|one| one.leader.is_some() && (one.leader, one.epoch) == (all[0].leader, all[0].epoch))
    };
    let now = live.statuses_that(FIVE, agreed).await;
    let (leader, epoch) = (now[0].leader.unwrap(), now[0].epoch);
    let Response::Failed { reason, code: FailCode::BadRequest } = new_request(&live, 1).await else {
        panic!("version 5 does not know the request")
    };
    assert!(reason.contains("not known to version"), "{reason}");
    let ttl = Duration::from_secs(10);
    let session = Session::open_within(live.cluster.endpoints(), live.cluster.settings(), ttl, PATIENCE).await;
    let session = session.unwrap_or_else(|e| panic!("{e}\n{}", live.logs()));
    session.keep_alive_in_background();
    let guard = session.lock("upgrade").await.unwrap();
    fs::write(live.scratch.path().join("next"), "").unwrap();
    for &id in FIVE.iter().filter(|&&id| id != leader) {
        restart(&mut live, id).await;
        let now = live.agreement_on(leader, FIVE).await;
        assert_eq!(now, epoch, "no election when member {id} was upgraded\n{}", live.logs());
        live.connected(FIVE).await;
    }
    restart(&mut live, leader).await;
    let (next, _) = live.agreement_that(FIVE, |_, found| found > epoch).await;
    assert_ne!(next, leader);
    live.connected(FIVE).await;
    let now = live.statuses_that(FIVE, |all| all.iter().all(|status| status.leader == Some(next))).await;
    assert!(now.iter().all(|status| status.version.ends_with("+next")), "{now:?}");
    assert_eq!(new_request(&live, 1).await, Response::Done);
    assert!(guard.remaining() > Duration::ZERO, "the lock was held all the time");
    let second = session.lock("another").await.unwrap();
    assert!(second.token() > guard.token());
    let logs: String = FIVE.iter().map(|&id| live.cluster.log_tail(id, 1000)).collect();
    assert!(!logs.contains("sent bytes that are no message"), "{logs}");
}

/// In order, as a package does it.
async fn restart(live: &mut Live, id: u32) {
    live.cluster.signal(id, Signal::TERM).unwrap();
    assert_eq!(live.cluster.reap(id).await.unwrap().code(), Some(0));
    live.observer.forget(id as usize - 1);
    live.cluster.start(id).unwrap();
}
