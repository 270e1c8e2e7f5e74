//! The id of the cluster, and how far one message may carry the epochs.

use crate::reigns::list;
use algorithms::Epoch;
use algorithms::drive::Effect;
use member::reign::{ClusterMark, Msg, NamingMsg, Reign, ReignCommand, ReignEvent, ReignTimer, VoterRecord};
use member::{Founding, OnClose, Settings};
use types::ClusterId;

use crate::bench::{Bench, Wanted, mesh};
use crate::reigns::{bid, bid_of, bids, fresh_vote, grant, holder, learner, settings, settled_at, started};

const LEAP: u64 = 1 << 20;

fn mark(id: u128, epoch: u64, agreed: bool) -> ClusterMark {
    ClusterMark { agreed, epoch: Epoch(epoch), id: ClusterId(id) }
}

/// Member 1 of three, whose voters agree on an id; has granted nothing.
fn named() -> Bench<Reign> {
    let (mut one, _) = started(Settings { names_cluster: true, ..settings(OnClose::WaitLease) }, Some(fresh_vote()));
    one.fire(ReignTimer::Settle);
    one
}

/// Leads in epoch 1 and asks for the id.
fn leading() -> Bench<Reign> {
    let mut one = named();
    let first = bids(&mut one);
    grant(&mut one, &[2], first);
    let asked = one.fire(ReignTimer::Renew);
    let ask = NamingMsg::Ask { holder: one.machine.holder(), epoch: Epoch(1) };
    assert_eq!(naming(&asked), [(2, ask), (3, ask)]);
    one
}

fn naming(wanted: &Wanted<Reign>) -> Vec<(u32, NamingMsg)> {
    let of = |(to, message)| if let Msg::Naming(message) = message { Some((to, message)) } else { None };
    wanted.sent().into_iter().filter_map(of).collect()
}

fn answer(mark: Option<ClusterMark>) -> Msg {
    Msg::Naming(NamingMsg::Answer { epoch: Epoch(1), mark })
}

fn propose(from: u32, epoch: u64, mark: ClusterMark) -> Msg {
    Msg::Naming(NamingMsg::Propose { holder: holder(from), epoch: Epoch(epoch), mark })
}

fn proposed(wanted: &Wanted<Reign>) -> Option<ClusterMark> {
    naming(wanted).into_iter().find_map(|(_, message)| match message {
        NamingMsg::Propose { mark, .. } => Some(mark),
        _ => None,
    })
}

#[test]
fn the_first_leader_makes_an_id_and_a_majority_on_disk_makes_it_the_clusters() {
    let mut one = leading();
    let wanted = one.get(2, answer(None));
    let mark = proposed(&wanted).expect("it proposes");
    assert_eq!((mark.epoch, mark.agreed, one.machine.cluster_id()), (Epoch(1), false, None));
    let at = |of: fn(&Effect<Reign>) -> bool| wanted.place(of).expect("it does that");
    let on_disk = at(|effect| matches!(effect, Effect::Persist(record) if record.cluster.is_some()));
    let sent = at(|effect| matches!(effect, Effect::Send { message: Msg::Naming(_), .. }));
    assert!(on_disk < sent, "{wanted:?}");
    assert!(naming(&one.get(2, Msg::Naming(NamingMsg::Accepted(ClusterMark { id: ClusterId(9), ..mark })))).is_empty());
    let wanted = one.get(2, Msg::Naming(NamingMsg::Accepted(mark)));
    assert_eq!(one.machine.cluster_id(), Some(mark.id));
    let agreed = ClusterMark { agreed: true, ..mark };
    assert_eq!(wanted.persisted()[0].cluster, Some(agreed));
    assert_eq!(naming(&wanted).len(), 2, "all are told");
    one.get(2, Msg::Naming(NamingMsg::Accepted(agreed)));
    one.get(3, Msg::Naming(NamingMsg::Accepted(agreed)));
    assert!(naming(&one.fire(ReignTimer::Renew)).is_empty(), "all know");
    one.up(3);
    assert_eq!(naming(&one.fire(ReignTimer::Renew)).len(), 1, "one was away");
}

