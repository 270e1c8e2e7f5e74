//! Values with a name in configs, options and JSON.

use thiserror::Error;

/// A word that is not one of the expected names.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("`{word}` is unknown: write one of {known}")]
pub struct UnknownName {
    word: String,
    known: String,
}

/// The names of an enum's values, in the order of `ALL`.
#[macro_export]
macro_rules! names {
    ($named:ident { $($value:ident: $name:literal),+ $(,)? }) => {
        impl $named {
            pub const ALL: [$named; [$($name),+].len()] = [$($named::$value),+];

            pub fn name(self) -> &'static str {
                match self { $($named::$value => $name),+ }
            }
        }

        impl ::std::fmt::Display for $named {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

/// The same for an enum whose values are read by their names.
macro_rules! parsed_names {
    ($named:ident { $($names:tt)+ }) => {
        $crate::names!($named { $($names)+ });

        impl ::std::str::FromStr for $named {
            type Err = $crate::UnknownName;

            fn from_str(word: &str) -> Result<Self, $crate::UnknownName> {
                $crate::name::by_name(&$named::ALL, $named::name, word)
            }
        }
    };
}

pub(crate) use parsed_names;

pub(crate) fn by_name<T: Copy>(all: &[T], name: fn(T) -> &'static str, word: &str) -> Result<T, UnknownName> {
    let known = || all.iter().map(|&value| name(value)).collect::<Vec<_>>().join(", ");
    let found = all.iter().copied().find(|&value| name(value) == word);
    found.ok_or_else(|| UnknownName { word: word.to_owned(), known: known() })
}
