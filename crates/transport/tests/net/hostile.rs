//! Strangers that do not play by the rules.

use std::time::{Duration, Instant};

use super::common::{self, Dice, PATIENCE, connect, listener, members, members_with, next};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use transport::{ClientSettings, ConnectError, Event, Net, RefuseCode, Secret, Settings, connect_client};

fn secret() -> Secret {
    common::secret("sixteen bytes or more")
}

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
    let mut settings = Settings::new("test", 2, common::incarnation(1), peers);
    settings.keyring = secret().into();
    let mut net = Net::start(settings, own).unwrap();
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
        settings.keyring = secret().into();
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
            // Then forged frames of a session, in case the first frame is unchanged.
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

#[tokio::test]
async fn a_stranger_at_a_members_address_is_not_believed_whatever_it_says() {
    let stranger = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let [mut one, mut two] = members_with::<2>(|settings| {
        settings.keyring = secret().into();
        settings.backoff_max = settings.backoff_min;
        settings.peers.push((3, stranger.local_addr().unwrap().to_string()));
    });
    connect(&mut one, 1, &mut two, 2).await;
    let refusal = |code: &[u8]| [&[0][..], code, b"\x05words"].concat();
    let header = b"conclave\x00\x04\x00\x04\x00";
    let mut answers: Vec<Vec<u8>> = (0..12).map(|code| refusal(&[code])).collect();
    answers.extend([refusal(&[9, 200]), b"".to_vec(), vec![0xff; 500]]);
    answers.push([&header[..], b"abcd"].concat());
    answers.push([&header[..], b"abcd", &refusal(&[9, 200])].concat());
    one.want(&[2, 3]);
    for answer in answers {
        let answering = async {
            let (mut stream, _) = stranger.accept().await.unwrap();
            let length = stream.read_u32().await.unwrap();
            let mut hello = vec![0; length as usize];
            stream.read_exact(&mut hello).await.unwrap();
            assert_eq!(hello.len(), 17 + 48, "a header and the first message, nothing to learn from");
            // Its own key id back, which it can know, and what it says behind it.
            let echo = [&hello[..17], &answer].concat();
            for frame in [&answer, &echo] {
                stream.write_all(&(frame.len() as u32).to_be_bytes()).await.unwrap();
                let _ = stream.write_all(frame).await;
            }
            stream
        };
        let _stream = while_quiet(&mut one, answering).await;
        match next(&mut [&mut one, &mut two]).await {
            (0, Event::Unreachable { peer: 3, why }) => assert!(!why.contains("words"), "{why}"),
            (0, Event::Refused { peer: 3, code, text }) => {
                assert_eq!((code, text.as_str()), (RefuseCode::Secret, "wrong secret"));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(one.is_connected(2) && two.is_connected(1));
}

/// What a process on the way does with the bytes of a connection.
trait Relay {
    /// Bytes of the dialler or of the acceptor, and how many came before them.
    fn pass(&mut self, from_dialler: bool, before: usize, bytes: &mut Vec<u8>);
}

/// Records what each side sent.
#[derive(Default)]
struct Recorder([Vec<u8>; 2]);

impl Relay for Recorder {
    fn pass(&mut self, from_dialler: bool, _: usize, bytes: &mut Vec<u8>) {
        self.0[usize::from(!from_dialler)].extend_from_slice(bytes);
    }
}

/// Flips a bit of one byte.
struct Flipper {
    from_dialler: bool,
    at: usize,
    bit: u8,
}

impl Relay for Flipper {
    fn pass(&mut self, from_dialler: bool, before: usize, bytes: &mut Vec<u8>) {
        if from_dialler == self.from_dialler
            && let Some(byte) = self.at.checked_sub(before).and_then(|at| bytes.get_mut(at))
        {
            *byte ^= self.bit;
        }
    }
}

/// Passes one connection on to `target` until either side has closed.
async fn relay(listener: &TcpListener, target: std::net::SocketAddr, relay: &mut impl Relay) {
    let (mut near, _) = listener.accept().await.unwrap();
    let mut far = TcpStream::connect(target).await.unwrap();
    let (mut input, mut output, mut passed) = (vec![0; 4096], vec![0; 4096], [0; 2]);
    loop {
        let (from_dialler, mut bytes) = tokio::select! {
            read = near.read(&mut input) => match read {
                Ok(bytes @ 1..) => (true, input[..bytes].to_vec()),
                _ => return,
            },
            read = far.read(&mut output) => match read {
                Ok(bytes @ 1..) => (false, output[..bytes].to_vec()),
                _ => return,
            },
        };
        let before = &mut passed[usize::from(!from_dialler)];
        relay.pass(from_dialler, *before, &mut bytes);
        *before += bytes.len();
        let _ = if from_dialler { far.write_all(&bytes).await } else { near.write_all(&bytes).await };
    }
}

/// One question and its answer through a relay; what the member and the client took for authentic.
async fn session(net: &mut Net, through: &mut impl Relay, deadline: Duration) -> (Vec<Event>, Option<bytes::Bytes>) {
    let target = net.local_addr();
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = proxy.local_addr().unwrap().to_string();
    let settings = ClientSettings { cluster: "test".to_owned(), keyring: secret().into(), deadline };
    let client = async {
        let mut connection = connect_client(&address, &settings).await.ok()?;
        connection.send(b"question").await.ok()?;
        timeout(deadline, connection.recv()).await.ok()?.ok()?
    };
    let mut events = Vec::new();
    let member = async {
        loop {
            let event = net.event().await;
            if let Event::ClientFrame { client, .. } = &event {
                net.reply(*client, b"answer");
            }
            events.push(event);
        }
    };
    let answer = tokio::select! {
        (answer, ()) = async { tokio::join!(client, relay(&proxy, target, through)) } => answer,
        () = member => unreachable!(),
    };
    if matches!(events.last(), Some(Event::ClientUp { .. } | Event::ClientFrame { .. })) {
        events.push(next(&mut [net]).await.1);
    }
    (events, answer)
}

#[tokio::test]
async fn a_recorded_session_is_closed_without_effect_when_it_is_replayed() {
    let [mut net] = members_with::<1>(|settings| settings.keyring = secret().into());
    let mut recorded = Recorder::default();
    let (events, answer) = session(&mut net, &mut recorded, PATIENCE).await;
    assert!(
        matches!(&events[..], [Event::ClientUp { .. }, Event::ClientFrame { .. }, Event::ClientGone { .. }]),
        "{events:?}"
    );
    assert_eq!(answer.as_deref(), Some(&b"answer"[..]));
    let [dialler, acceptor] = recorded.0;
    for part in [&b"question"[..], b"answer", b"test"] {
        for sent in [&dialler, &acceptor] {
            assert!(sent.windows(part.len()).all(|window| window != part), "in clear: {}", part.escape_ascii());
        }
    }
    let first_message = 4 + 17 + 48;
    for bytes in [&dialler[..], &dialler[..first_message], &acceptor[..]] {
        let replay = async {
            let mut stream = TcpStream::connect(net.local_addr()).await.unwrap();
            stream.write_all(bytes).await.unwrap();
            stream.shutdown().await.unwrap();
            rest(&mut stream).await
        };
        let said = timeout(PATIENCE, replay).await.unwrap();
        // A fresh second message, which a process without the key cannot read, or nothing.
        let second_message = 4 + 17 + 48 + 17;
        let expected = if bytes == acceptor { 0 } else { second_message };
        assert_eq!(said.len(), expected);
        assert!(said.is_empty() || said[21..] != acceptor[21..second_message]);
        assert!(timeout(Duration::from_millis(5), net.event()).await.is_err());
        assert_eq!(net.clients(), 0);
    }
}

/// Every byte of a short session, in both directions: neither side takes anything that the other did not say.
#[tokio::test]
async fn no_flipped_bit_of_a_session_has_an_effect() {
    let [mut net] = members_with::<1>(|settings| settings.keyring = secret().into());
    let mut recorded = Recorder::default();
    session(&mut net, &mut recorded, PATIENCE).await;
    let lengths = recorded.0.map(|bytes| bytes.len());
    let mut dice = Dice(11);
    for (from_dialler, length) in [(true, lengths[0]), (false, lengths[1])] {
        for at in 0..length {
            let mut flip = Flipper { from_dialler, at, bit: 1 << dice.below(8) };
            // A length that has grown waits for bytes that never come.
            let (events, answer) = session(&mut net, &mut flip, Duration::from_millis(200)).await;
            for event in &events {
                assert!(!matches!(event, Event::ClientFrame { payload, .. } if payload != "question"), "{event:?}");
            }
            let asked = events.iter().any(|event| matches!(event, Event::ClientFrame { .. }));
            assert_eq!((answer, asked && from_dialler), (None, false), "byte {at}, of the dialler: {from_dialler}");
        }
    }
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
    let settings = ClientSettings {
        cluster: "test".to_owned(),
        keyring: transport::Keyring::default(),
        deadline: Duration::from_millis(200),
    };
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
