//! Far sides that need access to the handshake's internals: misbehaving clients, and late peers.

use std::collections::HashMap;
use std::future::poll_fn;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::*;
use crate::codec;
use crate::dialler::{HandshakeError, Introduced, introduce};
use crate::event::DownReason;
use crate::exchange::{Channel, SecureChannel};
use crate::frame::FRAME_MAX_BYTES;
use crate::handshake::{Answer, Refusal, RefuseCode, Reply, Verdict};
use crate::hello::{AcceptorHello, HEADER_BYTES, Header, SPOKEN};
use crate::key_handshake::{self, Dialling};
use crate::keyring::Keyring;
use crate::kind::Kind;
use crate::secret::{Key, Keys, NO_KEY};

#[path = "net_certificate_tests.rs"]
mod certificates;
#[path = "net_proof_tests.rs"]
mod proofs;

fn net() -> Net {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    Net::start(Settings::new("test", 1, Incarnation { counter: 1, nonce: 1 }, Vec::new()), listener).unwrap()
}

async fn next(net: &mut Net) -> Event {
    timeout(Duration::from_secs(10), net.event()).await.expect("no event in time")
}

/// A client that has authenticated and keeps its bare connection.
async fn raw_client(net: &mut Net) -> SecureChannel {
    let address = net.local_addr();
    let client = async {
        let stream = TcpStream::connect(address).await.unwrap();
        let hello = DiallerHello { cluster: "test".to_owned(), peer: None };
        let introduced =
            introduce(stream, &Keyring::default().current(), Access::Operator, &hello, |_| Ok(())).await.unwrap();
        introduced.verdict().await.unwrap().channel
    };
    let (channel, event) = tokio::join!(client, next(net));
    assert!(matches!(event, Event::ClientUp { access: Access::Operator, .. }));
    channel
}

/// Frames as they are sent.
fn sealed(channel: &mut SecureChannel, payloads: &[&[u8]]) -> BytesMut {
    let mut out = BytesMut::new();
    for payload in payloads {
        channel.session.sealer.seal(payload, &mut out).unwrap();
    }
    out
}

async fn write(channel: &mut SecureChannel, bytes: &[u8]) {
    channel.stream.write_all(bytes).await.unwrap();
}

/// Sends so many empty frames of this kind.
async fn say(channel: &mut SecureChannel, kind: Kind, times: usize) {
    let mut out = BytesMut::new();
    for _ in 0..times {
        channel.session.sealer.seal_kind(kind, b"", &mut out).unwrap();
    }
    write(channel, &out).await;
}

/// The kind of the next frame; `None` at the end of the connection.
async fn heard(channel: &mut SecureChannel) -> Option<Kind> {
    loop {
        let mut opened = BytesMut::new();
        if let Some((used, kind)) =
            channel.session.opener.open(&mut channel.input, FRAME_MAX_BYTES, &mut opened).unwrap()
        {
            bytes::Buf::advance(&mut channel.input, used);
            return Some(kind);
        }
        if channel.stream.read_buf(&mut channel.input).await.unwrap() == 0 {
            return None;
        }
    }
}

#[tokio::test]
async fn a_prefix_above_the_limit_ends_the_connection_and_one_at_the_limit_costs_nothing() {
    let mut net = net();
    let mut honest = raw_client(&mut net).await;
    write(&mut honest, &(FRAME_MAX_BYTES as u32).to_be_bytes()).await;
    let mut hostile = raw_client(&mut net).await;
    let ok = sealed(&mut hostile, &[b"ok"]);
    write(&mut hostile, &ok).await;
    write(&mut hostile, &(2 * FRAME_MAX_BYTES as u32).to_be_bytes()).await;
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
        let SecureChannel { mut stream, .. } = raw_client_past(&mut net).await;
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
    assert!(net.clients() < 50, "at least one client had to be dropped");
    assert!(net.clients() > 20, "but not most of them");
}

/// Like [`raw_client`], but ignores the ends of other clients.
async fn raw_client_past(net: &mut Net) -> SecureChannel {
    while timeout(Duration::from_millis(1), net.event()).await.is_ok() {}
    raw_client(net).await
}

