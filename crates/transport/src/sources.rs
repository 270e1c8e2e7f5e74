//! Where connections come from that are not authenticated yet: no address may take the places of all others, and an
//! address whose handshakes fail is turned away before it costs a handshake.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Failed handshakes that an address has for free: many members with a wrong config behind one address.
const FAILURES_MAX: u32 = 100;
/// One failed handshake is forgiven in each of these times.
const FORGIVEN_EVERY: Duration = Duration::from_millis(50);
/// Addresses with failures that are remembered; a flood from more of them finds the memory full and is not slowed down.
const SOURCES_MAX: usize = 4096;

/// The failed handshakes of every address.
#[derive(Debug, Default)]
pub(crate) struct Sources(Mutex<HashMap<IpAddr, Failures>>);

#[derive(Debug)]
struct Failures {
    count: u32,
    /// The failures before this moment are forgiven at its pace.
    counted: Instant,
}

impl Failures {
    fn forgive(&mut self, now: Instant) {
        let forgiven = now.saturating_duration_since(self.counted).as_millis() / FORGIVEN_EVERY.as_millis();
        let forgiven = u32::try_from(forgiven).unwrap_or(u32::MAX);
        if forgiven > 0 {
            self.count = self.count.saturating_sub(forgiven);
            self.counted = now;
        }
    }
}

/// A handshake under way. It counts as failed unless [`Attempt::proved`] was called.
#[derive(Debug)]
pub(crate) struct Attempt {
    sources: Arc<Sources>,
    source: IpAddr,
    proved: bool,
}

impl Sources {
    /// `None` if too many handshakes of this address have failed lately. Loopback is exempt: all processes of this machine
    /// share it, members and their clients included.
    pub(crate) fn begin(self: &Arc<Self>, address: IpAddr) -> Option<Attempt> {
        let source = source_of(address);
        let allowed = source.is_loopback() || self.allows(source, Instant::now());
        allowed.then(|| Attempt { sources: Arc::clone(self), source, proved: false })
    }

    fn allows(&self, source: IpAddr, now: Instant) -> bool {
        let mut all = self.lock();
        let Some(failures) = all.get_mut(&source) else { return true };
        failures.forgive(now);
        failures.count < FAILURES_MAX
    }

    fn failed(&self, source: IpAddr, now: Instant) {
        let mut all = self.lock();
        if all.len() >= SOURCES_MAX && !all.contains_key(&source) {
            all.retain(|_, failures| {
                failures.forgive(now);
                failures.count > 0
            });
            if all.len() >= SOURCES_MAX {
                return;
            }
        }
        let failures = all.entry(source).or_insert(Failures { count: 0, counted: now });
        failures.forgive(now);
        failures.count = failures.count.saturating_add(1);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Failures>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempt {
    pub(crate) fn proved(&mut self) {
        self.proved = true;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.proved && !self.source.is_loopback() {
            self.sources.failed(self.source, Instant::now());
        }
    }
}

/// The owner of an IPv6 address usually has a whole network of 64 bits: it counts as one source.
pub(crate) fn source_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        other => other,
    }
}

/// How many of `max` handshakes under way may be those of one source: a quarter, so that one address cannot push out the
/// handshakes of all others. Loopback has all but a quarter: a command may open hundreds of connections to the members of
/// its own machine, and other machines still find a quarter free.
pub(crate) fn share(source: IpAddr, max: usize) -> usize {
    let quarter = (max / 4).max(1);
    if source.is_loopback() { max.saturating_sub(quarter).max(1) } else { quarter }
}