#[test]
fn a_leader_proposes_what_the_latest_leader_before_it_proposed() {
    let mut one = leading();
    let wanted = one.get(3, answer(Some(mark(5, 0, false))));
    assert_eq!(proposed(&wanted), Some(mark(5, 1, false)));
    let mut one = leading();
    let wanted = one.get(3, answer(Some(mark(5, 0, true))));
    assert_eq!(proposed(&wanted), Some(mark(5, 1, true)), "agreed already");
    assert_eq!(one.machine.cluster_id(), Some(ClusterId(5)));
}

/// A voter that votes alone agrees with itself at once. Its id is told after the write: if it crashes before, the next
/// process makes another id.
#[test]
fn an_id_is_announced_when_it_is_on_the_disk() {
    let stored = VoterRecord { vote: Some(fresh_vote()), ..VoterRecord::default() };
    let settings = Settings { names_cluster: true, ..settings(OnClose::WaitLease) };
    let (mut one, _) = Bench::<Reign>::start(1, mesh(&[1]), settings, Some(stored));
    one.fire(ReignTimer::Settle);
    let mut wanted = one.tell(ReignCommand::Want);
    wanted.0.extend(one.fire(ReignTimer::Renew).0);
    let id = one.machine.cluster_id().expect("it agrees with itself");
    let agreed = |effect: &Effect<Reign>| matches!(effect, Effect::Persist(record) if record.cluster.is_some_and(|mark| mark.agreed));
    let on_disk = wanted.place(agreed).expect("it is written");
    let told = wanted.place(|effect| *effect == Effect::Announce(ReignEvent::Named(id))).expect("it is announced");
    assert!(on_disk < told, "{wanted:?}");
    assert!(wanted.announced().iter().filter(|event| matches!(event, ReignEvent::Named(_))).count() == 1, "{wanted:?}");
}

/// The planted bug of taking the id from any bid or proposal: two leaders of two epochs would leave two ids.
#[test]
fn an_id_is_taken_only_from_the_leader_that_was_granted_the_epoch() {
    let mut one = named();
    assert!(one.get(2, propose(2, 5, mark(7, 5, false))).is_nothing(), "nothing was granted");
    one.get(2, bid_of(2, 5, 1));
    assert!(one.get(3, propose(3, 5, mark(8, 5, false))).is_nothing(), "to another member");
    assert!(one.get(3, propose(2, 5, mark(8, 5, false))).is_nothing(), "in the name of another member");
    assert!(one.get(2, propose(2, 4, mark(8, 4, false))).is_nothing(), "an earlier epoch");
    assert_eq!(one.machine.record().cluster, None);
    let wanted = one.get(2, propose(2, 5, mark(7, 5, false)));
    assert_eq!(wanted.persisted()[0].cluster, Some(mark(7, 5, false)));
    assert_eq!(naming(&wanted), [(2, NamingMsg::Accepted(mark(7, 5, false)))]);
}

#[test]
fn an_agreed_id_is_never_replaced_and_a_voter_of_another_cluster_grants_nothing_more() {
    let mut one = named();
    one.get(2, bid_of(2, 5, 1));
    one.get(2, propose(2, 5, mark(7, 5, true)));
    assert_eq!(one.machine.cluster_id(), Some(ClusterId(7)));
    assert!(one.get(2, propose(2, 5, mark(8, 5, false))).is_nothing());
    assert!(!one.machine.is_foreign(), "no other id is agreed on yet");
    assert!(one.get(2, propose(2, 5, mark(8, 5, true))).is_nothing());
    assert_eq!(one.machine.cluster_id(), Some(ClusterId(7)));
    assert!(one.machine.is_foreign());
    let refused = one.get(2, bid_of(2, 5, 2)).sent();
    assert!(matches!(refused[..], [(2, Msg::Refuse { .. })]), "{refused:?}");
}

#[test]
fn a_voter_that_lost_its_disk_learns_the_id_with_the_epoch() {
    let (mut one, _) = started(Settings { names_cluster: true, ..settings(OnClose::WaitLease) }, None);
    one.fire(ReignTimer::Settle);
    let incarnation = one.machine.incarnation();
    let reply = |epoch, cluster| Msg::SurveyReply {
        incarnation,
        epoch: Some(Epoch(epoch)),
        cluster,
        list: list(),
        bootstrap: false,
    };
    one.get(2, reply(9, Some(mark(4, 8, false))));
    let wanted = one.get(3, reply(8, Some(mark(3, 2, true))));
    let record = &wanted.persisted()[0];
    assert_eq!((record.vote.as_ref().map(|vote| vote.epoch), record.cluster), (Some(Epoch(9)), Some(mark(3, 2, true))));
    assert!(wanted.announced().contains(&ReignEvent::Named(ClusterId(3))), "{wanted:?}");
}

