//! Each broken rule of the lock service lets two sessions act on one lock, or breaks another rule that a property names.

use locks::LockName;
use locks::central::CentralTimer;
use locks::service::StreamId;
use locks::wire::{Mode, RequestId, SessionId};
use model::check::{Limits, Report, examine};
use model::locks::Action::{
    Asks, Bids, Breaks, Changes, Crashes, Fires, Grants, Hears, KeepsAlive, Moves, Reads, Releases, Renews, Restarts,
    StepsDown, Tick, Wins, Withdraws,
};
use model::locks::Script::{self, Do, Ears, Heard, Settle, Wires};
use model::locks::properties::{EXCLUSION, NOT_EARLY, NOT_REVIVED, NOTED, ONE_HOLDER, PASSED_ON, SERVED, UNDER_LEASE};
use model::locks::{Breach, Budget, LockModel, Setup, Times};

use crate::bugs::{Bug, Buggy};

const NOTHING: Budget = Budget::NOTHING;

/// What has happened before, and what may happen yet beside the delivery of messages.
pub(crate) struct Case<'a> {
    label: &'a str,
    setup: Setup,
    script: Vec<Script>,
    budget: Budget,
    modes: [&'a [Mode]; 2],
}

impl<'a> Case<'a> {
    pub(crate) fn new(label: &'a str, setup: Setup, script: Vec<Script>) -> Self {
        const ONE: &[Mode] = &[Mode::Exclusive; 2];
        Case { label, setup, script, budget: NOTHING, modes: [ONE, ONE] }
    }

    fn search(&self, setup: &Setup, limit: usize, property: &'static str) -> Report {
        let mut model = LockModel::<Buggy>::cold(setup.clone(), self.budget);
        let lock = LockName::new("a").expect("a name");
        model.requests = self.modes.map(|modes| modes.iter().map(|&mode| (lock.clone(), mode)).collect());
        let mut model = model.serving().after(&self.script);
        model.only = Some(property);
        examine(self.label, &model, Limits::new(limit, 0))
    }

    /// Must break this property, whatever else it breaks.
    pub(crate) fn is_caught(&self, property: &'static str) -> usize {
        let report = self.search(&self.setup, 1_500_000, property);
        let trace = report.breaks(property);
        let steps: Vec<&str> = trace.lines().take_while(|line| !line.starts_with("leads to")).collect();
        println!("  in {} steps: {}", steps.len(), steps.join(" "));
        report.states
    }

    /// The shipped machine, under the rules, must not break it: searched as far, and further.
    fn holds_without(&self, property: &'static str, states: usize) {
        let plain = Setup { breach: None, dice: 0, ..self.setup.clone() };
        let report = self.search(&plain, 3 * states.max(1_000), property);
        assert!(report.broken.is_empty(), "{}: without the bug as well: {:#?}", self.label, report.broken);
    }

    pub(crate) fn breaks(&self, property: &'static str) {
        let states = self.is_caught(property);
        self.holds_without(property, states);
    }
}

pub(crate) fn with(bug: Bug) -> Setup {
    Setup { dice: bug.dice(), ..Setup::default() }
}

fn breaching(breach: Breach) -> Setup {
    Setup { breach: Some(breach), ..Setup::default() }
}

/// The first client holds the lock, and the first two members have noted it. The third one hears nothing of it.
fn noted_by_two() -> Vec<Script> {
    vec![Do(Asks(0)), Heard, Wires(1), Wires(0), Ears(0), Do(Breaks(0, 2))]
}

/// One member leads with the grant of another.
pub(crate) fn leads(node: usize, voter: usize) -> Vec<Script> {
    vec![Do(Bids(node)), Do(Grants { voter, won: false }), Do(Wins)]
}

/// The second client asks this member for the lock.
pub(crate) fn second_asks(node: usize) -> Vec<Script> {
    vec![Do(Moves(1, node)), Do(Asks(1))]
}

/// The first client holds the lock, and all members have noted it.
pub(crate) fn held() -> Vec<Script> {
    vec![Do(Asks(0)), Settle]
}

/// Both members lose what they knew, and the second one starts again.
fn two_crash() -> Vec<Script> {
    vec![Do(Crashes(0)), Do(Crashes(1)), Do(Restarts(1))]
}

