//! Messages under way, in the order in which they were sent. A queue without messages is not kept: states that differ in
//! nothing else are one state.

use std::collections::{BTreeMap, VecDeque};

pub(crate) type Queues<K, T> = BTreeMap<K, VecDeque<T>>;

/// Takes one of a queue; `place` 0 is the oldest.
pub(crate) fn take<K: Ord, T>(queues: &mut Queues<K, T>, key: &K, place: usize) -> Option<T> {
    let queue = queues.get_mut(key)?;
    let item = queue.remove(place);
    if queue.is_empty() {
        queues.remove(key);
    }
    item
}
