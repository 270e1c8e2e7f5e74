//! Other protocol versions, as raw bytes in both directions: every one ends with a sentence, none with a hang.

use std::time::Duration;

use super::common::{PATIENCE, connect, members};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use transport::{ClientSettings, ConnectError, Event, Net, RefuseCode, connect_client};

/// Recorded from a client of version 1.
const FIRST_HELLO: &[u8] = b"conclave\x00\x01\x04demo\xd9\x54\x51\xdf\xeb\x21\xc9\xf6\x9a\xac\x69\x5d\xe0\x0f\xce\xf6\
    \x0b\x14\x8e\x84\x1c\x56\x00\x0a\xb5\xdc\x32\x7c\xd5\x53\x9b\x58\x01";
/// Recorded from a member of version 1 that was dialled by version 2.
const FIRST_REFUSAL: &[u8] = b"\x00\x01\x3aprotocol version: this node speaks 1, the dialler speaks 2";
const OUR_VERSIONS: &[u8] = b"conclave\x00\x02\x00\x02";

fn frame(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_be_bytes()[..], payload].concat()
}

/// All that the member answers until it closes the connection; the member has nothing to report meanwhile.
async fn answer(net: &mut Net, hello: &[u8]) -> Vec<u8> {
    let address = net.local_addr();
    let asking = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&frame(hello)).await.unwrap();
        let mut bytes = Vec::new();
        let length = stream.read_u32().await.unwrap() as usize;
        stream.take(length as u64 + 1).read_to_end(&mut bytes).await.unwrap();
        assert_eq!(bytes.len(), length, "one frame, then the end");
        bytes
    };
    tokio::select! {
        bytes = timeout(PATIENCE, asking) => bytes.expect("answered in time"),
        event = net.event() => panic!("a stranger caused {event:?}"),
    }
}

#[tokio::test]
async fn a_dialler_of_version_1_gets_a_refusal_in_its_own_encoding() {
    let [mut net] = members::<1>();
    let bytes = answer(&mut net, FIRST_HELLO).await;
    // Variant 0 is a refusal, code 1 is the version, and a text below 251 bytes has one byte for its length.
    let [0, 1, length, text @ ..] = &bytes[..] else { panic!("{}", bytes.escape_ascii()) };
    let text = std::str::from_utf8(text).unwrap();
    assert_eq!(usize::from(*length), text.len());
    assert!(text.contains("version 1") && text.contains("version 2") && text.contains("same release"), "{text}");
}

#[tokio::test]
async fn a_dialler_of_later_versions_gets_our_versions_and_nothing_else() {
    let [mut net] = members::<1>();
    for body in [&b""[..], b"a later body", &[0xff; 2000]] {
        let hello = [&b"conclave\x00\x07\x00\x09"[..], body].concat();
        assert_eq!(answer(&mut net, &hello).await, OUR_VERSIONS);
    }
}

/// A later release that still speaks version 2: the answer begins with the chosen version, and the client is welcome.
#[tokio::test]
async fn a_dialler_of_a_range_that_holds_our_version_is_served_in_it() {
    let [mut net] = members::<1>();
    let mut stream = TcpStream::connect(net.local_addr()).await.unwrap();
    let dialling = async {
        let clear = b"conclave\x00\x02\x00\x09\x01\0\0\0\0\0\0\0\0";
        stream.write_all(&frame(&[&clear[..], b"\x04test", &[5; 32]].concat())).await.unwrap();
        let mut challenge = vec![0; stream.read_u32().await.unwrap() as usize];
        stream.read_exact(&mut challenge).await.unwrap();
        // Variant 1 is a challenge; the length of the acceptor's hello takes one byte.
        assert_eq!((challenge[0], &challenge[2..4]), (1, &[0, 2][..]), "{}", challenge.escape_ascii());
        stream.write_all(&frame(b"\x01\x00")).await.unwrap();
        let mut welcome = [0; 6];
        stream.read_exact(&mut welcome).await.unwrap();
        assert_eq!(welcome, *b"\0\0\0\x02\x01\0");
    };
    let both = async { tokio::join!(dialling, net.event()) };
    let ((), event) = timeout(PATIENCE, both).await.expect("welcome in time");
    assert!(matches!(event, Event::ClientUp { .. }), "{event:?}");
}

#[tokio::test]
async fn garbage_behind_the_magic_is_answered_with_a_sentence_and_members_still_get_in() {
    let [mut net, mut peer] = members::<2>();
    for garbage in [&b""[..], b"\0", b"\xff\xff\x00\x00rest", b"GET / HTTP/1.1\r\n"] {
        let hello = [&b"conclave"[..], garbage].concat();
        assert_eq!(answer(&mut net, &hello).await, OUR_VERSIONS, "{}", garbage.escape_ascii());
    }
    for garbage in [&b""[..], b"\0", b"\x09", b"\0\0\0\0\0\0\0\0\0rest", b"\x01\0\0\0\0\0\0\0\0\xfd"] {
        let hello = [OUR_VERSIONS, garbage].concat();
        let bytes = answer(&mut net, &hello).await;
        let said = bytes.windows(16).any(|part| part == b"unreadable hello");
        assert!(bytes[0] == 0 && said, "{}", bytes.escape_ascii());
    }
    connect(&mut peer, 2, &mut net, 1).await;
}

/// A client that dials a listener which answers every hello with this frame.
async fn client_answered_with(payload: &[u8]) -> ConnectError {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let settings = ClientSettings { cluster: "test".to_owned(), secret: None, deadline: Duration::from_hours(1) };
    let serving = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&frame(payload)).await.unwrap();
        stream
    };
    let both = async { tokio::join!(connect_client(&address, &settings), serving) };
    let (result, _stream) = timeout(PATIENCE, both).await.expect("the client ends by itself");
    result.unwrap_err()
}

#[tokio::test]
async fn a_client_names_the_versions_of_both_sides() {
    for (payload, theirs) in [
        (&b"conclave\x00\x03\x00\x04"[..], "protocol versions 3 to 4"),
        (b"conclave\x00\x07\x00\x07", "protocol version 7"),
        (FIRST_REFUSAL, "protocol version 1"),
    ] {
        let error = client_answered_with(payload).await;
        assert!(matches!(error, ConnectError::Version { ours, .. } if (ours.min, ours.max) == (2, 2)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(theirs) && text.contains("this program speaks protocol version 2"), "{text}");
    }
}

#[tokio::test]
async fn a_client_takes_no_other_answer_for_a_range_of_versions() {
    for payload in [&b"conclave"[..], b"conclave\x00\x03\x00", b"conclave\x00\x03\x00\x04x", b"\x07", b""] {
        let error = client_answered_with(payload).await;
        assert!(matches!(error, ConnectError::Protocol(_)), "{error:?}");
    }
    let error = client_answered_with(b"\x00\x00\x02no").await;
    assert!(matches!(error, ConnectError::Refused { code: RefuseCode::Cluster, .. }), "{error:?}");
}
