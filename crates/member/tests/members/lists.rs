//! Lists of members: a change is a renewal that carries another list.

use std::sync::Arc;

use algorithms::drive::Effect;
use algorithms::{Epoch, NodeId, Uid, View};
use member::reign::{LockPast, LossCause, Msg, Reign, ReignCommand, ReignEvent, ReignTimer, Vote, VoterRecord};
use member::{Bootstrap, Founding, Incarnation, ListEvent, OnClose, Settings};
use types::{Change, ChangeRefusal, Listed, MemberList, PeerRole, Stamp};

use crate::bench::{Bench, Wanted, mesh};
use crate::reigns::{LEASE, bid, bids, grant, holder, leading, list, list_of, request_of_probe, settings, settled};

type One = Bench<Reign>;

fn stamp(epoch: u64, n: u32) -> Stamp {
    Stamp::new(Epoch(epoch), n)
}

fn listed(id: u32, role: PeerRole) -> Listed {
    Listed { uid: Uid::plain(id), role, address: String::new() }
}

fn add(id: u32) -> ReignCommand {
    ReignCommand::Change(Change::List(listed(id, PeerRole::Member)))
}

fn remove(id: u32) -> ReignCommand {
    ReignCommand::Change(Change::Unlist(NodeId(id)))
}

fn events(wanted: &Wanted<Reign>) -> Vec<ListEvent> {
    let announced = wanted.announced().into_iter();
    announced.filter_map(|event| if let ReignEvent::List(event) = event { Some(event) } else { None }).collect()
}

fn refusal(wanted: &Wanted<Reign>) -> Option<ChangeRefusal> {
    events(wanted).into_iter().find_map(|event| if let ListEvent::Refused(why) = event { Some(why) } else { None })
}

/// The list of the bids that were sent, and to which members.
fn sent_list(wanted: &Wanted<Reign>) -> Option<(Arc<MemberList>, Vec<u32>)> {
    let bids: Vec<_> = wanted.sent().into_iter().filter(|(_, message)| matches!(message, Msg::Bid { .. })).collect();
    let to = bids.iter().map(|&(to, _)| to).collect();
    bids.into_iter()
        .find_map(|(_, message)| if let Msg::Bid { list, .. } = message { Some(list) } else { None })
        .map(|list| (list, to))
}

/// Member 1 of three voters; 4 is in the view and in no list.
fn four() -> One {
    let settings = Settings { list: list(), ..settings(OnClose::WaitLease) };
    let vote = Vote { epoch: Epoch(0), holder: None, longest_lease: LEASE, list: list(), locks: LockPast::default() };
    let stored = VoterRecord { incarnation: Incarnation { counter: 1, nonce: 1 }, vote: Some(vote), cluster: None };
    let (mut one, _) = Bench::start(1, mesh(&[1, 2, 3, 4]), settings, Some(stored));
    one.fire(ReignTimer::Settle);
    one
}

/// Leads epoch 1, the list has its stamp, and 4 has reported that it knows what was granted.
fn affirmed() -> One {
    let mut one = four();
    let request = request_of_probe(&one.tell(ReignCommand::Want)).expect("it asks");
    let won = bid(&one.get(2, Msg::ProbeOk { request })).expect("it bids");
    grant(&mut one, &[2, 3], won);
    one.get(4, Msg::List { list: list(), blank: false, in_force: false });
    let wanted = one.tell(add(4));
    assert_eq!(refusal(&wanted), Some(ChangeRefusal::NotAffirmed), "first the list gets the stamp of this reign");
    assert_eq!(sent_list(&wanted), Some((list_of(stamp(1, 0), &[1, 2, 3]), vec![2, 3])));
    let affirm = bid(&wanted).expect("it bids");
    let said = grant(&mut one, &[2], affirm);
    assert!(said.contains(&ReignEvent::List(ListEvent::InForce(list_of(stamp(1, 0), &[1, 2, 3])))), "{said:?}");
    grant(&mut one, &[3], affirm);
    one
}