#[test]
fn a_voter_without_a_copy_does_not_count() {
    let script = [noted_by_two(), two_crash(), leads(2, 1), second_asks(2)].concat();
    Case::new("a Nothing-report counts", with(Bug::NothingCounts), script).breaks(EXCLUSION);
}

#[test]
fn a_lock_is_granted_when_a_majority_has_noted_it() {
    let granted = vec![Do(Asks(0)), Heard, Ears(0)];
    let script = [granted.clone(), vec![Do(Crashes(0))], leads(1, 2), second_asks(1)].concat();
    Case::new("grant before the majority", with(Bug::GrantsAtOnce), script).breaks(EXCLUSION);
    Case::new("grant before the majority", with(Bug::GrantsAtOnce), granted).breaks(NOTED);
}

#[test]
fn a_table_goes_before_its_notes() {
    let reigns = [noted_by_two(), vec![Do(StepsDown(0))], leads(1, 2), vec![Settle, Do(Crashes(1))]].concat();
    let script = [reigns, leads(2, 0), second_asks(2)].concat();
    Case::new("notes without a table", with(Bug::NotesWithoutTable), script).breaks(EXCLUSION);
}

#[test]
fn the_newest_copy_becomes_the_table() {
    let script = [noted_by_two(), vec![Do(StepsDown(0))], leads(2, 1), second_asks(2)].concat();
    Case::new("any copy", with(Bug::AnyCopy), script).breaks(EXCLUSION);
}

#[test]
fn a_restarted_voter_has_no_copy() {
    let script = [noted_by_two(), two_crash(), leads(2, 1), second_asks(2)].concat();
    let rules = breaching(Breach::RestartKeepsLabel);
    Case::new("a restart keeps its label", rules, script).breaks(EXCLUSION);
}

#[test]
fn acknowledgements_of_an_earlier_epoch_do_not_count() {
    let used = [held(), vec![Do(Releases(0, RequestId(1))), Settle]].concat();
    let again = [leads(0, 1), vec![Settle, Do(Asks(0)), Heard, Ears(0), Do(Crashes(0))]].concat();
    let script = [used, again, leads(1, 2), second_asks(1)].concat();
    Case::new("acknowledgements of an earlier epoch", with(Bug::OldAcks), script).breaks(EXCLUSION);
}

#[test]
fn sessions_have_a_full_time_to_live_under_a_new_clerk() {
    let script = [held(), vec![Do(StepsDown(0))], leads(1, 2), second_asks(1)].concat();
    Case::new("ttls not restarted", with(Bug::TtlsGoOn), script).breaks(EXCLUSION);
}

/// A note of the first clerk reaches the third member when the second member is the clerk.
#[test]
fn a_voter_obeys_one_clerk() {
    let late = vec![Wires(1), Do(Reads { node: 2, from: 1 }), Do(Reads { node: 2, from: 0 })];
    let asks = vec![Do(Moves(1, 1)), Ears(1), Heard, Ears(1), Do(Asks(1)), Heard, Wires(1), Ears(1)];
    let granted = [vec![Do(Asks(0)), Heard, Do(StepsDown(0))], leads(1, 2), late, asks].concat();
    Case::new("a table that is not fenced", with(Bug::Unfenced), granted.clone()).breaks(NOTED);
    let script = [granted, vec![Do(Crashes(1))], leads(2, 0)].concat();
    Case::new("a table that is not fenced", with(Bug::Unfenced), script).breaks(PASSED_ON);
}

/// The second client waits when the session of the first one expires at the second clerk.
#[test]
fn a_clerk_extends_no_session_after_its_lease() {
    let first = [held(), vec![Do(Tick), Do(KeepsAlive(0)), Settle, Do(Tick)]].concat();
    let second = [leads(1, 2), vec![Settle], second_asks(1), vec![Settle, Do(Tick), Do(Renews)]].concat();
    let script =
        [first, second, vec![Do(KeepsAlive(1)), Settle, Do(Tick), Do(KeepsAlive(0)), Do(KeepsAlive(1))]].concat();
    let rules = breaching(Breach::AlwaysLeased);
    let case = Case::new("no lease check", rules, script);
    case.breaks(EXCLUSION);
    case.breaks(UNDER_LEASE);
}

