//! What must hold in a fault run, one file each, over the members' announcements and the state of the connections.

mod agreement;
mod catalog;
mod children_stop_first;
mod epoch_never_decreases;
mod garcia_molina_assertion_1;
mod garcia_molina_assertion_3;
mod garcia_molina_end;
mod healthy_leader_stays;
mod majority_granted;
mod no_older_claim;
mod no_older_list;
mod one_cluster_id;
mod one_grant_per_epoch;
mod one_leader_per_epoch;
mod one_list_per_stamp;
mod one_reign_at_a_time;
mod one_voter_apart;
mod specified_leader;

use algorithms::catalog::Row;
use algorithms::{Epoch, NodeId, StateVector, Uid, View};
use member::reign::{Holder, Vote};
use member::{Cause, ClusterId, Guarantee, ListEvent, NodeSet, OnClose, Settings, Standing};
use types::Stamp;

use super::plan::{FaultKind, Plan};
use super::report::Violation;
use super::subject::Subject;
use agreement::Agreement;
use children_stop_first::ChildrenStopFirst;
use epoch_never_decreases::EpochNeverDecreases;
use garcia_molina_assertion_1::GarciaMolinaAssertion1;
use garcia_molina_assertion_3::GarciaMolinaAssertion3;
use garcia_molina_end::GarciaMolinaEnd;
use healthy_leader_stays::HealthyLeaderStays;
use majority_granted::MajorityGranted;
use no_older_claim::NoOlderClaim;
use no_older_list::NoOlderList;
use one_cluster_id::OneClusterId;
use one_grant_per_epoch::OneGrantPerEpoch;
use one_leader_per_epoch::OneLeaderPerEpoch;
use one_list_per_stamp::OneListPerStamp;
use one_reign_at_a_time::OneReignAtATime;
use one_voter_apart::OneVoterApart;
use specified_leader::SpecifiedLeader;

pub use catalog::{INVARIANTS, InvariantInfo};

/// A member announced its standing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Announced {
    /// Virtual nanoseconds.
    pub at: u64,
    pub node: usize,
    /// Counts this node's starts.
    pub start: u32,
    pub standing: Standing,
    pub cause: Cause,
    /// A child process acts on its leadership.
    pub child: bool,
}

/// A voter promised an epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub node: usize,
    pub epoch: Epoch,
    pub holder: Holder,
    /// The stamp of the list under which it was granted.
    pub list: Stamp,
}

/// A leader whose lease runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leader {
    pub node: usize,
    pub epoch: Epoch,
    /// Voters of its list that can grant no epoch to another holder now.
    pub bound: usize,
    /// All voters of its list.
    pub of: usize,
}

/// The connections at the time of an announcement.
#[derive(Clone, Debug)]
pub(crate) struct Scene<'a> {
    pub members: &'a [Uid],
    /// Positions the announcer is connected to, directly or not, itself included.
    pub component: NodeSet,
    /// Can any two of them exchange messages directly? Across a bridge one attempt may have two winners.
    pub whole: bool,
    /// Since when nothing has changed in that component.
    pub stable_since: u64,
    /// For every voter that the announcer has an undisturbed connection to: since when it has, and the voter is
    /// settled.
    pub linked_since: Vec<u64>,
}

impl Scene<'_> {
    pub(crate) fn uid(&self, id: NodeId) -> Option<Uid> {
        self.members.iter().copied().find(|uid| uid.id == id)
    }
}

/// The last announcement of each member; `None` for a dead one.
pub(crate) type Standings<'a> = &'a [Option<Standing>];

pub(crate) trait Invariant {
    fn announced(&mut self, _: &Announced, _: &Scene<'_>) -> Result<(), String> {
        Ok(())
    }

    fn granted(&mut self, _: &Granted, _: &[Uid]) -> Result<(), String> {
        Ok(())
    }

    /// This vote is on the disk of this node. A voter that is killed behind its answer does not announce the grant.
    fn recorded(&mut self, _: usize, _: &Vote) -> Result<(), String> {
        Ok(())
    }

    /// A list of members was heard of, proposed, written or put in force at this node.
    fn listed(&mut self, _: usize, _: &ListEvent, _: &[Uid]) -> Result<(), String> {
        Ok(())
    }

    /// After every step, while any lease runs.
    fn reigning(&mut self, _: &[Leader], _: &[Uid]) -> Result<(), String> {
        Ok(())
    }

    /// A voter has announced this id of the cluster, or has started with it on its disk.
    fn named(&mut self, _: ClusterId) -> Result<(), String> {
        Ok(())
    }

    /// This node lost its disk.
    fn wiped(&mut self, _: usize) {}

