//! Which rule the machines of a model break on purpose.
//!
//! A planted bug is a value and not a type: the model, the checker and the machine are compiled once for all bugs of a
//! machine. A model passes the number on in the low bits of the random word, from which no machine draws; a wrapper around
//! the machine, in the tests, reads it. Machines that ship know nothing of it.

/// The number of a planted bug.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Mistake(u16);

impl Mistake {
    /// The machine as it ships.
    pub const NONE: Mistake = Mistake(0);

    /// The bug at this place of a list whose first one, at 0, is none.
    pub fn at(place: usize) -> Self {
        Mistake(u16::try_from(place).expect("a short list"))
    }

    pub fn place(self) -> usize {
        usize::from(self.0)
    }

    /// The mistake in a random word, and the word that the machine sees.
    pub fn split(dice: u64) -> (Self, u64) {
        (Mistake((dice & u64::from(u16::MAX)) as u16), dice & !u64::from(u16::MAX))
    }

    /// A random word with this mistake in its low bits.
    pub(crate) fn join(self, dice: u64) -> u64 {
        dice & !u64::from(u16::MAX) | u64::from(self.0)
    }
}
