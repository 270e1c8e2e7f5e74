//! The fault engine, checked with members that are not: each toy breaks one promise and must be caught.

use std::cell::Cell;
use std::time::Duration;

use algorithms::catalog::{self, Row};
use algorithms::{Epoch, Input, Kind, Message, NodeId, Outbox, Protocol, Span, Uid};
use member::{Cause, Command, Context, Event, Role, Settings, Standing};
use serde::{Deserialize, Serialize};
use sim::{FaultOptions, FaultReport, Subject, run_faults, run_many, run_subject};

fn row() -> &'static Row {
    catalog::row(catalog::DEFAULT).expect("the default is in the catalog")
}

#[test]
fn the_same_seed_gives_the_same_report_whatever_happens() {
    let options = FaultOptions::default();
    for row in catalog::ROWS {
        for seed in 0..3 {
            assert_eq!(run_faults(row, seed, &options), run_faults(row, seed, &options), "{} {seed}", row.name);
        }
    }
}

#[test]
fn many_seeds_on_many_threads_add_up_to_the_same() {
    let options = FaultOptions::default();
    let once = run_many(row(), 0..8, &options, |_| {});
    assert_eq!(once, run_many(row(), 0..8, &options, |_| {}));
    assert_eq!(once.runs, 8);
}

#[test]
fn disks_hang_in_some_seeds_and_in_some_not() {
    let hangs = |seed| run_faults(row(), seed, &FaultOptions::default()).stats.hangs;
    let (hanging, others): (Vec<u64>, Vec<u64>) = (0..40).map(hangs).partition(|&hangs| hangs > 0);
    assert!(hanging.len() > 5 && others.len() > 5, "{hanging:?}");
}

/// How a toy misbehaves.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Bug {
    Honest,
    /// Claims in the epoch of the present leader.
    SecondLeader,
    /// Forgets its epoch when it restarts.
    Forgets,
    /// Changes its mind for ever.
    Restless,
    /// The worst leads.
    Worst,
    /// Follows an older claim.
    Older,
    /// Answers every message, the answers too.
    Chatty,
    /// Its timer is due again at once.
    Hasty,
}

thread_local! {
    /// That of all toys that this thread runs: a value and not a type, so that the engine is compiled once for all bugs.
    static BUG: Cell<Bug> = const { Cell::new(Bug::Honest) };
}

/// "The best I am connected to leads", which is no election, but satisfies the checkers when all is well: the epoch
/// counts its restarts and everybody takes the largest it hears.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Toy {
    epoch: Epoch,
    up: Vec<Uid>,
    /// Since the last change of `up`.
    ticks: u32,
    announced: Option<Standing>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
struct Hello(Epoch);

impl Message for Hello {
    const KINDS: &'static [Kind] = &[Kind::election("hello")];
    fn kind(&self) -> usize {
        0
    }
}

impl Protocol for Toy {
    type Link = NodeId;
    type Message = Hello;
    type Timer = ();
    type Command = Command;
    type Event = Event;
    type Durable = Epoch;
    type Settings = Settings;

    fn start(ctx: &Context<'_>, stored: Option<Epoch>, out: &mut impl Outbox<Self>) -> Self {
        let stored = stored.filter(|_| BUG.get() != Bug::Forgets).unwrap_or_default();
        let toy = Toy { epoch: stored.next(), up: vec![ctx.me], ticks: 0, announced: None };
        out.persist(toy.epoch);
        let now = Standing { role: Role::Candidate, leader: None, epoch: toy.epoch };
        out.announce(Event::Became { now, cause: Cause::Started });
        out.set_timer((), Span::exactly(Duration::from_millis(100)));
        toy
    }

