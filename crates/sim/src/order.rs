//! The orders of the ids 1..n on a ring.

use std::str::FromStr;

use algorithms::Uid;
use types::names;

use crate::rng::Rng;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    #[default]
    Random,
    Increasing,
    Decreasing,
    /// Neighbours alternate between small and large at every scale: the most survivors per phase for algorithms that
    /// halve the number of candidates.
    BitReversal,
}

names!(Order { Random: "random", Increasing: "increasing", Decreasing: "decreasing", BitReversal: "bit-reversal" });

impl Order {
    /// The ids 1..=nodes in clockwise order; only `Random` uses the seed.
    pub fn ids(self, nodes: usize, seed: u64) -> Vec<Uid> {
        let nodes = u32::try_from(nodes).expect("ids are 32 bits wide");
        match self {
            Order::Random => {
                let mut ids: Vec<Uid> = (1..=nodes).map(Uid::plain).collect();
                Rng::new(seed).shuffle(&mut ids);
                ids
            }
            Order::Increasing => (1..=nodes).map(Uid::plain).collect(),
            Order::Decreasing => (1..=nodes).rev().map(Uid::plain).collect(),
            Order::BitReversal => bit_reversal(nodes),
        }
    }
}

/// For other sizes than powers of two: the order of the next larger power without the numbers that are too large.
fn bit_reversal(nodes: u32) -> Vec<Uid> {
    let bits = nodes.next_power_of_two().trailing_zeros();
    if bits == 0 {
        return (1..=nodes).map(Uid::plain).collect();
    }
    (0..1_u64 << bits)
        .map(|at| (at as u32).reverse_bits() >> (32 - bits))
        .filter(|&id| id < nodes)
        .map(|id| Uid::plain(id + 1))
        .collect()
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Order::ALL
            .into_iter()
            .find(|order| order.name() == text)
            .ok_or_else(|| format!("no order \"{text}\": one of random, increasing, decreasing, bit-reversal"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_is_a_permutation() {
        for order in Order::ALL {
            for nodes in [0, 1, 2, 3, 8, 13] {
                let mut ids = order.ids(nodes, 5);
                ids.sort_unstable();
                assert_eq!(ids, Order::Increasing.ids(nodes, 0), "{order} {nodes}");
            }
        }
    }

    #[test]
    fn bit_reversal_of_eight() {
        let ids: Vec<u32> = Order::BitReversal.ids(8, 0).iter().map(|uid| uid.id.0).collect();
        assert_eq!(ids, [1, 5, 3, 7, 2, 6, 4, 8]);
    }
}
