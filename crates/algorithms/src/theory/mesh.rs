//! Full meshes: the two forms of Bully, Invitation, Raft, and the election by a lock. Here `synchronous` means that timers are long
//! compared to messages.

use super::{Before, Bounds, Case, Expectation, Range};

pub fn bully_bounds(n: usize) -> Bounds {
    // No node is dead. Best: the best node itself starts; worst: the worst one does, and all nodes join in.
    let m = n as f64 - 1.0;
    Bounds { best: 0.0, mean: None, worst: m * (m + 1.0) }
}

/// Textbook Bully on a synchronous mesh, whichever members are dead (but still asked): every living member at least as
/// good as the worst initiator takes part once. It asks all its betters, those that live answer, and the winner tells
/// all worse members.
pub fn bully(case: &Case<'_>) -> Option<Expectation> {
    let winner = case.best_living().filter(|_| case.synchronous)?;
    let worst = case.living_initiators().max_by_key(|&at| case.betters(at))?;
    let takes_part = |&at: &usize| case.betters(at) <= case.betters(worst);
    let asked: usize = case.living().filter(takes_part).map(|at| case.betters(at)).sum();
    let answered: usize = case.living().filter(takes_part).map(|at| case.living_betters(at)).sum();
    let told = ("coordinator", Range::exactly(case.n() - 1 - case.betters(winner)));
    let (asked, answered) = if case.betters(winner) == 0 && case.initiators.contains(&winner) {
        // The best member wins at once: a member that its COORDINATOR reaches before an ELECTION asks no other member.
        let asked_at_once = case.living_initiators().map(|at| case.betters(at)).sum();
        let answered_at_once = case.living_initiators().map(|at| case.living_betters(at)).sum();
        (Range::between(asked_at_once, asked), Range::between(answered_at_once, answered))
    } else {
        (Range::exactly(asked), Range::exactly(answered))
    };
    Some(Expectation::new(&[("election", asked), ("answer", answered)], Some(told), None))
}

pub fn bully_1982_bounds(n: usize) -> Bounds {
    // The best node itself runs it: three calls and three replies for each other node.
    let calls = 6.0 * (n as f64 - 1.0);
    Bounds { best: calls, mean: None, worst: f64::INFINITY }
}

/// Calls and replies, published for members that are up: [`Before::Followed`]. With the best node N dead and N-1 running
/// the election that is 6N - 11. In a new cluster a member recovers when it is called, and asks its betters first.
pub fn bully_1982(case: &Case<'_>) -> Option<Expectation> {
    let winner = case.best_living().filter(|_| case.synchronous)?;
    match case.before {
        Before::Followed(leader) if case.is_dead(leader) && case.initiators == [winner] => Some(running(case, winner)),
        Before::Nothing if case.dead.is_empty() && case.all_start() => Some(all_recover(case)),
        Before::Nothing => one_recovers(case),
        Before::Followed(_) | Before::Lost | Before::Unknown => None,
    }
}

/// The best living member asks the dead ones, then calls all worse members three times.
fn running(case: &Case<'_>, winner: usize) -> Expectation {
    let (betters, living) = (case.betters(winner), case.living().count() - 1);
    let each = Range::exactly(living);
    let kinds = [
        ("are-you-up", Range::exactly(betters)),
        ("enter-election", Range::exactly(case.n() - 1 - betters)),
        ("set-coordinator", each),
        ("new-state", each),
        ("reply", Range::exactly(3 * living)),
    ];
    Expectation::new(&kinds, None, None)
}

/// Every member asks all its betters, and the best calls all others three times: (n-1)(n+6).
fn all_recover(case: &Case<'_>) -> Expectation {
    let (others, pairs) = (case.n() - 1, case.n() * (case.n() - 1) / 2);
    let each = Range::exactly(others);
    let kinds = [
        ("are-you-up", Range::exactly(pairs)),
        ("enter-election", each),
        ("set-coordinator", each),
        ("new-state", each),
        ("reply", Range::exactly(pairs + 3 * others)),
    ];
    Expectation::new(&kinds, None, None)
}

/// Only the best living member starts, and at most the best of all is dead; the others recover when they are called.
fn one_recovers(case: &Case<'_>) -> Option<Expectation> {
    let dead_best = match case.dead {
        [] => 0,
        [one] if *one == case.best() => 1,
        _ => return None,
    };
    let [only] = case.initiators else { return None };
    if case.betters(*only) != dead_best {
        return None;
    }
    let others = case.n() - 1 - dead_best;
    let each = Range::exactly(others);
    // The k-th worse member has k living betters, and the dead one.
    let recovering = others * (others + 1) / 2;
    let kinds = [
        ("are-you-up", Range::between(dead_best, dead_best + recovering + others * dead_best)),
        ("enter-election", each),
        ("set-coordinator", each),
        ("new-state", each),
        ("reply", Range::between(3 * others, 3 * others + recovering)),
    ];
    Some(Expectation::new(&kinds, None, None))
}

