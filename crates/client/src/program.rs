//! The names of the two programs, as they were called: `ctl` and `node` where they are built, `conclavectl` and
//! `conclave-node` where they are installed, `./scripts/ctl` and `./scripts/node` in a clone. Texts are written with `ctl`
//! and `node`; [`Programs::in_words`] puts the names in that a reader can type.

use std::path::Path;
use std::sync::OnceLock;

/// The names of the installed programs.
pub const INSTALLED_CTL: &str = "conclavectl";
pub const INSTALLED_NODE: &str = "conclave-node";

/// How a script calls `ctl` that has it as a command of its own: `./scripts/compose ctl`.
const OF_SCRIPT: &str = " ctl";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Programs {
    /// What to type to run `ctl`.
    pub ctl: String,
    /// What to type to run `node`.
    pub node: String,
}

impl Programs {
    /// The names that go with the one by which this process was called.
    pub fn called() -> &'static Programs {
        static CALLED: OnceLock<Programs> = OnceLock::new();
        CALLED.get_or_init(|| Programs::beside(&std::env::args().next().unwrap_or_default()))
    }

    /// The names that go with a first argument. A relative path is kept: it can be typed again in the same directory. An
    /// absolute path is not, because only programs type those.
    fn beside(first: &str) -> Programs {
        let path = Path::new(first);
        if let Some(script) = first.strip_suffix(OF_SCRIPT) {
            let typed = if path.is_relative() { script } else { script.rsplit('/').next().unwrap_or_default() };
            return Programs { ctl: format!("{typed}{OF_SCRIPT}"), node: "node".to_owned() };
        }
        let installed = path.file_name().is_some_and(|name| name == INSTALLED_CTL || name == INSTALLED_NODE);
        let (ctl, node) = if installed { (INSTALLED_CTL, INSTALLED_NODE) } else { ("ctl", "node") };
        let directory = match first.rsplit_once('/') {
            Some((directory, _)) if path.is_relative() => format!("{directory}/"),
            _ => String::new(),
        };
        Programs { ctl: format!("{directory}{ctl}"), node: format!("{directory}{node}") }
    }

    /// Are they called by the names that texts are written with?
    pub fn are_plain(&self) -> bool {
        self.ctl == "ctl"
    }

    /// The text with these names instead of `ctl` and `node`. `node` is also an English word: it is the program only in
    /// backticks and before an option.
    pub fn in_words(&self, text: &str) -> String {
        if self.are_plain() {
            return text.to_owned();
        }
        let text = replace(text, "ctl", &self.ctl, |after| {
            after.is_empty() || after.starts_with([' ', '`', ':', '\n', '\'', ',', ')'])
        });
        // Such a script starts the cluster by itself.
        let text = match self.ctl.strip_suffix(OF_SCRIPT) {
            Some(script) => text.replace(&format!("{} up", self.ctl), &format!("{script} up")),
            None => text,
        };
        replace(&text, "node", &self.node, |after| after.starts_with(" --") || after.starts_with('`'))
    }
}

/// Replaces the word where a blank, a bracket or a quote is before it, and `fits` what is after it.
fn replace(text: &str, word: &str, by: &str, fits: impl Fn(&str) -> bool) -> String {
    let mut done = String::with_capacity(text.len());
    let mut copied = 0;
    for (at, _) in text.match_indices(word) {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        if (before.is_empty() || before.ends_with([' ', '`', '(', '\n', '\''])) && fits(after) {
            done += &text[copied..at];
            done += by;
            copied = at + word.len();
        }
    }
    done + &text[copied..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_can_be_typed_again() {
        let cases = [
            ("/usr/bin/conclavectl", "conclavectl", "conclave-node"),
            ("conclave-node", "conclavectl", "conclave-node"),
            ("./scripts/ctl", "./scripts/ctl", "./scripts/node"),
            ("target/debug/node", "target/debug/ctl", "target/debug/node"),
            ("/somewhere/ctl", "ctl", "node"),
            ("./scripts/compose ctl", "./scripts/compose ctl", "node"),
            ("/somewhere/compose ctl", "compose ctl", "node"),
            ("", "ctl", "node"),
        ];
        for (first, ctl, node) in cases {
            let found = Programs::beside(first);
            assert_eq!((found.ctl.as_str(), found.node.as_str()), (ctl, node), "{first}");
        }
    }

    #[test]
    fn texts_name_the_programs_as_they_were_called_and_keep_other_words() {
        let installed = Programs::beside("conclavectl");
        let text = "ctl: look at `ctl status`, `node --check` (ctl up), node 5 of the ring, a `node`, sysctl -w, ctl";
        assert_eq!(
            installed.in_words(text),
            "conclavectl: look at `conclavectl status`, `conclave-node --check` (conclavectl up), node 5 of the ring, a \
             `conclave-node`, sysctl -w, conclavectl"
        );
        assert_eq!(Programs::beside("ctl").in_words(text), text);
        let compose = Programs::beside("./scripts/compose ctl");
        let text = "start the cluster (`ctl up`), or look at `ctl status`";
        assert_eq!(
            compose.in_words(text),
            "start the cluster (`./scripts/compose up`), or look at `./scripts/compose ctl status`"
        );
    }
}