#[test]
fn a_change_is_on_the_own_disk_first_and_in_force_by_a_majority_of_its_own_voters() {
    let mut one = affirmed();
    let wanted = one.tell(add(4));
    let next = list_of(stamp(1, 1), &[1, 2, 3, 4]);
    assert_eq!(sent_list(&wanted), Some((Arc::clone(&next), vec![2, 3, 4])));
    let persisted = wanted.place(|effect| matches!(effect, Effect::Persist(_)));
    let sent = wanted.place(|effect| matches!(effect, Effect::Send { .. }));
    assert!(persisted.is_some() && persisted < sent);
    assert_eq!(wanted.persisted()[0].vote.as_ref().map(|vote| Arc::clone(&vote.list)), Some(Arc::clone(&next)));
    assert_eq!(wanted.set(ReignTimer::Change).map(|span| span.min), Some(4 * LEASE));
    let change = bid(&wanted).expect("it bids");
    let lease = grant(&mut one, &[2], change);
    assert!(
        matches!(lease[..], [ReignEvent::Extended { .. }]),
        "two of the three in force extend the lease: {lease:?}"
    );
    assert_eq!(refusal(&one.tell(remove(3))), Some(ChangeRefusal::Pending(stamp(1, 1))));
    let said = grant(&mut one, &[4], change);
    assert!(said.contains(&ReignEvent::List(ListEvent::InForce(next))), "three of the four: {said:?}");
}

#[test]
fn an_answer_to_an_earlier_request_and_of_a_member_that_is_no_voter_puts_nothing_in_force() {
    let mut one = affirmed();
    let old = bid(&one.fire(ReignTimer::Renew)).expect("it renews");
    let change = bid(&one.tell(remove(3))).expect("it bids");
    assert!(grant(&mut one, &[2, 3], old).is_empty(), "of the request before");
    assert!(grant(&mut one, &[3, 4], change).is_empty(), "3 is no voter of the list, nor is 4");
    assert_eq!(one.machine.proposal().map(|(force, _)| force.stamp), Some(stamp(1, 0)));
    assert!(!grant(&mut one, &[2], change).is_empty());
    assert_eq!(one.machine.proposal().map(|(force, _)| force.stamp), Some(stamp(1, 1)));
}

#[test]
fn a_list_that_takes_too_long_or_is_given_up_is_replaced_by_the_one_in_force() {
    for order in [None, Some(ReignCommand::Change(Change::Abort))] {
        let mut one = affirmed();
        one.tell(add(4));
        let wanted = match order.clone() {
            None => one.fire(ReignTimer::Change),
            Some(order) => one.tell(order),
        };
        let back = list_of(stamp(1, 2), &[1, 2, 3]);
        assert_eq!(sent_list(&wanted).map(|(list, _)| list), Some(back));
        assert_eq!(
            refusal(&one.tell(add(4))),
            Some(ChangeRefusal::NotAffirmed),
            "one of the two must be in force first"
        );
        let bid = bid(&one.fire(ReignTimer::Renew)).expect("it is sent again");
        grant(&mut one, &[3], bid);
        assert_eq!(sent_list(&one.tell(add(4))).map(|(list, _)| list.stamp), Some(stamp(1, 3)), "{order:?}");
    }
    let mut one = affirmed();
    assert_eq!(refusal(&one.tell(ReignCommand::Change(Change::Abort))), Some(ChangeRefusal::NothingPending));
}

#[test]
fn a_change_that_nobody_could_lead_under_is_not_proposed() {
    let refused = |order: ReignCommand| refusal(&affirmed().tell(order));
    assert_eq!(refused(add(5)), Some(ChangeRefusal::NotReady(NodeId(5))));
    assert_eq!(refused(remove(1)), Some(ChangeRefusal::Leader(NodeId(1))));
    assert_eq!(refused(remove(7)), Some(ChangeRefusal::Unlisted(NodeId(7))));
    let witness = ReignCommand::Change(Change::List(listed(1, PeerRole::Witness)));
    assert_eq!(refused(witness), Some(ChangeRefusal::Leader(NodeId(1))));
    assert_eq!(refusal(&settled(OnClose::WaitLease).tell(remove(3))), Some(ChangeRefusal::NotLeading));
    let mut blank = affirmed();
    blank.get(4, Msg::List { list: list(), blank: true, in_force: false });
    assert_eq!(refusal(&blank.tell(add(4))), Some(ChangeRefusal::NotReady(NodeId(4))));
    let mut two = affirmed();
    let change = bid(&two.tell(remove(3))).expect("it bids");
    grant(&mut two, &[2], change);
    assert_eq!(refusal(&two.tell(remove(2))), Some(ChangeRefusal::TooFew));
    let already = events(&affirmed().tell(add(2)));
    assert_eq!(already, [ListEvent::Proposed(list_of(stamp(1, 0), &[1, 2, 3]))], "it is so already");
}