    fn step(&mut self, ctx: &Context<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Message { from, message } if BUG.get() == Bug::Chatty => {
                for _ in 0..2 {
                    out.send(from, message.clone());
                }
            }
            Input::Timer(()) if BUG.get() == Bug::Hasty => out.set_timer((), Span::exactly(Duration::ZERO)),
            Input::Message { message: Hello(epoch), .. } if epoch > self.epoch => {
                self.epoch = epoch;
                out.persist(epoch);
            }
            Input::Timer(()) => {
                out.set_timer((), Span::exactly(Duration::from_millis(100)));
                for &peer in &self.up {
                    out.send(peer.id, Hello(self.epoch));
                }
                self.ticks += 1;
                let bug = BUG.get();
                if bug == Bug::Restless || bug == Bug::Forgets && self.epoch < Epoch(10) {
                    self.epoch = self.epoch.next();
                    out.persist(self.epoch);
                }
                self.tell(ctx, out);
            }
            Input::PeerUp(peer) => {
                self.ticks = 0;
                self.up.extend(ctx.view.uid(peer));
            }
            Input::PeerDown(peer) => {
                self.ticks = 0;
                self.up.retain(|uid| uid.id != peer);
            }
            _ => {}
        }
    }
}

impl Toy {
    fn tell(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let bug = BUG.get();
        let all = self.up.iter().copied();
        let mut leader = if bug == Bug::Worst { all.min() } else { all.max() }.expect("oneself at least");
        if bug == Bug::SecondLeader && ctx.view.members()[0] == ctx.me {
            leader = ctx.me;
        }
        let mut epoch = self.epoch;
        if bug == Bug::Older && leader != ctx.me && self.announced.is_some_and(|one| one.epoch == epoch) {
            epoch = Epoch(epoch.0 - 1);
        }
        let role = if leader == ctx.me { Role::Leader } else { Role::Follower };
        let standing = Standing { role, leader: Some(leader.id), epoch };
        // Only when all have heard each other for a while: this toy knows nothing about components.
        let settled = self.up.len() == ctx.view.len() && self.ticks > 20;
        if settled && self.announced.replace(standing) != Some(standing) {
            out.announce(Event::Became { now: standing, cause: Cause::Heard });
        }
    }
}

impl Subject for Toy {}

fn run(bug: Bug, seed: u64) -> FaultReport {
    BUG.set(bug);
    run_subject::<Toy>(row(), seed, &FaultOptions::default())
}

/// The invariants that a toy breaks first, over some seeds.
fn broken(bug: Bug) -> Vec<FaultReport> {
    (0..40).map(|seed| run(bug, seed)).filter(|report| !report.ok()).collect()
}

fn caught(reports: &[FaultReport], invariant: &str) -> bool {
    reports.iter().any(|report| report.violations.iter().any(|violation| violation.invariant == invariant))
}

#[test]
fn an_honest_toy_passes() {
    let reports = broken(Bug::Honest);
    assert!(reports.is_empty(), "{}", reports[0]);
}

#[test]
fn two_leaders_of_one_epoch_are_caught() {
    assert!(caught(&broken(Bug::SecondLeader), "E1"));
}

#[test]
fn an_epoch_that_goes_back_after_a_restart_is_caught() {
    assert!(caught(&broken(Bug::Forgets), "E2"));
}

#[test]
fn a_cluster_that_never_settles_is_caught() {
    assert!(caught(&broken(Bug::Restless), "E8"));
}

#[test]
fn the_wrong_leader_is_caught() {
    assert!(caught(&broken(Bug::Worst), "E11"));
}

#[test]
fn following_an_older_claim_is_caught() {
    assert!(caught(&broken(Bug::Older), "E6"));
}

#[test]
fn a_run_without_end_is_ended_and_caught() {
    for bug in [Bug::Chatty, Bug::Hasty] {
        let report = run(bug, 1);
        assert_eq!(report.violations.len(), 1, "{report}");
        assert!(report.to_string().contains("pace broken (Members do not answer each other"), "{report}");
    }
}

#[test]
fn a_broken_run_shows_its_last_lines_and_the_command_that_repeats_it() {
    let reports = broken(Bug::Restless);
    let report = &reports[0];
    let text = report.to_string();
    assert!(text.ends_with(&format!("again: ctl sim faults --algorithm {} --seed {}\n", row().name, report.seed)));
    assert!(text.contains("E8 broken (After the last fault ") && report.trace.len() == 30, "{text}");
    assert_eq!(text, run(Bug::Restless, report.seed).to_string());
}
