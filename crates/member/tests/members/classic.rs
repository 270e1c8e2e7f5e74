//! Classic claims: the later epoch is believed, a lost one never again, and no two members claim the same.

use algorithms::drive::Effect;
use algorithms::{Epoch, Features, NodeId, Uid};
use member::AuthorityCommand as Told;
use member::AuthorityEvent::{self as Says, Follows};
use member::{Attempt, Authority, BeliefRecord, Cause, Claim, Classic, News, Reach, Settings};

use crate::bench::{Bench, Wanted, mesh};

type One = Bench<Classic>;

const PER_ROUND: Features = Features::PLAIN;
const CONTINUOUS: Features = Features { continuous: true, ..Features::PLAIN };
const TERMS: Features = Features { continuous: true, has_terms: true, hands_over: true, ..Features::PLAIN };

/// Member `me` of three: of an attempt 1, 2 and 3 claim the first, second and third epoch.
fn member(me: u32, kind: Features, stored: Option<BeliefRecord>) -> One {
    let (mut one, _) = Bench::start(me, mesh(&[1, 2, 3]), Settings::default(), stored);
    one.tell(Told::Election(kind));
    one
}

fn follower() -> One {
    member(1, PER_ROUND, None)
}

fn leader(me: u32, attempt: u64) -> One {
    let mut one = member(me, PER_ROUND, None);
    let wanted = one.tell(Told::Won { attempt: Some(Attempt(attempt)), term: None });
    assert!(wanted.announced().contains(&Says::TellAll), "all are told");
    one
}

fn claim(id: u32, epoch: u64) -> Claim {
    Claim { epoch: Epoch(epoch), uid: Uid::plain(id) }
}

fn news(next: u64, leader: Option<Claim>) -> News {
    News { next_attempt_min: Attempt(next), leader, firsthand: false }
}

fn hear(one: &mut One, leader: Option<Claim>, reach: Reach) -> Wanted<Classic> {
    one.tell(Told::Heard { from: NodeId(2), news: news(0, leader), reach })
}

fn follows(wanted: &Wanted<Classic>) -> Option<(Option<Claim>, Cause)> {
    wanted.announced().into_iter().rev().find_map(|event| match event {
        Follows { leader, cause } => Some((leader, cause)),
        _ => None,
    })
}

#[test]
fn the_later_epoch_is_believed_wherever_two_meet() {
    let mut one = follower();
    let wanted = hear(&mut one, Some(claim(3, 5)), Reach::Connected);
    assert_eq!(follows(&wanted), Some((Some(claim(3, 5)), Cause::Heard)));
    assert!(wanted.announced().contains(&Says::Decided(Attempt(3))), "rounds up to that attempt have a result");
    assert_eq!(one.machine.leader(), Some(claim(3, 5)));
    hear(&mut one, Some(claim(2, 7)), Reach::Connected);
    assert_eq!(one.machine.leader(), Some(claim(2, 7)));
    let wanted = hear(&mut one, Some(claim(3, 5)), Reach::Connected);
    assert_eq!(wanted.announced(), [Says::Tell(NodeId(2))], "the sender follows an older claim");
    assert_eq!(one.machine.leader(), Some(claim(2, 7)));
}

#[test]
fn a_claim_is_believed_of_a_known_member_in_a_number_of_its_own_that_can_be_reached() {
    let believed = |claim, reach| follows(&hear(&mut follower(), Some(claim), reach)).is_some();
    assert!(believed(claim(3, 5), Reach::Connected) && believed(claim(3, 5), Reach::Unknown));
    assert!(!believed(claim(3, 4), Reach::Connected), "that is what 2 would claim");
    assert!(!believed(claim(4, 5), Reach::Unknown), "not a member");
    let other = Uid { priority: 9, id: NodeId(3) };
    assert!(believed(Claim { epoch: Epoch(5), uid: other }, Reach::Connected), "whatever its priority was then");
    assert!(!believed(claim(3, 5), Reach::Down), "this member would notice its return");
    let wanted = hear(&mut follower(), Some(claim(3, 5)), Reach::DownOnce);
    assert_eq!(wanted.announced()[0], Says::Forget(NodeId(3)), "it has come back");
    assert!(follows(&wanted).is_some());
}

