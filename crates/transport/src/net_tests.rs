//! What an authenticated but misbehaving client can do; needs the handshake's inside.

use std::future::poll_fn;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::*;
use crate::event::DownReason;
use crate::exchange::Channel;
use crate::frame::FRAME_MAX_BYTES;
use crate::handshake::{Answer, Hello, Reply, Role, Verdict};

fn net() -> Net {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    Net::start(Settings::new("test", 1, Incarnation { counter: 1, nonce: 1 }, Vec::new()), listener).unwrap()
}

async fn next(net: &mut Net) -> Event {
    timeout(Duration::from_secs(10), net.event()).await.expect("no event in time")
}

/// A client that has authenticated and keeps its bare socket.
async fn raw_client(net: &mut Net) -> TcpStream {
    let address = net.local_addr();
    let client = async {
        let mut channel = Channel::new(TcpStream::connect(address).await.unwrap());
        let hello = Hello { cluster: "test".to_owned(), nonce: [1; 32], role: Role::Client };
        channel.send_bytes(&hello.to_bytes().unwrap()).await.unwrap();
        assert!(matches!(channel.receive().await.unwrap(), Answer::Challenge { .. }));
        channel.send(&Reply::Proof(Vec::new())).await.unwrap();
        assert!(matches!(channel.receive().await.unwrap(), Verdict::Welcome { .. }));
        channel.into_parts().0
    };
    let (stream, event) = tokio::join!(client, next(net));
    assert!(matches!(event, Event::ClientUp { .. }));
    stream
}

#[tokio::test]
async fn a_prefix_above_the_limit_ends_the_connection_and_one_at_the_limit_costs_nothing() {
    let mut net = net();
    let mut honest = raw_client(&mut net).await;
    honest.write_all(&(FRAME_MAX_BYTES as u32).to_be_bytes()).await.unwrap();
    let mut hostile = raw_client(&mut net).await;
    hostile.write_all(b"\0\0\0\x02ok").await.unwrap();
    hostile.write_all(&(FRAME_MAX_BYTES as u32 + 1).to_be_bytes()).await.unwrap();
    assert!(matches!(next(&mut net).await, Event::ClientFrame { payload, .. } if payload == "ok"));
    assert!(matches!(next(&mut net).await, Event::ClientGone { .. }));
    assert_eq!((net.clients(), net.clients_bytes), (1, 4));
}

#[tokio::test]
async fn many_half_frames_stay_within_the_budget() {
    let mut net = net();
    let half = vec![0; FRAME_MAX_BYTES / 2];
    let mut clients = Vec::new();
    for _ in 0..50 {
        let mut stream = raw_client_past(&mut net).await;
        let sending = async {
            let _ = stream.write_all(&(FRAME_MAX_BYTES as u32).to_be_bytes()).await;
            let _ = stream.write_all(&half).await;
        };
        tokio::select! {
            () = sending => {}
            () = drain(&mut net) => {}
        }
        clients.push(stream);
        let _ = timeout(Duration::from_millis(2), drain(&mut net)).await;
        assert!(net.clients_bytes <= net.settings.client_total_bytes);
    }
    assert!(net.clients() < 50, "somebody had to go");
    assert!(net.clients() > 20, "but not everybody");
}

/// Like [`raw_client`], but passes over the ends of other clients.
async fn raw_client_past(net: &mut Net) -> TcpStream {
    while timeout(Duration::from_millis(1), net.event()).await.is_ok() {}
    raw_client(net).await
}

async fn drain(net: &mut Net) {
    loop {
        net.event().await;
    }
}

#[tokio::test]
async fn idle_links_cost_no_turn() {
    let mut net = net();
    let _one = raw_client(&mut net).await;
    let mut two = raw_client(&mut net).await;
    let _ = timeout(Duration::from_millis(5), net.event()).await;
    two.write_all(b"\0\0\0\x01x").await.unwrap();
    let ready = Arc::clone(&net.ready);
    let rung = poll_fn(|cx| {
        ready.watch(cx.waker());
        let mut keys = VecDeque::new();
        ready.take(&mut keys);
        if keys.is_empty() { Poll::Pending } else { Poll::Ready(keys) }
    });
    let keys = timeout(Duration::from_secs(5), rung).await.unwrap();
    assert_eq!(keys.len(), 1, "only the link with input asks for a turn");
}

#[tokio::test]
async fn ending_a_link_twice_changes_nothing() {
    let mut net = net();
    let _client = raw_client(&mut net).await;
    let key = *net.links.keys().next().unwrap();
    net.end(key, Some(DownReason::Error));
    net.end(key, Some(DownReason::Error));
    assert_eq!((net.clients(), net.clients_bytes), (0, 0));
    assert!(matches!(next(&mut net).await, Event::ClientGone { .. }));
    assert!(timeout(Duration::from_millis(5), net.event()).await.is_err());
}
