//! Each broken rule lets two clients act at once, makes a token fall, or leaves a client waiting for ever. Beside each bug
//! the same events happen to the service as it is, and nothing breaks.

use model::check::{Limits, examine};
use model::views::properties::{EXCLUSION, HEALS, TOKENS_RISE};
use model::views::{Action, Budget, ClientAct, Subject, ViewsModel};

use super::bugs::{
    AcksItself, AcksOldBeats, AnswersAtOnce, ClosedIsSilent, DropsEarly, FloorFromAnswers, KeepsLapsed, KeepsView,
    LosesRelease, NoSettling, TakesAnyThaw, ViewsBug,
};
use super::{NOTHING, PHASES, Permissions, Token};

const LIMITS: Limits = Limits { search: 2_000_000, walks: 0, depth: 0 };

fn with(bug: impl Into<ViewsBug>, budget: Budget) -> Budget {
    Budget { mistake: bug.into().mistake(), ..budget }
}

/// The bug breaks the property; without it the model holds, completely. `model` makes the model by a budget of nothing, which names the bug.
fn caught<P: Subject>(
    label: &str,
    bug: impl Into<ViewsBug>,
    property: &'static str,
    model: impl Fn(Budget) -> ViewsModel<P>,
) {
    let mut bugged = model(with(bug, NOTHING));
    bugged.only = Some(property);
    let report = examine(label, &bugged, LIMITS);
    let trace = report.breaks(property);
    let steps: Vec<&str> = trace.lines().take_while(|line| !line.starts_with("leads to")).collect();
    println!("  in {} steps:\n  {}", steps.len(), steps.join("\n  "));
    examine(format!("{label}: without the bug"), &model(NOTHING), LIMITS).holds().is_complete();
}

#[test]
fn a_restarted_member_does_not_answer_freeze_at_once() {
    caught::<Permissions>("answers right after a restart", NoSettling, EXCLUSION, |base| {
        ViewsModel::led(0, Budget { crashes: 1, restarts: 1, beats: 1, ..base }).asked_by(&[1, 2])
    });
}

#[test]
fn tokens_of_a_view_are_larger_than_those_of_every_earlier_view() {
    caught::<Permissions>("floor from the answers", FloorFromAnswers::default(), TOKENS_RISE, |base| {
        ViewsModel::led(0, Budget { acquires: [0, 0, 1], cuts: 1, beats: 1, ..base }).asked_by(&[1])
    });
}

#[test]
fn a_leader_without_a_lease_does_not_acknowledge_its_own_beats() {
    caught::<Permissions>("the leader acknowledges itself", AcksItself, EXCLUSION, |base| {
        let budget = Budget { ticks: 1, ..base };
        let keep = |client| Action::Client(client, ClientAct::KeepAlive);
        ViewsModel::led(0, Budget { lease_ends: 1, elections: 1, ..budget })
            .asked_by(&[0, 2])
            .after(&[
                Action::LeaseEnds,
                Action::Elect(1),
                Action::Deliver { from: 1, to: 2 },
                Action::Deliver { from: 2, to: 1 },
                Action::Tick,
                keep(0),
                keep(2),
                Action::Deliver { from: 2, to: 1 },
                Action::Deliver { from: 1, to: 2 },
                Action::Beat(1),
                Action::Tick,
                keep(0),
                keep(2),
            ])
            .with(budget)
    });
}

#[test]
fn beats_of_an_older_view_are_not_acknowledged() {
    caught::<Token>("beats of an older view are acknowledged", AcksOldBeats, EXCLUSION, |base| {
        out_of_the_view(false, Budget { beats: 1, opens: 1, acquires: [0, 1, 0], ..base })
    });
}

#[test]
fn a_lapsed_section_is_not_reported() {
    caught::<Permissions>("a lapsed section is reported", KeepsLapsed, EXCLUSION, |base| {
        out_of_the_view(true, Budget { beats: 1, keep_alives: 1, ..base })
    });
}

