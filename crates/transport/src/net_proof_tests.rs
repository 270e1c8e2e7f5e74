//! What a far side has to prove before it is believed, and what it cannot prove.

use super::*;

fn refusals() -> Vec<Refusal> {
    use RefuseCode::{AlreadyConnected, Busy, Cluster, Duplicate, Facts, Malformed, Stale, Unknown, WrongNode};
    let codes = [Cluster, Facts, Duplicate, WrongNode, Unknown, Busy, AlreadyConnected, Stale { seen: 9 }, Malformed];
    codes.into_iter().map(|code| Refusal::new(code, "a stranger's words")).collect()
}

/// The owner of the net gives its volume up for good on some refusals, so only a process with the key may cause one.
#[tokio::test]
async fn a_refusal_counts_only_inside_the_session() {
    let (mut net, peer) = net_and_peer().await;
    net.want(&[1]);
    let header = Header { versions: SPOKEN, access: Access::Member, key_id: NO_KEY }.to_bytes();
    for refusal in refusals() {
        let in_clear = codec::to_vec(&Verdict::Refused(refusal)).unwrap();
        for answer in [in_clear.clone(), [&header[..], &in_clear].concat(), header.to_vec(), vec![7; 300]] {
            net.hurry(1);
            let event = answer_by_hand(&mut net, &peer, &answer).await;
            assert!(matches!(&event, Event::Unreachable { peer: 1, why } if !why.contains("stranger")), "{event:?}");
        }
    }
    for refusal in refusals() {
        let code = refusal.code;
        let early = code != RefuseCode::Busy;
        net.hurry(1);
        let mut proved = if early {
            quietly(&mut net, meet_by_hand(&peer)).await
        } else {
            quietly(&mut net, accept_by_hand(&peer)).await
        };
        proved.send(&Verdict::Refused(refusal)).await.unwrap();
        if code != RefuseCode::AlreadyConnected {
            let event = next(&mut net).await;
            assert!(matches!(event, Event::Refused { peer: 1, code: told, .. } if told == code), "{event:?}");
        }
    }
}

/// The dialler is proven by its first frame, so a recorded first message must bring nothing but the second one.
#[tokio::test]
async fn a_dialler_that_only_repeats_a_first_message_learns_and_causes_nothing() {
    let mut net = net();
    let keys = Keys::new(None);
    for access in Access::ALL {
        let header = Header { versions: SPOKEN, access, key_id: NO_KEY }.to_bytes();
        let (_, message) = Dialling::begin(keys.of(access).unwrap(), &header).unwrap();
        for _ in 0..2 {
            let replay = async {
                let mut channel = Channel::new(TcpStream::connect(net.local_address).await.unwrap());
                channel.send(&[&header[..], &message].concat()).await.unwrap();
                let answer = channel.receive().await.unwrap();
                assert_eq!(answer.len(), 2 * HEADER_BYTES + key_handshake::MESSAGE_BYTES);
                assert_eq!(answer[..HEADER_BYTES], header);
                channel.send(&[7; 100]).await.unwrap();
                assert!(channel.receive().await.is_err(), "closed without a word");
            };
            timeout(Duration::from_secs(10), replay).await.expect("not done in time");
        }
    }
    assert!(timeout(Duration::from_millis(5), net.event()).await.is_err());
}