    /// After every step: the state vectors of the living members.
    fn stepped(&mut self, _: &[Option<StateVector>], _: &[Uid]) -> Result<(), String> {
        Ok(())
    }

    /// After every step from the moment on at which all faults ended long enough ago.
    fn ended(&mut self, _: &[Option<StateVector>], _: &[Uid]) -> Result<(), String> {
        Ok(())
    }

    /// All faults ended long enough ago.
    fn settled(&mut self, _: Standings<'_>, _: &[Uid]) -> Result<(), String> {
        Ok(())
    }
}

/// All invariants of a run, and their findings.
pub(crate) struct InvariantSet {
    /// Each with its row of the catalog.
    invariants: Vec<(&'static InvariantInfo, Box<dyn Invariant>)>,
    pub(crate) violations: Vec<Violation>,
    pub(crate) watches_reigns: bool,
}

impl InvariantSet {
    /// The invariants of this subject in a run with this plan.
    pub(crate) fn of<S: Subject>(row: &Row, view: &View, settings: &Settings, plan: &Plan) -> Self {
        let (calm, changes) = (plan.calm(), plan.kinds.contains(&FaultKind::Changes));
        let features = S::features(settings);
        let by_attempt = S::GUARANTEE == Guarantee::Component && !features.has_terms && !features.groups;
        let voters = view.members().iter().filter(|uid| settings.votes(uid.id)).count();
        let watches_reigns = S::GUARANTEE != Guarantee::Component;
        let mut set = InvariantSet { invariants: Vec::new(), violations: Vec::new(), watches_reigns };
        set.add("E1", OneLeaderPerEpoch::new(settings, by_attempt));
        set.add("E2", EpochNeverDecreases::new(view.len()));
        set.add("E6", NoOlderClaim::new(view.len()));
        set.add("E8", Agreement::default());
        set.add("E11", SpecifiedLeader::new(row, view, settings, plan));
        set.add("E13", ChildrenStopFirst);
        set.add("assertion 3", GarciaMolinaAssertion3);
        match S::GUARANTEE {
            Guarantee::Component => {
                set.add("assertion 2", GarciaMolinaEnd::assertion_2());
                set.add("assertion 4", GarciaMolinaEnd::assertion_4());
                if calm {
                    set.add("assertion 1", GarciaMolinaAssertion1::default());
                }
            }
            Guarantee::Lease => set.add("E3", OneReignAtATime { votes: false }),
            Guarantee::Majority => {
                set.add("E3", OneReignAtATime { votes: true });
                set.add("E15", OneListPerStamp::default());
                set.add("E16", NoOlderList::default());
                set.add("E17", OneVoterApart::default());
                set.add("E4", OneGrantPerEpoch::default());
                set.add("E14", OneClusterId::default());
                set.add("E5", MajorityGranted::new(settings, voters));
                if settings.on_close == OnClose::WaitLease && !changes {
                    set.add("E7", HealthyLeaderStays::new(&settings.timing, voters));
                }
            }
        }
        set
    }

    fn add(&mut self, name: &str, invariant: impl Invariant + 'static) {
        self.invariants.push((catalog::info(name), Box::new(invariant)));
    }

    /// Asks every invariant; what does not hold is kept.
    pub(crate) fn ask(&mut self, question: impl Fn(&mut dyn Invariant) -> Result<(), String>) {
        for (info, invariant) in &mut self.invariants {
            if let Err(how) = question(invariant.as_mut()) {
                self.violations.push(Violation { invariant: info.name, sentence: info.sentence, how });
            }
        }
    }

    pub(crate) fn wiped(&mut self, node: usize) {
        self.ask(|invariant| {
            invariant.wiped(node);
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use algorithms::catalog::{DEFAULT, row};
    use algorithms::election::bully::Bully;
    use member::{Classic, Member, Quorum};

    use super::*;

    #[test]
    fn every_checker_has_a_row_that_names_a_file_of_this_directory() {
        let row = row(DEFAULT).expect("the default is in the catalog");
        let view = View::mesh((1..=3).map(Uid::plain).collect());
        let settings = Settings::default();
        let plan = Plan::draw(3, 0.0, true, &mut crate::rng::Rng::new(1));
        let classic = InvariantSet::of::<Member<Bully, Classic>>(row, &view, &settings, &plan).invariants;
        let quorum = InvariantSet::of::<Member<Bully, Quorum>>(row, &view, &settings, &plan).invariants;
        for (info, _) in classic.into_iter().chain(quorum) {
            assert!(info.checkers.iter().any(|file| file.starts_with("crates/sim/src/faults/invariants/")));
        }
    }
}
