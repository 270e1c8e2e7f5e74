//! Values that have a name: what configs, options and JSON call them.

use thiserror::Error;

/// A word that is no name of the kind that was expected.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("`{word}` is unknown: write one of {known}")]
pub struct UnknownName {
    word: String,
    known: String,
}

pub(crate) fn by_name<T: Copy>(all: &[T], name: fn(T) -> &'static str, word: &str) -> Result<T, UnknownName> {
    let known = || all.iter().map(|&value| name(value)).collect::<Vec<_>>().join(", ");
    let found = all.iter().copied().find(|&value| name(value) == word);
    found.ok_or_else(|| UnknownName { word: word.to_owned(), known: known() })
}