async fn drain(net: &mut Net) {
    loop {
        net.event().await;
    }
}

/// Takes the turns of the links that ask for one, once some do.
async fn steal_woken(net: &Net) -> VecDeque<u64> {
    let woken = poll_fn(|cx| {
        net.ready.watch(cx.waker());
        let mut keys = VecDeque::new();
        net.ready.take(&mut keys);
        if keys.is_empty() { Poll::Pending } else { Poll::Ready(keys) }
    });
    timeout(Duration::from_secs(5), woken).await.expect("no link asked for a turn")
}

#[tokio::test]
async fn idle_links_cost_no_turn() {
    let mut net = net();
    let _one = raw_client(&mut net).await;
    let mut two = raw_client(&mut net).await;
    let _ = timeout(Duration::from_millis(5), net.event()).await;
    let frame = sealed(&mut two, &[b"x"]);
    write(&mut two, &frame).await;
    let keys = steal_woken(&net).await;
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

/// The flood comes from another thread, so that the socket never runs dry while it is read.
#[tokio::test]
async fn one_turn_takes_a_bounded_amount_from_a_link_that_never_stops() {
    let mut net = net();
    let SecureChannel { stream, mut session, .. } = raw_client(&mut net).await;
    let mut flood = stream.into_std().unwrap();
    flood.set_nonblocking(false).unwrap();
    let writer = std::thread::spawn(move || {
        let mut frames = BytesMut::new();
        while std::io::Write::write_all(&mut flood, &frames).is_ok() {
            frames.clear();
            for _ in 0..256 {
                session.sealer.seal(&[0; 1004], &mut frames).unwrap();
            }
        }
    });
    for _ in 0..20_000 {
        assert!(matches!(next(&mut net).await, Event::ClientFrame { .. }));
        assert!(net.events.held_bytes() <= 2 * Scratch::WIRE_BYTES, "{} bytes", net.events.held_bytes());
    }
    drop(net);
    writer.join().unwrap();
}

#[tokio::test]
async fn an_empty_frame_ends_a_clients_connection() {
    let mut net = net();
    let mut client = raw_client(&mut net).await;
    let frames = sealed(&mut client, &[b"x", b"", b"y"]);
    write(&mut client, &frames).await;
    assert!(matches!(next(&mut net).await, Event::ClientFrame { payload, .. } if payload == "x"));
    assert!(matches!(next(&mut net).await, Event::ClientGone { .. }));
}

/// A frame of one byte costs its sender little and this process a report.
#[tokio::test]
async fn one_turn_takes_a_bounded_number_of_frames_from_all_clients_together() {
    let mut net = net();
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(raw_client(&mut net).await);
    }
    for client in &mut clients {
        let flood = sealed(client, &vec![&b"x"[..]; 10_000]);
        write(client, &flood).await;
    }
    let mut seen: HashMap<ClientId, usize> = HashMap::new();
    for _ in 0..40_000 {
        let Event::ClientFrame { client, .. } = next(&mut net).await else { panic!("not a frame") };
        *seen.entry(client).or_default() += 1;
        let limit = CLIENT_FRAMES_PER_TURN * (size_of::<Event>() + 1);
        assert!(net.events.held_bytes() <= limit, "{} bytes", net.events.held_bytes());
    }
    assert_eq!(seen.into_values().collect::<Vec<_>>(), [10_000; 4], "no frame is lost");
}

#[tokio::test]
async fn peers_are_served_before_clients_that_came_first() {
    let (mut net, _peer) = net_and_peer().await;
    let ((mut peer, _), _) = tokio::join!(dial_by_hand(net.local_addr(), 1), next(&mut net));
    let mut client = raw_client(&mut net).await;
    assert!(timeout(Duration::from_millis(5), net.event()).await.is_err());
    let flood = sealed(&mut client, &[&b"x"[..]; 1000]);
    write(&mut client, &flood).await;
    assert!(matches!(next(&mut net).await, Event::ClientFrame { .. }), "the client's turn has come");
    while net.queued().is_some() {}
    let beat = sealed(&mut peer, &[b"beat"]);
    write(&mut peer, &beat).await;
    // The client's link waits in front, with 900 frames; the runtime has to see the peer's bytes.
    let _ = timeout(Duration::from_millis(5), std::future::pending::<()>()).await;
    assert!(matches!(next(&mut net).await, Event::Frame { from: 1, .. }));
}