#[test]
fn a_lost_leader_is_not_believed_again_in_that_attempt() {
    for lost in [Told::LeaderGone, Told::LeaderLeftOut, Told::LeaderResigns, Told::Halted] {
        let mut one = follower();
        hear(&mut one, Some(claim(3, 5)), Reach::Connected);
        assert!(matches!(follows(&one.tell(lost)), Some((None, _))));
        assert_eq!(one.machine.epoch(), Epoch(6), "what is reported without a leader");
        for late in [claim(3, 5), claim(2, 4)] {
            assert_eq!(follows(&hear(&mut one, Some(late), Reach::Connected)), None, "{late:?}");
        }
        assert!(!one.machine.admits(Attempt(3)) && one.machine.admits(Attempt(6)));
        assert!(follows(&hear(&mut one, Some(claim(3, 8)), Reach::Connected)).is_some());
    }
}

#[test]
fn a_leader_that_resigned_is_replaced_by_an_election_unless_the_algorithm_sees_to_it() {
    for (kind, opens) in [(PER_ROUND, true), (CONTINUOUS, false)] {
        let mut one = member(1, kind, None);
        hear(&mut one, Some(claim(3, 5)), Reach::Connected);
        let wanted = one.tell(Told::LeaderResigns);
        assert_eq!(follows(&wanted), Some((None, Cause::LeaderResigned)));
        assert_eq!(wanted.announced().contains(&Says::OpenElection), opens);
    }
}

#[test]
fn a_restarted_member_follows_no_claim_below_all_that_it_may_have_seen() {
    let stored = BeliefRecord { reserved_until: 193, ..BeliefRecord::default() };
    let mut one = member(1, PER_ROUND, Some(stored));
    assert_eq!(one.machine.epoch(), Epoch(195));
    assert_eq!(one.machine.record().reserved_until, 195 + 3 * 64);
    assert_eq!(follows(&hear(&mut one, Some(claim(3, 194)), Reach::Connected)), None);
    assert!(follows(&hear(&mut one, Some(claim(3, 197)), Reach::Connected)).is_some());
}

#[test]
fn a_leader_moves_its_epoch_past_a_member_that_restarted() {
    let mut one = leader(3, 3);
    let wanted = one.tell(Told::Heard { from: NodeId(1), news: news(192, None), reach: Reach::Unknown });
    assert_eq!(follows(&wanted), Some((Some(claim(3, 197)), Cause::Bumped)));
    assert!(wanted.announced().contains(&Says::TellAll));
    assert!(one.machine.news(&one.ctx()).next_attempt_min.0 >= 192);
    let persisted = wanted.place(|effect| matches!(effect, Effect::Persist(_)));
    let announced = wanted.place(|effect| matches!(effect, Effect::Announce(Follows { .. })));
    assert!(persisted.is_some() && persisted < announced, "numbers beyond the reservation are on the disk first");

    let mut one = follower();
    hear(&mut one, Some(claim(3, 5)), Reach::Connected);
    let wanted = one.tell(Told::Heard { from: NodeId(2), news: news(192, None), reach: Reach::Unknown });
    assert_eq!(follows(&wanted), None, "the leader does");
}

/// It would answer in kind, for ever.
#[test]
fn a_leader_does_not_move_past_a_rival_that_it_cannot_follow() {
    let mut one = leader(1, 3);
    let rival = news(6, Some(claim(2, 7)));
    let wanted = one.tell(Told::Heard { from: NodeId(3), news: rival, reach: Reach::Down });
    assert_eq!(follows(&wanted), None);
    assert_eq!(one.machine.leader(), Some(claim(1, 3)));
}

