//! Named timers and the moments at which they fire.

/// A machine has few timers, so a sorted list is faster than a heap. It is sorted by name, so that equal timers are
/// equal values whatever the order in which they were set; timers of one moment fire in the order of their names.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Timers<T, W>(Vec<(T, W)>);

impl<T, W> Default for Timers<T, W> {
    fn default() -> Self {
        Timers(Vec::new())
    }
}

impl<T: Copy + Ord, W: Copy> Timers<T, W> {
    pub fn set(&mut self, timer: T, when: W) {
        match self.find(timer) {
            Ok(at) => self.0[at].1 = when,
            Err(at) => self.0.insert(at, (timer, when)),
        }
    }

    pub fn cancel(&mut self, timer: T) {
        if let Ok(at) = self.find(timer) {
            self.0.remove(at);
        }
    }

    pub fn get(&self, timer: T) -> Option<W> {
        self.find(timer).ok().map(|at| self.0[at].1)
    }

    pub fn iter(&self) -> impl Iterator<Item = (T, W)> + '_ {
        self.0.iter().copied()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (T, &mut W)> + '_ {
        self.0.iter_mut().map(|(timer, when)| (*timer, when))
    }

    pub fn retain(&mut self, keep: impl Fn(T) -> bool) {
        self.0.retain(|&(timer, _)| keep(timer));
    }

    fn find(&self, timer: T) -> Result<usize, usize> {
        self.0.binary_search_by_key(&timer, |&(known, _)| known)
    }
}

impl<T: Copy + Ord, W: Copy + Ord> Timers<T, W> {
    pub fn next_due(&self) -> Option<W> {
        self.0.iter().map(|&(_, when)| when).min()
    }

    /// Removes and returns the earliest timer, if it is due at `now`.
    pub fn pop_due(&mut self, now: W) -> Option<T> {
        let earliest = (0..self.0.len()).min_by_key(|&at| self.0[at].1)?;
        (self.0[earliest].1 <= now).then(|| self.0.remove(earliest).0)
    }
}