#[tokio::test]
async fn a_killed_process_closes_links_of_peers_before_those_of_later_clients() {
    let (mut net, _peer) = net_and_peer().await;
    let (_peer, _) = tokio::join!(dial_by_hand(net.local_addr(), 1), next(&mut net));
    let _client = raw_client(&mut net).await;
    let descriptor = |of_peer| {
        let mut links = net.links.values().filter(|link| matches!(link.owner, Owner::Peer { .. }) == of_peer);
        links.next().unwrap().descriptor()
    };
    assert!(descriptor(true) > descriptor(false), "{} {}", descriptor(true), descriptor(false));
}

#[tokio::test]
async fn pings_are_answered_and_never_queue_more_than_one_pong() {
    let mut net = net();
    let mut client = raw_client(&mut net).await;
    say(&mut client, Kind::Ping, 1).await;
    assert_eq!(quietly(&mut net, heard(&mut client)).await, Some(Kind::Pong));
    // This client does not read: the replies fill its socket, and the pongs behind them are one.
    let key = *net.links.keys().next().unwrap();
    let mut queued = 0;
    while queued < 1 << 20 {
        assert!(net.reply(ClientId(key), &vec![7; 65_536]));
        net.flush_all();
        queued = net.links[&key].held_bytes();
    }
    for _ in 0..100 {
        say(&mut client, Kind::Ping, 100).await;
        let _ = timeout(Duration::from_millis(1), net.event()).await;
    }
    assert_eq!(net.links[&key].held_bytes(), queued + crate::secure::wire_bytes(0));
}

#[tokio::test]
async fn a_silent_link_is_asked_twice_and_then_reported_and_one_that_answers_stays() {
    let (mut net, _peer) = net_and_peer_with(|settings| settings.link_heartbeat = Duration::from_millis(40)).await;
    let ((mut channel, _), _) = tokio::join!(dial_by_hand(net.local_addr(), 1), next(&mut net));
    for _ in 0..4 {
        assert_eq!(quietly(&mut net, heard(&mut channel)).await, Some(Kind::Ping));
        say(&mut channel, Kind::Pong, 1).await;
    }
    assert_eq!(next(&mut net).await, Event::Down { peer: 1, incarnation: PEER, why: DownReason::Silent });
    net.drop_ended();
    for expected in [Some(Kind::Ping), Some(Kind::Ping), None] {
        assert_eq!(heard(&mut channel).await, expected, "asked twice before it was given up");
    }
}

#[tokio::test]
async fn a_net_that_does_not_beat_by_itself_asks_silent_links_when_its_owner_says_so() {
    let every = Duration::from_millis(5);
    let (mut net, _peer) = net_and_peer_with(|settings| {
        (settings.link_heartbeat, settings.beats_by_itself) = (every, false);
    })
    .await;
    let ((mut channel, _), _) = tokio::join!(dial_by_hand(net.local_addr(), 1), next(&mut net));
    assert!(timeout(10 * every, net.event()).await.is_err(), "nothing happens by itself");
    for _ in 0..2 {
        assert_eq!(net.beat(), every);
    }
    assert!(timeout(every, net.event()).await.is_err(), "asked twice, and not given up");
    net.beat();
    assert_eq!(next(&mut net).await, Event::Down { peer: 1, incarnation: PEER, why: DownReason::Silent });
    net.drop_ended();
    for expected in [Some(Kind::Ping), Some(Kind::Ping), None] {
        assert_eq!(heard(&mut channel).await, expected);
    }
}

