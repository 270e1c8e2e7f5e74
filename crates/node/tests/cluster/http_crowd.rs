//! A crowd of HTTP clients while members fail.

use member::Safety;
use testkit::http::{Http, get};
use testkit::{Live, number, resident_kib};

const MEMORY_MAX_KIB: u64 = 64 << 10;

#[tokio::test]
async fn a_crowd_of_streams_of_which_half_are_never_read_does_not_hinder_an_election() {
    let crowd = number("CONCLAVE_HTTP_CLIENTS", 200) as usize;
    let plan = super::http::plan(3, Safety::Classic);
    let port = plan.http_ports[0];
    let mut live = Live::alone(&plan);
    live.agreement(&[1, 2, 3]).await;
    let mut streams = Vec::new();
    for _ in 0..crowd {
        streams.push(Http::events(port, "").await);
    }
    let mut slow = Vec::new();
    for _ in 0..50 {
        let mut http = Http::connect(port).await;
        http.send(b"GET /leader HTTP/1.1\r\nX: ").await;
        slow.push(http);
    }
    let before = get(port, "/metrics").await.body;
    live.kill(3).await;
    let (leader, _) = live.agreement(&[1, 2]).await;
    assert_eq!(leader, 2);
    // Half of them read; the others never do.
    for stream in streams.iter_mut().step_by(2) {
        stream.event_that(|event| event["what"] == "became" && event["leader"] == 2).await;
    }
    let changes = |text: &str| super::http::metrics::value(text, "conclave_leader_changes_total");
    let after = get(port, "/metrics").await.body;
    assert_eq!(changes(&after), changes(&before) + 1.0, "no other election");
    let resident = resident_kib(live.cluster.pid(1).unwrap());
    println!("{crowd} streams, half of them unread, 50 slow heads: {resident} KiB resident");
    assert!(resident < MEMORY_MAX_KIB, "{resident} KiB");
}
