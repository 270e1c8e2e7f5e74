//! What operators asked of the members.

use super::Ledgers;
use crate::ledger::LedgerKind;
use crate::order::Ordered;

/// One order, in the ledger of the member that carried it out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderEntry<'a> {
    pub member: u32,
    /// By the clock of that member.
    pub at_ms: u64,
    pub ordered: &'a Ordered,
}

/// All orders, oldest first.
pub fn orders(ledgers: &Ledgers) -> Vec<OrderEntry<'_>> {
    let mut all = Vec::new();
    for ledger in &ledgers.members {
        all.extend(ledger.entries.iter().filter_map(|entry| match &entry.kind {
            LedgerKind::Ordered(ordered) => Some(OrderEntry { member: ledger.id, at_ms: entry.wall_ms, ordered }),
            _ => None,
        }));
    }
    all.sort_by_key(|order| (order.at_ms, order.member));
    all
}

#[cfg(test)]
mod tests {
    use types::{Access, InstanceId};

    use super::super::testing::*;
    use super::*;
    use crate::order::{ClaimedName, Order};

    #[test]
    fn orders_of_all_ledgers_are_in_the_order_of_their_time_and_judge_no_reign() {
        const STEP_DOWN: Order = Order::StepDown { rest_ms: None };
        let order = |order| {
            let (address, name) = ("10.0.0.9:1".parse().unwrap(), ClaimedName::from("ada"));
            LedgerKind::Ordered(Ordered { order, instance: InstanceId(0), access: Access::Operator, address, name })
        };
        let one = ledger(1, [(100, started(None)), (300, order(STEP_DOWN))]);
        let two = ledger(2, [(100, started(None)), (200, order(Order::Elect)), (400, order(Order::Elect))]);
        let ledgers = cluster([one, two]);
        let found: Vec<_> = orders(&ledgers).iter().map(|o| (o.at_ms, o.member, o.ordered.order)).collect();
        assert_eq!(found, [(200, 2, Order::Elect), (300, 1, STEP_DOWN), (400, 2, Order::Elect)]);
        assert_eq!(super::super::reigns(&ledgers), []);
    }
}
