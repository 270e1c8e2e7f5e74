//! One reign, fed by hand: what a model of honest members does not show, or only after many steps.

use std::time::Duration;

use algorithms::{
    Ctx, Epoch, Incarnation, Input, NodeId, OnClose, Outbox, Protocol, Safety, Settings, Span, Uid, View,
};
use member::reign::{Clock, Fact, Holder, Msg, Order, Reign, Released, Tenure, Vote};

/// The effects so far.
#[derive(Default)]
struct Desk {
    sent: Vec<(NodeId, Msg)>,
    timers: Vec<Clock>,
    facts: Vec<Fact>,
}

impl Outbox<Reign> for Desk {
    fn send(&mut self, to: NodeId, message: Msg) {
        self.sent.push((to, message));
    }
    fn forward(&mut self, to: NodeId, message: Msg) {
        self.send(to, message);
    }
    fn set_timer(&mut self, timer: Clock, _: Span) {
        self.cancel_timer(timer);
        self.timers.push(timer);
    }
    fn cancel_timer(&mut self, timer: Clock) {
        self.timers.retain(|&known| known != timer);
    }
    fn persist(&mut self, _: Tenure) {}
    fn store(&mut self, _: Tenure) {}
    fn announce(&mut self, fact: Fact) {
        self.facts.push(fact);
    }
}

/// Member 1 of three voters.
struct One {
    reign: Reign,
    desk: Desk,
    view: View,
    settings: Settings,
}

impl One {
    /// Settled, with nothing granted; or `blank`, and about to ask what was.
    fn new(on_close: OnClose, blank: bool) -> Self {
        let view = View::mesh([1, 2, 3].map(Uid::plain).to_vec());
        let settings = Settings { safety: Safety::Quorum, on_close, preempt: false, ..Settings::default() };
        let vote = Vote { epoch: Epoch(0), holder: None, longest_lease: Duration::from_millis(500) };
        let stored = Tenure { life: Incarnation { counter: 1, nonce: 1 }, vote: (!blank).then_some(vote) };
        let mut desk = Desk::default();
        let ctx = Ctx { me: Uid::plain(1), view: &view, settings: &settings, dice: 7 };
        let reign = Reign::start(&ctx, Some(stored), &mut desk);
        let mut one = One { reign, desk, view, settings };
        one.fires(Clock::Settle);
        one
    }

    fn step(&mut self, input: Input<Reign>) {
        let ctx = Ctx { me: Uid::plain(1), view: &self.view, settings: &self.settings, dice: 7 };
        self.reign.step(&ctx, input, &mut self.desk);
    }

    fn fires(&mut self, clock: Clock) {
        self.desk.cancel_timer(clock);
        self.step(Input::Timer(clock));
    }

    fn hears(&mut self, from: u32, message: Msg) {
        self.step(Input::Message { from: NodeId(from), message });
    }

    fn told(&mut self, order: Order) {
        self.step(Input::Command(order));
    }

    /// Its question is answered with yes by member 2; gives the bid that follows, if one does.
    fn asks(&mut self) -> Option<(Epoch, u64, bool)> {
        let asked = |message: &Msg| if let Msg::PreAsk { k, .. } = message { Some(*k) } else { None };
        let k = self.last(asked).expect("it asks");
        self.hears(2, Msg::PreOk { k });
        self.bid()
    }

    fn bid(&mut self) -> Option<(Epoch, u64, bool)> {
        let bid = self.last(|message| match message {
            Msg::Bid { epoch, k, bare, .. } => Some((*epoch, *k, *bare)),
            _ => None,
        });
        self.desk.sent.clear();
        bid
    }

    fn last<T>(&self, find: impl Fn(&Msg) -> Option<T>) -> Option<T> {
        self.desk.sent.iter().rev().find_map(|(_, message)| find(message))
    }

    fn granted_by(&mut self, voters: &[u32], epoch: Epoch, k: u64) {
        let life = self.reign.holder().life;
        for &voter in voters {
            self.hears(voter, Msg::Ack { epoch, k, life });
        }
    }

