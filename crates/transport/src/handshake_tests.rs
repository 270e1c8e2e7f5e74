use super::*;
use crate::codec;
use crate::hello::PeerHello;
use crate::secret::{Keys, Secret};

fn identity() -> Identity {
    Identity {
        cluster: "north".to_owned(),
        id: 1,
        incarnation: Incarnation { counter: 3, nonce: 4 },
        facts: vec![("algorithm".to_owned(), "chang-roberts".to_owned()), ("lease".to_owned(), "5s".to_owned())],
        cluster_id: KnownId::default(),
        list: KnownList::default(),
        keyring: Keyring::default(),
    }
}

fn hello(change: impl FnOnce(&mut PeerHello)) -> DiallerHello {
    let mut peer = PeerHello {
        id: 3,
        to: 1,
        incarnation: Incarnation { counter: 9, nonce: 9 },
        attempt: 1,
        facts: identity().facts,
    };
    change(&mut peer);
    DiallerHello { cluster: "north".to_owned(), peer: Some(peer) }
}

fn refusal(hello: &DiallerHello) -> Refusal {
    identity().check_hello(hello, |id| id == 3).unwrap_err()
}

#[test]
fn an_agreeing_peer_is_taken() {
    identity().check_hello(&hello(|_| {}), |id| id == 3).unwrap();
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
    let me = identity();
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
    let itself = refusal(&hello(|role| (role.id, role.to, role.incarnation) = (1, 2, identity().incarnation)));
    assert_eq!(itself.code, RefuseCode::WrongNode, "an address list that leads back here is no second process");
}

#[test]
fn a_key_id_tells_whose_secret_is_missing() {
    use types::Access;
    let id = |secret: Option<&str>, access| {
        let secret = secret.map(|secret| Secret::from_bytes(secret.as_bytes()).unwrap());
        Keys::new(secret.as_ref()).of(access).unwrap().id
    };
    for access in Access::ALL {
        let [good, other] = ["0123456789abcdef", "0123456789abcdeX"].map(|text| id(Some(text), access));
        let none = id(None, access);
        assert_eq!((check_key_id(good, good), check_key_id(none, none)), (Ok(()), Ok(())));
        for (dialler, acceptor, text) in [
            (good, other, "wrong secret"),
            (none, good, "this cluster requires a secret; pass its secret file"),
            (good, none, "this cluster uses no secret, but the dialler was given one"),
        ] {
            assert_eq!(check_key_id(dialler, acceptor), Err(Refusal::new(RefuseCode::Secret, text)));
        }
    }
}

#[test]
fn a_secret_and_a_certificate_do_not_meet_and_both_sides_are_told_what_is_missing() {
    let secret = *b"1234";
    for (dialler, acceptor, part) in [
        (secret, BY_CERTIFICATE, "this cluster uses certificates"),
        (NO_KEY, BY_CERTIFICATE, "this cluster uses certificates"),
        (BY_CERTIFICATE, secret, "this cluster uses no certificates"),
        (BY_CERTIFICATE, NO_KEY, "this cluster uses no certificates"),
    ] {
        let refusal = check_key_id(dialler, acceptor).unwrap_err();
        assert!(refusal.text.starts_with(part), "{refusal}");
    }
    assert_eq!(check_key_id(BY_CERTIFICATE, BY_CERTIFICATE), Ok(()));
}

/// Nothing but the names in a certificate says who shows it.
#[test]
fn a_certificate_is_good_for_its_holder_and_for_less_access_only() {
    use Access::{Member, Operator, Reader};
    let dials = |holder, access, id| check_dialler(Some(holder), access, id);
    for (holder, access, id) in [
        (Holder::Member(3), Member, Some(3)),
        (Holder::Member(3), Operator, None),
        (Holder::Member(3), Reader, None),
        (Holder::Operator, Operator, None),
        (Holder::Operator, Reader, None),
        (Holder::Reader, Reader, None),
    ] {
        assert_eq!(dials(holder, access, id), Ok(()));
    }
    for (holder, access, id, text) in [
        (Holder::Member(2), Member, Some(3), "n3 is claimed with the certificate of n2"),
        (Holder::Operator, Member, Some(3), "a connection as member with the certificate of an operator"),
        (Holder::Reader, Member, Some(3), "a connection as member with the certificate of a reader"),
        (Holder::Reader, Operator, None, "a connection as operator with the certificate of a reader"),
    ] {
        assert_eq!(dials(holder, access, id), Err(Refusal::new(RefuseCode::Certificate, text)));
    }
    assert_eq!(check_dialler(None, Member, Some(3)), Ok(()), "a secret names nobody");
    assert_eq!(check_acceptors_holder(Some(Holder::Member(3)), 3), Ok(()));
    assert_eq!(check_acceptors_holder(None, 3), Ok(()));
    for holder in [Holder::Member(2), Holder::Operator, Holder::Reader] {
        let refusal = check_acceptors_holder(Some(holder), 3).unwrap_err();
        assert_eq!(refusal.text, format!("n3 answers with the certificate of {holder}"));
    }
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
fn only_lists_with_one_stamp_and_different_members_refuse_each_other() {
    let told = |stamp, digest| {
        let other = identity();
        other.list.set(types::Stamp::new(types::Epoch(stamp), 0), digest, &[]);
        other.told_facts()
    };
    let checked = |ours: Option<(u64, u64)>, theirs: Facts| {
        let me = identity();
        if let Some((stamp, digest)) = ours {
            me.list.set(types::Stamp::new(types::Epoch(stamp), 0), digest, &[]);
        }
        me.check_hello(&hello(|role| role.facts = theirs), |id| id == 3)
    };
    let refusal = checked(Some((0, 1)), told(0, 2)).unwrap_err();
    assert_eq!(refusal.code, RefuseCode::Facts);
    assert!(
        refusal.text.contains("0.0 0000000000000001") && refusal.text.contains("0.0 0000000000000002"),
        "{refusal}"
    );
    let other = identity();
    other.list.set(types::Stamp::FIRST, 2, &["2=b:7500".to_owned()]);
    let me = identity();
    me.list.set(types::Stamp::FIRST, 1, &["2=b:7400".to_owned()]);
    let refusal = me.check_hello(&hello(|role| role.facts = other.told_facts()), |id| id == 3).unwrap_err();
    assert_eq!(refusal.text, "members 2: n1 has \"b:7400\", n3 has \"b:7500\"");
    for (ours, theirs) in [
        (Some((0, 1)), told(0, 1)),
        (Some((0, 1)), told(5, 2)),
        (Some((5, 2)), told(0, 1)),
        (None, told(0, 1)),
        (Some((0, 1)), identity().told_facts()),
    ] {
        assert_eq!(checked(ours, theirs.clone()), Ok(()), "{ours:?} against {theirs:?}");
    }
}

#[test]
fn a_process_that_asks_for_an_id_is_told_it_even_if_it_asks_itself() {
    identity().check_hello(&hello(|role| role.to = ANYBODY), |id| id == 3).unwrap();
    let own = hello(|role| (role.id, role.to, role.incarnation) = (1, ANYBODY, identity().incarnation));
    identity().check_hello(&own, |_| true).unwrap();
    assert_eq!(refusal(&hello(|role| role.id = ANYBODY)).code, RefuseCode::Malformed);
}