#[test]
fn a_voter_takes_over_a_newer_list_with_the_grant_and_grants_nothing_under_an_older_one() {
    let mut one = four();
    let newer = list_of(stamp(3, 1), &[1, 2]);
    let bid = |list: &Arc<MemberList>, epoch, request| {
        let (epoch, list) = (Epoch(epoch), Arc::clone(list));
        Msg::Bid { epoch, request, holder: holder(2), after: None, no_child: true, list }
    };
    let wanted = one.get(2, bid(&newer, 4, 1));
    let vote = wanted.persisted()[0].vote.clone().expect("it votes");
    assert_eq!((vote.epoch, &vote.list), (Epoch(4), &newer), "one record, one write");
    assert!(events(&wanted).contains(&ListEvent::Adopted(Arc::clone(&newer))));
    let older = one.get(2, bid(&list(), 5, 2)).sent();
    assert_eq!(older, [(2, Msg::Refuse { epoch: Epoch(4), request: 2, list: Arc::clone(&newer) })]);
    let probe = Msg::Probe { request: 3, holder: holder(3), after: None, list: list() };
    assert_eq!(one.get(3, probe).sent(), [(3, Msg::ProbeDenied { epoch: Epoch(4), list: Arc::clone(&newer) })]);
    assert!(one.get(2, bid(&list_of(stamp(3, 2), &[2, 3]), 5, 4)).sent().is_empty(), "it is no voter of that list");
    assert!(one.get(2, bid(&list_of(stamp(3, 1), &[1, 3]), 5, 5)).is_nothing(), "there is one list with this stamp");
    assert!(one.get(2, bid(&list_of(stamp(9, 0), &[1, 2]), 5, 6)).is_nothing(), "no leader of 5 made it");
}

#[test]
fn a_candidate_that_hears_of_a_newer_list_starts_over_under_it_and_above_its_epoch() {
    let mut one = settled(OnClose::WaitLease);
    let first = bids(&mut one);
    one.tell(ReignCommand::Want);
    let newer = list_of(stamp(3, 1), &[1, 2]);
    let refuse = Msg::Refuse { epoch: Epoch(0), request: first.request, list: Arc::clone(&newer) };
    let wanted = one.get(2, refuse);
    assert_eq!(events(&wanted), [ListEvent::Known(Arc::clone(&newer))]);
    assert!(grant(&mut one, &[2, 3], first).is_empty(), "its bid is void");
    let asked = one.fire(ReignTimer::Retry);
    let probe = request_of_probe(&asked).expect("it asks again");
    assert_eq!(asked.sent().len(), 1, "the voters of that list only");
    let again = one.get(2, Msg::ProbeOk { request: probe });
    assert_eq!(sent_list(&again).map(|(list, _)| list), Some(newer), "under the stamp that it found");
    assert!(bid(&again).is_some_and(|bid| bid.epoch == Epoch(4)));
}

#[test]
fn a_leader_that_hears_of_a_newer_list_stamps_its_own_above_it() {
    let vote = Vote { epoch: Epoch(6), holder: None, longest_lease: LEASE, list: list(), locks: LockPast::default() };
    let (mut one, _) = crate::reigns::started(settings(OnClose::WaitLease), Some(vote));
    one.fire(ReignTimer::Settle);
    let won = bids(&mut one);
    grant(&mut one, &[2], won);
    let renewal = bid(&one.fire(ReignTimer::Renew)).expect("it renews");
    let refuse = Msg::Refuse { epoch: Epoch(5), request: renewal.request, list: list_of(stamp(5, 1), &[1, 3]) };
    let wanted = one.get(3, refuse);
    assert_eq!(sent_list(&wanted), Some((list_of(stamp(7, 0), &[1, 2, 3]), vec![2, 3])));
}

