//! Runs a model and reports how much was searched: all of it, or a part and the rest as random walks.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, Expectation, HasDiscoveries, Model, UniformChooser};

use crate::erased::Erased;

/// Limits: generated states of the search, and of the random walks when the search did not end.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub search: usize,
    pub walks: usize,
    /// Of a random walk.
    pub depth: usize,
}

impl Limits {
    /// `CONCLAVE_MODEL_FACTOR` in the environment multiplies every limit, for nightly runs.
    pub fn new(search: usize, walks: usize) -> Self {
        let factor = env::var("CONCLAVE_MODEL_FACTOR").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
        Limits { search: search * factor, walks: walks * factor, depth: 400 }
    }
}

/// The result of a run of the checker.
#[derive(Debug)]
pub struct Report {
    pub label: String,
    /// Distinct states of the search.
    pub states: usize,
    pub depth: usize,
    /// Was every reachable state visited?
    pub complete: bool,
    /// States of the random walks.
    pub walked: usize,
    /// Broken properties, each with the shortest trace that was found.
    pub broken: BTreeMap<&'static str, String>,
    /// `sometimes` properties that were not seen: the model is vacuous in that respect.
    pub unseen: BTreeSet<&'static str>,
}

impl Report {
    /// Panics with the trace of a property that does not hold.
    pub fn holds(&self) -> &Self {
        if let Some((name, trace)) = self.broken.first_key_value() {
            panic!("{}: broken: {name}\n{trace}", self.label);
        }
        assert!(self.unseen.is_empty(), "{}: never seen: {:?}", self.label, self.unseen);
        self
    }

    /// Panics unless the property is broken: a planted bug must be caught. Returns the trace.
    pub fn breaks(&self, property: &str) -> &str {
        self.broken.get(property).unwrap_or_else(|| panic!("{}: not caught: {property}", self.label))
    }

    /// Panics unless every reachable state was visited.
    pub fn is_complete(&self) -> &Self {
        assert!(self.complete, "{}: more than {} states", self.label, self.states);
        self
    }
}

/// Searches breadth first; if that does not end within the limits, walks at random, from fixed seeds.
pub fn examine<M>(label: impl Into<String>, model: &M, limits: Limits) -> Report
where
    M: Model + Clone + Send + Sync + 'static,
    M::State: Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + 'static,
{
    search(label.into(), &Erased::new(model.clone()), limits)
}

fn search(label: String, model: &Erased, limits: Limits) -> Report {
    let search = model
        .clone()
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .target_state_count(limits.search)
        .spawn_bfs()
        .join();
    let mut report = Report {
        label,
        states: search.unique_state_count(),
        depth: search.max_depth(),
        complete: search.state_count() < limits.search,
        walked: 0,
        broken: BTreeMap::new(),
        unseen: BTreeSet::new(),
    };
    let mut seen = note(model, &search, &mut report);
    report.complete &= report.broken.is_empty();
    if !report.complete && report.broken.is_empty() && limits.walks > 0 {
        let walks = model
            .clone()
            .checker()
            .finish_when(HasDiscoveries::AnyFailures)
            .target_state_count(limits.walks)
            .target_max_depth(limits.depth)
            .spawn_simulation(1, UniformChooser)
            .join();
        report.walked = walks.state_count();
        seen.extend(note(model, &walks, &mut report));
    }
    let wanted = model.properties().into_iter().filter(|property| property.expectation == Expectation::Sometimes);
    report.unseen = wanted.map(|property| property.name).filter(|name| !seen.contains(name)).collect();
    let Report { label, states, depth, walked, .. } = &report;
    match (report.broken.first_key_value(), report.complete) {
        (Some((name, _)), _) => println!("{label}: broken after {states} states: {name}"),
        (None, true) => println!("{label}: {states} states, depth {depth}, complete"),
        (None, false) => println!("{label}: bounded at {states} states, depth {depth}; random walks: {walked} states"),
    }
    report
}

/// Names the discovered properties, and keeps the traces of the broken ones.
fn note(model: &Erased, checker: &impl Checker<Erased>, report: &mut Report) -> BTreeSet<&'static str> {
    let discoveries = checker.discoveries();
    for (&name, path) in &discoveries {
        if model.property(name).expectation.discovery_is_failure() {
            let mut trace: Vec<String> =
                path.clone().into_actions().iter().map(|action| model.describe(action)).collect();
            trace.push(format!("leads to {}", path.last_state().describe()));
            report.broken.insert(name, trace.join("\n"));
        }
    }
    discoveries.into_keys().collect()
}
