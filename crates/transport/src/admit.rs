//! Which connection between two members stays: at most one, the same one at both ends, with no report of the other one.
//!
//! Each connection is kept or dropped by two steps: its acceptor *admits* it (and sends the welcome), its dialler takes
//! it over when the welcome arrives. Let H be the member with the higher id and L the other.
//!
//! **Two dials at once.** H's dial is *committed* just before H says so
//! ([`Reply::Commit`](crate::handshake::Reply), behind both hellos); the step is one atomic exchange on the dial's
//! [`Stage`](crate::dial::Stage), so of "commit this dial" and "admit that connection instead" exactly one
//! happens. H admits L's connection only by cancelling its own dial, which fails once the dial is committed; then H
//! answers [`AlreadyConnected`](RefuseCode::AlreadyConnected). L admits H's connection whenever it has none, and drops
//! its own dial for it: L can only be asked to admit a committed dial. So if H admits L's connection, H never says
//! that it keeps its own dial and L never admits it; if H commits its dial, H does not admit L's. Neither end ever reports the dropped
//! connection as up, so no frame is lost and no false `Down` is reported. When both dial in the same moment H commits
//! first, since its commit needs one message less than L's admission.
//!
//! A committed dial can still fail (L dies, a deadline passes). Then H is free again and L's next dial is admitted.
//!
//! **A lost end.** A member never dials while it has a connection. Dials are counted, the hello carries the count, and
//! the welcome carries the acceptor's count; so each end of a connection knows the *floor*: how many dials the far side
//! had begun when the connection was made. A dial above the floor was begun later, which the far side only does after
//! it lost or closed its end: the old connection is replaced. A dial at or below the floor is a late loser of the race
//! above and is refused without a report.
//!
//! **Another process.** A different incarnation while a connection is up is a second process with the same id, or the
//! first one has died without closing its connection: its machine has lost its power. A later incarnation waits while the
//! old connection is asked for a sign of life. If it gives one, the first process stays connected and the second one is
//! refused; if it gives none in time, the old connection is reported as ended and the new one is kept. An earlier
//! incarnation is refused at once.

use std::net::SocketAddr;

use crate::handshake::{Incarnation, PeerId, Refusal, RefuseCode};

/// An authenticated peer that asks to be connected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) id: PeerId,
    pub(crate) incarnation: Incarnation,
    pub(crate) attempt: u64,
    pub(crate) address: SocketAddr,
}

/// The existing connection with that peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) incarnation: Incarnation,
    pub(crate) floor: u64,
    pub(crate) address: SocketAddr,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    Keep,
    /// Keep, and report the old connection as replaced first.
    Replace,
    /// Wait until the old connection has been asked for a sign of life.
    Probe,
    Refuse(Refusal),
}

/// Decides about an incoming connection. `cancel_dial` cancels this member's own dial of that peer and returns whether
/// no dial remains; it is called only when the answer depends on it.
pub(crate) fn admit(
    me: PeerId,
    claim: &Claim,
    standing: Option<&Standing>,
    cancel_dial: impl FnOnce() -> bool,
) -> Admission {
    match standing {
        Some(standing) if claim.incarnation.counter > standing.incarnation.counter => Admission::Probe,
        Some(standing) if standing.incarnation != claim.incarnation => Admission::Refuse(duplicate(claim, standing)),
        Some(standing) if claim.attempt > standing.floor => Admission::Replace,
        // The lower id always yields: the higher id is committed to the connection that the lower id was asked to
        // admit.
        None if cancel_dial() || me < claim.id => Admission::Keep,
        Some(_) | None => already_connected(me, claim.id),
    }
}

/// The refusal of a second process while the first one is connected.
pub(crate) fn duplicate(claim: &Claim, standing: &Standing) -> Refusal {
    let text = format!(
        "n{} is connected from {} as incarnation {}; {} claims the same id as incarnation {}",
        claim.id, standing.address, standing.incarnation, claim.address, claim.incarnation
    );
    Refusal::new(RefuseCode::Duplicate, text)
}

fn already_connected(me: PeerId, peer: PeerId) -> Admission {
    let text = format!("n{me} and n{peer} have a connection already");
    Admission::Refuse(Refusal::new(RefuseCode::AlreadyConnected, text))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const FIRST: Incarnation = Incarnation { counter: 1, nonce: 1 };
    const SECOND: Incarnation = Incarnation { counter: 2, nonce: 2 };

    fn claim(id: PeerId, incarnation: Incarnation, attempt: u64) -> Claim {
        Claim { id, incarnation, attempt, address: (Ipv4Addr::LOCALHOST, 1111).into() }
    }

    fn standing(incarnation: Incarnation, floor: u64) -> Standing {
        Standing { incarnation, floor, address: (Ipv4Addr::LOCALHOST, 2222).into() }
    }

    fn code(admission: Admission) -> Option<RefuseCode> {
        match admission {
            Admission::Refuse(refusal) => Some(refusal.code),
            _ => None,
        }
    }

    #[test]
    fn a_committed_dial_of_the_higher_id_wins_and_one_of_the_lower_yields() {
        let committed = || false;
        assert_eq!(code(admit(2, &claim(1, FIRST, 1), None, committed)), Some(RefuseCode::AlreadyConnected));
        assert_eq!(admit(1, &claim(2, FIRST, 1), None, committed), Admission::Keep);
        assert_eq!(admit(2, &claim(1, FIRST, 1), None, || true), Admission::Keep);
    }

    #[test]
    fn only_a_dial_begun_after_the_connection_replaces_it() {
        let live = standing(FIRST, 5);
        assert_eq!(code(admit(1, &claim(2, FIRST, 5), Some(&live), || true)), Some(RefuseCode::AlreadyConnected));
        assert_eq!(admit(1, &claim(2, FIRST, 6), Some(&live), || true), Admission::Replace);
    }

    #[test]
    fn a_later_process_waits_for_a_probe_and_an_earlier_one_or_a_twin_is_refused() {
        let live = standing(SECOND, 1);
        let later = Incarnation { counter: 3, nonce: 1 };
        assert_eq!(admit(1, &claim(2, later, 1), Some(&live), || true), Admission::Probe);
        for wrong in [FIRST, Incarnation { counter: 2, nonce: 9 }] {
            assert_eq!(code(admit(1, &claim(2, wrong, 9), Some(&live), || true)), Some(RefuseCode::Duplicate));
        }
    }

    #[test]
    fn a_duplicate_is_refused_with_both_processes_named() {
        let refusal = duplicate(&claim(2, SECOND, 9), &standing(FIRST, 1));
        assert_eq!(refusal.code, RefuseCode::Duplicate);
        for part in ["127.0.0.1:1111", "127.0.0.1:2222", &FIRST.to_string(), &SECOND.to_string()] {
            assert!(refusal.text.contains(part), "{part} not in {}", refusal.text);
        }
    }
}
