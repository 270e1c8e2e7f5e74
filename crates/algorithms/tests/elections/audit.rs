//! All small rings, all start sets, several schedules: one leader, the right one, at the published price.

use std::fmt;

use algorithms::catalog::{Elects, ROWS, Row};
use algorithms::drive::Dice;
use algorithms::theory::{Before, Case};
use algorithms::{Outcome, Topology, Uid, Wins};

use crate::subject::{Plan, Run, Schedule, Subject, subject, uids, view};

#[test]
fn every_small_ring_elects_the_right_leader_at_the_published_price() {
    for row in ROWS {
        let subject = subject(row);
        let mut runs = 0;
        for wins in [Wins::Highest, Wins::Lowest] {
            let survey = survey(row, &*subject, wins, 6);
            assert!(survey.first.is_none(), "{}", survey.first.unwrap_or_default());
            runs += survey.runs;
        }
        println!("{:26} {runs:6} runs", row.name);
    }
}

#[test]
fn larger_rings_cost_what_theory_says() {
    for row in ROWS {
        let subject = subject(row);
        let mut dice = Dice(7);
        for n in (7..=17).chain([32, 64]) {
            let mut ids: Vec<u32> = (0..n as u32).collect();
            dice.shuffle(&mut ids);
            let all: Vec<usize> = (0..n).collect();
            let some: Vec<usize> = (0..n).filter(|&at| at == n - 1 || dice.below(3) == 0).collect();
            for (initiators, wins) in [(&all, Wins::Highest), (&some, Wins::Highest), (&some, Wins::Lowest)] {
                let view = view(row.topology, uids(&ids));
                let plan = Plan { view: &view, wins, initiators, dead: &[], schedule: Schedule::Synchronous, seed: 1 };
                check(row, &*subject, &plan).unwrap_or_else(|problem| panic!("{problem}"));
            }
        }
    }
}

/// All sets of dead members, all sets of living initiators; of more than six members the sets of one, two and all
/// living initiators.
fn deaths_and_starts(n: usize) -> Vec<(Vec<usize>, Vec<usize>)> {
    let members = |set: usize| (0..n).filter(|at| set >> at & 1 == 1).collect::<Vec<usize>>();
    let full = (1_usize << n) - 1;
    let mut cases = Vec::new();
    for dead in 0..full {
        let living = full & !dead;
        let few = |set: usize| n <= 6 || set.count_ones() <= 2 || set == living;
        cases.extend((1..=full).filter(|&set| set & dead == 0 && few(set)).map(|set| (members(dead), members(set))));
    }
    cases
}

/// A mesh asks dead members and waits for them, so theory knows what every set of them costs.
fn dead_members_cost_a_mesh_what_theory_says(from: First) {
    for row in ROWS.iter().filter(|row| row.topology == Topology::Mesh && !row.needs_all) {
        let (survey, compared) = survey_deaths(row, &*subject(row), from, 8);
        assert!(survey.first.is_none(), "{}", survey.first.unwrap_or_default());
        println!("{:26} {compared:6} runs compared with theory", row.name);
        // What a continuous machine costs later depends on how long it ran.
        assert!(compared > 0 || from == First::Over, "{}: theory is silent", row.name);
    }
}

/// Without a majority an election that needs one never ends.
fn can_elect(row: &Row, n: usize, dead: &[usize]) -> bool {
    row.elects != Elects::Majority || 2 * (n - dead.len()) > n
}

/// Runs a mesh with every set of dead members; returns also how many runs theory has a statement about.
pub(crate) fn survey_deaths(row: &'static Row, subject: &dyn Subject, from: First, n_max: usize) -> (Survey, usize) {
    let (mut survey, mut compared) = (Survey::default(), 0);
    for n in 2..=n_max {
        let ids: Vec<u32> = (1..=n as u32).collect();
        let view = view(row.topology, uids(&ids));
        for (dead, initiators) in deaths_and_starts(n).into_iter().filter(|(dead, _)| can_elect(row, n, dead)) {
            let schedules =
                if n < 5 { [Schedule::Synchronous, Schedule::Random].as_slice() } else { &[Schedule::Synchronous] };
            for &schedule in schedules {
                let wins = Wins::Highest;
                let plan = Plan { view: &view, wins, initiators: &initiators, dead: &dead, schedule, seed: 1 };
                survey.add(check_from(row, subject, &plan, from));
                compared += usize::from((row.expect)(&case(&plan, from)).is_some());
            }
        }
    }
    (survey, compared)
}

