//! The fact that tells a member's list: its stamp, a digest, and where it fits the entries of the list in words, so that a
//! refusal can name the entry that differs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use types::Stamp;

/// Entries that take more are left out: a value of a handshake is bounded, and the digest is compared anyway.
const ENTRIES_MAX_BYTES: usize = 800;

/// The fact of this process, once it has a list. The list may change while the process runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownList(Arc<Mutex<Option<String>>>);

impl KnownList {
    /// Each entry is `name` or `name=value`, without spaces.
    pub(crate) fn set(&self, stamp: Stamp, digest: u64, entries: &[String]) {
        let words = entries.join(" ");
        let words = if words.len() <= ENTRIES_MAX_BYTES { words } else { String::new() };
        let value = format!("{stamp} {digest:016x} {words}").trim_end().to_owned();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }

    pub(crate) fn value(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Lists with different stamps are two states of one list: the older one is replaced.
pub(crate) fn same_stamp(ours: &str, theirs: &str) -> bool {
    let stamp = |value: &str| value.split(' ').next().map(str::to_owned);
    stamp(ours) == stamp(theirs)
}

/// What differs, as `(entry, ours, theirs)`; empty if the values do not tell.
pub(crate) fn differences(ours: &str, theirs: &str) -> Vec<(String, String, String)> {
    let (our_entries, their_entries) = (entries(ours), entries(theirs));
    if our_entries.is_empty() || their_entries.is_empty() {
        return Vec::new();
    }
    let names = our_entries.keys().chain(their_entries.keys().filter(|name| !our_entries.contains_key(*name)));
    let show = |value: Option<&&str>| value.map_or_else(|| "nothing".to_owned(), |value| format!("{value:?}"));
    let all = names.map(|name| (name, our_entries.get(name), their_entries.get(name)));
    all.filter(|(_, ours, theirs)| ours != theirs)
        .map(|(name, ours, theirs)| (name.escape_debug().to_string(), show(ours), show(theirs)))
        .collect()
}

fn entries(value: &str) -> BTreeMap<&str, &str> {
    value.split(' ').skip(2).map(|entry| entry.split_once('=').unwrap_or((entry, "listed"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(digest: u64, entries: &[&str]) -> String {
        let list = KnownList::default();
        list.set(Stamp::FIRST, digest, &entries.iter().map(|&entry| entry.to_owned()).collect::<Vec<_>>());
        list.value().unwrap()
    }

    #[test]
    fn the_entries_that_differ_are_named_with_both_values() {
        let ours = value(1, &["1=a:7400", "2=b:7400", "3=c:7400", "1-2"]);
        let theirs = value(2, &["1=a:7400", "2=b:7500", "4=d:7400", "1-2"]);
        assert!(same_stamp(&ours, &theirs));
        let said = differences(&ours, &theirs);
        let said: Vec<(&str, &str, &str)> = said.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
        let all = [("2", "\"b:7400\"", "\"b:7500\""), ("3", "\"c:7400\"", "nothing"), ("4", "nothing", "\"d:7400\"")];
        assert_eq!(said, all);
    }

    #[test]
    fn a_long_list_is_a_digest_alone() {
        let many: Vec<String> = (0..256).map(|id| format!("{id}=machine-{id}:7400")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let (ours, theirs) = (value(1, &many), value(2, &many[1..]));
        assert!(ours.len() < 64 && ours != theirs, "{ours}");
        assert_eq!(differences(&ours, &theirs), []);
        assert_eq!(differences("", "x"), []);
    }
}
