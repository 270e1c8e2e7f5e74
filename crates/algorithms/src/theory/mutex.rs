//! The cost of one entry into a critical section, in a view of n members without failures.

use super::{Range, floor_log2};
use crate::mutex::maekawa::quorum_size;

/// What one request costs, from its first message to the last one that its exit causes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cost {
    /// Messages by the kind's name.
    pub kinds: Vec<(&'static str, Range)>,
    /// All of them. Not always the sum of the kinds: their largest numbers need not go together.
    pub messages: Range,
    /// The same where every member always wants to enter, if theory says more about that.
    pub saturated: Option<Range>,
    /// Message times from a request to the entry while no other member wants to enter.
    pub client_delay: Range,
    /// Message times from an exit to the entry of a member that already waits.
    pub sync_delay: Range,
}

impl Cost {
    /// Kinds whose numbers add up.
    fn sum(kinds: &[(&'static str, Range)], client_delay: Range, sync_delay: Range) -> Cost {
        let messages = kinds.iter().fold(Range::exactly(0), |sum, (_, range)| sum.plus(*range));
        Cost { kinds: kinds.to_vec(), messages, saturated: None, client_delay, sync_delay }
    }
}

/// Nothing is sent where there is no other member.
fn unless_alone(n: usize, range: Range) -> Range {
    if n < 2 { Range::exactly(0) } else { range }
}

/// N-1 requests and N-1 replies; one round trip.
pub fn ricart_agrawala(n: usize, _: usize) -> Cost {
    let each = Range::exactly(n - 1);
    let (round_trip, one) = (unless_alone(n, Range::exactly(2)), unless_alone(n, Range::exactly(1)));
    Cost::sum(&[("request", each), ("reply", each)], round_trip, one)
}

/// The token makes 1 to N steps per entry: 1 where every member wants it, N where one member takes it every lap.
pub fn token_ring(n: usize, _: usize) -> Cost {
    let steps = unless_alone(n, Range::between(1, n));
    let cost = Cost::sum(&[("token", steps)], unless_alone(n, Range::between(0, n)), steps);
    Cost { saturated: Some(unless_alone(n, Range::exactly(1))), ..cost }
}

/// REQUEST, GRANT, RELEASE; the clerk, at position 0, needs no message.
pub fn central(n: usize, at: usize) -> Cost {
    let each = Range::exactly(usize::from(at > 0));
    let (round_trip, two) = (Range::exactly(2 * usize::from(at > 0)), unless_alone(n, Range::between(1, 2)));
    Cost::sum(&[("request", each), ("grant", each), ("release", each)], round_trip, two)
}

/// N-1 requests, replies and releases.
pub fn lamport(n: usize, _: usize) -> Cost {
    let each = Range::exactly(n - 1);
    let (round_trip, one) = (unless_alone(n, Range::exactly(2)), unless_alone(n, Range::exactly(1)));
    Cost::sum(&[("request", each), ("reply", each), ("release", each)], round_trip, one)
}

/// Three messages for each other member of the quorum. Under contention a request causes, at each voter, one FAILED or
/// one INQUIRE, one RELINQUISH and one more LOCKED; at the voter that made it itself, these go to other members.
pub fn maekawa(n: usize, at: usize) -> Cost {
    let others = quorum_size(n, at) - 1;
    let (each, at_most) = (Range::exactly(others), unless_alone(n, Range::between(0, others + 1)));
    let kinds = vec![
        ("request", each),
        ("locked", Range::between(others, 2 * others + usize::from(n > 1))),
        ("release", each),
        ("failed", at_most),
        ("inquire", at_most),
        ("relinquish", at_most),
    ];
    let messages = unless_alone(n, Range::between(3 * others, 6 * others + 3));
    // RELEASE and LOCKED; one of them where the member that leaves or the one that enters is the voter itself.
    let (round_trip, two) = (unless_alone(n, Range::exactly(2)), unless_alone(n, Range::between(1, 2)));
    Cost { kinds, messages, saturated: None, client_delay: round_trip, sync_delay: two }
}

/// Nothing where the token is here, else N-1 requests and the token.
pub fn suzuki_kasami(n: usize, _: usize) -> Cost {
    let token = unless_alone(n, Range::between(0, 1));
    let round_trip = unless_alone(n, Range::between(0, 2));
    Cost::sum(
        &[("request", Range::between(0, n - 1)), ("token", token)],
        round_trip,
        unless_alone(n, Range::exactly(1)),
    )
}

/// The longest way between two members of a binary tree by position.
pub fn tree_diameter(n: usize) -> usize {
    let height = floor_log2(n) as usize;
    // Is the lowest level filled beyond the left half?
    if height == 0 { 0 } else { 2 * height - usize::from(n < 3 << (height - 1)) }
}

/// The request goes to the token and the token comes back, along the tree.
pub fn raymond(n: usize, _: usize) -> Cost {
    let way = Range::between(0, tree_diameter(n));
    let there_and_back = Range::between(0, 2 * tree_diameter(n));
    Cost::sum(&[("request", way), ("token", way)], there_and_back, unless_alone(n, Range::between(1, way.max as usize)))
}

/// N-1 WANT, a ROUND for every other candidate, and an election of Bully among them: all of up to N start.
pub fn by_election(n: usize, _: usize) -> Cost {
    let others = n - 1;
    let (asked, told) = (Range::between(0, n * others / 2), Range::between(0, others));
    let kinds = [
        ("want", Range::exactly(others)),
        ("round", told),
        ("election", asked),
        ("answer", asked),
        ("coordinator", told),
    ];
    Cost::sum(&kinds, unless_alone(n, Range::between(0, 2)), unless_alone(n, Range::at_least(1)))
}

/// A member that waits is woken once, by the exit of its predecessor.
pub fn zookeeper(n: usize, at: usize) -> Cost {
    recipe(n, at, 1)
}

/// A member that waits is woken by every exit before its turn. The next exit may find it before its new watch has
/// arrived: then it gets the old list, sends the watch, learns that the entry is gone and lists once more.
pub fn zookeeper_herd(n: usize, at: usize) -> Cost {
    Cost { sync_delay: unless_alone(n, Range::between(1, 6)), ..recipe(n, at, n - 1) }
}

/// `woken`: how often, at most. The service, at position 0, needs no message for itself.
fn recipe(n: usize, at: usize, woken: usize) -> Cost {
    let asks = usize::from(at > 0);
    let woken = asks * woken.min(n - 1);
    let (once, wakes) = (Range::exactly(asks), Range::between(0, woken));
    let lists = Range::between(asks, asks + woken);
    let kinds = [
        ("create", once),
        ("created", once),
        ("list", lists),
        ("entries", lists),
        ("watch", wakes),
        ("watching", wakes),
        ("deleted", wakes),
        ("delete", once),
    ];
    Cost::sum(&kinds, Range::exactly(4 * asks), unless_alone(n, Range::between(1, 4)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_diameter_of_a_binary_tree_by_position() {
        let distance = |mut a: usize, mut b: usize| {
            let mut steps = 0;
            while a != b {
                if a > b {
                    a = (a - 1) / 2;
                } else {
                    b = (b - 1) / 2;
                }
                steps += 1;
            }
            steps
        };
        for n in 1..70 {
            let longest = (0..n).flat_map(|a| (0..n).map(move |b| distance(a, b))).max();
            assert_eq!(longest, Some(tree_diameter(n)), "{n}");
        }
    }
}