    fn leads(&mut self) {
        self.told(Order::Want);
        let (epoch, k, _) = self.asks().expect("it bids");
        self.granted_by(&[2, 3], epoch, k);
        assert_eq!(self.reign.leads(), Some(epoch));
    }

    /// Leads with a child, and all voters know.
    fn leads_with_a_child(&mut self) {
        self.leads();
        self.told(Order::Attached(true));
        let (epoch, k, bare) = self.bid().expect("they are told");
        assert!(!bare);
        self.granted_by(&[2, 3], epoch, k);
        self.desk.sent.clear();
    }

    fn releases(&self) -> bool {
        self.last(|message| matches!(message, Msg::Release(_) | Msg::Handover(_)).then_some(())).is_some()
    }
}

fn holder(id: u32) -> Holder {
    Holder { id: NodeId(id), life: Incarnation { counter: 1, nonce: 9 } }
}

#[test]
fn no_message_carries_a_member_to_epochs_where_nobody_follows() {
    for far in [1 << 41, 1 << 50, u64::MAX - 1, u64::MAX] {
        let mut one = One::new(OnClose::WaitLease, false);
        one.hears(2, Msg::Handover(Released { holder: holder(2), epoch: Epoch(far) }));
        one.hears(2, Msg::PreNo { epoch: Epoch(far) });
        one.leads();
        one.hears(2, Msg::Refuse { epoch: Epoch(far), k: 1 });
        one.fires(Clock::Renew);
        assert_eq!(one.bid().map(|(epoch, ..)| epoch), Some(Epoch(1)), "after {far}");
    }
}

#[test]
fn whoever_lost_its_disk_believes_no_epoch_that_tokens_have_no_room_for() {
    let mut one = One::new(OnClose::WaitLease, true);
    let life = one.reign.holder().life;
    one.hears(2, Msg::ReadR { life, epoch: Some(Epoch(u64::MAX)) });
    one.hears(3, Msg::ReadR { life, epoch: Some(Epoch(3)) });
    assert!(!one.reign.is_settled(), "one of the two has not answered yet");
    one.hears(2, Msg::ReadR { life, epoch: Some(Epoch(5)) });
    assert_eq!(one.reign.granted().0, Epoch(5));
}

#[test]
fn the_largest_epoch_that_is_believed_can_still_be_bid_for_and_granted() {
    let mut one = One::new(OnClose::WaitLease, false);
    one.told(Order::Want);
    one.hears(3, Msg::PreNo { epoch: Epoch((1 << 40) - 1) });
    let (epoch, k, bare) = one.asks().expect("it bids");
    let mut voter = One::new(OnClose::WaitLease, false);
    voter.hears(2, Msg::Bid { epoch, k, holder: holder(2), after: None, bare });
    assert_eq!(voter.reign.granted(), (Epoch(1 << 40), Some(holder(2))));
}

#[test]
fn whoever_gave_up_a_bid_and_led_since_asks_again() {
    let mut one = One::new(OnClose::WaitLease, false);
    one.told(Order::Want);
    let (_, k, _) = one.asks().expect("it bids");
    for voter in [2, 3] {
        one.hears(voter, Msg::Refuse { epoch: Epoch(0), k });
    }
    // Member 3 wins instead, and hands over before it has rested.
    one.hears(3, Msg::Bid { epoch: Epoch(2), k: 5, holder: holder(3), after: None, bare: true });
    one.hears(3, Msg::Offer { epoch: Epoch(2) });
    one.asks();
    one.hears(3, Msg::Handover(Released { holder: holder(3), epoch: Epoch(2) }));
    let (epoch, k, _) = one.bid().expect("it follows");
    one.granted_by(&[2], epoch, k);
    let until = one.desk.facts.iter().rev().find_map(|fact| match *fact {
        Fact::Leading { until, .. } => Some(until),
        _ => None,
    });
    one.fires(Clock::Lease(until.expect("it leads")));
    one.fires(Clock::Promise);
    one.desk.sent.clear();
    one.told(Order::Want);
    assert!(!one.desk.sent.is_empty() || one.desk.timers.contains(&Clock::Retry), "it wants, and never asks");
}