#[test]
fn without_copies_every_session_must_have_expired() {
    let script = [held(), two_crash(), leads(2, 1), second_asks(2)].concat();
    Case::new("no wait of max_ttl", with(Bug::NoWait), script).breaks(EXCLUSION);
    let script = [held(), two_crash(), leads(2, 1)].concat();
    Case::new("no wait of max_ttl", with(Bug::NoWait), script).breaks(NOT_EARLY);
}

#[test]
fn a_label_has_an_epoch() {
    let first = vec![Do(Asks(1)), Settle, Do(Releases(1, RequestId(1))), Settle, Do(StepsDown(0))];
    let moves = vec![Settle, Do(Moves(0, 1)), Do(Moves(1, 1)), Settle, Do(Asks(0)), Settle, Do(StepsDown(1))];
    let second = [leads(1, 2), moves].concat();
    let script = [first, second, leads(0, 2), second_asks(0)].concat();
    Case::new("seq without epoch", with(Bug::SeqAlone), script).breaks(EXCLUSION);
}

#[test]
fn a_repeated_request_waits_for_its_note() {
    let repeated = vec![Do(Asks(0)), Heard, Do(Moves(0, 0)), Ears(0), Heard, Ears(0), Do(Crashes(0))];
    let script = [repeated, leads(1, 2), second_asks(1)].concat();
    Case::new("a repeated request answered at once", with(Bug::AnswersRepeats), script).breaks(EXCLUSION);
}

#[test]
fn the_right_to_act_counts_from_the_send_time() {
    let waits = [held(), vec![Do(Asks(1)), Settle, Do(KeepsAlive(0)), Heard, Do(Tick), Do(Renews)]].concat();
    let script = [waits, vec![Do(KeepsAlive(1)), Heard, Ears(1), Do(Tick), Do(KeepsAlive(1))]].concat();
    let rules = breaching(Breach::RightFromArrival);
    Case::new("the right counts from the arrival", rules, script).breaks(EXCLUSION);
}

#[test]
fn wants_are_matched_before_anything_is_freed() {
    let script = vec![Do(Asks(0)), Heard, Wires(1), Wires(0), Do(Moves(0, 0))];
    Case::new("freed before wants are matched", with(Bug::FreesFirst), script).breaks(NOT_REVIVED);
}

#[test]
fn the_copy_of_a_clerk_is_its_table() {
    let script = [noted_by_two(), vec![Do(StepsDown(0))], leads(2, 0), second_asks(2)].concat();
    Case::new("own copy stale", with(Bug::StaleOwn), script.clone()).breaks(EXCLUSION);
    Case::new("table cleared when the office ends", with(Bug::Clears), script).breaks(EXCLUSION);
}

/// The first member has not noticed that its lease ended, and the session is attached to the second clerk.
#[test]
fn no_session_expires_after_the_lease() {
    let moved = vec![Wires(1), Do(Moves(0, 1)), Ears(0), Heard, Ears(0)];
    let before = [noted_by_two(), vec![Do(Tick), Do(Tick)], leads(1, 2), moved].concat();
    let after = [vec![Do(Crashes(1))], leads(2, 0), second_asks(2)].concat();
    let rules = breaching(Breach::LateExpiry);
    let expires =
        vec![Do(Fires(0, CentralTimer::Session(SessionId(1)))), Do(Fires(0, CentralTimer::Session(SessionId(2))))];
    let script = [before.clone(), expires, after.clone()].concat();
    let states = Case::new("an ex-clerk's expiry", rules.clone(), script).is_caught(EXCLUSION);
    Case::new("no ex-clerk's expiry", rules, [before, after].concat()).holds_without(EXCLUSION, states);
}

#[test]
fn a_withdrawn_request_is_over() {
    let script = [held(), vec![Do(Asks(1)), Settle, Do(Withdraws(1, RequestId(1))), Do(Moves(1, 0))]].concat();
    Case::new("a withdrawn request revived", with(Bug::Revives), script).breaks(SERVED);
}

