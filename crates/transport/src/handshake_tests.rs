use super::*;

fn identity(secret: Option<&str>) -> Identity {
    Identity {
        cluster: "north".to_owned(),
        id: 1,
        incarnation: Incarnation { counter: 3, nonce: 4 },
        facts: vec![("algorithm".to_owned(), "chang-roberts".to_owned()), ("lease".to_owned(), "5s".to_owned())],
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
    Hello { cluster: "north".to_owned(), nonce: [5; 32], role: Role::Peer(role) }
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
fn another_version_is_refused_with_both_numbers() {
    let mut bytes = hello(|_| {}).to_bytes().unwrap();
    bytes[MAGIC.len() + 1] = 9;
    let Err(HelloError::Refused(refusal)) = Hello::from_bytes(&bytes) else { panic!("taken") };
    assert_eq!(refusal.code, RefuseCode::Version);
    assert!(refusal.text.contains("speaks 1") && refusal.text.contains("speaks 9"), "{}", refusal.text);
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
        here.check_dialler(other.as_ref(), &proof),
        here.check_dialler(None, &proof),
        here.check_dialler(secret.as_ref(), &[]),
    ] {
        assert_eq!(refused.unwrap_err().code, RefuseCode::Secret);
    }
}

/// A seeded source of mutations; a failure names the round, and the round reproduces it.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.roll(4) {
            let at = self.roll(bytes.len());
            match self.roll(5) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << self.roll(8),
                1 if !bytes.is_empty() => bytes[at] = [0, 250, 251, 252, 253, 254, 255][self.roll(7)],
                2 => bytes.truncate(at),
                3 => bytes.insert(at, self.roll(256) as u8),
                _ => {
                    let piece = bytes[at..].to_vec();
                    bytes.extend_from_slice(&piece[..piece.len().min(64)]);
                }
            }
        }
    }
}

#[test]
fn mutated_handshakes_never_panic_and_never_authenticate() {
    let me = identity(Some("0123456789abcdef"));
    let honest = hello(|_| {}).to_bytes().unwrap();
    let acceptor = codec::to_vec(&AcceptorHello {
        cluster: me.cluster.clone(),
        id: 3,
        incarnation: me.incarnation,
        facts: me.facts.clone(),
        nonce: [6; 32],
    })
    .unwrap();
    let transcript = Transcript { dialler: &honest, acceptor: &acceptor };
    let answer = Answer::Challenge { hello: acceptor.clone(), proof: transcript.acceptor_proof(me.secret.as_ref()) };
    let reply = Reply::Proof(transcript.dialler_proof(me.secret.as_ref()));
    let mut dice = Dice(0x5eed);
    for round in 0..20_000 {
        let mut bytes = honest.clone();
        dice.mutate(&mut bytes);
        if let Ok(hello) = Hello::from_bytes(&bytes) {
            let _ = me.check_hello(&hello, |id| id == 3);
            let mutated = Transcript { dialler: &bytes, acceptor: &acceptor };
            let Reply::Proof(proof) = &reply else { unreachable!() };
            assert!(bytes == honest || mutated.check_dialler(me.secret.as_ref(), proof).is_err(), "round {round}");
        }
        let mut bytes = codec::to_vec(&answer).unwrap();
        dice.mutate(&mut bytes);
        if let Ok(Answer::Challenge { hello, proof }) = codec::decode::<Answer>(&bytes) {
            let changed = Transcript { dialler: &honest, acceptor: &hello };
            let genuine = Answer::Challenge { hello: hello.clone(), proof: proof.clone() } == answer;
            assert!(genuine || changed.check_acceptor(me.secret.as_ref(), &proof).is_err(), "round {round}");
            let _ = codec::decode::<AcceptorHello>(&hello).map(|acceptor| me.check_acceptor(&acceptor, 3));
        }
        let mut bytes = codec::to_vec(&reply).unwrap();
        dice.mutate(&mut bytes);
        if let Ok(Reply::Proof(proof)) = codec::decode::<Reply>(&bytes) {
            let genuine = Reply::Proof(proof.clone()) == reply;
            assert!(genuine || transcript.check_dialler(me.secret.as_ref(), &proof).is_err(), "round {round}");
        }
        let _ = codec::decode::<Verdict>(&bytes);
    }
}
