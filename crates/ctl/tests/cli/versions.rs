//! Processes of other protocol versions: the real `ctl` at a member of another one, the real `node` dialled by others.

use std::time::Duration;

use algorithms::catalog;
use testkit::{Live, PATIENCE, Plan, ctl, stderr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const OUR_VERSIONS: &[u8] = b"conclave\x00\x04\x00\x05";
/// Recorded from a client of version 1.
const FIRST_HELLO: &[u8] = b"conclave\x00\x01\x04demo\xd9\x54\x51\xdf\xeb\x21\xc9\xf6\x9a\xac\x69\x5d\xe0\x0f\xce\xf6\
    \x0b\x14\x8e\x84\x1c\x56\x00\x0a\xb5\xdc\x32\x7c\xd5\x53\x9b\x58\x01";
/// Recorded from a client of version 2.
const SECOND_HELLO: &[u8] = b"conclave\x00\x02\x00\x02\x01\x00\x00\x00\x00\x00\x00\x00\x00\x04demo\xb1\x97\xd0/`\xe0)\
    \x91Nd\x90\xdb\rn\x164\x91\xe3\rH\x92\xf3\xac\x1e(J\xc7\xbd\xfe\xec\x0f\x9c";
/// Recorded from a member of version 1 that was dialled by version 2.
const FIRST_REFUSAL: &[u8] = b"\x00\x01\x3aprotocol version: this node speaks 1, the dialler speaks 2";

fn frame(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_be_bytes()[..], payload].concat()
}

/// Answers every dialler's hello with the same frame, for ever, and keeps the connection open.
async fn answer_all(listener: TcpListener, payload: &'static [u8]) {
    let mut open = Vec::new();
    loop {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let length = stream.read_u32().await.expect("a length");
        let mut hello = vec![0; length as usize];
        stream.read_exact(&mut hello).await.expect("a hello");
        stream.write_all(&frame(payload)).await.expect("an open connection");
        open.push(stream);
    }
}

#[tokio::test]
async fn ctl_names_both_versions_and_is_refused() {
    for (payload, theirs) in [
        (&b"conclave\x00\x06\x00\x08"[..], "speaks protocol versions 6 to 8"),
        (b"conclave\x00\x03\x00\x03", "speaks protocol version 3"),
        (b"conclave\x00\x02\x00\x02", "speaks protocol version 2"),
        (FIRST_REFUSAL, "speaks protocol version 1"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let answering = tokio::spawn(answer_all(listener, payload));
        let commands: [&[&str]; 4] = [&["leader"], &["leader", "--wait", "1h"], &["status"], &["watch"]];
        for command in commands {
            // Patience beyond that of the test: `ctl` ends because of the answer.
            let options = ["--endpoints", &address, "--cluster", "demo", "--timeout", "1h", "--member-timeout", "1h"];
            let output = ctl(&[&options[..], command].concat()).await;
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(8), "{command:?}: {said}");
            let sentence = format!("the member at {address} {theirs}, this ctl speaks protocol versions 4 to 5");
            assert!(
                said.contains(&sentence) && said.contains("use the ctl of the same release"),
                "{command:?}: {said}"
            );
        }
        answering.abort();
    }
}

/// What the member answers to one raw hello before it closes the connection.
async fn answer_of(address: &str, hello: &[u8]) -> Vec<u8> {
    let asking = async {
        let mut stream = TcpStream::connect(address).await.expect("the port is open");
        stream.write_all(&frame(hello)).await.expect("an open connection");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.expect("a clean end");
        bytes
    };
    timeout(PATIENCE, asking).await.expect("closed by the member")
}

#[tokio::test]
async fn node_answers_hellos_of_other_versions_and_goes_on() {
    let row = catalog::row(catalog::DEFAULT).expect("the default row");
    let mut live = Live::start(&Plan::new(1, row));
    let before = live.agreement(&[1]).await;
    let address = live.cluster.endpoints()[0].address.clone();

    let refusal = answer_of(&address, FIRST_HELLO).await;
    let [0, 0, 0, _, 0, 1, _, text @ ..] = &refusal[..] else { panic!("{}", refusal.escape_ascii()) };
    let text = std::str::from_utf8(text).expect("a sentence");
    assert!(text.contains("version 1") && text.contains("versions 4 to 5"), "{text}");
    for hello in [
        SECOND_HELLO,
        b"conclave\x00\x07\x00\x09a later body",
        b"conclave\x00\x07\x00\x09",
        b"conclave",
        b"conclave\xff",
    ] {
        assert_eq!(answer_of(&address, hello).await, frame(OUR_VERSIONS), "{}", hello.escape_ascii());
    }
    let garbage = [OUR_VERSIONS, b"\x01\0\0\0\0\xff\xff\xff\xff"].concat();
    let hint = answer_of(&address, &garbage).await;
    let header = [&b"\0\0\0\x11"[..], OUR_VERSIONS, b"\x01"].concat();
    assert!(
        hint.starts_with(&header) && hint.len() == header.len() + 4,
        "versions and key id: {}",
        hint.escape_ascii()
    );

    assert_eq!(live.agreement(&[1]).await, before, "the same leader in the same epoch");
    let answer = timeout(Duration::from_secs(5), live.leader()).await.expect("an answer");
    assert_eq!(answer, "1\n");
}
