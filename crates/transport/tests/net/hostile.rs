//! Strangers that do not play by the rules.

use std::time::{Duration, Instant};

use super::common::{self, Dice, PATIENCE, connect, listener, members, members_with, next};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use transport::{ClientSettings, ConnectError, Event, Net, Settings, connect_client};

/// Runs the net until the other future is done; the net must have nothing to report.
async fn while_quiet<T>(net: &mut Net, work: impl Future<Output = T>) -> T {
    tokio::select! {
        done = timeout(PATIENCE, work) => done.expect("not done in time"),
        event = net.event() => panic!("a stranger caused {event:?}"),
    }
}

/// Everything the far side still says until it closes.
async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    bytes
}

#[tokio::test]
async fn garbage_http_and_oversized_prefixes_are_closed_at_once() {
    let [mut net] = members::<1>();
    let address = net.local_addr();
    let mut zeros = 4096_u32.to_be_bytes().to_vec();
    zeros.extend_from_slice(&[0; 4096]);
    let inputs: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        &[0xff; 64],
        &4097_u32.to_be_bytes(),
        b"\0\0\0\x05hello",
        &zeros,
    ];
    for input in inputs {
        let work = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(input).await.unwrap();
            rest(&mut stream).await
        };
        let started = Instant::now();
        assert_eq!(while_quiet(&mut net, work).await, b"");
        assert!(started.elapsed() < Duration::from_secs(2), "closed by the deadline, not by the content");
    }
}

#[tokio::test]
async fn silence_and_half_a_frame_are_closed_by_the_deadline() {
    let deadline = Duration::from_millis(150);
    let [mut net] = members_with::<1>(|settings| settings.handshake_deadline = deadline);
    let address = net.local_addr();
    for input in [&b""[..], b"\0\0\x01", b"\0\0\x01\0conclave"] {
        let started = Instant::now();
        let work = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(input).await.unwrap();
            rest(&mut stream).await
        };
        while_quiet(&mut net, work).await;
        let elapsed = started.elapsed();
        assert!(elapsed >= deadline / 2 && elapsed < Duration::from_secs(4), "closed after {elapsed:?}");
    }
}

/// A byte now and then must not stretch the deadline.
#[tokio::test]
async fn a_trickle_is_closed_by_the_deadline_too() {
    let [mut net] = members_with::<1>(|settings| settings.handshake_deadline = Duration::from_millis(150));
    let address = net.local_addr();
    let work = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"\0\0\x01\0").await.unwrap();
        let started = Instant::now();
        while stream.write_all(b"c").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        started.elapsed()
    };
    assert!(while_quiet(&mut net, work).await < Duration::from_secs(2));
}

#[tokio::test]
async fn at_the_cap_the_oldest_stranger_is_closed_and_members_still_get_in() {
    let [mut net, mut peer] = members_with::<2>(|settings| {
        settings.unauthenticated_max = 8;
        settings.handshake_deadline = 3 * PATIENCE;
    });
    let address = net.local_addr();
    let mut strangers = Vec::new();
    // One address has a share of the places: of 8, loopback has 6.
    for _ in 0..6 {
        strangers.push(TcpStream::connect(address).await.unwrap());
    }
    let mut oldest = strangers.remove(0);
    let work = async {
        strangers.push(TcpStream::connect(address).await.unwrap());
        rest(&mut oldest).await
    };
    assert_eq!(while_quiet(&mut net, work).await, b"");
    let mut byte = [0];
    for (index, stranger) in strangers.iter_mut().enumerate() {
        assert!(timeout(Duration::from_millis(5), stranger.read(&mut byte)).await.is_err(), "{index} was closed");
    }
    connect(&mut peer, 2, &mut net, 1).await;
}

#[tokio::test]
async fn a_member_gets_in_through_a_crowd_of_idle_strangers() {
    let [mut net, mut peer] = members::<2>();
    let address = net.local_addr();
    let mut crowd = Vec::new();
    for _ in 0..400 {
        crowd.push(TcpStream::connect(address).await.unwrap());
    }
    connect(&mut peer, 2, &mut net, 1).await;
}

/// The first frame a member sends when it dials, taken from a real dial.
async fn honest_hello() -> Vec<u8> {
    let (own, own_address) = listener();
    let fake = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peers = vec![(1, fake.local_addr().unwrap().to_string()), (2, own_address)];
    let mut net = Net::start(Settings::new("test", 2, common::incarnation(1), peers), own).unwrap();
    net.want(&[1]);
    let (mut stream, _) = while_quiet(&mut net, async { fake.accept().await.unwrap() }).await;
    let length = while_quiet(&mut net, stream.read_u32()).await.unwrap();
    let mut frame = length.to_be_bytes().to_vec();
    frame.resize(4 + length as usize, 0);
    while_quiet(&mut net, stream.read_exact(&mut frame[4..])).await.unwrap();
    frame
}