#[test]
fn a_winner_claims_the_epoch_of_its_rank_in_the_attempt() {
    assert_eq!(leader(1, 3).machine.leader(), Some(claim(1, 3)));
    assert_eq!(leader(3, 3).machine.leader(), Some(claim(3, 5)));
    let mut one = member(2, CONTINUOUS, None);
    one.tell(Told::Won { attempt: None, term: None });
    assert_eq!(one.machine.leader(), Some(claim(2, 4)), "the next attempt, where the algorithm runs in no round");
}

#[test]
fn another_winner_is_followed_unless_it_is_known_to_be_down() {
    let won = |winner, reach, attempt| {
        follower().tell(Told::OtherWon { winner, reach, via: None, attempt, term: None }).announced()
    };
    let three = Some(Uid::plain(3));
    let followed = Follows { leader: Some(claim(3, 5)), cause: Cause::OtherElected };
    assert_eq!(won(three, Reach::Connected, Some(Attempt(3))), std::slice::from_ref(&followed));
    assert_eq!(won(three, Reach::DownOnce, Some(Attempt(3))), std::slice::from_ref(&followed));
    assert_eq!(won(three, Reach::Down, Some(Attempt(3))), [Says::OpenElection]);
    assert_eq!(won(three, Reach::Connected, None), [], "its heartbeat brings the epoch");
    assert_eq!(won(None, Reach::Down, Some(Attempt(3))), [], "its heartbeat names it");
}

/// Two components may use one attempt. The members of a round follow the epoch of its winner, so the winner must claim it.
#[test]
fn a_winner_that_follows_a_smaller_epoch_of_the_same_attempt_leads() {
    let mut three = member(3, PER_ROUND, None);
    hear(&mut three, Some(claim(1, 3)), Reach::Unknown);
    assert_eq!(three.machine.leader(), Some(claim(1, 3)));
    three.tell(Told::Won { attempt: Some(Attempt(3)), term: None });
    assert_eq!(three.machine.leader(), Some(claim(3, 5)));
}

#[test]
fn an_election_that_ends_late_replaces_no_leader_of_a_later_one() {
    let late = Some(Attempt(3));
    for won in [
        Told::Won { attempt: late, term: None },
        Told::OtherWon { winner: Some(Uid::plain(3)), reach: Reach::Connected, via: None, attempt: late, term: None },
    ] {
        let mut one = follower();
        hear(&mut one, Some(claim(2, 7)), Reach::Connected);
        assert_eq!(follows(&one.tell(won)), None);
        assert_eq!(one.machine.leader(), Some(claim(2, 7)));
    }
}

#[test]
fn two_coordinators_that_meet_are_merged_by_the_algorithm_itself() {
    let mut one = member(3, CONTINUOUS, None);
    one.tell(Told::Won { attempt: None, term: None });
    let wanted = hear(&mut one, Some(claim(2, 10)), Reach::Connected);
    assert!(follows(&wanted).is_none() && wanted.announced().contains(&Says::OpenElection));
    let mut one = member(1, CONTINUOUS, None);
    one.tell(Told::Won { attempt: None, term: None });
    assert!(follows(&hear(&mut one, Some(claim(2, 10)), Reach::Connected)).is_some(), "the worse one follows");
}

#[test]
fn news_are_passed_on_once_and_elections_below_them_are_outdated() {
    let mut one = follower();
    let heard = Told::Heard { from: NodeId(2), news: news(6, None), reach: Reach::Unknown };
    let outdated = Says::Outdated(Attempt(6));
    assert_eq!(one.tell(heard.clone()).announced(), [outdated.clone(), Says::PassOn { except: NodeId(2) }]);
    assert_eq!(one.tell(heard.clone()).announced(), std::slice::from_ref(&outdated));
    assert!(
        hear(&mut one, Some(claim(3, 8)), Reach::Connected).announced().contains(&Says::PassOn { except: NodeId(2) })
    );
    assert!(hear(&mut one, Some(claim(3, 8)), Reach::Connected).is_nothing());
}

