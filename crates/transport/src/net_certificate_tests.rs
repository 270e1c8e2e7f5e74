//! Members and clients with certificates over real sockets.

use super::*;
use crate::certificate::tests::Authority;
use crate::client::{ClientSettings, ConnectError, connect_client};
use crate::secret::BY_CERTIFICATE;

fn net_with(id: PeerId, keyring: Keyring, peers: Vec<(PeerId, String)>) -> Net {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let mut settings = Settings::new("test", id, Incarnation { counter: 1, nonce: u64::from(id) }, peers);
    settings.keyring = keyring;
    Net::start(settings, listener).unwrap()
}

/// Member 1, which waits to be dialled by member 2.
fn dialled(authority: &Authority) -> Net {
    net_with(1, authority.certificate(Holder::Member(1)).into(), vec![(2, "127.0.0.1:1".to_owned())])
}

fn dialling(keyring: Keyring, to: &Net) -> Net {
    let mut net = net_with(2, keyring, vec![(1, to.local_addr().to_string())]);
    net.want(&[1]);
    net
}

/// The next report of the first net while the other one runs.
async fn next_of(net: &mut Net, other: &mut Net) -> Event {
    let both = async {
        loop {
            tokio::select! {
                event = net.event() => return event,
                _ = other.event() => {}
            }
        }
    };
    timeout(Duration::from_secs(10), both).await.expect("no event in time")
}

#[tokio::test]
async fn members_with_certificates_connect_and_frames_of_every_size_arrive() {
    let authority = Authority::new();
    let mut one = dialled(&authority);
    let mut two = dialling(authority.certificate(Holder::Member(2)).into(), &one);
    let (up, other) = timeout(Duration::from_secs(10), async { tokio::join!(one.event(), two.event()) }).await.unwrap();
    assert!(matches!(up, Event::Up { peer: 2, .. }) && matches!(other, Event::Up { peer: 1, .. }), "{up:?} {other:?}");
    for size in [1, 16_379, 16_380, 300_000, FRAME_MAX_BYTES] {
        let payload: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        assert!(two.send(1, &payload));
        let event = next_of(&mut one, &mut two).await;
        assert!(matches!(&event, Event::Frame { from: 2, payload: arrived } if *arrived == payload), "{size} bytes");
    }
}

/// Member 2 introduces itself to member 1.
fn hello_of_member_2() -> DiallerHello {
    let me = Identity {
        cluster: "test".to_owned(),
        id: 2,
        incarnation: PEER,
        facts: Vec::new(),
        cluster_id: KnownId::default(),
        list: crate::list_fact::KnownList::default(),
        keyring: Keyring::default(),
    };
    dial::hello(&me, 1, 1)
}

#[tokio::test]
async fn a_member_cannot_dial_as_another_one_nor_answer_as_another_one() {
    let authority = Authority::new();
    let mut one = dialled(&authority);
    // A process with the certificate of member 3 says that it is member 2.
    let proof = Keyring::from(authority.certificate(Holder::Member(3))).current();
    let hello = hello_of_member_2();
    let stream = TcpStream::connect(one.local_addr()).await.unwrap();
    let posing = introduce(stream, &proof, Access::Member, &hello, |_| Ok(()));
    let refused = timeout(Duration::from_secs(10), async {
        tokio::select! {
            refused = posing => refused,
            event = one.event() => panic!("{event:?}"),
        }
    });
    let refused = refused.await.unwrap().unwrap_err().to_string();
    assert_eq!(refused, "n2 is claimed with the certificate of n3");
    // A process with the certificate of member 3 answers at the address of member 1.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = authority.certificate(Holder::Member(3));
    let mut two = net_with(
        2,
        authority.certificate(Holder::Member(2)).into(),
        vec![(1, listener.local_addr().unwrap().to_string())],
    );
    two.want(&[1]);
    let answering = async {
        let mut channel = Channel::new(listener.accept().await.unwrap().0);
        let hello = channel.receive().await.unwrap();
        let (_, flight) = hello.split_at(HEADER_BYTES);
        let header = Header { versions: SPOKEN, access: Access::Member, key_id: BY_CERTIFICATE }.to_bytes();
        let (shaking, answer) = crate::tls::accept(&own, &mut flight.to_vec()).unwrap();
        channel.send(&[&header[..], &answer].concat()).await.unwrap();
        let mut flight = channel.receive_up_to(1 << 14).await.unwrap().to_vec();
        let (session, _, _) = shaking.finish(&mut flight).unwrap();
        let mut channel = channel.secure(session, Access::Member);
        assert_eq!(channel.receive_bytes().await.unwrap().len(), 2 * HEADER_BYTES);
        channel.receive_bytes().await.unwrap();
        let hello = AcceptorHello { cluster: "test".to_owned(), id: 1, incarnation: PEER, facts: Vec::new() };
        channel.send(&Answer::Hello(hello)).await.unwrap();
        match channel.receive().await.unwrap() {
            Reply::Refused(refusal) => refusal.text,
            Reply::Commit => "believed".to_owned(),
        }
    };
    let told = timeout(Duration::from_secs(10), async { tokio::join!(answering, two.event()) }).await.unwrap();
    assert_eq!(told.0, "n1 answers with the certificate of n3");
    assert!(matches!(&told.1, Event::Refused { peer: 1, code: RefuseCode::Certificate, .. }), "{:?}", told.1);
}