#[tokio::test]
async fn thousands_of_mutated_hellos_cause_no_event_and_no_panic() {
    let hello = honest_hello().await;
    let [mut net, mut peer] = members_with::<2>(|settings| {
        settings.secret = Some(common::secret("sixteen bytes or more"));
        settings.handshake_deadline = Duration::from_millis(500);
    });
    let address = net.local_addr();
    let mut dice = Dice(0xc0_ffee);
    let work = async {
        for _ in 0..3000 {
            let mut bytes = hello.clone();
            for _ in 0..=dice.below(3) {
                let at = dice.below(bytes.len());
                bytes[at] = dice.below(256) as u8;
            }
            // Then a forged proof, in case the hello still reads well.
            let extra: Vec<u8> = (0..dice.below(80)).map(|_| dice.below(256) as u8).collect();
            let mut stream = TcpStream::connect(address).await.unwrap();
            let _ = stream.write_all(&bytes).await;
            let _ = stream.write_all(&extra).await;
            let _ = stream.shutdown().await;
            rest(&mut stream).await;
        }
    };
    tokio::select! {
        () = work => {}
        event = net.event() => panic!("a stranger caused {event:?}"),
    }
    connect(&mut peer, 2, &mut net, 1).await;
}

/// Passes one connection on to `target`, and gives all that its dialler sent once either side has closed.
async fn record(listener: &TcpListener, target: std::net::SocketAddr) -> Vec<u8> {
    let (mut near, _) = listener.accept().await.unwrap();
    let mut far = TcpStream::connect(target).await.unwrap();
    let (mut sent, mut input, mut output) = (Vec::new(), vec![0; 4096], vec![0; 4096]);
    loop {
        tokio::select! {
            read = near.read(&mut input) => match read {
                Ok(bytes @ 1..) => {
                    sent.extend_from_slice(&input[..bytes]);
                    far.write_all(&input[..bytes]).await.unwrap();
                }
                _ => return sent,
            },
            read = far.read(&mut output) => match read {
                Ok(bytes @ 1..) => near.write_all(&output[..bytes]).await.unwrap(),
                _ => return sent,
            },
        }
    }
}

/// The acceptor's nonce is what makes a proof good for one connection only.
#[tokio::test]
async fn a_recorded_handshake_is_refused_when_it_is_replayed() {
    let secret = common::secret("sixteen bytes or more");
    let [mut net] = members_with::<1>(|settings| settings.secret = Some(secret.clone()));
    let target = net.local_addr();
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = proxy.local_addr().unwrap().to_string();
    let settings = ClientSettings { cluster: "test".to_owned(), secret: Some(secret), deadline: PATIENCE };
    let honest = async { drop(connect_client(&address, &settings).await.unwrap()) };
    let net_events = async { [next(&mut [&mut net]).await.1, next(&mut [&mut net]).await.1] };
    let (recorded, (), events) = tokio::join!(record(&proxy, target), honest, net_events);
    assert!(matches!(events, [Event::ClientUp { .. }, Event::ClientGone { .. }]), "{events:?}");

    let replay = async {
        let mut stream = TcpStream::connect(target).await.unwrap();
        stream.write_all(&recorded).await.unwrap();
        stream.shutdown().await.unwrap();
        rest(&mut stream).await
    };
    let answer = while_quiet(&mut net, replay).await;
    assert!(answer.windows(12).any(|part| part == b"wrong secret"), "{}", answer.escape_ascii());
    assert_eq!(net.clients(), 0);
}

#[tokio::test]
async fn a_dialled_stranger_is_reported_and_others_are_not_delayed() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let chatty = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let strangers = [silent.local_addr().unwrap().to_string(), chatty.local_addr().unwrap().to_string()];
    let [mut one, mut two] = members_with::<2>(|settings| {
        settings.handshake_deadline = Duration::from_millis(300);
        settings.peers.extend([3, 4].into_iter().zip(strangers.iter().cloned()));
    });
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = chatty.accept().await.unwrap();
            let _ = stream.write_all(b"SSH-2.0-OpenSSH\r\n").await;
        }
    });
    one.want(&[2, 3, 4]);
    let started = Instant::now();
    let (mut up, mut unreachable) = (0, std::collections::BTreeSet::new());
    while up < 2 || unreachable.len() < 2 {
        match next(&mut [&mut one, &mut two]).await {
            (_, Event::Up { .. }) => {
                assert!(started.elapsed() < Duration::from_millis(250), "held up by a stranger");
                up += 1;
            }
            (0, Event::Unreachable { peer, .. }) => _ = unreachable.insert(peer),
            other => panic!("unexpected {other:?}"),
        }
    }
    assert_eq!(unreachable.into_iter().collect::<Vec<_>>(), [3, 4]);
}

#[tokio::test]
async fn a_client_tells_closed_ports_strangers_and_silence_apart() {
    let settings = ClientSettings { cluster: "test".to_owned(), secret: None, deadline: Duration::from_millis(200) };
    let closed = connect_client("127.0.0.1:1", &settings).await.unwrap_err();
    assert!(matches!(closed, ConnectError::Unreachable(_)), "{closed:?}");
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap().to_string();
    let silence = connect_client(&address, &settings).await.unwrap_err();
    assert!(matches!(silence, ConnectError::Timeout), "{silence:?}");
    let http = async {
        server.accept().await.unwrap();
        let (mut stream, _) = server.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        stream
    };
    let (result, _stream) = tokio::join!(connect_client(&address, &settings), http);
    let foreign = result.unwrap_err();
    assert!(matches!(foreign, ConnectError::Protocol(_)), "{foreign:?}");
}
