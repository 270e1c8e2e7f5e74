//! Watchers that do not read: they get a gap, the election does not wait for them, and memory stays bounded.

use algorithms::catalog;
use client::{Call, CallId, InstanceId, Request, Watch, Watched};
use testkit::{Live, PATIENCE, Plan};
use transport::ClientConnection;

const WATCHERS: usize = 1000;

/// The resident memory of a process, in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Watches everything and is never read again, though its connection stays open.
async fn silent_watcher(live: &Live, id: u32) -> ClientConnection {
    let address = &live.cluster.endpoints()[id as usize - 1].address;
    let mut connection = transport::connect_client(address, live.cluster.settings()).await.unwrap();
    let request = Request::Watch { everything: true };
    let call = Call { id: CallId(1), instance: InstanceId::ELECTION, request };
    connection.send(&transport::codec::to_vec(&call).unwrap()).await.unwrap();
    connection.recv().await.unwrap().expect("the present standing");
    connection
}

async fn watchers(live: &Live, id: u32) -> (Vec<Watch>, Vec<ClientConnection>) {
    let (mut reading, mut silent) = (Vec::new(), Vec::new());
    for number in 0..WATCHERS {
        if number % 2 == 0 {
            reading.push(live.client(id).await.watch_everything().await.unwrap());
        } else {
            silent.push(silent_watcher(live, id).await);
        }
    }
    (reading, silent)
}

#[tokio::test]
async fn a_thousand_watchers_of_which_half_never_read_hear_of_a_failover_or_get_a_gap() {
    let mut live = Live::alone(&Plan::new(3, catalog::row(catalog::DEFAULT).unwrap()));
    let before = live.agreement_on(3, &[1, 2, 3]).await;
    let pid = live.cluster.pid(1).unwrap();
    let (mut reading, silent) = watchers(&live, 1).await;
    let loaded = resident(pid);
    live.kill(3).await;
    let epoch = live.agreement_on(2, &[1, 2]).await;
    assert!(epoch > before);
    for watch in &mut reading {
        let told = async {
            loop {
                match watch.next().await.unwrap().expect("the stream goes on") {
                    Watched::Announced(announcement) => {
                        let became = announcement.transition();
                        if became.is_some_and(|became| became.leader() == Some(2)) {
                            return;
                        }
                    }
                    Watched::Gap { .. } => {}
                }
            }
        };
        tokio::time::timeout(PATIENCE, told).await.expect("a watcher that reads hears of the new leader");
    }
    // Every election is announced to every watcher; the silent ones take what their sockets and queues hold.
    for _ in 0..40 {
        live.client(1).await.elect().await.unwrap();
    }
    live.agreement_that(&[1, 2], |leader, found| leader == 2 && found > epoch).await;
    let status = live.client(1).await.status().await.unwrap();
    assert_eq!(status.leader, Some(2));
    let grown = resident(pid).saturating_sub(loaded);
    let most = (WATCHERS as u64 / 2) * 2 * 16;
    println!("{WATCHERS} watchers, {} of them silent: {loaded} KiB, then {grown} KiB more", silent.len());
    assert!(grown < most, "{grown} KiB for {} silent watchers: more than their queues may hold", silent.len());
}

#[tokio::test]
async fn many_calls_and_streams_share_one_connection() {
    let mut live = Live::start(&Plan::new(3, catalog::row(catalog::DEFAULT).unwrap()));
    live.agreement_on(3, &[1, 2, 3]).await;
    let client = live.client(1).await;
    // A hundred questions under way at once, beside two streams.
    let (mut first, second) = (client.watch().await.unwrap(), client.watch_everything().await.unwrap());
    let asked = (0..100).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { (client.status().await.unwrap().id, client.history().await.unwrap().entries.len()) })
    });
    for answer in asked.collect::<Vec<_>>() {
        let (id, entries) = answer.await.unwrap();
        assert!(id == 1 && entries > 0);
    }
    // Streams that are ended make room; those that are only dropped do not.
    second.end().await.unwrap();
    for _ in 0..40 {
        client.watch().await.unwrap().end().await.unwrap();
    }
    live.kill(3).await;
    live.agreement_on(2, &[1, 2]).await;
    let told = async {
        while let Some(Watched::Announced(announcement)) = first.next().await.unwrap() {
            if announcement.transition().is_some_and(|became| became.leader() == Some(2)) {
                return;
            }
        }
        panic!("the stream ended");
    };
    tokio::time::timeout(PATIENCE, told).await.expect("the first stream goes on");
    let mut streams = Vec::new();
    let refused = loop {
        let mut stream = client.watch().await.unwrap();
        match stream.next().await {
            Ok(_) => streams.push(stream),
            Err(error) => break error.to_string(),
        }
    };
    assert!(refused.contains("streams"), "{refused}");
    assert_eq!(streams.len(), 15, "beside the first one");
}