#[test]
fn numbers_that_no_honest_member_can_have_reached_are_not_plausible() {
    let mut one = follower();
    assert!(one.machine.plausible(&news(Epoch::MAX.0, None)), "it has no past");
    let seen = 3072;
    one.tell(Told::Saw(Attempt(seen)));
    assert!(one.machine.plausible(&news(seen + (1 << 20), Some(claim(3, 5)))));
    assert!(!one.machine.plausible(&news(seen + (1 << 20) + 1, None)));
    assert!(!one.machine.plausible(&news(0, Some(claim(3, seen + (1 << 21))))));
}

/// The planted bug: one leap above the epoch that was followed last, so that each claim allows for the next one.
#[test]
fn claims_carry_the_epoch_one_leap_in_a_lease_however_many_there_are() {
    const STRIDE: u64 = (1 << 20) - 4;
    let mut one = follower();
    let mut epoch = 3074;
    hear(&mut one, Some(claim(3, epoch)), Reach::Connected);
    for _ in 0..3 {
        for further in [true, false, false] {
            let next = claim(3, epoch + STRIDE);
            assert_eq!(one.machine.plausible(&news(0, Some(next))), further, "epoch {}", next.epoch);
            if further {
                hear(&mut one, Some(next), Reach::Connected);
                epoch += STRIDE;
                assert_eq!(one.machine.leader(), Some(next));
            }
        }
        one.tell(Told::MayLeap);
    }
}

/// A number that is no attempt, from whatever member: attempts go on from the next one that is.
#[test]
fn every_attempt_of_this_member_is_a_multiple_of_the_number_of_members() {
    let mut one = follower();
    one.tell(Told::Saw(Attempt(7)));
    assert_eq!(one.machine.next_attempt(&one.ctx()), Attempt(9));
}

#[test]
fn stepping_down_waits_for_the_children() {
    let mut one = leader(3, 3);
    one.tell(Told::Attached(true));
    assert_eq!(one.tell(Told::StepDown { successor: None }).announced(), [Says::StopChildren]);
    assert_eq!(one.machine.leader(), Some(claim(3, 5)));
    let wanted = one.tell(Told::Attached(false));
    assert!(wanted.announced().contains(&Says::ResetElection), "its machine begins anew");
    assert_eq!(follows(&wanted), Some((None, Cause::SteppedDown)));
}

#[test]
fn a_leader_that_was_replaced_while_it_waited_for_its_children_has_nothing_to_resign_from_later() {
    let mut one = leader(3, 3);
    one.tell(Told::Attached(true));
    one.tell(Told::StepDown { successor: None });
    hear(&mut one, Some(claim(2, 7)), Reach::Connected);
    one.tell(Told::Attached(false));
    // It takes over again.
    one.tell(Told::Won { attempt: Some(Attempt(9)), term: None });
    assert!(one.tell(Told::Attached(true)).is_nothing(), "nobody has told it to step down since");
    assert!(one.tell(Told::Attached(false)).is_nothing());
    assert_eq!(one.machine.leader(), Some(claim(3, 11)));
}

#[test]
fn where_decisions_have_terms_the_term_is_the_epoch_and_on_the_disk_before_it_is_followed() {
    let mut one = member(1, TERMS, None);
    let wanted = one.tell(Told::Won { attempt: None, term: Some(Epoch(41)) });
    assert_eq!(follows(&wanted), Some((Some(claim(1, 41)), Cause::Elected)));
    let persisted = wanted.place(|effect| matches!(effect, Effect::Persist(record) if record.followed == Epoch(41)));
    let announced = wanted.place(|effect| matches!(effect, Effect::Announce(Follows { .. })));
    assert!(persisted.is_some() && persisted < announced);

    let mut one = member(1, TERMS, None);
    let won = Told::OtherWon {
        winner: Some(Uid::plain(2)),
        reach: Reach::Connected,
        via: None,
        attempt: None,
        term: Some(Epoch(41)),
    };
    assert_eq!(follows(&one.tell(won)), Some((Some(claim(2, 41)), Cause::OtherElected)));
    assert!(follows(&hear(&mut one, Some(claim(2, 42)), Reach::Connected)).is_some(), "any number is its own");
}

