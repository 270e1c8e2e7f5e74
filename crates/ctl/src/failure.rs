//! Errors for users: what happened, why, what to try next, and the exit code for scripts.

use std::fmt;
use std::io;
use std::process::ExitCode;

use client::Programs;

use crate::output::Format;

/// The exit codes of the contract. 0 is success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Exit {
    /// The command failed, or the answer is "no".
    Failed = 1,
    /// Wrong usage or a bad config.
    Usage = 2,
    /// No member is reachable.
    Unreachable = 3,
    /// There is no leader, or members disagree.
    NoLeader = 4,
    /// A lock is busy, or a wait timed out.
    TimedOut = 5,
    /// Leadership was lost while a command ran under it.
    Lost = 6,
    /// An invariant is violated.
    Invariant = 7,
    /// A missing or wrong secret, another protocol version, or the cluster forbids the request.
    Refused = 8,
}

/// The name of this program without its directory.
fn own_name() -> &'static str {
    Programs::called().ctl.rsplit('/').next().unwrap_or_default()
}

/// A remark on stderr that is no failure.
pub(crate) fn remark(text: impl AsRef<str>) {
    eprintln!("{}: {}", own_name(), Programs::called().in_words(text.as_ref()));
}

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    what: String,
    why: Option<String>,
    next: Option<String>,
    /// Nothing to print: the output has shown it already, or stdout is closed.
    quiet: bool,
    /// The exit code of a command that ran, instead of `ctl`'s own.
    passed: Option<u8>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Failure { exit, what: what.into(), why: None, next: None, quiet: false, passed: None }
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Failure::new(Exit::Usage, what)
    }

    /// For commands whose output already shows what is wrong.
    pub(crate) fn silent(exit: Exit) -> Self {
        Failure { quiet: true, ..Failure::new(exit, "") }
    }

    /// A command that was run ended with this code, and has printed its own errors.
    pub(crate) fn passed(code: u8) -> Self {
        Failure { passed: Some(code), ..Failure::silent(Exit::Failed) }
    }

    #[must_use]
    pub(crate) fn because(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }

    /// The next command to try.
    #[must_use]
    pub(crate) fn hint(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    fn json(&self) -> String {
        let programs = Programs::called();
        let named = |text: &String| programs.in_words(text);
        let (error, why, next) = (named(&self.what), self.why.as_ref().map(named), self.next.as_ref().map(named));
        serde_json::json!({ "schema": "conclave.error/1", "error": error, "why": why, "try": next, "exit": self.code() })
            .to_string()
    }

    /// What happened and why, in one line.
    pub(crate) fn in_a_line(&self) -> String {
        let why = self.why.as_ref().map_or_else(String::new, |why| format!(" ({})", why.replace('\n', "; ")));
        format!("{}{why}", self.what)
    }

    /// The exit code of the process.
    pub(crate) fn code(&self) -> u8 {
        self.passed.unwrap_or(self.exit as u8)
    }

    /// The code of a command that ran, not of `ctl` itself.
    pub(crate) fn is_passed(&self) -> bool {
        self.passed.is_some()
    }

    /// Prints to stderr, as text or as one JSON object, and returns the code.
    pub(crate) fn report(&self, format: Format) -> ExitCode {
        match format {
            _ if self.quiet => {}
            Format::Table => eprintln!("{self}"),
            Format::Json => eprintln!("{}", self.json()),
        }
        ExitCode::from(self.code())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let programs = Programs::called();
        write!(f, "{}: {}", own_name(), programs.in_words(&self.what))?;
        for (label, text) in [("why", &self.why), ("try", &self.next)] {
            if let Some(text) = text {
                let text = programs.in_words(text);
                write!(f, "\n  {label}: {}", text.replace('\n', "\n       "))?;
            }
        }
        Ok(())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast_ref::<io::Error>() {
            Some(cause) if cause.kind() == io::ErrorKind::BrokenPipe => Failure::silent(Exit::Failed),
            _ => Failure::new(Exit::Failed, node::error_text::with_causes(&error)),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        anyhow::Error::from(error).into()
    }
}