/// The headers stand in clear; a process between the two may change them.
#[tokio::test]
async fn a_header_that_was_changed_on_its_way_ends_the_connection() {
    let authority = Authority::new();
    let mut one = dialled(&authority);
    let own = authority.certificate(Holder::Operator);
    let honest = Header { versions: SPOKEN, access: Access::Operator, key_id: BY_CERTIFICATE };
    let wider = Header { versions: crate::hello::Versions { min: 3, max: 9 }, ..honest };
    let less = Header { access: Access::Reader, ..honest };
    // The header as it arrives, and the two that the dialler has seen: its own and the acceptor's.
    for (arrives, sent, answered, good) in [
        (honest, honest, honest, true),
        (wider, wider, honest, true),
        (wider, honest, honest, false),
        (less, honest, honest, false),
        (honest, honest, wider, false),
    ] {
        let address = one.local_address;
        let client = async {
            let mut channel = Channel::new(TcpStream::connect(address).await.unwrap());
            let (shaking, flight) = crate::tls::dial(&own).unwrap();
            channel.send(&[&arrives.to_bytes()[..], &flight].concat()).await.unwrap();
            let answer = channel.receive_up_to(1 << 14).await.unwrap();
            let (session, _, flight) = shaking.finish(&mut answer[HEADER_BYTES..].to_vec()).unwrap();
            channel.send(&flight).await.unwrap();
            let mut channel = channel.secure(session, Access::Operator);
            channel.send_bytes(&[sent.to_bytes(), answered.to_bytes()].concat()).await.unwrap();
            channel.send(&DiallerHello { cluster: "test".to_owned(), peer: None }).await.unwrap();
            channel.receive::<Answer>().await.is_ok()
        };
        let believed = timeout(Duration::from_secs(10), async {
            tokio::select! {
                believed = client => believed,
                () = async { loop { one.event().await; } } => unreachable!(),
            }
        });
        assert_eq!(believed.await.unwrap(), good, "{arrives:?} {sent:?} {answered:?}");
    }
}

#[tokio::test]
async fn a_certificate_allows_a_client_its_access_and_none_serves_as_a_members() {
    let authority = Authority::new();
    let mut one = dialled(&authority);
    for (holder, access) in
        [(Holder::Member(7), Access::Operator), (Holder::Operator, Access::Operator), (Holder::Reader, Access::Reader)]
    {
        let settings = ClientSettings {
            cluster: "test".to_owned(),
            keyring: authority.certificate(holder).into(),
            deadline: Duration::from_secs(10),
        };
        let address = one.local_addr().to_string();
        let (client, event) = tokio::join!(connect_client(&address, &settings), next(&mut one));
        client.unwrap();
        assert!(matches!(event, Event::ClientUp { access: given, .. } if given == access), "{event:?}");
        next(&mut one).await;
        // The same certificate, which is not member 2's, claims to be member 2.
        let proof = settings.keyring.current();
        let stream = TcpStream::connect(one.local_addr()).await.unwrap();
        let hello = hello_of_member_2();
        let posing = introduce(stream, &proof, Access::Member, &hello, |_| Ok(()));
        let refused = timeout(Duration::from_secs(10), async {
            tokio::select! {
                refused = posing => refused,
                event = one.event() => panic!("{event:?}"),
            }
        });
        let refused = refused.await.unwrap().unwrap_err();
        assert!(
            matches!(&refused, HandshakeError::Refused(Refusal { code: RefuseCode::Certificate, .. })),
            "{holder}: {refused}"
        );
    }
}