#[test]
fn a_term_is_never_followed_again_once_its_leader_is_lost_nor_an_older_one_after_a_restart() {
    let mut one = member(1, TERMS, None);
    hear(&mut one, Some(claim(2, 42)), Reach::Connected);
    one.tell(Told::LeaderGone);
    assert_eq!(follows(&hear(&mut one, Some(claim(2, 42)), Reach::Connected)), None);
    assert_eq!(one.machine.epoch(), Epoch(42), "the largest term followed");
    assert!(follows(&hear(&mut one, Some(claim(2, 43)), Reach::Connected)).is_some());
    let mut one = member(1, TERMS, Some(one.machine.record()));
    assert_eq!(follows(&hear(&mut one, Some(claim(3, 42)), Reach::Connected)), None);
    assert!(follows(&hear(&mut one, Some(claim(2, 43)), Reach::Connected)).is_some());
}

#[test]
fn a_leader_with_a_term_moves_past_nobody() {
    let mut one = member(1, TERMS, None);
    one.tell(Told::Won { attempt: None, term: Some(Epoch(2)) });
    let wanted = one.tell(Told::Heard { from: NodeId(2), news: news(192, None), reach: Reach::Unknown });
    assert_eq!(follows(&wanted), None);
    assert_eq!(one.machine.news(&one.ctx()).next_attempt_min, Attempt(0), "attempts mean nothing");
}

#[test]
fn a_winner_of_an_attempt_that_the_sitting_leader_has_moved_past_does_not_claim_it_too() {
    let mut one = follower();
    hear(&mut one, Some(claim(3, 5)), Reach::Connected);
    let won = Told::Won { attempt: Some(Attempt(3)), term: None };
    assert_eq!(one.tell(won).announced(), []);
    assert_eq!(one.machine.leader(), Some(claim(3, 5)));
    let won = Told::Won { attempt: Some(Attempt(6)), term: None };
    assert_eq!(follows(&one.tell(won)), Some((Some(claim(1, 6)), Cause::Elected)), "a later attempt is won");
}

fn other_won(id: u32, term: u64) -> Told {
    let (winner, term) = (Some(Uid::plain(id)), Some(Epoch(term)));
    Told::OtherWon { winner, reach: Reach::Connected, via: None, attempt: None, term }
}

#[test]
fn the_election_itself_may_name_the_leader_of_a_lost_term_again_and_never_an_older_one() {
    let mut one = member(1, TERMS, None);
    one.tell(other_won(2, 42));
    one.tell(Told::LeaderGone);
    assert_eq!(follows(&hear(&mut one, Some(claim(2, 42)), Reach::Connected)), None, "a report may be out of date");
    assert_eq!(follows(&one.tell(other_won(2, 42))), Some((Some(claim(2, 42)), Cause::OtherElected)));
    one.tell(Told::LeaderGone);
    assert_eq!(follows(&one.tell(other_won(3, 41))), None);
}

#[test]
fn a_leader_hands_over_where_the_election_can_and_its_children_have_stopped() {
    let mut one = member(1, TERMS, None);
    one.tell(Told::Won { attempt: None, term: Some(Epoch(2)) });
    one.tell(Told::Attached(true));
    assert_eq!(one.tell(Told::Transfer(NodeId(3))).announced(), [Says::StopChildren]);
    assert_eq!(one.tell(Told::Attached(false)).announced(), [Says::HandOver(NodeId(3))]);
    assert_eq!(one.machine.leader(), Some(claim(1, 2)), "it leads until another one is elected");
    assert_eq!(one.tell(Told::StepDown { successor: Some(NodeId(2)) }).announced(), [Says::HandOver(NodeId(2))]);
    let insists = one.tell(Told::StepDown { successor: None }).announced();
    assert_eq!(insists.first(), Some(&Says::ResetElection));
    assert_eq!(one.machine.leader(), None);

    let mut one = leader(1, 3);
    assert_eq!(one.tell(Told::Transfer(NodeId(3))).announced(), [], "other elections cannot");
    assert_eq!(one.tell(Told::StepDown { successor: Some(NodeId(3)) }).announced().first(), Some(&Says::ResetElection));
}
