//! What an election costs by theory, the way every command says it.

use std::fmt;

use algorithms::Rounds;
use algorithms::catalog::{self, Row, Visitor};
use algorithms::theory::Bounds;
use serde::Serialize;

/// Messages of one fault-free election over all inputs, its announcement not among them. In JSON null stands where
/// theory has no finite number.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Theory {
    best: f64,
    mean: Option<f64>,
    worst: f64,
}

impl From<Bounds> for Theory {
    fn from(Bounds { best, mean, worst }: Bounds) -> Self {
        Theory { best, mean, worst }
    }
}

impl fmt::Display for Theory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |value: f64| if value.is_finite() { format!("{value:.0}") } else { "unbounded".to_owned() };
        let mean = self.mean.map_or_else(String::new, |mean| format!("mean {mean:.1}, "));
        write!(f, "best {}, {mean}worst {}", number(self.best), number(self.worst))
    }
}

/// What a running member counts as messages of its algorithm.
pub(super) fn counted(row: &'static Row) -> &'static str {
    struct Counted;
    impl Visitor for Counted {
        type Output = &'static str;

        fn election<E: algorithms::Election>(self, _: &'static Row) -> &'static str {
            "election messages"
        }

        /// Live, a synchronous algorithm is silent in frames of its own.
        fn rounds<R: Rounds>(self, _: &'static Row) -> &'static str {
            "election messages and empty rounds"
        }
    }
    catalog::dispatch(row, Counted)
}
