//! The latest incarnation of every peer that was ever connected. An earlier incarnation is refused: its volume was
//! rolled back or copied, and it has lost promises.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::handshake::{Incarnation, PeerId, Refusal, RefuseCode};

/// Shared by the event loop, which writes it, and the handshakes, which check it.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<BTreeMap<PeerId, Incarnation>>);

impl Seen {
    pub(crate) fn new(known: &[(PeerId, Incarnation)]) -> Self {
        Seen(Mutex::new(known.iter().copied().collect()))
    }

    pub(crate) fn note(&self, peer: PeerId, incarnation: Incarnation) {
        self.lock().insert(peer, incarnation);
    }

    /// Two incarnations never share a counter: it is on disk before any peer learns of it.
    pub(crate) fn check(&self, me: PeerId, peer: PeerId, claimed: Incarnation) -> Result<(), Refusal> {
        let Some(seen) = self.lock().get(&peer).copied() else { return Ok(()) };
        if claimed.counter > seen.counter || claimed == seen {
            return Ok(());
        }
        let text = format!(
            "n{me} has seen n{peer} as incarnation {seen}, so incarnation {claimed} comes from a rolled-back or copied \
             volume"
        );
        Err(Refusal::new(RefuseCode::Stale { seen: seen.counter }, text))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PeerId, Incarnation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_run_and_a_twin_are_refused_and_the_same_and_every_later_one_are_not() {
        let at = |counter, nonce| Incarnation { counter, nonce };
        let seen = Seen::new(&[(2, at(5, 7))]);
        for good in [at(5, 7), at(6, 1), at(9, 7)] {
            assert_eq!(seen.check(1, 2, good), Ok(()));
        }
        for stale in [at(4, 7), at(5, 8), at(1, 1)] {
            let refusal = seen.check(1, 2, stale).unwrap_err();
            assert_eq!(refusal.code, RefuseCode::Stale { seen: 5 });
            for part in ["n1", "n2", &at(5, 7).to_string(), &stale.to_string()] {
                assert!(refusal.text.contains(part), "{part} not in {}", refusal.text);
            }
        }
        assert_eq!(seen.check(1, 3, at(1, 1)), Ok(()), "nothing is known of it");
        seen.note(2, at(6, 1));
        assert!(seen.check(1, 2, at(5, 7)).is_err(), "the incarnation before");
    }
}
