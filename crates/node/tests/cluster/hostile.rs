//! Strangers on the members' ports: garbage, other protocols, half frames, silence. Nothing may come of it.

use std::time::Duration;

use algorithms::catalog;
use testkit::{Live, PATIENCE, Plan, resident_kib};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CONNECTIONS: usize = 1000;
const ALL: &[u32] = &[1, 2, 3];

/// What a stranger may say; the number picks one.
fn greeting(number: usize) -> Vec<u8> {
    match number % 6 {
        0 => Vec::new(),
        1 => b"GET /leader HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        2 => vec![0, 0, 2, 0, 1, 2, 3],
        3 => vec![0xff; 64],
        4 => vec![0, 0, 0, 4, 9, 9, 9, 9, 0, 0, 0, 1],
        _ => (0..4096).map(|at| (at * 31 + number) as u8).collect(),
    }
}

#[tokio::test]
async fn a_thousand_strangers_cause_no_election_and_are_closed_by_deadline() {
    let row = catalog::row(catalog::DEFAULT).expect("the default row");
    let mut live = Live::start(&Plan::new(3, row));
    let before = live.agreement(ALL).await;
    let pids: Vec<u32> = ALL.iter().map(|&id| live.cluster.pid(id).expect("running")).collect();
    let resident: Vec<u64> = pids.iter().map(|&pid| resident_kib(pid)).collect();
    let endpoints = live.cluster.endpoints();

    let mut strangers = Vec::new();
    for number in 0..CONNECTIONS {
        let address = endpoints[number % endpoints.len()].address.clone();
        strangers.push(tokio::spawn(async move {
            let mut stream = TcpStream::connect(&address).await.expect("the port is open");
            // A member that has seen enough may close while the stranger still talks.
            let _ = stream.write_all(&greeting(number)).await;
            let mut sink = vec![0; 1024];
            loop {
                match stream.read(&mut sink).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
            }
        }));
    }
    for stranger in strangers {
        tokio::time::timeout(PATIENCE, stranger).await.expect("closed by deadline").expect("no panic");
    }

    assert_eq!(live.agreement(ALL).await, before, "the same leader in the same epoch");
    for ((&pid, &before), &id) in pids.iter().zip(&resident).zip(ALL) {
        assert_eq!(live.cluster.pid(id), Some(pid), "the same process");
        assert!(resident_kib(pid) < before + (64 << 10), "member {id} grew past 64 MiB");
    }
    // Still served.
    let answer = tokio::time::timeout(Duration::from_secs(5), live.leader()).await.expect("an answer");
    assert_eq!(answer, "3\n");
}
