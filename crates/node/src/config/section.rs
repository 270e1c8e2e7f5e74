//! Typed access to a TOML document that keeps the line of every value and reports values of a wrong type or range.

use std::path::Path;
use std::time::Duration;

use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue};
use types::parse_duration;

use super::problems::Problems;

/// Every table and its keys: any other name is unknown.
const LAYOUT: &[(&str, &[&str])] = &[
    (
        "cluster",
        &[
            "name",
            "topology",
            "algorithm",
            "safety",
            "wins",
            "stand",
            "preempt",
            "preempt_after",
            "secret_file",
            "secret_permissions",
            "insecure",
            "chaos",
            "bind_volume",
            "bootstrap",
            "join",
            "listen",
            "http",
            "http_token_file",
        ],
    ),
    (
        "timing",
        &[
            "heartbeat",
            "suspect_after",
            "answer_timeout",
            "coordinator_timeout",
            "start_grace",
            "lease",
            "max_drift",
            "on_close",
            "client_idle",
        ],
    ),
    ("peers", &["id", "address", "listen", "http", "priority", "role", "stand"]),
    ("instances", &["id", "algorithm", "wins"]),
    ("tls", &["ca", "certificate", "key", "client_certificate", "client_key"]),
    ("graph", &["links"]),
    ("hooks", &["on_change"]),
    ("log", &["level"]),
    ("locks", &["algorithm", "max_ttl", "max_sessions", "max_waiters", "max_names"]),
    ("priority", &["command", "interval", "timeout"]),
];

type Value<'a> = Spanned<DeValue<'a>>;

/// Pairs of ids, each with its line.
pub(super) type Pairs = Vec<Found<(u32, u32)>>;

/// A value and the line it stands on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Found<T> {
    pub(super) value: T,
    pub(super) line: usize,
}

/// Collects problems while the document is read.
pub(super) struct Reader<'a> {
    text: &'a str,
    pub(super) problems: Problems,
}

/// One table of the document; empty if the file has no table of this name.
#[derive(Clone, Copy)]
pub(super) struct Section<'a> {
    /// The table's name as the file writes it: `[cluster]`, `[[peers]]`.
    pub(super) title: &'static str,
    /// The line of its beginning; the first line of the file if it is missing.
    pub(super) line: usize,
    table: Option<&'a DeTable<'a>>,
}