#[tokio::test]
async fn secrets_and_certificates_do_not_meet_and_the_dialler_is_told_why() {
    let authority = Authority::new();
    let secret = || Keyring::from(crate::Secret::from_bytes(b"sixteen bytes or more").unwrap());
    let certificate = |holder| Keyring::from(authority.certificate(holder));
    for (acceptor, dialler, says) in [
        (certificate(Holder::Member(1)), secret(), "this cluster uses certificates"),
        (certificate(Holder::Member(1)), Keyring::default(), "this cluster uses certificates"),
        (secret(), certificate(Holder::Member(2)), "this cluster uses no certificates"),
        (Keyring::default(), certificate(Holder::Member(2)), "this cluster uses no certificates"),
    ] {
        let mut one = net_with(1, acceptor, vec![(2, "127.0.0.1:1".to_owned())]);
        let settings =
            ClientSettings { cluster: "test".to_owned(), keyring: dialler.clone(), deadline: Duration::from_secs(10) };
        let address = one.local_addr().to_string();
        let refused = tokio::select! {
            refused = connect_client(&address, &settings) => refused.unwrap_err(),
            event = one.event() => panic!("{event:?}"),
        };
        assert!(matches!(&refused, ConnectError::Refused { text, .. } if text.starts_with(says)), "{refused}");
        let mut two = dialling(dialler, &one);
        let event = next_of(&mut two, &mut one).await;
        assert!(matches!(&event, Event::Refused { peer: 1, text, .. } if text.starts_with(says)), "{event:?}");
    }
}

/// A rotation: the link stays while the keys of both ends are replaced, and new handshakes use the new ones.
#[tokio::test]
async fn replaced_keys_are_used_by_new_handshakes_and_links_stay() {
    let (old, new) = (Authority::new(), Authority::new());
    let keyring = Keyring::from(old.certificate(Holder::Member(1)));
    let mut one = net_with(1, keyring.clone(), vec![(2, "127.0.0.1:1".to_owned())]);
    let mut two = dialling(old.certificate(Holder::Member(2)).into(), &one);
    timeout(Duration::from_secs(10), async { tokio::join!(one.event(), two.event()) }).await.unwrap();
    keyring.replace(&Keyring::from(new.certificate(Holder::Member(1))));
    assert!(two.send(1, b"still here"));
    assert!(matches!(next_of(&mut one, &mut two).await, Event::Frame { payload, .. } if payload == "still here"));
    let connect = |authority: &Authority| {
        let keyring = authority.certificate(Holder::Reader).into();
        (
            one.local_addr().to_string(),
            ClientSettings { cluster: "test".into(), keyring, deadline: Duration::from_secs(10) },
        )
    };
    let [(address, of_old), (_, of_new)] = [connect(&old), connect(&new)];
    let refused = tokio::select! {
        refused = connect_client(&address, &of_old) => refused.unwrap_err(),
        event = one.event() => panic!("{event:?}"),
    };
    assert!(matches!(&refused, ConnectError::Refused { code: RefuseCode::Certificate, .. }), "{refused}");
    let (client, event) = tokio::join!(connect_client(&address, &of_new), next(&mut one));
    assert!(client.is_ok() && matches!(event, Event::ClientUp { access: Access::Reader, .. }));
}

#[tokio::test]
async fn a_member_does_not_start_with_a_certificate_of_another_holder() {
    let authority = Authority::new();
    for holder in [Holder::Member(2), Holder::Operator, Holder::Reader] {
        let mut settings = Settings::new("test", 1, PEER, Vec::new());
        settings.keyring = authority.certificate(holder).into();
        let error = Net::start(settings, StdListener::bind("127.0.0.1:0").unwrap()).unwrap_err().to_string();
        assert_eq!(error, format!("the certificate is that of {holder}, not of n1"));
    }
}
