//! What is observed of every section, and the promises that are checked while a run goes on.

use algorithms::mutex::clock::Stamp;
use algorithms::{Access, Stage, Token};

use super::knowledge::Knowledge;
use crate::observe::ROUND;

/// So long after the last exit no message of that section is under way.
const SETTLED: u64 = 4 * ROUND;

/// Times of one kind, in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    pub samples: u64,
    pub sum: u64,
    pub min: u64,
    pub max: u64,
}

impl Times {
    fn add(&mut self, time: u64) {
        self.min = if self.samples == 0 { time } else { self.min.min(time) };
        self.max = self.max.max(time);
        self.sum += time;
        self.samples += 1;
    }

    /// Smallest, mean and largest in message times; `None` without a sample.
    pub fn in_messages(&self) -> Option<(f64, f64, f64)> {
        let messages = |ticks: f64| ticks / ROUND as f64;
        (self.samples > 0).then(|| {
            (messages(self.min as f64), messages(self.sum as f64 / self.samples as f64), messages(self.max as f64))
        })
    }
}

/// The observations of a run.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub entries: u64,
    /// From a request to its entry, while no other member wants to enter.
    pub client_delay: Times,
    /// From an exit to the next entry, if that member had waited for long enough that only the exit was missing.
    pub sync_delay: Times,
    /// From every request to its entry.
    pub waits: Times,
    /// The most sections of others that began during one wait.
    pub passed_by_max: u64,
    /// Sections that began while a request that happened before theirs was waiting.
    pub overtakes: u64,
    pub largest_token: Option<Token>,
    /// The most members inside at the same time.
    pub together_max: usize,
    pub first_entries: Vec<(usize, Token)>,
}

/// What a promise of all mutual exclusions was broken by, each kind once with its first occasion and how often.
#[derive(Clone, Debug, Default)]
pub(crate) struct Broken {
    pub overlaps: Occasions,
    pub tokens: Occasions,
    pub order: Occasions,
    pub uncalled: Occasions,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Occasions {
    pub count: u64,
    pub first: String,
}

impl Occasions {
    fn add(&mut self, describe: impl FnOnce() -> String) {
        self.count += 1;
        if self.count == 1 {
            self.first = describe();
        }
    }
}

/// How many entries of the beginning are kept.
const FIRST_ENTRIES: usize = 32;

/// The largest of what earlier sections had, over all and over those of writers.
#[derive(Clone, Copy, Debug)]
struct Largest<T> {
    all: Option<T>,
    writers: Option<T>,
}

impl<T: Copy + Ord> Largest<T> {
    const NONE: Self = Largest { all: None, writers: None };

    /// The largest among the earlier sections that exclude this one.
    fn excluding(&self, access: Access) -> Option<T> {
        match access {
            Access::Exclusive => self.all,
            Access::Shared => self.writers,
        }
    }

