//! Other protocol versions, as raw bytes in both directions: every one ends with a sentence, none with a hang.

use std::time::Duration;

use super::common::{PATIENCE, connect, members};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use transport::{ClientSettings, ConnectError, Net, RefuseCode, connect_client};

/// Recorded from a client of version 1.
const FIRST_HELLO: &[u8] = b"conclave\x00\x01\x04demo\xd9\x54\x51\xdf\xeb\x21\xc9\xf6\x9a\xac\x69\x5d\xe0\x0f\xce\xf6\
    \x0b\x14\x8e\x84\x1c\x56\x00\x0a\xb5\xdc\x32\x7c\xd5\x53\x9b\x58\x01";
/// Recorded from a client of version 2.
const SECOND_HELLO: &[u8] = b"conclave\x00\x02\x00\x02\x01\x00\x00\x00\x00\x00\x00\x00\x00\x04demo\xb1\x97\xd0/`\xe0)\
    \x91Nd\x90\xdb\rn\x164\x91\xe3\rH\x92\xf3\xac\x1e(J\xc7\xbd\xfe\xec\x0f\x9c";
/// Recorded from a member of version 1 that was dialled by version 2.
const FIRST_REFUSAL: &[u8] = b"\x00\x01\x3aprotocol version: this node speaks 1, the dialler speaks 2";
const OUR_VERSIONS: &[u8] = b"conclave\x00\x04\x00\x05";

/// Of a member of version 3 without a secret: its header, and a first message that the handshake never gets to.
fn third_hello() -> Vec<u8> {
    [&b"conclave\x00\x03\x00\x03\x00\x00\x00\x00\x00"[..], &[0x5a; 48]].concat()
}

fn frame(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_be_bytes()[..], payload].concat()
}

/// The one frame that the member answers.
async fn answer(net: &mut Net, hello: &[u8]) -> Vec<u8> {
    let bytes = all_said(net, hello).await;
    let (length, payload) = bytes.split_first_chunk::<4>().expect("an answer");
    assert_eq!(u32::from_be_bytes(*length) as usize, payload.len(), "one frame, then the end");
    payload.to_vec()
}

/// All that the member says until it closes the connection; the member has nothing to report meanwhile.
async fn all_said(net: &mut Net, hello: &[u8]) -> Vec<u8> {
    let address = net.local_addr();
    let asking = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&frame(hello)).await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
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
    assert!(text.contains("version 1") && text.contains("versions 4 to 5") && text.contains("same release"), "{text}");
}

/// Versions 2 and 3 read the range and make their sentence of it.
#[tokio::test]
async fn a_dialler_of_versions_2_and_3_gets_our_versions_and_nothing_else() {
    let [mut net] = members::<1>();
    assert_eq!(answer(&mut net, SECOND_HELLO).await, OUR_VERSIONS);
    assert_eq!(answer(&mut net, &third_hello()).await, OUR_VERSIONS);
}

#[tokio::test]
async fn a_dialler_of_later_versions_gets_our_versions_and_nothing_else() {
    let [mut net] = members::<1>();
    for body in [&b""[..], b"a later body", &[0xff; 2000]] {
        let hello = [&b"conclave\x00\x07\x00\x09"[..], body].concat();
        assert_eq!(answer(&mut net, &hello).await, OUR_VERSIONS);
    }
}

#[tokio::test]
async fn garbage_behind_the_magic_is_answered_with_a_sentence_and_members_still_get_in() {
    let [mut net, mut peer] = members::<2>();
    for garbage in [&b""[..], b"\0", b"\xff\xff\x00\x00rest", b"GET / HTTP/1.1\r\n"] {
        let hello = [&b"conclave"[..], garbage].concat();
        assert_eq!(answer(&mut net, &hello).await, OUR_VERSIONS, "{}", garbage.escape_ascii());
    }
    // A header of our version with garbage in it or behind it: closed without a word.
    for garbage in [&b""[..], b"\0", b"\x09\0\0\0\0rest", b"\0\0\0\0\0rest", b"\x01\0\0\0\0", &[0; 53]] {
        let hello = [OUR_VERSIONS, garbage].concat();
        assert_eq!(all_said(&mut net, &hello).await, b"", "{}", garbage.escape_ascii());
    }
    connect(&mut peer, 2, &mut net, 1).await;
}

/// A client that dials a listener which answers every hello with this frame.
async fn client_answered_with(payload: &[u8]) -> ConnectError {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let settings = ClientSettings {
        cluster: "test".to_owned(),
        keyring: transport::Keyring::default(),
        deadline: Duration::from_hours(1),
    };
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
        (&b"conclave\x00\x06\x00\x08"[..], "protocol versions 6 to 8"),
        (b"conclave\x00\x03\x00\x03", "protocol version 3"),
        (b"conclave\x00\x02\x00\x02", "protocol version 2"),
        (b"conclave\x00\x07\x00\x07", "protocol version 7"),
        (FIRST_REFUSAL, "protocol version 1"),
    ] {
        let error = client_answered_with(payload).await;
        assert!(matches!(error, ConnectError::Version { ours, .. } if (ours.min, ours.max) == (4, 5)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(theirs) && text.contains("this program speaks protocol versions 4 to 5"), "{text}");
    }
}

#[tokio::test]
async fn a_client_takes_no_other_answer_for_a_range_of_versions_nor_a_refusal_in_clear() {
    for payload in [&b"conclave"[..], b"conclave\x00\x04\x00", OUR_VERSIONS, b"\x07", b"", b"\x00\x00\x02no"] {
        let error = client_answered_with(payload).await;
        assert!(matches!(error, ConnectError::Protocol(_)), "{error:?}");
    }
}

/// A hint only: it makes a sentence and an exit code.
#[tokio::test]
async fn a_client_takes_another_key_id_for_a_wrong_secret() {
    let error = client_answered_with(&[OUR_VERSIONS, b"\x02\x01\x02\x03\x04"].concat()).await;
    let ConnectError::Refused { code: RefuseCode::Secret, text } = error else { panic!("{error:?}") };
    assert!(text.contains("requires a secret"), "{text}");
}