#[test]
fn a_removed_member_adopts_the_list_in_force_and_votes_no_more() {
    let mut leader = affirmed();
    let change = bid(&leader.tell(remove(3))).expect("it bids");
    let (epoch, request, incarnation) = (change.epoch, change.request, leader.machine.incarnation());
    let wanted = leader.get(2, Msg::Ack { epoch, request, incarnation, locks: LockPast::default() });
    let without = list_of(stamp(1, 1), &[1, 2]);
    let told = Msg::List { list: Arc::clone(&without), blank: false, in_force: true };
    assert!(wanted.sent().contains(&(3, told.clone())), "{wanted:?}");

    let without_me = list_of(stamp(1, 1), &[2, 3]);
    let report = |in_force| Msg::List { list: Arc::clone(&without_me), blank: false, in_force };
    let mut removed = settled(OnClose::WaitLease);
    assert_eq!(
        events(&removed.get(2, report(false))),
        [ListEvent::Known(Arc::clone(&without_me))],
        "perhaps not in force"
    );
    let wanted = removed.get(2, report(true));
    assert_eq!(wanted.persisted()[0].vote.as_ref().map(|vote| &vote.list), Some(&without_me));
    assert_eq!(events(&wanted), [ListEvent::Adopted(Arc::clone(&without_me)), ListEvent::Removed(stamp(1, 1))]);
    assert!(removed.tell(ReignCommand::Want).is_nothing(), "nor does it stand");
}

/// It waited outside the list, and hears of the list with itself from a follower before the leader's report of the list in force.
#[test]
fn a_member_that_is_being_added_is_not_removed_by_the_list_before() {
    let mut one = settled(OnClose::WaitLease);
    let (without_me, with_me) = (list_of(stamp(1, 1), &[2, 3]), list_of(stamp(1, 2), &[1, 2, 3]));
    let report = |list: &Arc<MemberList>, in_force| Msg::List { list: Arc::clone(list), blank: false, in_force };
    one.get(2, report(&without_me, false));
    assert_eq!(events(&one.get(3, report(&with_me, false))), [ListEvent::Known(Arc::clone(&with_me))]);
    assert_eq!(events(&one.get(2, report(&without_me, true))), [ListEvent::Adopted(Arc::clone(&without_me))]);
    // That proposal came to nothing.
    let again = list_of(stamp(1, 3), &[2, 3]);
    let removed = ListEvent::Removed(stamp(1, 3));
    assert_eq!(
        events(&one.get(2, report(&again, true))),
        [ListEvent::Known(Arc::clone(&again)), ListEvent::Adopted(again), removed]
    );
}

#[test]
fn a_member_that_votes_no_more_reports_to_the_leader_and_may_be_made_a_voter_again_over_the_same_connection() {
    let mut leader = affirmed();
    let without = bid(&leader.tell(remove(3))).expect("it bids");
    grant(&mut leader, &[2], without);
    assert_eq!(refusal(&leader.tell(add(3))), Some(ChangeRefusal::NotReady(NodeId(3))), "it answers no bids");
    leader.get(3, Msg::List { list: list_of(stamp(1, 1), &[1, 2]), blank: false, in_force: false });
    assert_eq!(sent_list(&leader.tell(add(3))), Some((list_of(stamp(1, 2), &[1, 2, 3]), vec![2, 3])));

    let mut demoted = settled(OnClose::WaitLease);
    let learner = MemberList {
        stamp: stamp(1, 1),
        members: vec![listed(1, PeerRole::Learner), listed(2, PeerRole::Member), listed(3, PeerRole::Member)],
    };
    let told = Msg::List { list: Arc::new(learner.clone()), blank: false, in_force: true };
    let report = Msg::List { list: Arc::new(learner), blank: false, in_force: false };
    let wanted = demoted.get(2, told.clone());
    let persisted = wanted.place(|effect| matches!(effect, Effect::Persist(_)));
    let sent = wanted.place(|effect| matches!(effect, Effect::Send { .. }));
    assert!(persisted.is_some() && persisted < sent, "what it reports is on its disk");
    assert_eq!(wanted.sent(), [(2, report.clone())]);
    assert_eq!(demoted.get(3, told).sent(), [(3, report)], "the next leader asks anew");
}

