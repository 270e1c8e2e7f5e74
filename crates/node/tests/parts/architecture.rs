//! The rooms and what must stay absent from them (see ARCHITECTURE.md), checked on the source itself.

mod graph;
mod layout;
mod picture;
mod way;
mod where_is;

use std::fs;
use std::path::{Path, PathBuf};

use algorithms::catalog;

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/").to_path_buf()
}

fn sources(of: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut rooms = vec![crates().join(of).join("src")];
    while let Some(dir) = rooms.pop() {
        for entry in fs::read_dir(&dir).expect("a readable source directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                rooms.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                let text = fs::read_to_string(&path).expect("source text");
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty(), "{of} has no sources");
    found
}

#[test]
fn crates_depend_only_in_the_agreed_direction() {
    let allowed: &[(&str, &[&str])] = &[
        ("types", &[]),
        ("algorithms", &["types"]),
        ("member", &["algorithms", "types"]),
        ("transport", &["types"]),
        ("locks", &["algorithms", "types"]),
        ("client", &["algorithms", "locks", "transport", "types"]),
        ("face", &["algorithms", "client", "locks", "types"]),
        ("sim", &["algorithms", "member", "types"]),
        ("model", &["algorithms", "locks", "member", "types"]),
        ("node", &["algorithms", "client", "face", "locks", "member", "transport", "types"]),
        // Of the daemon `ctl` uses the reading of data directories alone.
        ("ctl", &["algorithms", "client", "locks", "node", "sim", "types"]),
        // For tests only: no other crate has it but as a dev-dependency.
        ("testkit", &["client", "ctl", "member", "node", "types"]),
    ];
    for one in graph::workspace() {
        let line = allowed.iter().find(|(name, _)| *name == one.name);
        let (name, may) = line.unwrap_or_else(|| panic!("{} has no line in this table", one.name));
        for uses in &one.uses {
            assert!(may.contains(&uses.as_str()), "{name} must not depend on {uses}");
        }
    }
}

#[test]
fn the_textbook_machines_depend_on_nothing_but_the_vocabulary_and_serde() {
    let manifest = fs::read_to_string(crates().join("algorithms/Cargo.toml")).expect("a manifest");
    let manifest: toml::Table = manifest.parse().expect("TOML");
    let table = manifest["dependencies"].as_table().expect("dependencies");
    assert_eq!(table.keys().collect::<Vec<_>>(), ["serde", "types"]);
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[test]
fn pure_crates_know_no_clock_no_chance_no_tasks_and_no_logs() {
    let banned = [
        "tokio",
        "Instant",
        "SystemTime",
        "thread_rng",
        "async",
        "await",
        "tracing",
        "println",
        "HashMap",
        "HashSet",
        "since_boot",
        "boot_clock",
    ];
    for room in ["algorithms", "member", "locks"] {
        for (path, text) in sources(room) {
            for word in words(&text) {
                assert!(!banned.contains(&word), "{}: `{word}`", path.display());
            }
        }
    }
}

#[test]
fn no_algorithm_is_named_outside_the_catalog() {
    for room in ["node", "sim", "ctl", "model"] {
        for (path, text) in sources(room) {
            // Unit tests at the end of a file may name what they test.
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
                for name in catalog::names().chain(catalog::mutex::names()) {
                    assert!(!line.contains(&format!("\"{name}\"")), "{}: {line}", path.display());
                }
            }
        }
    }
}

#[test]
fn the_wire_format_is_known_to_one_file() {
    for room in ["types", "algorithms", "member", "transport", "client", "node", "ctl", "sim", "model"] {
        for (path, text) in sources(room) {
            let here = path.ends_with("transport/src/codec.rs");
            assert!(here || !words(&text).any(|word| word == "bincode"), "{}", path.display());
        }
    }
}

#[test]
fn no_unsafe_anywhere() {
    let workspace = fs::read_to_string(crates().join("../Cargo.toml")).expect("the workspace manifest");
    assert!(workspace.contains("unsafe_code = \"forbid\""));
    for entry in fs::read_dir(crates()).expect("crates/") {
        let manifest = fs::read_to_string(entry.expect("an entry").path().join("Cargo.toml")).expect("a manifest");
        assert!(manifest.contains("[lints]\nworkspace = true"), "{manifest}");
    }
}

/// The code of every crate, without comments and unit tests.
fn code() -> Vec<(String, String)> {
    let rooms = fs::read_dir(crates()).expect("crates/").map(|entry| entry.expect("an entry").file_name());
    let files = rooms.flat_map(|room| sources(&room.to_string_lossy()));
    let is_test = |path: &Path| path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests"));
    files
        .filter(|(path, _)| !is_test(path))
        .map(|(path, text)| {
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            let path = path.strip_prefix(crates()).expect("below crates/").display().to_string();
            (path, lines.collect::<Vec<_>>().join("\n"))
        })
        .collect()
}

fn files_with<'a>(code: &'a [(String, String)], part: &str) -> Vec<&'a str> {
    let mut files: Vec<&str> =
        code.iter().filter(|(_, text)| text.contains(part)).map(|(path, _)| path.as_str()).collect();
    files.sort_unstable();
    files
}