/// The planted bug: a voter with a grant that accepts any leap.
#[test]
fn one_bid_carries_a_voter_one_leap_and_the_next_one_only_after_a_lease() {
    let mut one = settled_at(7);
    one.get(3, bid_of(3, 7 + LEAP + 1, 1));
    assert_eq!(one.machine.granted(), (Epoch(7 + LEAP), None), "a step towards it, and no grant");
    assert!(!acks(&one.get(3, bid_of(3, 7 + LEAP + 2 + 1024, 2))), "it has leapt just now");
    assert!(acks(&one.get(3, bid_of(3, 7 + LEAP + 1, 3))), "a step is no leap");
    one.fire(ReignTimer::Promise);
    one.fire(ReignTimer::Leap);
    assert!(acks(&one.get(2, bid_of(2, 7 + 2 * LEAP, 1))));
    assert!(!acks(&one.get(2, bid_of(2, Epoch::MAX.0 + 1, 2))));
    assert!(!acks(&one.get(2, bid_of(2, u64::MAX, 3))));
}

#[test]
fn a_voter_that_never_granted_anything_takes_any_epoch() {
    let mut one = named();
    assert!(acks(&one.get(2, bid_of(2, 1 << 34, 1))));
}

#[test]
fn a_new_cluster_begins_at_the_epoch_of_its_settings() {
    let first_epoch = Epoch(1_790_000_000);
    let (mut one, _) = started(
        Settings { founding: Founding { first_epoch, ..Founding::default() }, ..settings(OnClose::WaitLease) },
        Some(fresh_vote()),
    );
    one.fire(ReignTimer::Settle);
    assert_eq!(bids(&mut one).epoch, first_epoch);
    let mut old = settled_at(7);
    old.settings.founding.first_epoch = first_epoch;
    assert_eq!(bids(&mut old).epoch, Epoch(8), "not a new cluster");
}

/// A voter is ahead of its leader by a thousand million epochs: the leader gets there, one leap in the time of a lease.
#[test]
fn a_leader_reaches_a_voter_far_ahead_in_leaps() {
    let far = Epoch(1_000_000_000);
    let mut one = settled_at(7);
    let first = bids(&mut one);
    grant(&mut one, &[2], first);
    let mut leaps = 0;
    let mut renewed = bid(&one.fire(ReignTimer::Renew)).expect("it renews");
    while renewed.epoch < far {
        let before = renewed.epoch;
        one.get(3, Msg::Refuse { epoch: far, request: renewed.request, list: list() });
        grant(&mut one, &[2], renewed);
        renewed = bid(&one.fire(ReignTimer::Renew)).expect("it renews");
        assert!(renewed.epoch.0 <= before.0 + LEAP);
        leaps += u64::from(renewed.epoch > before);
        grant(&mut one, &[2], renewed);
        assert_eq!(one.machine.leads(), Some(renewed.epoch));
        // A second refusal within the lease changes nothing.
        renewed = bid(&one.fire(ReignTimer::Renew)).expect("it renews");
        one.get(3, Msg::Refuse { epoch: far, request: renewed.request, list: list() });
        let again = bid(&one.fire(ReignTimer::Renew)).expect("it renews");
        assert!(again.epoch.0 < renewed.epoch.0 + 2048, "{} after {}", again.epoch, renewed.epoch);
        one.fire(ReignTimer::Leap);
    }
    assert!((953..=954).contains(&leaps), "{leaps}");
    assert!(one.machine.leads().is_some());
}

fn acks(wanted: &Wanted<Reign>) -> bool {
    wanted.place(|effect| matches!(effect, Effect::Send { message: Msg::Ack { .. }, .. })).is_some()
}

#[test]
fn a_learner_takes_no_part_in_the_id() {
    let (mut one, _) = started(
        Settings { names_cluster: true, election: learner(1), ..settings(OnClose::WaitLease) },
        Some(fresh_vote()),
    );
    one.fire(ReignTimer::Settle);
    assert!(one.get(2, propose(2, 0, mark(7, 0, true))).is_nothing());
}