#[test]
fn an_offer_is_repeated_for_a_while_and_then_forgotten() {
    let mut one = One::new(OnClose::WaitLease, false);
    one.leads();
    one.told(Order::Transfer(NodeId(3)));
    let mut renewals = 0;
    while one.last(|message| matches!(message, Msg::Offer { .. }).then_some(())).is_some() {
        renewals += 1;
        assert!(renewals < 100, "it waits for ever");
        one.desk.sent.clear();
        one.fires(Clock::Renew);
        let (epoch, k, _) = one
            .last(|message| match message {
                Msg::Bid { epoch, k, bare, .. } => Some((*epoch, *k, *bare)),
                _ => None,
            })
            .expect("it renews");
        one.granted_by(&[2, 3], epoch, k);
    }
    assert!(renewals > 2, "{renewals}");
    one.hears(3, Msg::Ready { epoch: Epoch(1) });
    assert!(!one.releases() && one.reign.leads().is_some(), "nobody waits for that any more");
}

#[test]
fn no_voter_is_released_while_a_child_acts() {
    let mut one = One::new(OnClose::Immediate, false);
    one.leads_with_a_child();
    one.step(Input::PeerDown(NodeId(2)));
    one.step(Input::PeerUp(NodeId(2)));
    one.step(Input::PeerDown(NodeId(3)));
    assert!(!one.releases() && one.reign.leads().is_some());
    one.told(Order::StepDown);
    assert!(!one.releases() && one.reign.leads().is_some());
    assert_eq!(one.desk.facts.last(), Some(&Fact::StopChildren));
    one.told(Order::Attached(false));
    one.told(Order::StepDown);
    assert!(one.releases() && one.reign.leads().is_none());
}

/// The voters of the lease in hand know of the child; those who have heard since that it has ended are free when their
/// connection closes.
#[test]
fn a_voter_that_heard_of_the_end_of_the_child_does_not_count_when_its_connection_closes() {
    let mut one = One::new(OnClose::Immediate, false);
    one.leads_with_a_child();
    one.told(Order::Attached(false));
    one.fires(Clock::Renew);
    assert!(one.bid().is_some_and(|(.., bare)| bare));
    one.step(Input::PeerDown(NodeId(2)));
    assert!(one.reign.leads().is_some(), "two are left");
    one.step(Input::PeerDown(NodeId(3)));
    assert!(one.reign.leads().is_none());
}

#[test]
fn a_child_that_comes_while_votes_are_counted_is_known_to_whoever_grants() {
    let mut one = One::new(OnClose::Immediate, false);
    one.told(Order::Want);
    let (epoch, k, bare) = one.asks().expect("it bids");
    assert!(bare);
    one.told(Order::Attached(true));
    one.granted_by(&[2, 3], epoch, k);
    assert_eq!(one.reign.leads(), None, "they were told that it has none");
    let (epoch, k, bare) = one.bid().expect("it bids again");
    assert!(!bare);
    one.granted_by(&[2], epoch, k);
    assert!(matches!(one.desk.facts.last(), Some(Fact::Leading { bare: false, .. })), "{:?}", one.desk.facts);
}

/// One voter has given this epoch to itself, another is away: only a later epoch finds a majority in time.
#[test]
fn a_renewal_that_a_voter_has_refused_gives_way_to_a_later_epoch() {
    let mut one = One::new(OnClose::WaitLease, false);
    one.leads();
    one.fires(Clock::Renew);
    let (epoch, k, _) = one.bid().expect("it renews");
    one.hears(2, Msg::Refuse { epoch, k });
    one.fires(Clock::Renew);
    let (later, k, _) = one.bid().expect("it bids again");
    assert!(later > epoch && one.reign.leads() == Some(epoch));
    one.granted_by(&[2], later, k);
    assert_eq!(one.reign.leads(), Some(later));
}
