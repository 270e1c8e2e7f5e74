//! Locks in views at three members, with a machine of permissions and one with a token: every interleaving where that is
//! possible; what is too large is bounded and then walked at random. And the planted bugs that check the checker.

mod bugs;
mod planted;
#[path = "../models/wrapper.rs"]
mod wrapper;

use std::env;

use algorithms::mutex::ricart_agrawala::RicartAgrawala;
use algorithms::mutex::suzuki_kasami::SuzukiKasami;
use model::check::{Limits, Report, examine};
use model::mistake::Mistake;
use model::views::properties::{OUTLIVES, SURVIVES, TWO_GRANTS};
use model::views::{Broken, Budget, Phases, Subject, ViewsModel};

type Permissions = bugs::Service<RicartAgrawala>;
type Token = bugs::Service<SuzukiKasami>;

const NOTHING: Budget = Budget {
    ticks: 0,
    beats: 0,
    acquires: [0; 3],
    keep_alives: 0,
    opens: 0,
    crashes: 0,
    restarts: 0,
    cuts: 0,
    losses: 0,
    lease_ends: 0,
    elections: 0,
    mistake: Mistake::NONE,
};

const PHASES: Phases = Phases { faulty: 60, healing: 40 };

/// Everything may happen, for the walks.
const ALL: Budget = Budget {
    ticks: 6,
    beats: 12,
    acquires: [2; 3],
    keep_alives: 8,
    opens: 3,
    crashes: 1,
    restarts: 1,
    cuts: 2,
    losses: 2,
    lease_ends: 1,
    elections: 2,
    mistake: Mistake::NONE,
};

fn complete<P: Subject>(label: &str, model: &ViewsModel<P>) {
    check(label, model, Limits::new(1_500_000, 0)).is_complete();
}

fn bounded<P: Subject>(label: &str, model: &ViewsModel<P>) {
    check(label, model, Limits::new(20_000, 10_000));
}

fn check<P: Subject>(label: &str, model: &ViewsModel<P>, limits: Limits) -> Report {
    let report = examine(format!("views, {label}"), model, limits);
    report.holds();
    report
}

/// With the machine of permissions, then with the token.
macro_rules! both {
    ($check:ident, $label:expr, $model:expr) => {{
        fn model<P: Subject>() -> ViewsModel<P> {
            $model
        }
        $check(concat!($label, ", permissions"), &model::<Permissions>());
        $check(concat!($label, ", token"), &model::<Token>());
    }};
}

fn walk_all<P: Subject>(seed: u64) -> Result<usize, Broken> {
    ViewsModel::<P>::led((seed % 3) as usize, ALL).walk(seed, PHASES)
}

#[test]
fn clients_enter_one_after_the_other() {
    both!(complete, "two clients, beats", {
        ViewsModel::led(0, Budget { acquires: [0, 1, 1], beats: 1, ..NOTHING }).expecting(&[TWO_GRANTS])
    });
    both!(complete, "the leader's client and another", {
        ViewsModel::led(0, Budget { acquires: [1, 1, 0], beats: 1, ..NOTHING }).expecting(&[TWO_GRANTS])
    });
}

#[test]
fn a_view_changes_under_a_holder() {
    both!(complete, "a broken connection, one holds and one waits", {
        ViewsModel::led(0, Budget { cuts: 1, beats: 2, ..NOTHING }).asked_by(&[1, 2]).expecting(&[TWO_GRANTS, SURVIVES])
    });
}

#[test]
fn a_member_crashes_and_its_client_lives() {
    both!(complete, "a crash and ticks, one holds and one waits", {
        ViewsModel::led(0, Budget { crashes: 1, ticks: 4, keep_alives: 1, ..NOTHING })
            .asked_by(&[1, 2])
            .expecting(&[OUTLIVES])
    });
    let restart = Budget { crashes: 1, restarts: 1, beats: 2, ..NOTHING };
    let model = ViewsModel::<Permissions>::led(0, restart).asked_by(&[1, 2]).expecting(&[OUTLIVES]);
    complete("a crash and a restart", &model);
}

#[test]
fn the_leader_changes() {
    both!(complete, "another leader, one holds and one waits", {
        ViewsModel::led(0, Budget { lease_ends: 1, elections: 1, ticks: 1, beats: 1, ..NOTHING })
            .asked_by(&[1, 2])
            .expecting(&[SURVIVES])
    });
    both!(bounded, "another leader and ticks", {
        ViewsModel::led(0, Budget { lease_ends: 1, elections: 1, ticks: 4, keep_alives: 3, beats: 1, ..NOTHING })
            .asked_by(&[0, 2])
    });
}

#[test]
fn beats_are_lost_and_tenancies_lapse() {
    both!(complete, "a lost beat and ticks", {
        ViewsModel::led(0, Budget { losses: 1, ticks: 3, beats: 1, ..NOTHING }).asked_by(&[1, 2])
    });
    both!(bounded, "lost beats, keep-alives and ticks", {
        ViewsModel::led(
            0,
            Budget { losses: 2, ticks: 5, keep_alives: 4, beats: 2, opens: 1, acquires: [0, 1, 1], ..NOTHING },
        )
        .asked_by(&[1, 2])
    });
}

#[test]
fn everything_at_once() {
    both!(bounded, "everything", ViewsModel::led(0, ALL));
}

/// Two phases: anything may happen; then there are no more faults, and every client that waits enters.
#[test]
fn every_client_that_waits_enters_once_there_are_no_more_faults() {
    let factor: u64 = env::var("CONCLAVE_MODEL_FACTOR").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut steps = 0;
    for seed in 0..150 * factor {
        steps += walk_all::<Permissions>(seed)
            .unwrap_or_else(|broken| panic!("seed {seed}: {}\n{}", broken.property, broken.trace));
        steps += walk_all::<Token>(seed)
            .unwrap_or_else(|broken| panic!("seed {seed}: {}\n{}", broken.property, broken.trace));
    }
    println!("views, healing: {} walks of each machine, {steps} steps", 150 * factor);
}