/// Requests and replies of c candidates: the k-th of them gets no reply from the k-1 before it.
fn by_lock_messages(n: usize, candidates: usize) -> (usize, usize) {
    (candidates * (n - 1), candidates * n - candidates * (candidates + 1) / 2)
}

pub fn by_lock_bounds(n: usize) -> Bounds {
    let sum = |candidates| {
        let (requests, replies) = by_lock_messages(n, candidates);
        (requests + replies) as f64
    };
    Bounds { best: sum(1), mean: None, worst: sum(n) }
}

/// The first candidate, or one of the first, enters. A member that hears of it before it starts is no candidate.
pub fn by_lock(case: &Case<'_>) -> Option<Expectation> {
    case.fault_free()?;
    let (n, most) = (case.n(), case.initiators.len());
    let (fewest, rounds) =
        if case.synchronous { (most, Some(Range::exactly(if n > 1 { 3 } else { 0 }))) } else { (1, None) };
    let (least, greatest) = (by_lock_messages(n, fewest), by_lock_messages(n, most));
    let (requests, replies) = (Range::between(least.0, greatest.0), Range::between(least.1, greatest.1));
    let told = ("leader", Range::exactly(n - 1));
    Some(Expectation::new(&[("request", requests), ("reply", replies)], Some(told), rounds))
}

pub fn invitation_bounds(n: usize) -> Bounds {
    let (nf, others) = (n as f64, n as f64 - 1.0);
    let all = 2.0 * (nf * nf - 1.0) + 4.0 * others;
    // A node that starts when the election is over asks its coordinator; the coordinator asks all.
    Bounds { best: all, mean: None, worst: all + 4.0 * others }
}

/// Every living node asks all others once, and the winner once more after the merge; those that live answer. The winner
/// invites them all.
pub fn invitation(case: &Case<'_>) -> Option<Expectation> {
    if !case.synchronous || case.before != Before::Nothing || case.living_initiators().next().is_none() {
        return None;
    }
    let (n, living) = (case.n(), case.living().count());
    // A node alone has no group to merge with.
    let looks = if living == 1 { 1 } else { living + 1 };
    let each = Range::exactly(living - 1);
    let kinds = [
        ("are-you-coordinator", Range::exactly(looks * (n - 1))),
        ("are-you-there", Range::exactly(0)),
        ("answer", Range::exactly(looks * (living - 1))),
        ("invitation", each),
        ("accept", each),
        ("ready", each),
        ("acknowledge", each),
    ];
    Some(Expectation::new(&kinds, None, None))
}

pub fn raft_bounds(n: usize) -> Bounds {
    // Candidates at the same moment may share the votes out any number of times.
    Bounds { best: 4.0 * (n as f64 - 1.0), mean: None, worst: if n == 1 { 0.0 } else { f64::INFINITY } }
}

/// One candidate, and a majority lives: two questions to all, which the living answer; then a heartbeat in the same way. A
/// node to which leadership was handed over asks the second question only.
pub fn raft(case: &Case<'_>) -> Option<Expectation> {
    let [only] = case.initiators else { return None };
    let (n, living) = (case.n(), case.living().count());
    if case.is_dead(*only) || 2 * living <= n {
        return None;
    }
    let (asked, answered) = (Range::exactly(n - 1), Range::exactly(living - 1));
    let (asked_before, answered_before) = match case.before {
        Before::Nothing | Before::Lost => (asked, answered),
        Before::Unknown => (Range::between(0, n - 1), Range::between(0, living - 1)),
        Before::Followed(_) => return None,
    };
    let questions =
        [("pre-vote", asked_before), ("pre-vote-reply", answered_before), ("vote", asked), ("vote-reply", answered)];
    let (told, heard) = (("heartbeat", asked), ("heartbeat-reply", answered));
    let rounds = (case.synchronous && case.before != Before::Unknown).then_some(if n > 1 { 6 } else { 0 });
    let mut expected = Expectation::new(&questions, Some(told), rounds.map(Range::exactly));
    expected.kinds.push(heard);
    expected.announcement = expected.announcement.plus(heard.1);
    Some(expected)
}
