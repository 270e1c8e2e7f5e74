//! The three rules of the driver, each alone.

use std::time::Duration;

use super::*;
use crate::protocol::{Kind, Message, Outbox};
use crate::settings::Settings;
use crate::view::View;
use types::{NodeId, Uid};

/// Produces the effects that its input lists.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Puppet;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Order {
    Set(char, u64),
    Cancel(char),
    Persist(u8),
    Store(u8),
    Say(u8),
    PassOn,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
struct Word;

impl Message for Word {
    const KINDS: &'static [Kind] = &[Kind::election("word")];
    fn kind(&self) -> usize {
        0
    }
}

impl Protocol for Puppet {
    type Link = NodeId;
    type Message = Word;
    type Timer = char;
    type Command = Vec<Order>;
    type Event = u8;
    type Durable = u8;
    type Settings = Settings;

    fn start(_: &Ctx<'_>, stored: Option<u8>, out: &mut impl Outbox<Self>) -> Self {
        out.persist(stored.unwrap_or(0));
        out.announce(100);
        Puppet
    }

    fn step(&mut self, _: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        let orders = match input {
            Input::Command(orders) => orders,
            Input::Timer(timer) => vec![Order::Say(timer as u8)],
            Input::Message { .. } => vec![Order::PassOn],
            _ => Vec::new(),
        };
        for order in orders {
            match order {
                Order::Set(timer, after) => out.set_timer(timer, Span::exactly(Duration::from_nanos(after))),
                Order::Cancel(timer) => out.cancel_timer(timer),
                Order::Persist(record) => out.persist(record),
                Order::Store(record) => out.store(record),
                Order::Say(event) => out.announce(event),
                Order::PassOn => out.forward(NodeId(2), Word),
            }
        }
    }

    fn lasts_until(event: &u8) -> Option<char> {
        (*event == b'L').then_some('L')
    }
}

struct Bench {
    view: View,
    settings: Settings,
    driver: Driver<Puppet, u64>,
    now: u64,
}

impl Bench {
    fn new() -> Self {
        let (view, settings) = (View::mesh(vec![Uid::plain(1), Uid::plain(2)]), Settings::default());
        let ctx = Ctx { me: Uid::plain(1), view: &view, settings: &settings, dice: 0 };
        let driver = Driver::start(&ctx, Some(7));
        let mut bench = Bench { view, settings, driver, now: 0 };
        assert_eq!(bench.take(), [Effect::Persist(7)]);
        bench.driver.written();
        assert_eq!(bench.take(), [Effect::Announce(100)]);
        bench
    }

    fn input(&mut self, input: Input<Puppet>) {
        let ctx = Ctx { me: Uid::plain(1), view: &self.view, settings: &self.settings, dice: 0 };
        self.driver.step(&ctx, input);
    }

    fn tell(&mut self, orders: &[Order]) -> Vec<Effect<Puppet>> {
        self.input(Input::Command(orders.to_vec()));
        self.take()
    }

    fn take(&mut self) -> Vec<Effect<Puppet>> {
        let now = self.now;
        std::iter::from_fn(|| self.driver.next_effect(|_, after| now + after.min.as_nanos() as u64)).collect()
    }

    /// The timers that fire until then, in order.
    fn until(&mut self, now: u64) -> String {
        self.now = now;
        std::iter::from_fn(|| self.driver.pop_due(now)).collect()
    }
}

#[test]
fn nothing_happens_behind_a_barrier_and_all_of_it_in_order_afterwards() {
    let mut bench = Bench::new();
    assert_eq!(
        bench.tell(&[Order::Say(1), Order::Persist(9), Order::Say(2)]),
        [Effect::Announce(1), Effect::Persist(9)]
    );
    assert!(bench.driver.is_blocked() && bench.driver.owes_effects());
    assert_eq!(bench.tell(&[Order::Store(8), Order::Persist(10), Order::Say(3)]), []);
    bench.driver.written();
    assert_eq!(bench.take(), [Effect::Announce(2), Effect::Store(8), Effect::Persist(10)]);
    bench.driver.written();
    assert_eq!(bench.take(), [Effect::Announce(3)]);
    assert!(!bench.driver.owes_effects());
}

#[test]
#[should_panic(expected = "barrier")]
fn a_write_nobody_waits_for_is_no_barrier() {
    Bench::new().driver.written();
}

#[test]
fn due_timers_fire_by_their_moments_whatever_the_order_they_were_set_in() {
    let mut bench = Bench::new();
    bench.tell(&[Order::Set('c', 30), Order::Set('a', 20), Order::Set('b', 10), Order::Set('d', 20)]);
    assert_eq!(bench.driver.next_due(), Some(10));
    assert_eq!(bench.until(25), "bad");
    assert_eq!(bench.until(29), "");
    assert_eq!(bench.until(30), "c");
}

#[test]
fn a_timer_set_anew_or_cancelled_behind_a_barrier_never_fires_for_its_old_setting() {
    let mut bench = Bench::new();
    bench.tell(&[Order::Set('a', 10), Order::Set('b', 10), Order::Set('c', 10)]);
    bench.tell(&[Order::Persist(1), Order::Set('a', 50), Order::Cancel('b')]);
    assert_eq!(bench.until(20), "c");
    bench.driver.written();
    bench.take();
    assert_eq!(bench.until(69), "");
    assert_eq!(bench.until(70), "a");
}

#[test]
fn a_setting_that_waits_and_is_then_replaced_or_cancelled_does_not_come_back() {
    let mut bench = Bench::new();
    bench.tell(&[Order::Persist(1), Order::Set('a', 10), Order::Set('b', 10)]);
    bench.tell(&[Order::Cancel('a'), Order::Set('b', 40)]);
    bench.driver.written();
    bench.take();
    assert_eq!(bench.until(39), "");
    assert_eq!(bench.until(40), "b");
}

#[test]
fn an_event_is_handed_out_with_the_deadline_of_the_timer_it_names() {
    let mut bench = Bench::new();
    bench.now = 5;
    bench.tell(&[Order::Set('L', 30)]);
    assert_eq!(bench.driver.deadline_of(&b'L'), Some(35));
    assert_eq!(bench.driver.deadline_of(&b'x'), None);
}

#[test]
fn a_message_that_is_passed_on_counts_its_hops() {
    let mut effects = Effects::<Puppet>::default();
    effects.received(6);
    effects.forward(NodeId(2), Word);
    effects.send(NodeId(2), Word);
    let hops: Vec<u16> =
        effects.iter().map(|effect| if let Effect::Send { hops, .. } = effect { *hops } else { 99 }).collect();
    assert_eq!(hops, [7, 0]);
}