#[test]
fn dead_members_cost_the_first_election_of_a_mesh_what_theory_says() {
    dead_members_cost_a_mesh_what_theory_says(First::Election);
}

#[test]
fn dead_members_cost_the_second_election_of_a_mesh_what_theory_says() {
    dead_members_cost_a_mesh_what_theory_says(First::Over);
}

/// What the harness found.
#[derive(Default, Debug)]
pub(crate) struct Survey {
    pub(crate) runs: usize,
    /// Not exactly one leader, not the right one, or not known to all.
    pub(crate) wrong_result: usize,
    /// The right result, but not at the price theory asks.
    pub(crate) wrong_price: usize,
    pub(crate) first: Option<String>,
}

/// Runs everything of up to `n_max` members.
pub(crate) fn survey(row: &'static Row, subject: &dyn Subject, wins: Wins, n_max: usize) -> Survey {
    let mut survey = Survey::default();
    for n in 1..=n_max {
        for (ring, ids) in cyclic_orders(n).into_iter().enumerate() {
            let view = view(row.topology, uids(&ids));
            for initiators in start_sets(n, ring as u64) {
                for seed in 0..4 {
                    let schedule = if seed == 0 { Schedule::Synchronous } else { Schedule::Random };
                    let plan = Plan { view: &view, wins, initiators: &initiators, dead: &[], schedule, seed };
                    survey.add(check(row, subject, &plan));
                }
            }
        }
    }
    survey
}

impl Survey {
    pub(crate) fn add(&mut self, verdict: Result<(), Problem>) {
        self.runs += 1;
        let Err(problem) = verdict else { return };
        match problem {
            Problem::Result(_) => self.wrong_result += 1,
            Problem::Price(_) => self.wrong_price += 1,
        }
        self.first.get_or_insert(problem.to_string());
    }
}

#[derive(Debug)]
pub(crate) enum Problem {
    Result(String),
    Price(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Problem::Result(what) | Problem::Price(what)) = self;
        f.write_str(what)
    }
}

/// All rings of the ids 1..=n up to rotation: the largest stays in front.
pub(crate) fn cyclic_orders(n: usize) -> Vec<Vec<u32>> {
    fn extend(ring: &mut Vec<u32>, n: usize, all: &mut Vec<Vec<u32>>) {
        if ring.len() == n {
            return all.push(ring.clone());
        }
        for id in 1..n as u32 {
            if !ring.contains(&id) {
                ring.push(id);
                extend(ring, n, all);
                ring.pop();
            }
        }
    }
    let mut all = Vec::new();
    extend(&mut vec![n as u32], n, &mut all);
    all
}

/// Every non-empty set up to five members; of six all singletons, the full set and a few at random.
fn start_sets(n: usize, seed: u64) -> Vec<Vec<usize>> {
    let members = |set: usize| (0..n).filter(|at| set >> at & 1 == 1).collect();
    let full = (1 << n) - 1;
    if n <= 5 {
        return (1..=full).map(members).collect();
    }
    let mut dice = Dice(seed);
    let sample: Vec<usize> = (0..4).map(|_| 1 + dice.below(full)).collect();
    (0..n).map(|at| 1 << at).chain([full]).chain(sample).map(members).collect()
}

/// Which election is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum First {
    /// The first one.
    Election,
    /// The one after an election in which all members lived and the best one won.
    Over,
}

pub(crate) fn check(row: &'static Row, subject: &dyn Subject, plan: &Plan<'_>) -> Result<(), Problem> {
    check_from(row, subject, plan, First::Election)
}

fn check_from(row: &'static Row, subject: &dyn Subject, plan: &Plan<'_>, first: First) -> Result<(), Problem> {
    let run = match first {
        First::Election => subject.run(plan, None),
        First::Over => subject.run_second(plan),
    };
    let explain = |problem: String| {
        let ids: Vec<String> = plan.view.members().iter().map(Uid::to_string).collect();
        let Plan { wins, initiators, dead, schedule, seed, .. } = plan;
        format!(
            "{}: {problem}\n  ring {}, {wins:?} wins, positions {initiators:?} start, {dead:?} dead, {schedule:?}, \
             seed {seed}, first: {first:?}\n  {run:?}",
            row.name,
            ids.join(" ")
        )
    };
    result(row, plan, &run).map_err(|problem| Problem::Result(explain(problem)))?;
    price(row, plan, first, &run).map_err(|problem| Problem::Price(explain(problem)))
}

