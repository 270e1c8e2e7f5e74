//! Frames on established connections: order, size, slow readers, floods, clients.

use std::time::Duration;

use super::common::{PATIENCE, connect, events_for, is_down, members, members_with, next, secret, until};
use tokio::time::timeout;
use transport::{
    ClientConnection, ClientSettings, ConnectError, DownReason, Event, FRAME_MAX_BYTES, Net, RefuseCode, connect_client,
};

#[tokio::test]
async fn frames_arrive_once_and_in_order() {
    let [mut one, mut two] = members::<2>();
    connect(&mut one, 1, &mut two, 2).await;
    let (mut sent, mut received, mut echoed) = (0_u32, 0_u32, 0_u32);
    while echoed < 20_000 {
        while sent < 20_000 && sent < echoed + 500 {
            assert!(one.send(2, &sent.to_be_bytes()));
            sent += 1;
        }
        match next(&mut [&mut one, &mut two]).await {
            (1, Event::Frame { from: 1, payload }) => {
                assert_eq!(payload[..], received.to_be_bytes());
                received += 1;
                assert!(two.send(1, &payload));
            }
            (0, Event::Frame { from: 2, payload }) => {
                assert_eq!(payload[..], echoed.to_be_bytes());
                echoed += 1;
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    let (near, far) = (one.counters(2).unwrap(), two.counters(1).unwrap());
    assert_eq!((near.frames_out, near.frames_in), (20_000, 20_000));
    assert_eq!((far.frames_out, far.frames_in), (20_000, 20_000));
    assert_eq!((near.bytes_out, far.bytes_in), (80_000, 80_000));
}

/// Frames are sealed in chunks of 65,519 bytes.
#[tokio::test]
async fn frames_around_the_size_of_a_chunk_pass_in_both_directions() {
    let [mut one, mut two] = members_with::<2>(|settings| settings.keyring = secret("sixteen bytes or more").into());
    connect(&mut one, 1, &mut two, 2).await;
    for size in [0, 1, 65_518, 65_519, 65_520, 65_535, 65_536, 131_038, FRAME_MAX_BYTES] {
        let sent: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        assert!(one.send(2, &sent));
        let (who, event) = next(&mut [&mut one, &mut two]).await;
        let Event::Frame { from: 1, payload } = event else { panic!("{event:?}") };
        assert!(who == 1 && payload == sent, "{size}");
        assert!(two.send(1, &payload));
        let (who, event) = next(&mut [&mut one, &mut two]).await;
        assert!(who == 0 && matches!(event, Event::Frame { from: 2, payload } if payload == sent), "{size}");
    }
}

#[tokio::test]
async fn the_largest_frame_passes_and_a_larger_one_is_not_sent() {
    let [mut one, mut two] = members::<2>();
    connect(&mut one, 1, &mut two, 2).await;
    let largest: Vec<u8> = (0..FRAME_MAX_BYTES).map(|at| (at % 251) as u8).collect();
    assert!(!one.send(2, &vec![0; FRAME_MAX_BYTES + 1]));
    assert!(one.send(2, &largest));
    assert!(one.send(2, b""));
    let (_, event) = next(&mut [&mut one, &mut two]).await;
    assert!(matches!(event, Event::Frame { from: 1, payload } if payload == largest));
    let (_, event) = next(&mut [&mut one, &mut two]).await;
    assert!(matches!(event, Event::Frame { from: 1, payload } if payload.is_empty()));
}

#[tokio::test]
async fn a_slow_reader_loses_its_own_connection_only() {
    let [mut one, mut slow, mut brisk] = members_with::<3>(|settings| settings.queue_bytes = 1 << 20);
    connect(&mut one, 1, &mut slow, 2).await;
    one.want(&[]);
    connect(&mut brisk, 3, &mut one, 1).await;
    // From here on nobody polls the slow one.
    let block = vec![0; 64 << 10];
    let mut echoes = 0;
    while one.send(2, &block) {
        assert!(one.send(3, b"still here"));
        one.flush();
        let (_, event) = next(&mut [&mut brisk]).await;
        assert!(matches!(event, Event::Frame { from: 1, .. }), "{event:?}");
        echoes += 1;
        assert!(echoes < 4_000, "the queue has no end");
    }
    assert!(echoes > 8, "the queue took less than it should");
    let (_, event) = next(&mut [&mut one]).await;
    assert!(is_down(&event, 2, DownReason::Overflow), "{event:?}");
    assert!(!one.is_connected(2) && one.is_connected(3));
}

#[tokio::test]
async fn what_a_socket_does_not_take_at_once_follows_later() {
    let [mut one, mut two] = members_with::<2>(|settings| settings.queue_bytes = 64 << 20);
    connect(&mut one, 1, &mut two, 2).await;
    let block = vec![7; 256 << 10];
    for _ in 0..100 {
        assert!(one.send(2, &block));
    }
    one.flush();
    for _ in 0..100 {
        let (_, event) = next(&mut [&mut one, &mut two]).await;
        assert!(matches!(event, Event::Frame { from: 1, payload } if payload == block));
    }
}

/// One peer sends without pause; another's frames must not wait behind all of them.
#[tokio::test]
async fn a_flood_of_one_peer_does_not_starve_another() {
    let [mut one, mut flood, mut quiet] = members_with::<3>(|settings| settings.queue_bytes = 64 << 20);
    connect(&mut flood, 2, &mut one, 1).await;
    connect(&mut quiet, 3, &mut one, 1).await;
    let block = vec![0; 1000];
    for _ in 0..30_000 {
        assert!(flood.send(1, &block));
    }
    flood.flush();
    assert!(quiet.send(1, b"urgent"));
    quiet.flush();
    let mut before = 0;
    loop {
        let (who, event) = next(&mut [&mut one, &mut flood, &mut quiet]).await;
        assert_eq!(who, 0, "{event:?}");
        match event {
            Event::Frame { from: 3, .. } => break,
            Event::Frame { from: 2, .. } => before += 1,
            other => panic!("unexpected {other:?}"),
        }
    }
    // Two reads of 64 KiB are one turn; a few turns are fair, all that the kernel holds is not.
    assert!(before < 400, "{before} frames went first");
}

fn client_settings() -> ClientSettings {
    ClientSettings { cluster: "test".to_owned(), keyring: transport::Keyring::default(), deadline: PATIENCE }
}

/// Connects a client while the net runs; the net's `ClientUp` is consumed.
async fn client_of(net: &mut Net) -> ClientConnection {
    let address = net.local_addr().to_string();
    let settings = client_settings();
    let (connection, event) = tokio::join!(connect_client(&address, &settings), net.event());
    assert!(matches!(event, Event::ClientUp { .. }), "{event:?}");
    connection.unwrap()
}

#[tokio::test]
async fn a_client_asks_and_is_answered_and_its_end_is_noticed() {
    let [mut net] = members::<1>();
    let mut client = client_of(&mut net).await;
    assert_eq!((client.member_id(), net.clients()), (1, 1));
    client.send(b"who leads?").await.unwrap();
    let (_, event) = next(&mut [&mut net]).await;
    let Event::ClientFrame { client: id, payload } = event else { panic!("{event:?}") };
    assert_eq!(payload, "who leads?");
    assert!(net.reply(id, b"n3") && net.reply(id, &vec![1; FRAME_MAX_BYTES]));
    let (first, second) = tokio::select! {
        both = async { (client.recv().await.unwrap().unwrap(), client.recv().await.unwrap().unwrap()) } => both,
        event = net.event() => panic!("{event:?}"),
    };
    assert_eq!((&first[..], second.len()), (&b"n3"[..], FRAME_MAX_BYTES));
    drop(client);
    let (_, event) = next(&mut [&mut net]).await;
    assert_eq!(event, Event::ClientGone { client: id });
    assert!(!net.reply(id, b"too late"));
}

#[tokio::test]
async fn a_client_that_is_closed_gets_its_last_reply_first() {
    let [mut net] = members::<1>();
    let mut client = client_of(&mut net).await;
    client.send(b"bad request").await.unwrap();
    let (_, event) = next(&mut [&mut net]).await;
    let Event::ClientFrame { client: id, .. } = event else { panic!("{event:?}") };
    assert!(net.reply(id, b"go away"));
    net.close_client(id);
    assert_eq!(timeout(PATIENCE, client.recv()).await.unwrap().unwrap().unwrap(), "go away");
    assert!(timeout(PATIENCE, client.recv()).await.unwrap().unwrap().is_none());
    assert_eq!(events_for(&mut [&mut net], Duration::from_millis(5)).await, vec![]);
    assert_eq!(net.clients(), 0);
}

#[tokio::test]
async fn one_client_too_many_is_told_that_the_member_is_busy() {
    let [mut net] = members_with::<1>(|settings| settings.clients_max = 2);
    let first = client_of(&mut net).await;
    let _second = client_of(&mut net).await;
    let address = net.local_addr().to_string();
    let settings = client_settings();
    let refused = tokio::select! {
        result = connect_client(&address, &settings) => result.unwrap_err(),
        event = net.event() => panic!("{event:?}"),
    };
    assert!(matches!(refused, ConnectError::Refused { code: RefuseCode::Busy, .. }), "{refused:?}");
    drop(first);
    let (_, event) = next(&mut [&mut net]).await;
    assert!(matches!(event, Event::ClientGone { .. }), "{event:?}");
    client_of(&mut net).await;
}

/// Many clients that do not read their replies: together they hold no more than the limit.
#[tokio::test]
async fn clients_share_one_budget_and_the_heaviest_goes_first() {
    let [mut net] = members_with::<1>(|settings| settings.client_total_bytes = 3 << 20);
    let mut heavy = client_of(&mut net).await;
    let mut light = client_of(&mut net).await;
    heavy.send(b"x").await.unwrap();
    let (_, event) = next(&mut [&mut net]).await;
    let Event::ClientFrame { client: heavy_id, .. } = event else { panic!("{event:?}") };
    let block = vec![0; 512 << 10];
    while net.reply(heavy_id, &block) {
        net.flush();
    }
    let (_, event) = next(&mut [&mut net]).await;
    assert_eq!(event, Event::ClientGone { client: heavy_id });
    light.send(b"still here").await.unwrap();
    let (_, event) = next(&mut [&mut net]).await;
    assert!(matches!(event, Event::ClientFrame { .. }), "{event:?}");
}

#[tokio::test]
async fn dropping_the_event_future_loses_nothing() {
    let [mut one, mut two] = members::<2>();
    connect(&mut one, 1, &mut two, 2).await;
    for number in 0..200_u32 {
        assert!(two.send(1, &number.to_be_bytes()));
        two.flush();
        // Polled once, perhaps in vain, then dropped.
        let early = timeout(Duration::ZERO, one.event()).await;
        let event = match early {
            Ok(event) => event,
            Err(_) => until(&mut [&mut one, &mut two], |_, _| true).await.1,
        };
        assert!(matches!(&event, Event::Frame { payload, .. } if payload[..] == number.to_be_bytes()), "{event:?}");
    }
}

/// A crowd of clients has output waiting: a peer's frame goes out first, and all of theirs in the end.
#[tokio::test]
async fn clients_with_output_do_not_hold_up_a_peer_and_lose_nothing() {
    let [mut one, mut two] = members::<2>();
    connect(&mut one, 1, &mut two, 2).await;
    let mut clients = Vec::new();
    for _ in 0..40 {
        let mut connection = client_of(&mut one).await;
        connection.send(b"hello").await.unwrap();
        let Event::ClientFrame { client, .. } = one.event().await else { panic!("no frame") };
        clients.push((connection, client));
    }
    for (_, client) in &clients {
        assert!(one.reply(*client, b"news"));
    }
    assert!(one.send(2, b"peer"));
    one.flush();
    // Only the owner's turns write the others; the peer has its frame without any.
    let event = timeout(PATIENCE, two.event()).await.unwrap();
    assert!(matches!(&event, Event::Frame { payload, .. } if payload == "peer"), "{event:?}");
    for (connection, _) in &mut clients {
        let frame = timeout(PATIENCE, async {
            tokio::select! {
                frame = connection.recv() => frame.unwrap().unwrap(),
                event = one.event() => panic!("{event:?}"),
            }
        });
        assert_eq!(frame.await.unwrap(), "news");
    }
}

/// A crowd of clients has output waiting: a reply that its client waits for does not stand in line behind theirs.
#[tokio::test]
async fn a_prompt_reply_is_written_at_once_however_many_clients_have_output() {
    let [mut one] = members::<1>();
    let mut clients = Vec::new();
    for _ in 0..40 {
        let mut connection = client_of(&mut one).await;
        connection.send(b"hello").await.unwrap();
        let Event::ClientFrame { client, .. } = one.event().await else { panic!("no frame") };
        clients.push((connection, client));
    }
    let (mut prompt, last) = clients.pop().unwrap();
    for (_, client) in &clients {
        assert!(one.reply(*client, b"news"));
    }
    assert!(one.reply_promptly(last, b"answer") && one.reply_promptly(last, b"another"));
    one.flush();
    // Without another turn of the owner, which would write the others.
    for expected in ["answer", "another"] {
        assert_eq!(timeout(PATIENCE, prompt.recv()).await.unwrap().unwrap().unwrap(), expected);
    }
    for (connection, _) in &mut clients {
        let frame = timeout(PATIENCE, async {
            tokio::select! {
                frame = connection.recv() => frame.unwrap().unwrap(),
                event = one.event() => panic!("{event:?}"),
            }
        });
        assert_eq!(frame.await.unwrap(), "news");
    }
}
