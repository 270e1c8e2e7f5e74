//! Named timers and the moments at which they fire.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};

/// Up to here a sorted list is faster than trees.
const FEW: usize = 32;

/// Most machines have few timers; a lock service has one for every session. Equal timers are equal values whatever the order
/// in which they were set; timers of one moment fire in the order of their names.
#[derive(Clone)]
pub struct Timers<T, W>(Kept<T, W>);

#[derive(Clone)]
enum Kept<T, W> {
    /// Sorted by name.
    Few(Vec<(T, W)>),
    Many(Many<T, W>),
}

#[derive(Clone)]
struct Many<T, W> {
    by_name: BTreeMap<T, W>,
    by_moment: BTreeSet<(W, T)>,
}

impl<T, W> Default for Timers<T, W> {
    fn default() -> Self {
        Timers(Kept::Few(Vec::new()))
    }
}

impl<T: Copy + Ord, W: Copy + Ord> Timers<T, W> {
    pub fn set(&mut self, timer: T, when: W) {
        match &mut self.0 {
            Kept::Few(few) => match find(few, timer) {
                Ok(at) => few[at].1 = when,
                Err(at) if few.len() < FEW => few.insert(at, (timer, when)),
                Err(_) => {
                    let mut many = Many::new(few.iter().copied());
                    many.set(timer, when);
                    self.0 = Kept::Many(many);
                }
            },
            Kept::Many(many) => many.set(timer, when),
        }
    }

    pub fn cancel(&mut self, timer: T) {
        match &mut self.0 {
            Kept::Few(few) => {
                if let Ok(at) = find(few, timer) {
                    few.remove(at);
                }
            }
            Kept::Many(many) => {
                many.cancel(timer);
                self.shrink();
            }
        }
    }

    pub fn get(&self, timer: T) -> Option<W> {
        match &self.0 {
            Kept::Few(few) => find(few, timer).ok().map(|at| few[at].1),
            Kept::Many(many) => many.by_name.get(&timer).copied(),
        }
    }

    /// In the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (T, W)> + '_ {
        self.all().map(|(&timer, &when)| (timer, when))
    }

    /// Moves every timer: for models, where time passes like that.
    pub fn shift(&mut self, mut to: impl FnMut(T, W) -> W) {
        match &mut self.0 {
            Kept::Few(few) => few.iter_mut().for_each(|(timer, when)| *when = to(*timer, *when)),
            Kept::Many(many) => *many = Many::new(many.by_name.iter().map(|(&timer, &when)| (timer, to(timer, when)))),
        }
    }

    pub fn retain(&mut self, keep: impl Fn(T) -> bool) {
        match &mut self.0 {
            Kept::Few(few) => few.retain(|&(timer, _)| keep(timer)),
            Kept::Many(many) => {
                many.by_name.retain(|&timer, _| keep(timer));
                many.by_moment.retain(|&(_, timer)| keep(timer));
                self.shrink();
            }
        }
    }

    pub fn next_due(&self) -> Option<W> {
        match &self.0 {
            Kept::Few(few) => few.iter().map(|&(_, when)| when).min(),
            Kept::Many(many) => many.by_moment.first().map(|&(when, _)| when),
        }
    }

    /// Removes and returns the earliest timer, if it is due at `now`.
    pub fn pop_due(&mut self, now: W) -> Option<T> {
        match &mut self.0 {
            Kept::Few(few) => {
                let earliest = (0..few.len()).min_by_key(|&at| few[at].1)?;
                (few[earliest].1 <= now).then(|| few.remove(earliest).0)
            }
            Kept::Many(many) => {
                let &(when, timer) = many.by_moment.first()?;
                if when > now {
                    return None;
                }
                self.cancel(timer);
                Some(timer)
            }
        }
    }

    /// Not as soon as they are few: one timer more or less would move them all every time.
    fn shrink(&mut self) {
        if let Kept::Many(many) = &self.0
            && many.by_name.len() < FEW / 2
        {
            self.0 = Kept::Few(many.by_name.iter().map(|(&timer, &when)| (timer, when)).collect());
        }
    }
}

impl<T: Copy + Ord, W: Copy + Ord> Many<T, W> {
    fn new(timers: impl Iterator<Item = (T, W)>) -> Self {
        let by_name: BTreeMap<T, W> = timers.collect();
        let by_moment = by_name.iter().map(|(&timer, &when)| (when, timer)).collect();
        Many { by_name, by_moment }
    }

    fn set(&mut self, timer: T, when: W) {
        if let Some(before) = self.by_name.insert(timer, when) {
            self.by_moment.remove(&(before, timer));
        }
        self.by_moment.insert((when, timer));
    }

    fn cancel(&mut self, timer: T) {
        if let Some(before) = self.by_name.remove(&timer) {
            self.by_moment.remove(&(before, timer));
        }
    }
}

fn find<T: Copy + Ord, W>(few: &[(T, W)], timer: T) -> Result<usize, usize> {
    few.binary_search_by_key(&timer, |(known, _)| *known)
}

impl<T, W> Timers<T, W> {
    /// In the order of their names.
    fn all(&self) -> impl Iterator<Item = (&T, &W)> {
        let (few, many) = match &self.0 {
            Kept::Few(few) => (few.as_slice(), None),
            Kept::Many(many) => (&[][..], Some(&many.by_name)),
        };
        few.iter().map(|(timer, when)| (timer, when)).chain(many.into_iter().flatten())
    }
}

impl<T: PartialEq, W: PartialEq> PartialEq for Timers<T, W> {
    fn eq(&self, other: &Self) -> bool {
        self.all().eq(other.all())
    }
}

impl<T: Eq, W: Eq> Eq for Timers<T, W> {}

impl<T: Hash, W: Hash> Hash for Timers<T, W> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.all().count());
        self.all().for_each(|timer| timer.hash(state));
    }
}

impl<T: fmt::Debug, W: fmt::Debug> fmt::Debug for Timers<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all()).finish()
    }
}

#[cfg(test)]
mod tests;