/// Nothing of the old process arrives: its machine has lost its power.
#[tokio::test]
async fn a_later_process_replaces_a_link_that_gives_no_sign_of_life() {
    let next_run = Incarnation { counter: 6, nonce: 6 };
    let (mut net, _peer) = net_and_peer_with(|settings| settings.probe_timeout = Duration::from_millis(50)).await;
    let address = net.local_addr();
    let ((_old, _), up) = tokio::join!(dial_by_hand(address, 1), next(&mut net));
    assert_eq!(up, Event::Up { peer: 1, incarnation: PEER });
    let ((_new, verdict), down) = tokio::join!(dial_by_hand_as(next_run, address, 1), next(&mut net));
    assert!(matches!(verdict, Verdict::Welcome { .. }), "{verdict:?}");
    assert_eq!(down, Event::Down { peer: 1, incarnation: PEER, why: DownReason::Replaced });
    assert_eq!(next(&mut net).await, Event::Up { peer: 1, incarnation: next_run });
    assert_eq!(net.peer_incarnation(1), Some(next_run));
}

#[tokio::test]
async fn a_later_process_is_refused_while_the_old_link_answers_and_admitted_when_it_ends() {
    let next_run = Incarnation { counter: 6, nonce: 6 };
    let (mut net, _peer) = net_and_peer_with(|settings| settings.probe_timeout = Duration::from_mins(1)).await;
    let address = net.local_addr();
    let ((mut old, _), _) = tokio::join!(dial_by_hand(address, 1), next(&mut net));
    let answering = async {
        assert_eq!(heard(&mut old).await, Some(Kind::Ping));
        say(&mut old, Kind::Pong, 1).await;
        old
    };
    let both = async { tokio::join!(dial_by_hand_as(next_run, address, 1), answering) };
    let ((_, verdict), old) = quietly(&mut net, both).await;
    assert!(matches!(verdict, Verdict::Refused(Refusal { code: RefuseCode::Duplicate, .. })), "{verdict:?}");

    // It dials again, and while it waits for the probe the old connection is closed.
    let closing = async {
        let mut old = old;
        assert_eq!(heard(&mut old).await, Some(Kind::Ping));
    };
    let ((_new, verdict), (), down) = tokio::join!(dial_by_hand_as(next_run, address, 2), closing, next(&mut net));
    assert_eq!(down, Event::Down { peer: 1, incarnation: PEER, why: DownReason::Remote });
    assert!(matches!(verdict, Verdict::Welcome { .. }), "{verdict:?}");
    assert_eq!(next(&mut net).await, Event::Up { peer: 1, incarnation: next_run });
}

#[tokio::test]
async fn a_later_process_that_left_before_the_end_of_the_probe_is_not_reported() {
    let next_run = Incarnation { counter: 6, nonce: 6 };
    let (mut net, _peer) = net_and_peer_with(|settings| settings.probe_timeout = Duration::from_millis(100)).await;
    let address = net.local_addr();
    let ((_old, _), _) = tokio::join!(dial_by_hand(address, 1), next(&mut net));
    let impatient = timeout(Duration::from_millis(30), dial_by_hand_as(next_run, address, 1));
    let (result, down) = tokio::join!(impatient, next(&mut net));
    assert!(result.is_err());
    assert_eq!(down, Event::Down { peer: 1, incarnation: PEER, why: DownReason::Silent });
    let ((_new, verdict), up) = tokio::join!(dial_by_hand_as(next_run, address, 2), next(&mut net));
    assert!(matches!(verdict, Verdict::Welcome { .. }), "{verdict:?}");
    assert_eq!(up, Event::Up { peer: 1, incarnation: next_run });
}

const PEER: Incarnation = Incarnation { counter: 5, nonce: 5 };

/// Member 2, with the address of a member 1 that the test plays by hand.
async fn net_and_peer() -> (Net, TcpListener) {
    net_and_peer_with(|_| {}).await
}

async fn net_and_peer_with(change: impl FnOnce(&mut Settings)) -> (Net, TcpListener) {
    let peer = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peers = vec![(1, peer.local_addr().unwrap().to_string())];
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let mut settings = Settings::new("test", 2, Incarnation { counter: 1, nonce: 1 }, peers);
    change(&mut settings);
    (Net::start(settings, listener).unwrap(), peer)
}

/// Member 1 dials member 2, as far as the verdict.
async fn dial_by_hand(address: SocketAddr, attempt: u64) -> (SecureChannel, Verdict) {
    dial_by_hand_as(PEER, address, attempt).await
}

