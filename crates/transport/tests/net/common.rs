//! Helpers of the integration tests.

use std::future::poll_fn;
use std::net::TcpListener;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use transport::{DownReason, Event, Incarnation, Net, PeerId, Secret, Settings};

/// Far beyond anything a passing test needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

pub(crate) fn incarnation(counter: u64) -> Incarnation {
    Incarnation { counter, nonce: counter.wrapping_mul(0x1234_5678_9abc_def1) }
}

pub(crate) fn settings(id: PeerId, addresses: &[String]) -> Settings {
    let peers = (1..).zip(addresses.iter().cloned()).collect();
    Settings::new("test", id, incarnation(1), peers)
}

pub(crate) fn secret(text: &str) -> Secret {
    Secret::from_bytes(text.as_bytes()).unwrap()
}

/// Members 1..=N, each after a change of its settings; nobody dials yet.
pub(crate) fn members_with<const N: usize>(change: impl Fn(&mut Settings)) -> [Net; N] {
    let listeners: Vec<(TcpListener, String)> = (0..N).map(|_| listener()).collect();
    let addresses: Vec<String> = listeners.iter().map(|(_, address)| address.clone()).collect();
    let mut nets = listeners.into_iter().zip(1..).map(|((listener, _), id)| {
        let mut settings = settings(id, &addresses);
        change(&mut settings);
        Net::start(settings, listener).unwrap()
    });
    std::array::from_fn(|_| nets.next().unwrap())
}

pub(crate) fn members<const N: usize>() -> [Net; N] {
    members_with(|_| {})
}

/// The next event of any of the nets, and whose it is. All of them make progress meanwhile; what was reported before
/// counts as dealt with.
pub(crate) async fn next(nets: &mut [&mut Net]) -> (usize, Event) {
    for net in nets.iter_mut() {
        net.drop_ended();
    }
    let any = poll_fn(|cx| {
        for (index, net) in nets.iter_mut().enumerate() {
            if let Poll::Ready(event) = net.poll_event(cx) {
                return Poll::Ready((index, event));
            }
        }
        Poll::Pending
    });
    timeout(PATIENCE, any).await.expect("no event in time")
}

/// Every event until the given moment.
pub(crate) async fn events_for(nets: &mut [&mut Net], span: Duration) -> Vec<(usize, Event)> {
    let end = Instant::now() + span;
    let mut events = Vec::new();
    while let Ok(event) = tokio::time::timeout_at(end, next(nets)).await {
        events.push(event);
    }
    events
}

/// Skips events until one fits; returns whose it is and itself.
pub(crate) async fn until(nets: &mut [&mut Net], fits: impl Fn(usize, &Event) -> bool) -> (usize, Event) {
    loop {
        let (index, event) = next(nets).await;
        if fits(index, &event) {
            return (index, event);
        }
    }
}

/// Connects two nets by a dial of the first.
pub(crate) async fn connect(from: &mut Net, from_id: PeerId, to: &mut Net, to_id: PeerId) {
    from.want(&[to_id]);
    let mut ups = 0;
    while ups < 2 {
        let (_, event) = next(&mut [from, to]).await;
        match event {
            Event::Up { .. } => ups += 1,
            other => panic!("unexpected {other:?}"),
        }
    }
    assert!(from.is_connected(to_id) && to.is_connected(from_id));
}

pub(crate) fn is_down(event: &Event, id: PeerId, reason: DownReason) -> bool {
    matches!(event, Event::Down { peer, why, .. } if *peer == id && *why == reason)
}

pub(crate) use types::Dice;