#[test]
fn effect_outbox_barrier_and_timer_order_are_defined_once() {
    let code = code();
    assert_eq!(files_with(&code, "enum Effect"), ["algorithms/src/drive/effects.rs"]);
    assert_eq!(files_with(&code, "blocked: bool"), ["algorithms/src/drive.rs"], "one barrier");
    // Named timers of one machine; the bare simulator has one heap for the timers of all its nodes.
    assert_eq!(files_with(&code, "struct Timers"), ["algorithms/src/drive/timers.rs", "sim/src/bare/timers.rs"]);
    // Effects wait in one kind of outbox. Bare runs have no disk and nothing that waits: they write straight to the net.
    // A machine around another one passes the effects of the inner one on to its own outbox.
    let mut outboxes: Vec<&str> = code
        .iter()
        .filter(|(_, text)| {
            text.lines().any(|line| line.trim_start().starts_with("impl") && line.contains("> Outbox<"))
        })
        .map(|(path, _)| path.as_str())
        .collect();
    outboxes.sort_unstable();
    let around = ["catalog/any.rs", "catalog/any_mutex.rs", "election/by_lock.rs", "mutex/by_election.rs"];
    outboxes.retain(|path| !around.iter().any(|inner| path.ends_with(inner)));
    assert_eq!(outboxes, ["algorithms/src/drive/effects.rs", "sim/src/bare/wire.rs", "sim/src/mutex/wire.rs"]);
    for driver in ["node/src/instance.rs", "sim/src/faults/process.rs", "model/src/members.rs", "model/src/reign.rs"] {
        assert!(files_with(&code, "Driver<").contains(&driver), "{driver} has a driver of its own");
    }
}

#[test]
fn parts_of_a_member_own_their_fields() {
    for (path, text) in code().iter().filter(|(path, _)| path.starts_with("member/src")) {
        let mut fields = 0;
        for line in text.lines() {
            let is_field = line.starts_with("    ") && !line.starts_with("     ") && line.trim_end().ends_with(',');
            let is_field = is_field && line.contains(": ") && !line.contains('(') && !line.contains("=>");
            assert!(!(is_field && line.contains("pub(crate)")), "{path}: {line}");
            fields = if line.starts_with('}') { 0 } else { fields + usize::from(is_field) };
            assert!(fields <= 12, "{path}: more than 12 fields in one struct");
        }
    }
}

#[test]
fn which_authority_runs_is_asked_nowhere_and_how_long_a_machine_lives_once() {
    let code = code();
    let member: Vec<&(String, String)> = code.iter().filter(|(path, _)| path.starts_with("member/src")).collect();
    let mentions = |part: &str| member.iter().map(|(_, text)| text.matches(part).count()).sum::<usize>();
    assert_eq!(mentions("reign.is_some()") + mentions("reign.is_none()") + mentions("Option<Reign>"), 0);
    // What kind of election runs is asked once, when a member starts.
    assert_eq!(mentions("E::features("), 1);
    let mut names_one: Vec<&str> = member
        .iter()
        .filter(|(_, text)| text.contains("Safety::Quorum") || text.contains("Safety::Classic"))
        .map(|(path, _)| path.as_str())
        .collect();
    names_one.sort_unstable();
    assert_eq!(names_one, Vec::<&str>::new(), "the driver chooses the authority");
}
