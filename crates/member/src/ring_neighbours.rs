//! The neighbours on a ring some of whose members are down: a dead successor is skipped.

use crate::positions::{FullPos, NodeSet};

/// The nearest members that are up, to the left and to the right; in a ring of two the same member twice.
pub(crate) fn nearest(
    n: usize,
    FullPos(me): FullPos,
    is_up: impl Fn(FullPos) -> bool,
) -> (Option<FullPos>, Option<FullPos>) {
    let right = (1..n).map(|hops| FullPos((me + hops) % n)).find(|&at| is_up(at));
    let left = (1..n).map(|hops| FullPos((me + n - hops) % n)).find(|&at| is_up(at));
    (left, right)
}

/// The members to keep a connection to, or to keep dialling: the next two to the right that are not known dead (the second is the
/// warm link for the death of the first) and the dead members before them.
pub(crate) fn to_link(n: usize, FullPos(me): FullPos, is_down: impl Fn(FullPos) -> bool) -> NodeSet {
    let mut links = NodeSet::default();
    let mut alive = 0;
    for at in (1..n).map(|hops| FullPos((me + hops) % n)) {
        links.insert(at);
        alive += usize::from(!is_down(at));
        if alive == 2 {
            break;
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_one_of(of: &[usize]) -> impl Fn(FullPos) -> bool + '_ {
        |FullPos(at)| of.contains(&at)
    }

    fn links(n: usize, me: usize, down: &[usize]) -> Vec<usize> {
        to_link(n, FullPos(me), is_one_of(down)).iter().map(|at| at.0).collect()
    }

    #[test]
    fn a_dead_neighbour_is_skipped_on_both_sides_and_around_the_end() {
        let of = |n, me, up: &[usize]| {
            let (left, right) = nearest(n, FullPos(me), is_one_of(up));
            (left.map(|at| at.0), right.map(|at| at.0))
        };
        assert_eq!(of(5, 4, &[0, 1, 2, 3, 4]), (Some(3), Some(0)));
        assert_eq!(of(5, 4, &[1, 2, 4]), (Some(2), Some(1)), "3 and 0 are dead");
        assert_eq!(of(2, 0, &[0, 1]), (Some(1), Some(1)));
        assert_eq!(of(5, 4, &[4]), (None, None), "nobody is its own neighbour");
        assert_eq!(of(1, 0, &[0]), (None, None));
    }

    #[test]
    fn two_living_successors_and_the_dead_before_them_are_linked() {
        assert_eq!(links(6, 4, &[]), [0, 5]);
        assert_eq!(links(6, 4, &[5]), [0, 1, 5], "5 is dialled on: it may come back");
        assert_eq!(links(6, 4, &[0, 5, 1, 2, 3]), [0, 1, 2, 3, 5]);
        assert_eq!((links(2, 0, &[]), links(1, 0, &[])), (vec![1], vec![]));
    }
}
