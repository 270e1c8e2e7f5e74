//! Values with a name in configs, options and JSON.

use thiserror::Error;

/// A word that is not one of the expected names.
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
