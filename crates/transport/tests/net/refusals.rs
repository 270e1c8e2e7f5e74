//! Who is not let in, and what both sides are told.

use std::time::Duration;

use super::common::{self, incarnation, listener, members, members_with, next, secret, settings};
use transport::{ClientSettings, ConnectError, Event, Net, RefuseCode, Secret, Settings, connect_client};
use types::Access;

/// Member 1 dials member 2, whose settings differ; the refusal as member 1 sees it.
async fn refused(change_one: impl Fn(&mut Settings), change_two: impl Fn(&mut Settings)) -> (RefuseCode, String) {
    let [mut one, mut two] =
        members_with::<2>(|settings| if settings.id == 1 { change_one(settings) } else { change_two(settings) });
    one.want(&[2]);
    let (who, event) = next(&mut [&mut one, &mut two]).await;
    assert_eq!(who, 0, "only the dialler has an event: {event:?}");
    match event {
        Event::Refused { peer: 2, code, text } => (code, text),
        other => panic!("unexpected {other:?}"),
    }
}

#[tokio::test]
async fn another_cluster_is_refused_with_both_names() {
    let (code, text) = refused(|settings| settings.cluster = "south".to_owned(), |_| {}).await;
    assert_eq!(code, RefuseCode::Cluster);
    assert!(text.contains("\"south\"") && text.contains("\"test\""), "{text}");
}