/// Which of the handshakes under way, oldest first, must end before one of `source` may begin. An honest handshake takes
/// milliseconds, so the oldest one is the most suspect: that of the same source if it has its share, else that of the
/// source with most of them.
pub(crate) fn to_end(under_way: &[IpAddr], source: IpAddr, max: usize) -> Option<usize> {
    let mut of_source: HashMap<IpAddr, usize> = HashMap::new();
    for one in under_way {
        *of_source.entry(*one).or_default() += 1;
    }
    let heaviest = if of_source.get(&source).is_some_and(|&count| count >= share(source, max)) {
        source
    } else if of_source.values().sum::<usize>() >= max.max(1) {
        // Of equals the one with the oldest handshake.
        let most = of_source.values().copied().max()?;
        *under_way.iter().find(|one| of_source.get(one) == Some(&most))?
    } else {
        return None;
    };
    under_way.iter().position(|one| *one == heaviest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn an_address_whose_handshakes_fail_is_turned_away_until_they_are_forgiven_and_no_other_is() {
        let sources = Sources::default();
        let start = Instant::now();
        for _ in 0..FAILURES_MAX {
            assert!(sources.allows(ip(1), start));
            sources.failed(ip(1), start);
        }
        assert!(!sources.allows(ip(1), start));
        assert!(sources.allows(ip(2), start));
        assert!(sources.allows(ip(1), start + FORGIVEN_EVERY));
        sources.failed(ip(1), start + FORGIVEN_EVERY);
        assert!(!sources.allows(ip(1), start + FORGIVEN_EVERY));
        assert!(sources.allows(ip(1), start + FORGIVEN_EVERY * 10));
    }

    #[test]
    fn a_dropped_attempt_has_failed_unless_it_was_proved_or_came_from_this_machine() {
        let sources = Arc::new(Sources::default());
        let count = |source| sources.lock().get(&source).map_or(0, |failures| failures.count);
        drop(sources.begin(ip(1)).unwrap());
        assert_eq!(count(ip(1)), 1);
        let mut attempt = sources.begin(ip(2)).unwrap();
        attempt.proved();
        drop(attempt);
        assert_eq!(count(ip(2)), 0);
        let local = IpAddr::from([127, 0, 0, 1]);
        drop(sources.begin(local).unwrap());
        assert_eq!(count(local), 0);
    }

    #[test]
    fn the_memory_of_failures_is_bounded() {
        let sources = Sources::default();
        let start = Instant::now();
        for number in 0..2 * SOURCES_MAX as u32 {
            sources.failed(IpAddr::from((0x0a00_0000 + number).to_be_bytes()), start);
        }
        assert_eq!(sources.lock().len(), SOURCES_MAX);
        sources.failed(ip(1), start + FORGIVEN_EVERY);
        assert_eq!(sources.lock().len(), 1, "forgiven addresses make room");
    }

    #[test]
    fn one_source_ends_its_own_handshakes_and_many_end_those_of_the_heaviest() {
        let flood = vec![ip(1); 4];
        assert_eq!(to_end(&flood, ip(1), 16), Some(0), "it has its quarter");
        assert_eq!(to_end(&flood, ip(2), 16), None);
        let mut honest_first = vec![ip(9)];
        honest_first.extend(&flood);
        assert_eq!(to_end(&honest_first, ip(1), 16), Some(1), "not the honest one, though it is older");
        let full: Vec<IpAddr> = [9, 1, 1, 1, 2, 2, 2, 2].map(ip).to_vec();
        assert_eq!(to_end(&full, ip(3), 8), Some(4), "the source with most of them");
        let local = IpAddr::from([127, 0, 0, 1]);
        let local_flood = [local; 12];
        assert_eq!(to_end(&local_flood, local, 16), Some(0));
        assert_eq!(to_end(&local_flood[..11], local, 16), None);
        assert_eq!(to_end(&[], ip(1), 0), None);
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_source() {
        let source = |text: &str| source_of(text.parse().unwrap());
        assert_eq!(source("2001:db8:0:1::5"), source("2001:db8:0:1:ffff::1"));
        assert_ne!(source("2001:db8:0:1::5"), source("2001:db8:0:2::5"));
        assert_eq!(source("::ffff:192.0.2.1"), ip(1));
        assert!(source("::1").is_loopback());
    }
}
