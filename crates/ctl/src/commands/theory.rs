//! The cost of an election by theory, in words.

use client::json::{Range, Theory};

pub(super) fn in_words(theory: &Theory) -> String {
    let number = |value: f64| if value.is_finite() { format!("{value:.0}") } else { "unbounded".to_owned() };
    let mean = theory.mean.map_or_else(String::new, |mean| format!("mean {mean:.1}, "));
    format!("best {}, {mean}worst {}", number(theory.best), number(theory.worst))
}

pub(super) fn range(Range { min, max }: Range) -> String {
    match max {
        Some(max) if max == min => min.to_string(),
        Some(max) => format!("{min} to {max}"),
        None => format!("{min} or more"),
    }
}