fn case<'a>(plan: &Plan<'a>, first: First) -> Case<'a> {
    let synchronous = plan.schedule == Schedule::Synchronous;
    let Plan { wins, initiators, dead, .. } = *plan;
    let (ids, shape, before) = (plan.view.members(), plan.view.shape(), Before::Nothing);
    let mut case = Case { ids, wins, initiators, dead, synchronous, before, shape };
    if first == First::Over {
        case.before = Before::Followed(case.best());
    }
    case
}

fn result(row: &'static Row, plan: &Plan<'_>, run: &Run) -> Result<(), String> {
    if run.endless {
        return Err("no end".into());
    }
    if run.persisted_late {
        return Err("a record was persisted after something had been said".into());
    }
    match (row.check)(plan.view, plan.wins) {
        Ok(()) => leader(row, plan, run),
        Err(_) if run.outcomes.iter().all(|said| *said == [Outcome::GaveUp]) && run.election() == 0 => Ok(()),
        Err(reason) => Err(format!("did not refuse: {reason}")),
    }
}

fn leader(row: &'static Row, plan: &Plan<'_>, run: &Run) -> Result<(), String> {
    let living: Vec<usize> = (0..plan.view.len()).filter(|at| !plan.dead.contains(at)).collect();
    let mut last = Vec::new();
    for &at in &living {
        match run.outcomes[at].as_slice() {
            [.., outcome] if run.continuous || run.outcomes[at].len() == 1 => last.push((at, *outcome)),
            said => return Err(format!("position {at} said {said:?}")),
        }
    }
    let winners: Vec<usize> = last.iter().filter(|(_, o)| *o == Outcome::Won).map(|(at, _)| *at).collect();
    let &[winner] = winners.as_slice() else { return Err(format!("winners: {winners:?}")) };
    let uid = |at: usize| plan.view.members()[at];
    let follow = if row.elects == Elects::Anyone { None } else { Some(uid(winner)) };
    if let Some((at, outcome)) = last.iter().find(|(at, o)| *at != winner && *o != Outcome::Follow(follow)) {
        return Err(format!("position {winner} won, but position {at} says {outcome:?}"));
    }
    let right = match row.elects {
        Elects::Best => plan.wins.best(living.iter().map(|&at| uid(at))) == Some(uid(winner)),
        // A late starter may have become a relay before.
        Elects::BestCandidate if plan.schedule == Schedule::Random => plan.initiators.contains(&winner),
        Elects::BestCandidate => plan.wins.best(plan.initiators.iter().map(|&at| uid(at))) == Some(uid(winner)),
        Elects::FirstCandidate => plan.initiators.contains(&winner),
        // Candidates that share the votes out try again, and so does any member that voted.
        Elects::Majority | Elects::Anyone => true,
    };
    if right { Ok(()) } else { Err(format!("position {winner} should not have won")) }
}

fn price(row: &'static Row, plan: &Plan<'_>, first: First, run: &Run) -> Result<(), String> {
    let bounds = (row.bounds)(plan.view.len());
    let election = run.election() as f64;
    if (row.check)(plan.view, plan.wins).is_err() {
        return Ok(());
    }
    if plan.dead.is_empty() && first == First::Election && !(bounds.best..=bounds.worst).contains(&election) {
        return Err(format!("{election} messages are not within {bounds:?}"));
    }
    let synchronous = plan.schedule == Schedule::Synchronous;
    let Some(expected) = (row.expect)(&case(plan, first)) else { return Ok(()) };
    let right = expected.election.contains(run.election())
        && expected.announcement.contains(run.announcement())
        && (!synchronous || expected.rounds.is_none_or(|rounds| rounds.contains(run.rounds)))
        && expected
            .kinds
            .iter()
            .all(|(name, range)| run.counts.iter().any(|(kind, count)| kind.name == *name && range.contains(*count)));
    if right { Ok(()) } else { Err(format!("expected {expected:?}")) }
}