/// The second member has lost its connections and been silent for a tenancy; before, its client entered. The third
/// member's client is inside now.
fn out_of_the_view<P: Subject>(still_inside: bool, budget: Budget) -> ViewsModel<P> {
    let keep = |client| Action::Client(client, ClientAct::KeepAlive);
    let mut model = ViewsModel::led(0, budget).asked_by(&[1]);
    if still_inside {
        model = model.after(&[Action::Cut(0, 1), Action::Cut(1, 2)]).at_rest();
    } else {
        model = model.after(&[Action::Client(1, ClientAct::Release)]).at_rest();
        model = model.after(&[Action::Cut(1, 2)]).at_rest();
    }
    for _ in 0..3 {
        if still_inside {
            model = model.after(&[keep(1)]);
        }
        model = model.after(&[keep(2), Action::Beat(0)]).at_rest().after(&[Action::Tick]).at_rest();
    }
    model.after(&[keep(2)]).at_rest().after(&[Action::Client(2, ClientAct::Acquire)]).at_rest().with(budget)
}

#[test]
fn a_closed_connection_does_not_shorten_a_tenancy() {
    caught::<Permissions>("a closed connection is silence", ClosedIsSilent, EXCLUSION, |base| {
        ViewsModel::led(0, Budget { crashes: 1, beats: 1, ..base }).asked_by(&[1, 2])
    });
}

#[test]
fn only_the_thaw_of_the_last_freeze_answered_is_taken() {
    caught::<Token>("any Thaw is taken", TakesAnyThaw, EXCLUSION, |base| {
        ViewsModel::led(1, Budget { lease_ends: 1, elections: 1, acquires: [1, 0, 1], ..base })
            .asked_by(&[2])
            .after(&[Action::Cut(0, 2)])
            .at_rest()
            .after(&[
                Action::Connect(0, 2),
                Action::Beat(0),
                Action::Deliver { from: 0, to: 1 },
                Action::Deliver { from: 1, to: 0 },
                Action::Deliver { from: 1, to: 2 },
                Action::Deliver { from: 0, to: 1 },
                Action::Deliver { from: 2, to: 1 },
            ])
    });
}

#[test]
fn a_right_to_act_does_not_outlive_the_tenancy_behind_it() {
    caught::<Permissions>("keep-alives answered at once", AnswersAtOnce, EXCLUSION, |base| {
        let keep = |client| Action::Client(client, ClientAct::KeepAlive);
        let mut model = ViewsModel::lasting(3, 0, base).asked_by(&[1, 2]);
        for _ in 0..2 {
            model = model.after(&[Action::Tick, keep(2), Action::Beat(0)]).at_rest();
        }
        // The answer must wait for a beat that the leader never acknowledges.
        let model = model.after(&[keep(1), Action::Crash(1)]);
        model.with(Budget { keep_alives: 2, ticks: 2, ..base })
    });
}

/// Nothing but broken connections: a new view for another reason would hide the bug.
const CUTS: Budget = Budget { cuts: 1, beats: 4, acquires: [2; 3], keep_alives: 2, ..NOTHING };

/// The bug leaves a client waiting after some of the walks; without it none does.
fn starves<P: Subject>(label: &str, bug: impl Into<ViewsBug>) {
    let bugged = with(bug, CUTS);
    let walk = |seed| ViewsModel::<P>::led((seed % 3) as usize, bugged).walk(seed, PHASES);
    let found = (0..2_000).find_map(|seed| walk(seed).err().map(|broken| (seed, broken)));
    let (seed, broken) = found.unwrap_or_else(|| panic!("{label}: not caught"));
    assert_eq!(broken.property, HEALS, "{label}, seed {seed}: {}", broken.trace);
    println!("{label}: a client waits for ever, seed {seed}");
    for seed in 0..=seed.max(50) {
        let sound = ViewsModel::<P>::led((seed % 3) as usize, CUTS).walk(seed, PHASES);
        sound.unwrap_or_else(|broken| panic!("without the bug, seed {seed}: {}\n{}", broken.property, broken.trace));
    }
}

#[test]
fn messages_of_the_next_view_are_kept() {
    starves::<Permissions>("messages of the next view dropped", DropsEarly);
}

#[test]
fn a_broken_connection_ends_the_view() {
    starves::<Permissions>("a broken connection keeps its view", KeepsView);
    starves::<Token>("a broken connection keeps its view, token", KeepsView);
}

#[test]
fn a_release_between_frozen_and_thaw_exits_at_thaw() {
    starves::<Permissions>("a release between Frozen and Thaw is lost", LosesRelease);
}
