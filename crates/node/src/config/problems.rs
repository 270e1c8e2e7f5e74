//! Everything that is wrong with a config, at once.

use std::fmt;
use std::path::{Path, PathBuf};

/// One thing to change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Counted from 1; 0 if the problem belongs to no line.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// What to write or do instead.
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.message, self.remedy)
    }
}

/// All problems of one file, in the order of its lines. Prints a line per problem, `file:line: what: remedy`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problems {
    pub path: PathBuf,
    pub list: Vec<Problem>,
}

impl Problems {
    pub(crate) fn new(path: &Path) -> Self {
        Problems { path: path.to_path_buf(), list: Vec::new() }
    }

    pub(crate) fn one(path: &Path, line: usize, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        let mut problems = Problems::new(path);
        problems.push(line, message, remedy);
        problems
    }

    pub(crate) fn push(&mut self, line: usize, message: impl Into<String>, remedy: impl Into<String>) {
        self.list.push(Problem { line, message: message.into(), remedy: remedy.into() });
    }

    /// `value` if no problem was found, else all problems, sorted.
    pub(crate) fn none_or<T>(self, value: T) -> Result<T, Problems> {
        if self.list.is_empty() { Ok(value) } else { Err(self.sorted()) }
    }

    pub(crate) fn sorted(mut self) -> Self {
        self.list.sort_by_key(|problem| problem.line);
        self
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.list.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write!(f, "{}", self.path.display())?;
            if problem.line > 0 {
                write!(f, ":{}", problem.line)?;
            }
            write!(f, ": {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
