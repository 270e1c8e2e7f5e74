//! The latest incarnation of every peer that was ever connected. An earlier incarnation is refused: its volume was
//! rolled back or copied, and it has lost promises.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::handshake::{Incarnation, PeerId, Refusal, RefuseCode};

/// More starts than any member ever has.
const COUNTER_MAX: u64 = 1 << 40;
/// How far a new incarnation may be above the last one seen: a member starts more seldom while it is not seen.
const LEAP: u64 = 1 << 20;

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

    /// Two incarnations never share a counter: it is on disk before any peer learns of it. A counter that no member
    /// reaches is refused before it is remembered: it would lock the id out for ever.
    pub(crate) fn check(&self, me: PeerId, peer: PeerId, claimed: Incarnation) -> Result<(), Refusal> {
        let seen = self.lock().get(&peer).copied();
        let limit = seen.map_or(COUNTER_MAX, |seen| seen.counter.saturating_add(LEAP).min(COUNTER_MAX));
        if claimed.counter > limit {
            let last = seen.map_or("nothing".to_owned(), |seen| format!("incarnation {seen}"));
            let text = format!(
                "n{me} has seen {last} of n{peer}, so it does not believe incarnation {claimed}: the count of starts may \
                 be {limit} at most"
            );
            return Err(Refusal::new(RefuseCode::Run, text));
        }
        let Some(seen) = seen else { return Ok(()) };
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
        for (peer, run) in [(2, 1 << 60), (2, 6 + LEAP), (3, 1 << 60), (3, COUNTER_MAX + 1)] {
            let refusal = seen.check(1, peer, at(run, 1)).unwrap_err();
            assert_eq!(refusal.code, RefuseCode::Run, "{refusal}");
            assert!(refusal.text.contains(&at(run, 1).to_string()), "{refusal}");
        }
        assert_eq!(seen.check(1, 2, at(5 + LEAP, 1)), Ok(()));
        assert_eq!(seen.check(1, 3, at(COUNTER_MAX, 1)), Ok(()));
        seen.note(2, at(6, 1));
        assert!(seen.check(1, 2, at(5, 7)).is_err(), "the incarnation before");
    }
}