#[test]
fn a_request_extends_its_session() {
    let times = Times { right: 2, ttl: 3, lease: 4 };
    let setup = Setup { times, ..with(Bug::AcquireExtendsNothing) };
    let asks = vec![Do(Tick), Do(Tick), Do(Asks(0)), Settle, Do(KeepsAlive(1)), Settle, Do(Asks(1)), Settle, Do(Tick)];
    Case::new("an Acquire does not move the deadline", setup, asks).breaks(EXCLUSION);
}

#[test]
fn a_holder_is_removed_by_its_token() {
    let first = vec![Do(Asks(0)), Do(Asks(1)), Settle, Do(Releases(0, RequestId(1))), Settle, Do(Crashes(0))];
    let script = [first, leads(1, 2), vec![Do(Moves(0, 1)), Do(Asks(0))]].concat();
    let modes: [&[Mode]; 2] = [&[Mode::Shared, Mode::Exclusive], &[Mode::Shared]];
    Case { modes, ..Case::new("removed by name", with(Bug::RemovesByName), script) }.breaks(EXCLUSION);
}

/// The streams that `serving` opens are 0 and 1.
#[test]
fn an_open_that_comes_late_does_not_count() {
    let opens = vec![Do(Moves(0, 0)), Ears(0), Do(Moves(0, 0)), Ears(0), Do(Hears(StreamId(3))), Ears(0)];
    let asks = vec![Do(Asks(0)), Do(Hears(StreamId(3))), Wires(1), Wires(0), Ears(0), Do(Asks(1))];
    Case::new("no attach number", with(Bug::AnyAttach), [opens, asks].concat()).breaks(EXCLUSION);
}

#[test]
fn an_open_for_an_earlier_clerk_does_not_count() {
    let first = vec![Do(Moves(0, 0)), Ears(0), Do(StepsDown(0))];
    let opens = vec![Wires(1), Wires(2), Wires(1), Do(Moves(0, 1)), Ears(0), Do(Hears(StreamId(3))), Ears(0)];
    let asks = vec![Do(Asks(0)), Do(Hears(StreamId(3))), Wires(2), Wires(1), Ears(0), Do(StepsDown(1))];
    let third = vec![Wires(0), Wires(2), Wires(0), Do(Asks(1)), Ears(1), Do(Hears(StreamId(1)))];
    let script = [first, leads(1, 2), opens, asks, leads(0, 2), third].concat();
    Case::new("no epoch in client messages", with(Bug::AnyEpoch), script).breaks(EXCLUSION);
}

#[test]
fn what_a_broken_connection_lost_is_sent_again() {
    let script = vec![Do(Crashes(2)), Settle, Do(Asks(0)), Heard, Do(Breaks(0, 1))];
    Case::new("no resend", with(Bug::NoResend), script).breaks(SERVED);
}

/// The third member has the first holder and its heir in its copy, the others have the heir as the holder and the next heir.
#[test]
fn a_table_is_no_union_of_copies() {
    let heir = [held(), vec![Do(Asks(1)), Settle]].concat();
    let passes = vec![Do(Releases(0, RequestId(1))), Do(Asks(0)), Heard, Wires(1), Wires(0), Ears(1)];
    let script = [heir, passes, vec![Do(Breaks(0, 2)), Do(StepsDown(0))], leads(2, 1)].concat();
    Case::new("union of copies", with(Bug::Union), script).breaks(ONE_HOLDER);
}

/// The lock is granted under the second list, noted by two of its three voters. The fourth member has an older copy.
#[test]
fn the_next_change_of_the_voters_waits_for_a_majority() {
    let lists = vec![vec![0, 1, 2, 3], vec![0, 1, 2], vec![0, 1, 2, 3], vec![0, 2, 3]];
    let setup = Setup { lists, ..breaching(Breach::HastyChanges) };
    let script = [vec![Do(Changes)], noted_by_two()].concat();
    let budget = Budget { changes: 2, ..NOTHING };
    Case { budget, ..Case::new("voters changed too early", setup.clone(), script.clone()) }.breaks(NOTED);
    let script = [script, vec![Do(Changes), Do(Changes), Do(StepsDown(0))], leads(2, 3), second_asks(2)].concat();
    Case::new("voters changed too early", setup, script).is_caught(EXCLUSION);
}
