//! Clients that misbehave: slow heads, idle connections, heads that are too long.

use std::time::Duration;

use member::Safety;
use testkit::Live;
use testkit::http::{Http, ask};

use super::plan;

/// More than the patience of the face, and some more for a machine that has other things to do.
const CLOSED: Duration = Duration::from_mins(1);

#[tokio::test]
async fn idle_connections_are_closed_and_pipelined_requests_are_answered() {
    let plan = plan(1, Safety::Classic);
    let port = plan.http_ports[0];
    let mut live = Live::start(&plan);
    live.agreement(&[1]).await;
    let silent = Http::connect(port).await;
    let mut idle = Http::connect(port).await;
    idle.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\nGET /leader HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    for expected in ["the event loop answers\n", "1 leads in epoch"] {
        let answer = idle.answer(false).await.expect("both are answered");
        assert!(answer.code == 200 && answer.body.starts_with(expected), "{answer:?}");
    }
    for mut http in [silent, idle] {
        assert!(http.closes_within(CLOSED).await, "an idle connection stays open");
    }
    // Heads that are too long are refused.
    let long = format!("X-Long: {}\r\n", "x".repeat(20_000));
    assert_eq!(ask(port, "GET", "/leader", &long, "").await.code, 431);
}

#[tokio::test]
async fn a_slow_head_is_closed_although_bytes_keep_coming() {
    let plan = plan(1, Safety::Classic);
    let port = plan.http_ports[0];
    let mut live = Live::start(&plan);
    live.agreement(&[1]).await;
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let (mut reading, mut writing) = stream.into_split();
    tokio::spawn(async move {
        use tokio::io::AsyncWriteExt;
        let _ = writing.write_all(b"GET /leader HTTP/1.1\r\nX-Slow: ").await;
        while writing.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(CLOSED, tokio::io::AsyncReadExt::read_to_end(&mut reading, &mut rest)).await;
    assert!(ended.is_ok(), "the connection is still open");
}