async fn dial_by_hand_as(incarnation: Incarnation, address: SocketAddr, attempt: u64) -> (SecureChannel, Verdict) {
    let stream = TcpStream::connect(address).await.unwrap();
    let keyring = Keyring::default();
    let me = Identity {
        cluster: "test".to_owned(),
        id: 1,
        incarnation,
        facts: Vec::new(),
        cluster_id: KnownId::default(),
        list: crate::list_fact::KnownList::default(),
        keyring: keyring.clone(),
    };
    let hello = dial::hello(&me, 2, attempt);
    let Introduced { mut channel, .. } =
        introduce(stream, &keyring.current(), Access::Member, &hello, |_| Ok(())).await.unwrap();
    channel.send(&Reply::Commit).await.unwrap();
    let verdict = channel.receive().await.unwrap();
    (channel, verdict)
}

/// Member 1 takes member 2's dial as far as its first frame.
async fn meet_by_hand(listener: &TcpListener) -> SecureChannel {
    let mut channel = Channel::new(listener.accept().await.unwrap().0);
    let hello = channel.receive().await.unwrap();
    let header = Header { versions: SPOKEN, access: Access::Member, key_id: NO_KEY }.to_bytes();
    let (prologue, message) = hello.split_at(HEADER_BYTES);
    let keys = Keys::new(None);
    let (session, answer) =
        key_handshake::accept(keys.of(Access::Member).unwrap(), prologue, message, &header).unwrap();
    channel.send(&[&header[..], &answer].concat()).await.unwrap();
    let mut channel = channel.secure(session, Access::Member);
    DiallerHello::from_bytes(&channel.receive_bytes().await.unwrap(), Access::Member).unwrap();
    channel
}

/// Member 1 takes member 2's dial as far as its commitment; the welcome is left to the test.
async fn accept_by_hand(listener: &TcpListener) -> SecureChannel {
    let mut channel = meet_by_hand(listener).await;
    let hello = AcceptorHello { cluster: "test".to_owned(), id: 1, incarnation: PEER, facts: Vec::new() };
    channel.send(&Answer::Hello(hello)).await.unwrap();
    assert_eq!(channel.receive::<Reply>().await.unwrap(), Reply::Commit);
    channel
}

/// Runs the net beside a hand-played peer; the net must have nothing to report in this time.
async fn quietly<T>(net: &mut Net, work: impl Future<Output = T>) -> T {
    tokio::select! {
        done = timeout(Duration::from_secs(10), work) => done.expect("not done in time"),
        event = net.event() => panic!("unexpected {event:?}"),
    }
}

fn is_already_connected(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Refused(refusal) if refusal.code == RefuseCode::AlreadyConnected)
}

#[tokio::test]
async fn the_late_loser_of_two_dials_is_refused_in_silence_and_a_later_dial_replaces() {
    let (mut net, peer) = net_and_peer().await;
    let address = net.local_addr();
    net.want(&[1]);
    let mut kept = quietly(&mut net, accept_by_hand(&peer)).await;
    // The higher id is committed now, though no connection is up: the dial of the lower id must wait.
    let (_, verdict) = quietly(&mut net, dial_by_hand(address, 1)).await;
    assert!(is_already_connected(&verdict), "{verdict:?}");
    kept.send(&Verdict::Welcome { floor: 4 }).await.unwrap();
    assert_eq!(next(&mut net).await, Event::Up { peer: 1, incarnation: PEER });
    let (_, verdict) = quietly(&mut net, dial_by_hand(address, 4)).await;
    assert!(is_already_connected(&verdict), "{verdict:?}");

    let ((_channel, verdict), down) = tokio::join!(dial_by_hand(address, 5), next(&mut net));
    assert_eq!(verdict, Verdict::Welcome { floor: 1 });
    assert_eq!(down, Event::Down { peer: 1, incarnation: PEER, why: DownReason::Replaced });
    assert_eq!(next(&mut net).await, Event::Up { peer: 1, incarnation: PEER });
}

