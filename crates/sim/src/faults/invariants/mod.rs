//! What must hold in a fault run, one file each, over what members announce and who could reach whom at the time.

mod assertion1;
mod e1;
mod e11;
mod e2;
mod e3;
mod e4;
mod e5;
mod e6;
mod e7;
mod e8;

use algorithms::catalog::Row;
use algorithms::{Epoch, NodeId, OnClose, Safety, Settings, StateVector, Uid, View};
use member::reign::Holder;
use member::{Cause, NodeSet, Standing};

/// A member told where it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Announced {
    /// Virtual nanoseconds.
    pub at: u64,
    pub node: usize,
    /// Counts this node's starts.
    pub boot: u32,
    pub standing: Standing,
    pub cause: Cause,
}

/// A voter promised an epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub node: usize,
    pub epoch: Epoch,
    pub holder: Holder,
}

/// A leader whose lease runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leader {
    pub node: usize,
    pub epoch: Epoch,
    /// Voters that can grant nobody else anything now.
    pub bound: usize,
}

/// Who could reach whom when it was told.
#[derive(Clone, Debug)]
pub(crate) struct Scene<'a> {
    pub members: &'a [Uid],
    /// Positions the announcer is connected to, directly or not, itself included.
    pub component: NodeSet,
    /// Can any two of them talk directly? Across a bridge one attempt may crown two.
    pub whole: bool,
    /// Since when nothing has changed in that component.
    pub stable_since: u64,
    /// Of every voter the announcer talks to undisturbed: since when it does, and that one is settled.
    pub linked_since: Vec<u64>,
}

impl Scene<'_> {
    pub(crate) fn uid(&self, id: NodeId) -> Option<Uid> {
        self.members.iter().copied().find(|uid| uid.id == id)
    }
}

/// Everybody's last word; `None` for the dead.
pub(crate) type Standings<'a> = &'a [Option<Standing>];

pub(crate) trait Invariant {
    fn name(&self) -> &'static str;

    fn announced(&mut self, _: &Announced, _: &Scene<'_>) -> Result<(), String> {
        Ok(())
    }

    fn granted(&mut self, _: &Granted, _: &[Uid]) -> Result<(), String> {
        Ok(())
    }

    /// After every step, while anybody's lease runs.
    fn reigning(&mut self, _: &[Leader], _: &[Uid]) -> Result<(), String> {
        Ok(())
    }

    /// This node lost its disk.
    fn wiped(&mut self, _: usize) {}

    /// After every step, the state vectors of the living.
    fn stepped(&mut self, _: &[Option<StateVector>], _: &[Uid]) -> Result<(), String> {
        Ok(())
    }

    /// Everything was healed long enough ago.
    fn settled(&mut self, _: Standings<'_>, _: &[Uid]) -> Result<(), String> {
        Ok(())
    }
}

/// All invariants of a run, and what they found.
pub(crate) struct Court {
    invariants: Vec<Box<dyn Invariant>>,
    /// The name of the broken invariant and how.
    pub(crate) verdicts: Vec<(&'static str, String)>,
    pub(crate) watches_state: bool,
    pub(crate) watches_reigns: bool,
}

impl Court {
    /// `calm`: nothing but deaths happens in this run.
    pub(crate) fn new(row: &Row, view: &View, settings: &Settings, calm: bool) -> Self {
        let classic = settings.safety == Safety::Classic;
        let voters = view.members().iter().filter(|uid| settings.votes(uid.id)).count();
        let mut invariants: Vec<Box<dyn Invariant>> = vec![
            Box::new(e1::OneLeaderPerEpoch::new(&settings.timing, classic)),
            Box::new(e2::EpochNeverDecreases::new(view.len())),
            Box::new(e6::NoOlderClaim::new(view.len())),
            Box::new(e8::Agreement::default()),
            Box::new(e11::TheSpecifiedLeader::new(row, view, settings)),
        ];
        if !classic {
            invariants.push(Box::new(e3::OneReignAtATime { voters }));
            invariants.push(Box::new(e4::OneGrantPerEpoch::default()));
            invariants.push(Box::new(e5::AMajority::new(settings, voters)));
            if settings.on_close == OnClose::WaitLease {
                invariants.push(Box::new(e7::HealthyLeadersStay::new(&settings.timing, voters)));
            }
        }
        if calm && classic {
            invariants.push(Box::new(assertion1::Assertion1::default()));
        }
        Court { invariants, verdicts: Vec::new(), watches_state: calm && classic, watches_reigns: !classic }
    }

    fn ask(&mut self, question: impl Fn(&mut dyn Invariant) -> Result<(), String>) {
        for invariant in &mut self.invariants {
            if let Err(how) = question(invariant.as_mut()) {
                self.verdicts.push((invariant.name(), how));
            }
        }
    }

    pub(crate) fn announced(&mut self, announced: &Announced, scene: &Scene<'_>) {
        self.ask(|invariant| invariant.announced(announced, scene));
    }

    pub(crate) fn granted(&mut self, granted: &Granted, members: &[Uid]) {
        self.ask(|invariant| invariant.granted(granted, members));
    }

    pub(crate) fn reigning(&mut self, leaders: &[Leader], members: &[Uid]) {
        self.ask(|invariant| invariant.reigning(leaders, members));
    }

    pub(crate) fn wiped(&mut self, node: usize) {
        self.ask(|invariant| {
            invariant.wiped(node);
            Ok(())
        });
    }

    pub(crate) fn stepped(&mut self, states: &[Option<StateVector>], members: &[Uid]) {
        self.ask(|invariant| invariant.stepped(states, members));
    }

    pub(crate) fn settled(&mut self, standings: Standings<'_>, members: &[Uid]) {
        self.ask(|invariant| invariant.settled(standings, members));
    }
}
