use super::*;
use crate::codec;
use crate::hello::PeerRole;

fn identity(secret: Option<&str>) -> Identity {
    Identity {
        cluster: "north".to_owned(),
        id: 1,
        incarnation: Incarnation { counter: 3, nonce: 4 },
        facts: vec![("algorithm".to_owned(), "chang-roberts".to_owned()), ("lease".to_owned(), "5s".to_owned())],
        cluster_id: KnownId::default(),
        secret: secret.map(|secret| Secret::from_bytes(secret.as_bytes()).unwrap()),
    }
}

fn hello(change: impl FnOnce(&mut PeerRole)) -> Hello {
    let mut role = PeerRole {
        id: 3,
        to: 1,
        incarnation: Incarnation { counter: 9, nonce: 9 },
        attempt: 1,
        facts: identity(None).facts,
    };
    change(&mut role);
    Hello { key_id: NO_KEY, cluster: "north".to_owned(), nonce: [5; 32], role: Role::Peer(role) }
}

fn refusal(hello: &Hello) -> Refusal {
    identity(None).check_hello(hello, |id| id == 3).unwrap_err()
}

#[test]
fn an_agreeing_peer_is_taken() {
    identity(None).check_hello(&hello(|_| {}), |id| id == 3).unwrap();
}

#[test]
fn differing_facts_name_both_values() {
    let refusal = refusal(&hello(|role| role.facts[0].1 = "bully".to_owned()));
    assert_eq!(refusal.code, RefuseCode::Facts);
    assert_eq!(refusal.text, r#"algorithm: n1 has "chang-roberts", n3 has "bully""#);
}

#[test]
fn missing_and_extra_facts_differ_too() {
    let refusal = refusal(&hello(|role| role.facts[1] = ("topology".to_owned(), "ring".to_owned())));
    assert_eq!(refusal.text, r#"lease: n1 has "5s", n3 has nothing; topology: n1 has nothing, n3 has "ring""#);
}

/// The id may be unknown to one side: only two different ids refuse each other.
#[test]
fn members_of_two_clusters_refuse_each_other_and_both_ids_are_named() {
    let of = |id: &str| (CLUSTER_ID.to_owned(), id.to_owned());
    let check = |me: &Identity, theirs: Option<&str>| {
        me.check_hello(&hello(|role| role.facts.extend(theirs.map(of))), |id| id == 3)
    };
    let me = identity(None);
    assert_eq!((check(&me, None), check(&me, Some("aa"))), (Ok(()), Ok(())), "it does not know its own yet");
    me.cluster_id.set("bb".to_owned());
    assert_eq!((check(&me, None), check(&me, Some("bb"))), (Ok(()), Ok(())));
    let refusal = check(&me, Some("aa")).unwrap_err();
    assert_eq!(refusal.code, RefuseCode::Facts);
    assert_eq!(refusal.text, r#"cluster-id: n1 has "bb", n3 has "aa""#);
    assert!(me.told_facts().contains(&of("bb")));
}

#[test]
fn strangers_wrong_targets_and_doubles_are_told_apart() {
    assert_eq!(refusal(&hello(|role| role.id = 7)).code, RefuseCode::Unknown);
    assert_eq!(refusal(&hello(|role| role.to = 2)).code, RefuseCode::WrongNode);
    let double = refusal(&hello(|role| role.id = 1));
    assert_eq!(double.code, RefuseCode::Duplicate);
    let itself = refusal(&hello(|role| (role.id, role.to, role.incarnation) = (1, 2, identity(None).incarnation)));
    assert_eq!(itself.code, RefuseCode::WrongNode, "an address list that leads back here is no second process");
}

#[test]
fn another_key_id_is_refused_before_anything_else() {
    let (with, without) = (identity(Some("0123456789abcdef")), identity(None));
    let other = identity(Some("0123456789abcdeX"));
    for (acceptor, dialler, text) in [
        (&with, &other, "wrong secret"),
        (&with, &without, "this cluster requires a secret; pass its secret file"),
        (&without, &with, "this cluster uses no secret, but the other side was given one"),
    ] {
        let mut hello = hello(|role| role.id = 7);
        hello.cluster = "south".to_owned();
        hello.key_id = key_id(dialler.secret.as_ref());
        let refusal = acceptor.check_hello(&hello, |_| true).unwrap_err();
        assert_eq!(refusal, Refusal::new(RefuseCode::Secret, text));
    }
    let mut hello = hello(|_| {});
    hello.key_id = key_id(with.secret.as_ref());
    with.check_hello(&hello, |id| id == 3).unwrap();
}

#[test]
fn a_refusal_reads_the_same_at_every_step_and_always_fits() {
    let refusal = Refusal::new(RefuseCode::Facts, "ü".repeat(10_000));
    let bytes = codec::to_vec(&Verdict::Refused(refusal.clone())).unwrap();
    assert_eq!(bytes, codec::to_vec(&Answer::Refused(refusal.clone())).unwrap());
    assert_eq!(bytes, codec::to_vec(&Reply::Refused(refusal)).unwrap());
    assert!(bytes.len() <= crate::frame::HANDSHAKE_FRAME_MAX_BYTES);
}

#[test]
fn the_text_of_a_refusal_from_the_wire_is_bounded_and_cannot_rewrite_a_terminal() {
    let sent = Refusal { code: RefuseCode::Facts, text: format!("\u{1b}[2J\r\n{}", "x".repeat(4000)) };
    let received: Refusal = codec::decode(&codec::to_vec(&sent).unwrap()).unwrap();
    assert!(received.text.len() <= REFUSAL_TEXT_MAX_BYTES && received.text.len() > REFUSAL_TEXT_MAX_BYTES - 4);
    assert!(received.text.starts_with("\u{fffd}[2J\u{fffd}\u{fffd}xxx"), "{:?}", &received.text[..20]);
}

#[test]
fn a_proof_fits_one_direction_of_one_connection() {
    let secret = identity(Some("0123456789abcdef")).secret;
    let other = identity(Some("0123456789abcdeX")).secret;
    let here = Transcript { dialler: b"hello", acceptor: b"challenge" };
    let elsewhere = Transcript { dialler: b"hello", acceptor: b"challengf" };
    let proof = here.dialler_proof(secret.as_ref());
    assert!(here.check_dialler(secret.as_ref(), &proof).is_ok());
    for refused in [
        here.check_acceptor(secret.as_ref(), &proof),
        elsewhere.check_dialler(secret.as_ref(), &proof),
        Transcript { dialler: b"hellp", ..here }.check_dialler(secret.as_ref(), &proof),
        here.check_dialler(other.as_ref(), &proof),
        here.check_dialler(None, &proof),
        here.check_dialler(secret.as_ref(), &[]),
    ] {
        assert_eq!(refused.unwrap_err().code, RefuseCode::Secret);
    }
}