    fn add(&mut self, access: Access, value: T) {
        self.all = self.all.max(Some(value));
        if access == Access::Exclusive {
            self.writers = self.writers.max(Some(value));
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Place {
    stage: Stage,
    access: Access,
    asked_at: u64,
    /// Entries before its request.
    entries_before: u64,
}

pub(crate) struct Audit {
    places: Vec<Place>,
    /// Members inside: all, and writers.
    inside: usize,
    writers_inside: usize,
    waiting: usize,
    /// The member that asked while no other wanted to enter.
    alone: Option<usize>,
    last_exit: Option<u64>,
    /// When the last section ended, if no section has begun since.
    handover: Option<u64>,
    /// How long a request takes to be known wherever it must be.
    known_after: u64,
    tokens: Largest<Token>,
    stamps: Largest<Stamp>,
    pub seen: Observed,
    pub broken: Broken,
}

impl Audit {
    /// `client_delay`: the longest client delay by theory, in message times.
    pub(crate) fn new(members: usize, client_delay: u64) -> Self {
        let place = Place { stage: Stage::Released, access: Access::Exclusive, asked_at: 0, entries_before: 0 };
        Audit {
            places: vec![place; members],
            inside: 0,
            writers_inside: 0,
            waiting: 0,
            alone: None,
            last_exit: None,
            handover: None,
            known_after: client_delay.saturating_mul(ROUND),
            tokens: Largest::NONE,
            stamps: Largest::NONE,
            seen: Observed { first_entries: Vec::with_capacity(FIRST_ENTRIES), ..Observed::default() },
            broken: Broken::default(),
        }
    }

    pub(crate) fn stage(&self, at: usize) -> Stage {
        self.places[at].stage
    }

    pub(crate) fn nobody_inside(&self) -> bool {
        self.inside == 0
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    pub(crate) fn asked(&mut self, now: u64, at: usize, access: Access) {
        let quiet = self.inside == 0 && self.waiting == 0;
        self.alone = (quiet && self.last_exit.is_none_or(|exit| now >= exit + SETTLED)).then_some(at);
        self.waiting += 1;
        self.places[at] = Place { stage: Stage::Wanted, access, asked_at: now, entries_before: self.seen.entries };
    }

    pub(crate) fn entered(&mut self, now: u64, at: usize, token: Token, stamp: Option<Stamp>, known: &Knowledge) {
        let Place { stage, access, asked_at, .. } = self.places[at];
        if stage != Stage::Wanted {
            self.broken.uncalled.add(|| format!("at {}", rounds(now)));
            return;
        }
        if self.writers_inside > 0 || (access == Access::Exclusive && self.inside > 0) {
            self.broken.overlaps.add(|| format!("with token {token} at {}", rounds(now)));
        }
        if let Some(earlier) = self.tokens.excluding(access).filter(|earlier| *earlier >= token) {
            self.broken.tokens.add(|| format!("{token} after {earlier} at {}", rounds(now)));
        }
        if let Some((stamp, earlier)) = stamp.zip(self.stamps.excluding(access)).filter(|(now, then)| then > now) {
            self.broken.order.add(|| format!("{stamp} entered after {earlier} at {}", rounds(now)));
        }
        self.tokens.add(access, token);
        if let Some(stamp) = stamp {
            self.stamps.add(access, stamp);
        }
        self.seen.overtakes += u64::from(self.overtakes(at, known));
        self.measure(now, at, asked_at);
        self.places[at].stage = Stage::Held;
        self.waiting -= 1;
        self.inside += 1;
        self.writers_inside += usize::from(access == Access::Exclusive);
        self.seen.together_max = self.seen.together_max.max(self.inside);
        self.seen.largest_token = self.seen.largest_token.max(Some(token));
        self.seen.entries += 1;
        if self.seen.first_entries.len() < FIRST_ENTRIES {
            self.seen.first_entries.push((at, token));
        }
    }

    /// Does a request wait that excludes this one and happened before it?
    fn overtakes(&self, at: usize, known: &Knowledge) -> bool {
        let access = self.places[at].access;
        let waits = |place: &Place| place.stage == Stage::Wanted && place.access.excludes(access);
        self.waiting > 1 && (0..self.places.len()).any(|other| waits(&self.places[other]) && known.before(other, at))
    }

    fn measure(&mut self, now: u64, at: usize, asked_at: u64) {
        self.seen.waits.add(now - asked_at);
        let passed_by = self.seen.entries - self.places[at].entries_before;
        self.seen.passed_by_max = self.seen.passed_by_max.max(passed_by);
        if self.alone.take() == Some(at) {
            self.seen.client_delay.add(now - asked_at);
        }
        if let Some(exit) = self.handover.take().filter(|exit| asked_at + self.known_after <= *exit) {
            self.seen.sync_delay.add(now - exit);
        }
    }

    pub(crate) fn left(&mut self, now: u64, at: usize) {
        let place = &mut self.places[at];
        place.stage = Stage::Released;
        self.writers_inside -= usize::from(place.access == Access::Exclusive);
        self.inside -= 1;
        self.last_exit = Some(now);
        self.handover = (self.inside == 0).then_some(now);
    }

    /// Members whose requests are still open, and the most sections that passed one of them by.
    pub(crate) fn starved(&self) -> (Vec<usize>, u64) {
        let waits: Vec<usize> = (0..self.places.len()).filter(|&at| self.places[at].stage == Stage::Wanted).collect();
        let passed_by = waits.iter().map(|&at| self.seen.entries - self.places[at].entries_before).max();
        (waits, passed_by.unwrap_or(0))
    }
}

fn rounds(now: u64) -> String {
    format!("message time {:.2}", now as f64 / ROUND as f64)
}