#[tokio::test]
async fn a_welcome_counts_the_dials_it_makes_obsolete() {
    let (mut net, peer) = net_and_peer().await;
    let address = net.local_addr();
    net.want(&[1]);
    // The dial has arrived but is not answered, so it is not committed and yields.
    let mut given_up = Channel::new(quietly(&mut net, peer.accept()).await.unwrap().0);
    let ((_channel, verdict), up) = tokio::join!(dial_by_hand(address, 1), next(&mut net));
    assert_eq!(verdict, Verdict::Welcome { floor: 1 });
    assert_eq!(up, Event::Up { peer: 1, incarnation: PEER });
    quietly(&mut net, given_up.receive()).await.unwrap();
    assert!(quietly(&mut net, given_up.receive()).await.is_err(), "the dial that yielded is closed");
}

#[tokio::test]
async fn a_committed_dial_that_fails_lets_the_other_side_in() {
    let (mut net, peer) = net_and_peer().await;
    let address = net.local_addr();
    net.want(&[1]);
    drop(quietly(&mut net, accept_by_hand(&peer)).await);
    assert!(matches!(next(&mut net).await, Event::Unreachable { peer: 1, .. }));
    let ((_channel, verdict), up) = tokio::join!(dial_by_hand(address, 1), next(&mut net));
    assert!(matches!(verdict, Verdict::Welcome { .. }), "{verdict:?}");
    assert_eq!(up, Event::Up { peer: 1, incarnation: PEER });
}

/// Frames directly behind the welcome arrive in the handshake's buffer and must not be lost there.
#[tokio::test]
async fn frames_that_come_with_the_welcome_are_delivered() {
    let (mut net, peer) = net_and_peer().await;
    net.want(&[1]);
    let mut channel = quietly(&mut net, accept_by_hand(&peer)).await;
    let welcome = codec::to_vec(&Verdict::Welcome { floor: 0 }).unwrap();
    let all = sealed(&mut channel, &[&welcome, b"first", b"second"]);
    write(&mut channel, &all).await;
    assert!(matches!(next(&mut net).await, Event::Up { peer: 1, .. }));
    for expected in ["first", "second"] {
        assert!(matches!(next(&mut net).await, Event::Frame { from: 1, payload } if payload == expected));
    }
}

/// A busy turn may leave the old link unread; its end must be handled before a new process of that id is judged.
#[tokio::test]
async fn what_an_old_connection_still_holds_comes_before_its_successor() {
    let next_run = Incarnation { counter: 6, nonce: 6 };
    let (mut net, _peer) = net_and_peer().await;
    let address = net.local_addr();
    let ((mut old, _), up) = tokio::join!(dial_by_hand(address, 1), next(&mut net));
    assert_eq!(up, Event::Up { peer: 1, incarnation: PEER });
    assert!(timeout(Duration::from_millis(5), net.event()).await.is_err());
    let last = sealed(&mut old, &[b"last"]);
    write(&mut old, &last).await;
    drop(old);
    steal_woken(&net).await;

    let ((_new, verdict), frame) = tokio::join!(dial_by_hand_as(next_run, address, 1), next(&mut net));
    assert!(matches!(verdict, Verdict::Welcome { .. }), "{verdict:?}");
    assert!(matches!(&frame, Event::Frame { from: 1, payload } if payload == "last"), "{frame:?}");
    assert_eq!(next(&mut net).await, Event::Down { peer: 1, incarnation: PEER, why: DownReason::Remote });
    assert_eq!(next(&mut net).await, Event::Up { peer: 1, incarnation: next_run });
}