/// An acceptor whose header was changed on its way is not believed, though the key is right.
#[tokio::test]
async fn the_header_of_the_acceptor_is_bound_to_the_session() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let keys = Keys::new(None);
    let accepting = async {
        let mut channel = Channel::new(listener.accept().await.unwrap().0);
        let hello = channel.receive().await.unwrap();
        let (prologue, message) = hello.split_at(HEADER_BYTES);
        let key = keys.of(Access::Operator).unwrap();
        let sent = Header { versions: SPOKEN, access: Access::Operator, key_id: NO_KEY };
        let meant = Header { versions: crate::hello::Versions { min: 3, max: 4 }, ..sent };
        let (_, answer) = key_handshake::accept(key, prologue, message, &meant.to_bytes()).unwrap();
        channel.send(&[&sent.to_bytes()[..], &answer].concat()).await.unwrap();
        channel
    };
    let hello = DiallerHello { cluster: "test".to_owned(), peer: None };
    let proof = Keyring::default().current();
    let both = async { tokio::join!(introduce(stream, &proof, Access::Operator, &hello, |_| Ok(())), accepting) };
    let (result, _channel) = timeout(Duration::from_secs(10), both).await.expect("the acceptor was believed");
    assert!(matches!(result, Err(HandshakeError::Exchange(_))), "{result:?}");
}

/// Sends a header and a first message, made with this key, and returns the answer and what makes a session of it.
async fn first_frame(net: &Net, header: Header, key: &Key) -> Option<(Dialling, Channel, bytes::Bytes)> {
    let mut channel = Channel::new(TcpStream::connect(net.local_address).await.unwrap());
    let (dialling, message) = Dialling::begin(key, &header.to_bytes()).unwrap();
    channel.send(&[&header.to_bytes()[..], &message].concat()).await.unwrap();
    let answer = timeout(Duration::from_secs(10), channel.receive()).await.expect("neither answered nor closed");
    answer.ok().map(|answer| (dialling, channel, answer))
}

/// A later release that still speaks version 5: both headers are bound, whatever else they offer.
#[tokio::test]
async fn a_dialler_of_a_range_that_holds_our_version_is_served_in_it() {
    let mut net = net();
    let keys = Keys::new(None);
    let header = Header { versions: crate::hello::Versions { min: 2, max: 9 }, access: Access::Reader, key_id: NO_KEY };
    let (dialling, channel, answer) = first_frame(&net, header, keys.of(Access::Reader).unwrap()).await.unwrap();
    let (session, bound) = dialling.finish(&answer[HEADER_BYTES..]).unwrap();
    assert_eq!(
        (&answer[..HEADER_BYTES], &bound[..]),
        (&Header { versions: SPOKEN, ..header }.to_bytes()[..], &answer[..HEADER_BYTES])
    );
    let mut channel = channel.secure(session, Access::Reader);
    channel.send(&DiallerHello { cluster: "test".to_owned(), peer: None }).await.unwrap();
    assert!(matches!(channel.receive::<Answer>().await.unwrap(), Answer::Hello(hello) if hello.id == 1));
    assert!(matches!(next(&mut net).await, Event::ClientUp { access: Access::Reader, .. }));
}

/// The key id of members stands in clear in every hello of a member, so knowing it must not help.
#[tokio::test]
async fn a_clients_key_opens_no_connection_of_members_nor_of_another_access() {
    let secret = crate::Secret::from_bytes(b"sixteen bytes or more").unwrap();
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let mut settings = Settings::new("test", 1, PEER, Vec::new());
    settings.keyring = secret.clone().into();
    let mut net = Net::start(settings, listener).unwrap();
    let keys = Keys::new(Some(&secret));
    for access in Access::ALL {
        let right = keys.of(access).unwrap();
        let header = Header { versions: SPOKEN, access, key_id: right.id };
        for (other, key) in Access::ALL.map(|other| (other, keys.of(other).unwrap())) {
            let answer = first_frame(&net, header, key).await;
            assert_eq!(answer.is_some(), other == access, "{other} as {access}");
            // Its own key id under another access: the hint names the right one, and there is no session.
            let own = Header { key_id: key.id, ..header };
            let (_, _, answer) = first_frame(&net, own, key).await.unwrap();
            assert_eq!(answer.len() == HEADER_BYTES, other != access, "{other} as {access}");
            assert_eq!(answer[..HEADER_BYTES], header.to_bytes());
        }
    }
    assert!(timeout(Duration::from_millis(5), net.event()).await.is_err());
}