#[test]
fn a_blank_voter_counts_in_the_newest_list_that_it_hears_of_and_not_itself() {
    let mut one = four();
    let (incarnation, newer) = (one.machine.incarnation(), list_of(stamp(2, 1), &[1, 2, 4]));
    let stored = VoterRecord { incarnation, vote: None, cluster: None };
    (one, _) = Bench::start(1, mesh(&[1, 2, 3, 4]), one.settings.clone(), Some(stored));
    one.fire(ReignTimer::Settle);
    let incarnation = one.machine.incarnation();
    let mut reply = |from, list: &Arc<MemberList>| {
        let (list, epoch) = (Arc::clone(list), Some(Epoch(1)));
        one.get(from, Msg::SurveyReply { incarnation, epoch, cluster: None, list, bootstrap: false });
        one.machine.is_blank()
    };
    assert!(reply(2, &newer), "one of three");
    assert!(reply(3, &list()), "3 votes no more");
    assert!(!reply(4, &newer));
    assert_eq!(one.machine.granted(), (Epoch(2), None), "no epoch up to that of the list");
    assert_eq!(one.machine.list(), &newer);
}

#[test]
fn under_manual_bootstrap_a_new_cluster_begins_with_the_word_of_the_operator() {
    let stored = VoterRecord { incarnation: Incarnation { counter: 1, nonce: 1 }, vote: None, cluster: None };
    let settings = Settings {
        founding: Founding { bootstrap: Bootstrap::Manual, ..Founding::default() },
        ..settings(OnClose::WaitLease)
    };
    let answers = |one: &mut One, bootstrap| {
        let incarnation = one.machine.incarnation();
        for from in [2, 3] {
            let (epoch, cluster, list) = (None, None, list());
            one.get(from, Msg::SurveyReply { incarnation, epoch, cluster, list, bootstrap });
        }
    };
    let (mut told, _) = Bench::<Reign>::start(1, mesh(&[1, 2, 3]), settings.clone(), Some(stored.clone()));
    told.fire(ReignTimer::Settle);
    answers(&mut told, false);
    assert!(told.machine.is_blank());
    told.tell(ReignCommand::Bootstrap);
    assert!(told.machine.is_settled());
    let (mut other, _) = Bench::<Reign>::start(1, mesh(&[1, 2, 3]), settings, Some(stored));
    other.fire(ReignTimer::Settle);
    answers(&mut other, true);
    assert!(other.machine.is_settled(), "the answers carry the word");
}

#[test]
fn a_guest_learns_the_list_and_nothing_of_it_counts() {
    let mut one = leading(OnClose::WaitLease);
    let guest = Msg::Bid {
        epoch: Epoch(9),
        request: 4,
        holder: holder(8),
        after: None,
        no_child: true,
        list: list_of(Stamp::FIRST, &[1, 2, 3]),
    };
    assert_eq!(one.get(8, guest).sent(), [(8, Msg::Refuse { epoch: Epoch(1), request: 4, list: list() })]);
    let greeted = one.up(8).sent();
    assert_eq!(greeted, [(8, Msg::List { list: list(), blank: false, in_force: true })]);
    let mut asking = settled(OnClose::WaitLease);
    let bid = bids(&mut asking);
    assert!(grant(&mut asking, &[8, 9], bid).is_empty());
}

#[test]
fn positions_follow_the_members_when_the_view_changes() {
    let mut one = leading(OnClose::Immediate);
    let new = mesh(&[4, 3, 2, 1]);
    let old: View = std::mem::replace(&mut one.view, new);
    one.machine.reseat(&old, &one.view.clone());
    assert!(one.down(3).announced().is_empty(), "1 and 2 remain");
    let lost = ReignEvent::Lost { cause: LossCause::SupportersLost };
    assert!(one.down(2).announced().contains(&lost), "and now too few");
}

#[test]
fn a_renewal_makes_no_list_anew() {
    let mut one = leading(OnClose::WaitLease);
    let wanted = one.fire(ReignTimer::Renew);
    let (sent, _) = sent_list(&wanted).expect("it renews");
    assert!(Arc::ptr_eq(&sent, one.machine.list()));
}