#[tokio::test]
async fn differing_facts_are_refused_with_both_values() {
    let fact = |value: &str| vec![("algorithm".to_owned(), value.to_owned())];
    let (code, text) =
        refused(|settings| settings.facts = fact("bully"), |settings| settings.facts = fact("franklin")).await;
    assert_eq!(code, RefuseCode::Facts);
    assert_eq!(text, r#"algorithm: n2 has "franklin", n1 has "bully""#);
}

#[tokio::test]
async fn secrets_must_be_the_same_on_both_sides() {
    const GOOD: &str = "sixteen bytes or more";
    const BAD: &str = "sixteen bytes or less";
    for (one, two, part) in [
        (Some(secret(GOOD)), Some(secret(BAD)), "wrong secret"),
        (None, Some(secret(GOOD)), "requires a secret"),
        (Some(secret(GOOD)), None, "uses no secret"),
    ] {
        let (code, text) =
            refused(|settings| settings.keyring = one.clone().into(), |settings| settings.keyring = two.clone().into())
                .await;
        assert_eq!(code, RefuseCode::Secret);
        assert!(text.contains(part) && !text.contains(GOOD) && !text.contains(BAD), "{text}");
    }
}

#[tokio::test]
async fn the_same_secret_connects() {
    let [mut one, mut two] = members_with::<2>(|settings| settings.keyring = secret("sixteen bytes or more").into());
    common::connect(&mut one, 1, &mut two, 2).await;
}

#[tokio::test]
async fn an_id_outside_the_peer_list_is_refused() {
    let (code, text) = refused(|_| {}, |settings| settings.peers.retain(|(id, _)| *id != 1)).await;
    assert_eq!(code, RefuseCode::Unknown);
    assert!(text.contains("n1") && text.contains("n2"), "{text}");
}

#[tokio::test]
async fn an_address_that_belongs_to_another_member_is_refused() {
    let [mut two, mut three] = members::<2>();
    let (own, address) = listener();
    // Member 5 believes that member 4 lives where member 1 does.
    let peers = vec![(4, two.local_addr().to_string()), (5, address)];
    let mut five = Net::start(Settings::new("test", 5, incarnation(1), peers), own).unwrap();
    five.want(&[4]);
    let (_, event) = next(&mut [&mut two, &mut three, &mut five]).await;
    let Event::Refused { peer: 4, code: RefuseCode::WrongNode, text } = event else { panic!("{event:?}") };
    assert!(text.contains("n4") && text.contains("n1"), "{text}");
}

#[tokio::test]
async fn an_identity_too_large_for_a_handshake_is_refused_at_the_start() {
    let (own, address) = listener();
    let mut large = settings(1, &[address]);
    large.facts = vec![("members".to_owned(), "x".repeat(5000))];
    assert_eq!(Net::start(large, own).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
}

/// Knowing a client's secret must not make a process a member, not even by mistake.
#[tokio::test]
async fn a_member_with_a_clients_secret_does_not_start() {
    for access in [Access::Reader, Access::Operator] {
        let (own, address) = listener();
        let mut wrong = settings(1, &[address]);
        wrong.keyring = secret(&secret("sixteen bytes or more").derived(access).unwrap()).into();
        let error = Net::start(wrong, own).unwrap_err();
        assert!(error.to_string().contains("a member needs the secret of the cluster"), "{error}");
    }
}

/// The member is told what each client may do.
#[tokio::test]
async fn a_clients_access_follows_from_its_secret() {
    let cluster = secret("sixteen bytes or more");
    let derived = |access| Some(secret(&cluster.derived(access).unwrap()));
    for (server, client, expected) in [
        (Some(cluster.clone()), Some(cluster.clone()), Access::Operator),
        (Some(cluster.clone()), derived(Access::Operator), Access::Operator),
        (Some(cluster.clone()), derived(Access::Reader), Access::Reader),
        (None, None, Access::Operator),
    ] {
        let [mut net] = members_with::<1>(|settings| settings.keyring = server.clone().into());
        let address = net.local_addr().to_string();
        let settings =
            ClientSettings { cluster: "test".to_owned(), keyring: client.into(), deadline: common::PATIENCE };
        let (connected, event) = tokio::join!(connect_client(&address, &settings), net.event());
        assert!(connected.is_ok(), "{connected:?}");
        assert!(matches!(event, Event::ClientUp { access, .. } if access == expected), "{event:?}");
    }
    let other = secret("sixteen other bytes").derived(Access::Reader).unwrap();
    let refused = client_outcome(Some(cluster), Some(secret(&other)), "test").await.unwrap_err();
    assert!(matches!(refused, ConnectError::Refused { code: RefuseCode::Secret, .. }), "{refused:?}");
}

async fn client_outcome(server: Option<Secret>, client: Option<Secret>, cluster: &str) -> Result<u32, ConnectError> {
    let [mut net] = members_with::<1>(|settings| settings.keyring = server.clone().into());
    let address = net.local_addr().to_string();
    let settings =
        ClientSettings { cluster: cluster.to_owned(), keyring: client.into(), deadline: Duration::from_secs(10) };
    let connecting = connect_client(&address, &settings);
    tokio::select! {
        result = connecting => result.map(|connection| connection.member_id()),
        () = async { loop { net.event().await; } } => unreachable!(),
    }
}

#[tokio::test]
async fn clients_prove_themselves_like_peers() {
    let good = || Some(secret("sixteen bytes or more"));
    assert_eq!(client_outcome(None, None, "test").await.unwrap(), 1);
    assert_eq!(client_outcome(good(), good(), "test").await.unwrap(), 1);
    for (server, client, cluster, expected) in [
        (good(), Some(secret("sixteen other bytes")), "test", RefuseCode::Secret),
        (good(), None, "test", RefuseCode::Secret),
        (None, good(), "test", RefuseCode::Secret),
        (None, None, "other", RefuseCode::Cluster),
    ] {
        match client_outcome(server, client, cluster).await {
            Err(ConnectError::Refused { code, text }) => assert_eq!(code, expected, "{text}"),
            other => panic!("unexpected {other:?}"),
        }
    }
}

/// Member 2 comes back as an earlier run than the one member 1 remembers.
fn remembers(settings: &mut Settings) {
    if settings.id == 1 {
        settings.seen = vec![(2, incarnation(5))];
    } else {
        settings.incarnation = incarnation(4);
    }
}

fn is_stale(event: &Event) -> bool {
    let named = |text: &str| text.contains(&incarnation(5).to_string()) && text.contains(&incarnation(4).to_string());
    matches!(event, Event::Refused { peer: 1, code: RefuseCode::Stale { seen: 5 }, text } if named(text))
}

#[tokio::test]
async fn an_earlier_run_of_a_peer_is_refused_when_it_dials() {
    let [mut one, mut two] = members_with::<2>(remembers);
    two.want(&[1]);
    let (who, event) = next(&mut [&mut one, &mut two]).await;
    assert!(who == 1 && is_stale(&event), "{event:?}");
}

/// Its own dial tells it so with proof, though it did not mean to dial.
#[tokio::test]
async fn an_earlier_run_of_a_peer_that_is_dialled_is_refused_and_learns_of_it() {
    let [mut one, mut two] = members_with::<2>(remembers);
    one.want(&[2]);
    let told = |who: usize, event: &Event| {
        assert!(!matches!(event, Event::Up { .. } | Event::Refused { peer: 2, .. }), "{event:?}");
        who == 1 && is_stale(event)
    };
    common::until(&mut [&mut one, &mut two], told).await;
    assert!(!one.is_connected(2) && !two.is_connected(1));
}

#[tokio::test]
async fn a_run_that_was_connected_is_remembered_when_it_is_gone() {
    let (own, address) = listener();
    let [mut one, _] = members_with::<2>(|settings| settings.peers[1].1.clone_from(&address));
    let run = |counter: u64, listener| {
        let mut settings = settings(2, &[one.local_addr().to_string(), address.clone()]);
        settings.incarnation = incarnation(counter);
        Net::start(settings, listener).unwrap()
    };
    let mut late = run(3, own.try_clone().unwrap());
    let mut early = run(2, own);
    common::connect(&mut late, 2, &mut one, 1).await;
    drop(late);
    early.want(&[1]);
    let (_, event) = common::until(&mut [&mut one, &mut early], |who, _| who == 1).await;
    assert!(matches!(event, Event::Refused { code: RefuseCode::Stale { seen: 3 }, .. }), "{event:?}");
}
