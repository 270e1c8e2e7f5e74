//! Bugs of reservations.

use super::{Note, Token};

/// The end of an entry that is followed by an entry of another session counts for nothing: such an entry was reserved.
pub(super) fn keep_reserved(notes: &mut [Note]) {
    for at in 1..notes.len() {
        let (before, rest) = notes.split_at_mut(at);
        if let (Some(Note::Remove { name, token }), Note::Add(next)) = (before.last_mut(), &rest[0])
            && *name == next.name
        {
            *token = Token(0);
        }
    }
}
