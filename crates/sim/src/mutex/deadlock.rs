//! Several locks: members that take two of them can wait for each other in a circle, although every lock by itself is
//! right. Taking locks in one order for all members is the cure.

use algorithms::catalog::mutex::{self as catalog, Row, Visitor};
use algorithms::{Access, Mutex, MutexSettings, Uid, View};

use super::world::{Links, World, view};
use crate::experiment::Schedule;
use crate::observe::{Blind, ROUND};
use crate::rng::Rng;

/// Members around a table: the member at position i needs the locks i and i + 1. Two members need the same two locks.
#[derive(Clone, Debug)]
pub struct Table {
    pub row: &'static Row,
    pub ids: Vec<Uid>,
    /// How often each member takes its two locks.
    pub meals: u64,
    /// Every member takes the lock with the smaller number first; else its own first.
    pub ordered: bool,
    pub seed: u64,
}

/// How it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dinner {
    /// How often a member had both of its locks.
    pub meals: u64,
    pub wanted: u64,
    /// Members that wait for ever: each with the lock that it holds, the lock that it waits for and the member that
    /// holds that one.
    pub circle: Vec<Wait>,
}

/// Positions; locks are numbered from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    pub member: usize,
    pub holds: usize,
    pub wants: usize,
    pub held_by: usize,
}

/// Lets them take their locks until all are done, or until no member can go on.
pub fn dine(table: &Table) -> Result<Dinner, String> {
    if !(2..=100).contains(&table.ids.len()) {
        return Err("2 to 100 members can share locks with their neighbours".into());
    }
    Ok(catalog::dispatch(table.row, Meal { table }))
}

struct Meal<'a> {
    table: &'a Table,
}

impl Visitor for Meal<'_> {
    type Output = Dinner;

    fn mutex<M: Mutex>(self, _: &'static Row) -> Dinner {
        let view = view::<M>(self.table.ids.clone());
        let mut dining = Dining::<M>::new(self.table, &view);
        while dining.next() {}
        dining.dinner()
    }
}

/// What a member does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Does {
    /// Will take its first lock at this time.
    Rests(u64),
    /// Waits for its first or second lock.
    Waits(usize),
    /// Has its first lock and takes the second one at this time.
    Prepares(u64),
    /// Has both, and gives them back at this time.
    Eats(u64),
    Done,
}

struct Dining<'a, M: Mutex> {
    locks: Vec<World<'a, M, Blind>>,
    /// The two locks of each member, in the order in which it takes them.
    wants: Vec<[usize; 2]>,
    does: Vec<Does>,
    left: Vec<u64>,
    meals: u64,
    wanted: u64,
    now: u64,
    rng: Rng,
    endless: bool,
}

impl<'a, M: Mutex> Dining<'a, M> {
    fn new(table: &Table, view: &'a View) -> Self {
        let members = view.len();
        let links = Links { schedule: Schedule::Random, fifo: true };
        let lock = |nth: usize| {
            World::new(view, vec![MutexSettings::default(); members], links, table.seed.wrapping_add(nth as u64), Blind)
        };
        let wants = |at: usize| {
            let (mine, next) = (at, (at + 1) % members);
            if table.ordered { [mine.min(next), mine.max(next)] } else { [mine, next] }
        };
        let mut rng = Rng::new(table.seed ^ 0x6469_6e6e_6572_7321);
        Dining {
            locks: (0..members).map(lock).collect(),
            wants: (0..members).map(wants).collect(),
            does: (0..members).map(|_| Does::Rests(rng.below(8 * ROUND))).collect(),
            left: vec![table.meals; members],
            meals: 0,
            wanted: table.meals * members as u64,
            now: 0,
            rng,
            endless: table.row.endless,
        }
    }

    /// Carries out the next event; false when nothing can happen any more.
    fn next(&mut self) -> bool {
        let acts = self.does.iter().enumerate().filter_map(|(at, does)| match does {
            Does::Rests(when) | Does::Prepares(when) | Does::Eats(when) => Some((*when, at)),
            Does::Waits(_) | Does::Done => None,
        });
        let act = acts.min();
        // A token that circulates moves for ever; without a member that can act, it changes nothing but who gets it.
        if act.is_none() && self.endless && !self.can_go_on() {
            return false;
        }
        let event = (0..self.locks.len()).filter_map(|lock| Some((self.locks[lock].next_at()?, lock))).min();
        match (event, act) {
            (None, None) => return false,
            (Some((when, lock)), act) if act.is_none_or(|act| when <= act.0) => {
                self.now = when;
                self.locks[lock].advance();
            }
            (_, Some((when, at))) => self.act(when, at),
            (Some(_), None) => unreachable!("an event without an act is taken"),
        }
        self.take_entries();
        true
    }

    /// Does a member wait for a lock that no member has?
    fn can_go_on(&self) -> bool {
        (0..self.does.len()).any(|at| match self.does[at] {
            Does::Waits(nth) => self.holder(self.wants[at][nth]).is_none(),
            _ => false,
        })
    }

    fn act(&mut self, when: u64, at: usize) {
        self.now = when;
        let [first, second] = self.wants[at];
        match self.does[at] {
            Does::Rests(_) => self.ask(at, 0),
            Does::Prepares(_) => self.ask(at, 1),
            Does::Eats(_) => {
                for lock in [second, first] {
                    self.locks[lock].net.now = when;
                    self.locks[lock].exit(at);
                }
                self.left[at] -= 1;
                let rest = self.now + self.rng.below(8 * ROUND);
                self.does[at] = if self.left[at] > 0 { Does::Rests(rest) } else { Does::Done };
            }
            Does::Waits(_) | Does::Done => {}
        }
    }

    fn ask(&mut self, at: usize, nth: usize) {
        self.does[at] = Does::Waits(nth);
        let lock = &mut self.locks[self.wants[at][nth]];
        lock.net.now = self.now;
        lock.request(at, Access::Exclusive);
    }

    fn take_entries(&mut self) {
        for lock in 0..self.locks.len() {
            while let Some((at, _)) = self.locks[lock].net.entered.pop() {
                let later = self.now + self.rng.between(ROUND / 4, ROUND);
                self.does[at] = match self.does[at] {
                    Does::Waits(0) => Does::Prepares(later),
                    Does::Waits(_) => {
                        self.meals += 1;
                        Does::Eats(later)
                    }
                    other => other,
                };
            }
        }
    }

    fn holder(&self, lock: usize) -> Option<usize> {
        (0..self.does.len()).find(|&at| {
            let [first, second] = self.wants[at];
            match self.does[at] {
                Does::Eats(_) => first == lock || second == lock,
                Does::Prepares(_) | Does::Waits(1) => first == lock,
                _ => false,
            }
        })
    }

    fn dinner(&self) -> Dinner {
        let waits = (0..self.does.len()).filter_map(|member| match self.does[member] {
            Does::Waits(1) => {
                let [holds, wants] = self.wants[member];
                Some(Wait { member, holds, wants, held_by: self.holder(wants)? })
            }
            _ => None,
        });
        Dinner { meals: self.meals, wanted: self.wanted, circle: waits.collect() }
    }
}