/// What a peer, or a process on the way to it, does to its connection, and how it is reported.
#[tokio::test]
async fn each_end_of_a_peers_connection_is_named_for_what_it_was() {
    use DownReason::{Protocol, Remote};
    let ends = [Remote, Remote, Protocol, Protocol, Protocol, Protocol, Protocol, Protocol];
    for (number, expected) in ends.into_iter().enumerate() {
        let (mut net, _peer) = net_and_peer().await;
        let ((mut channel, _), up) = tokio::join!(dial_by_hand(net.local_addr(), 1), next(&mut net));
        assert_eq!(up, Event::Up { peer: 1, incarnation: PEER });
        let mut last = sealed(&mut channel, &[b"last"]);
        write(&mut channel, &last).await;
        assert!(matches!(next(&mut net).await, Event::Frame { from: 1, .. }));
        let (first, second) = (sealed(&mut channel, &[b"first"]), sealed(&mut channel, &[b"second"]));
        match number {
            0 => channel.stream.shutdown().await.unwrap(),
            1 => channel.stream.set_zero_linger().unwrap(),
            2 => write(&mut channel, &(2 * FRAME_MAX_BYTES as u32).to_be_bytes()).await,
            // Truncated, then the end.
            3 => write(&mut channel, &first[..first.len() - 1]).await,
            // Repeated, left out, reflected, changed.
            4 => write(&mut channel, &last).await,
            5 => write(&mut channel, &second).await,
            6 => {
                assert!(net.send(1, b"back"));
                net.flush();
                let mut back = vec![0; crate::secure::wire_bytes(4)];
                channel.stream.read_exact(&mut back).await.unwrap();
                write(&mut channel, &back).await;
            }
            _ => {
                last.clear();
                last.extend_from_slice(&first);
                last[6] ^= 1;
                write(&mut channel, &last).await;
            }
        }
        // A socket without a linger time is reset when it is closed.
        drop(channel);
        assert_eq!(next(&mut net).await, Event::Down { peer: 1, incarnation: PEER, why: expected }, "number {number}");
    }
}

#[tokio::test]
async fn pauses_between_dials_start_over_after_a_connection() {
    for dialled_here in [true, false] {
        let (mut net, peer) = net_and_peer().await;
        let address = net.local_addr();
        let pause = |net: &Net| net.peers[&1].backoff.clone().pause();
        net.want(&[1]);
        for _ in 0..3 {
            drop(quietly(&mut net, peer.accept()).await.unwrap());
            assert!(matches!(next(&mut net).await, Event::Unreachable { .. }));
        }
        assert!(pause(&net) > net.settings.backoff_min, "pauses grow while nothing connects");
        let _kept = if dialled_here {
            let mut channel = quietly(&mut net, accept_by_hand(&peer)).await;
            channel.send(&Verdict::Welcome { floor: 0 }).await.unwrap();
            assert!(matches!(next(&mut net).await, Event::Up { .. }));
            channel
        } else {
            let ((channel, _), up) = tokio::join!(dial_by_hand(address, 1), next(&mut net));
            assert!(matches!(up, Event::Up { .. }));
            channel
        };
        assert!(pause(&net) <= net.settings.backoff_min, "dialled here: {dialled_here}");
    }
}

/// Member 1 answers one dial of member 2 with this frame in clear.
async fn answer_by_hand(net: &mut Net, listener: &TcpListener, frame: &[u8]) -> Event {
    let answering = async {
        let mut channel = Channel::new(listener.accept().await.unwrap().0);
        channel.receive().await.unwrap();
        channel.send(frame).await.unwrap();
        channel
    };
    let _channel = quietly(net, answering).await;
    next(net).await
}

#[tokio::test]
async fn a_peer_of_other_versions_is_reported_and_dialled_again() {
    let (mut net, peer) = net_and_peer().await;
    net.want(&[1]);
    let first = [&b"\x00\x01\x08"[..], b"speaks 1"].concat();
    for (answer, theirs) in [
        (&b"conclave\0\x06\0\x07"[..], "versions 6 to 7"),
        (b"conclave\0\x03\0\x03", "speaks protocol version 3"),
        (b"conclave\0\x02\0\x02", "speaks protocol version 2"),
        (&first, "speaks protocol version 1"),
    ] {
        let event = answer_by_hand(&mut net, &peer, answer).await;
        let said = |why: &str| why.contains(theirs) && why.contains("this side speaks protocol versions 4 to 5");
        assert!(matches!(&event, Event::Unreachable { peer: 1, why } if said(why)), "{event:?}");
    }
    let mut kept = quietly(&mut net, accept_by_hand(&peer)).await;
    kept.send(&Verdict::Welcome { floor: 0 }).await.unwrap();
    assert!(matches!(next(&mut net).await, Event::Up { peer: 1, .. }));
}