impl Section<'_> {
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(key))
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, path: &Path) -> Self {
        Reader { text, problems: Problems::new(path) }
    }

    /// The document, or every error of syntax in it.
    pub(super) fn document(&mut self) -> Spanned<DeTable<'a>> {
        let (document, errors) = DeTable::parse_recoverable(self.text);
        for error in errors {
            let line = error.span().map_or(0, |span| self.line(span.start));
            let message = error.message().replace('\n', "; ");
            let remedy = if message.starts_with("duplicate key") {
                "keep one of the two"
            } else {
                "write TOML: key = \"text\", key = 5, key = true, [table]"
            };
            self.problems.push(line, message, remedy);
        }
        document
    }

    /// Reports tables that do not exist.
    pub(super) fn tables(&mut self, document: &DeTable<'_>) {
        for key in document.keys() {
            let (name, line) = (key.get_ref().as_ref(), self.line(key.span().start));
            if let Some(home) = LAYOUT.iter().find(|(_, keys)| keys.contains(&name) && name != "priority") {
                let remedy = format!("move it below {}", title(home.0));
                self.problems.push(line, format!("{name:?} stands outside of any table"), remedy);
            } else if LAYOUT.iter().all(|(known, _)| *known != name) {
                let names = LAYOUT.iter().map(|(known, _)| *known);
                let remedy = match closest(name, names.clone()) {
                    Some(known) => format!("did you mean {}?", title(known)),
                    None => format!("the tables are {}", names.map(title).collect::<Vec<_>>().join(", ")),
                };
                self.problems.push(line, format!("unknown table [{name}]"), remedy);
            }
        }
    }

    /// The table of this name, its keys checked.
    pub(super) fn section(&mut self, document: &'a DeTable<'a>, name: &'static str) -> Section<'a> {
        let title = title(name);
        match document.get(name) {
            None => Section { title, line: 1, table: None },
            Some(value) => self.table(value, name),
        }
    }

    /// The tables of a list, such as `[[peers]]`.
    pub(super) fn sections(&mut self, document: &'a DeTable<'a>, name: &'static str) -> Vec<Section<'a>> {
        let Some(value) = document.get(name) else { return Vec::new() };
        if let DeValue::Array(tables) = value.get_ref() {
            return tables.iter().map(|table| self.table(table, name)).collect();
        }
        let remedy = format!("write [[{name}]], with double brackets, once for each");
        self.problems.push(self.line(value.span().start), format!("{name:?} is not a list of tables"), remedy);
        Vec::new()
    }

    fn table(&mut self, value: &'a Value<'a>, name: &'static str) -> Section<'a> {
        let (title, line) = (title(name), self.line(value.span().start));
        let DeValue::Table(table) = value.get_ref() else {
            self.problems.push(line, format!("{name:?} is not a table"), format!("write {title} on a line of its own"));
            return Section { title, line, table: None };
        };
        let known = LAYOUT.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, keys)| keys);
        for key in table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            let line = self.line(key.span().start);
            let key = key.get_ref().as_ref();
            let elsewhere = LAYOUT.iter().find(|(_, keys)| keys.contains(&key));
            let remedy = match (closest(key, known.iter().copied()), elsewhere) {
                (_, Some((home, _))) => format!("it belongs in {}", self::title(home)),
                (Some(known), _) => format!("did you mean {known:?}?"),
                (None, _) => format!("the keys are {}", known.join(", ")),
            };
            self.problems.push(line, format!("unknown key {key:?} in {title}"), remedy);
        }
        Section { title, line, table: Some(table) }
    }

    pub(super) fn string(&mut self, section: &Section<'_>, key: &str) -> Option<Found<String>> {
        self.get(section, key, "a string", &format!("write {key} = \"...\""), |value| match value {
            DeValue::String(text) => Some(text.as_ref().to_owned()),
            _ => None,
        })
    }

    pub(super) fn boolean(&mut self, section: &Section<'_>, key: &str) -> Option<Found<bool>> {
        self.get(section, key, "true or false", &format!("write {key} = true or {key} = false"), |value| match value {
            DeValue::Boolean(value) => Some(*value),
            _ => None,
        })
    }

    pub(super) fn integer(&mut self, section: &Section<'_>, key: &str, min: u32, max: u32) -> Option<Found<u32>> {
        let what = format!("an integer from {min} to {max}");
        self.get(section, key, &what, &format!("write {key} = {}", min.max(1)), |value| {
            integer(value).filter(|value| (min..=max).contains(value))
        })
    }

    pub(super) fn fraction(&mut self, section: &Section<'_>, key: &str, below: f64) -> Option<Found<f64>> {
        let what = format!("a number from 0 to below {below}");
        self.get(section, key, &what, &format!("write {key} = 0.01"), |value| {
            let value = match value {
                DeValue::Float(value) => value.as_str().parse().ok()?,
                value => f64::from(integer(value)?),
            };
            (0.0..below).contains(&value).then_some(value)
        })
    }

    pub(super) fn duration(&mut self, section: &Section<'_>, key: &str) -> Option<Found<Duration>> {
        let remedy = format!("write a number and a unit, like {key} = \"250ms\" or \"1s\"");
        self.get(section, key, "a duration", &remedy, |value| match value {
            DeValue::String(text) => parse_duration(text).ok(),
            _ => None,
        })
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(
        &mut self,
        section: &Section<'_>,
        key: &str,
        words: &[(&str, T)],
    ) -> Option<Found<T>> {
        let found = self.string(section, key)?;
        if let Some(&(_, value)) = words.iter().find(|(word, _)| *word == found.value) {
            return Some(Found { value, line: found.line });
        }
        let remedy = if let Some(word) = closest(&found.value, words.iter().map(|(word, _)| *word)) {
            format!("did you mean {word:?}?")
        } else {
            let names: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            format!("write one of {}", names.join(", "))
        };
        self.problems.push(found.line, format!("unknown {key} {:?} in {}", found.value, section.title), remedy);
        None
    }

    /// A list of strings, each with its line.
    pub(super) fn strings(&mut self, section: &Section<'_>, key: &str) -> Option<Found<Vec<Found<String>>>> {
        let value = section.table?.get(key)?;
        let line = self.line(value.span().start);
        let remedy = format!("write {key} = [\"...\", \"...\"]");
        let DeValue::Array(array) = value.get_ref() else {
            self.not(line, section, key, "a list of strings", &remedy);
            return None;
        };
        let mut strings = Vec::new();
        for item in array {
            let line = self.line(item.span().start);
            match item.get_ref() {
                DeValue::String(text) => strings.push(Found { value: text.as_ref().to_owned(), line }),
                _ => self.not(line, section, key, "a list of strings", &remedy),
            }
        }
        Some(Found { value: strings, line })
    }

    /// Pairs of ids.
    pub(super) fn pairs(&mut self, section: &Section<'_>, key: &str) -> Option<Found<Pairs>> {
        let value = section.table?.get(key)?;
        let line = self.line(value.span().start);
        let DeValue::Array(array) = value.get_ref() else {
            self.not(line, section, key, "a list of pairs of ids", &format!("write {key} = [[1, 2], [2, 3]]"));
            return None;
        };
        let mut pairs = Vec::new();
        for item in array {
            let line = self.line(item.span().start);
            let ends: Option<Vec<u32>> = match item.get_ref() {
                DeValue::Array(ends) => ends.iter().map(|end| integer(end.get_ref())).collect(),
                _ => None,
            };
            match ends.as_deref() {
                Some(&[a, b]) => pairs.push(Found { value: (a, b), line }),
                _ => self.problems.push(line, "a link is not a pair of ids", "write it like [1, 2]"),
            }
        }
        Some(Found { value: pairs, line })
    }

    fn get<T>(
        &mut self,
        section: &Section<'_>,
        key: &str,
        what: &str,
        remedy: &str,
        read: impl FnOnce(&DeValue<'_>) -> Option<T>,
    ) -> Option<Found<T>> {
        let value = section.table?.get(key)?;
        let line = self.line(value.span().start);
        let found = read(value.get_ref()).map(|value| Found { value, line });
        if found.is_none() {
            self.not(line, section, key, what, remedy);
        }
        found
    }

    fn not(&mut self, line: usize, section: &Section<'_>, key: &str, what: &str, remedy: &str) {
        self.problems.push(line, format!("{key} in {} is not {what}", section.title), remedy);
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
    }
}

fn title(table: &str) -> &'static str {
    match table {
        "cluster" => "[cluster]",
        "timing" => "[timing]",
        "peers" => "[[peers]]",
        "instances" => "[[instances]]",
        "tls" => "[tls]",
        "graph" => "[graph]",
        "hooks" => "[hooks]",
        "log" => "[log]",
        "locks" => "[locks]",
        _ => "[priority]",
    }
}

fn integer(value: &DeValue<'_>) -> Option<u32> {
    match value {
        DeValue::Integer(value) => u32::from_str_radix(value.as_str(), value.radix()).ok(),
        _ => None,
    }
}

/// The known word that `word` was probably meant to be.
pub(super) fn closest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let allowed = (word.chars().count() / 3).clamp(1, 3);
    known.map(|known| (edits(word, known), known)).filter(|(edits, _)| *edits <= allowed).min().map(|(_, known)| known)
}

/// How many letters must be inserted, deleted, replaced or swapped with a neighbour to turn `a` into `b`.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}
