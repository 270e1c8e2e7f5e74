//! The rooms and what must stay absent from them (see ARCHITECTURE.md), checked on the source itself.

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

/// The workspace crates that `of` may use, from its manifest.
fn dependencies(of: &str) -> Vec<String> {
    let manifest = fs::read_to_string(crates().join(of).join("Cargo.toml")).expect("a manifest");
    let manifest: toml::Table = manifest.parse().expect("TOML");
    let table = manifest.get("dependencies").and_then(toml::Value::as_table).cloned().unwrap_or_default();
    table.keys().filter(|name| crates().join(name.as_str()).is_dir()).cloned().collect()
}

#[test]
fn crates_depend_only_in_the_agreed_direction() {
    let allowed: &[(&str, &[&str])] = &[
        ("algorithms", &[]),
        ("member", &["algorithms"]),
        ("transport", &[]),
        ("client", &["transport"]),
        ("sim", &["algorithms", "member"]),
        ("model", &["algorithms", "member"]),
        ("node", &["algorithms", "client", "member", "transport"]),
        ("ctl", &["algorithms", "client", "sim"]),
    ];
    let rooms = fs::read_dir(crates()).expect("crates/").count();
    assert_eq!(rooms, allowed.len(), "a crate without a line in this table");
    for (name, may) in allowed {
        for uses in dependencies(name) {
            assert!(may.contains(&uses.as_str()), "{name} must not depend on {uses}");
        }
    }
}

#[test]
fn the_textbook_machines_depend_on_nothing_but_serde() {
    let manifest = fs::read_to_string(crates().join("algorithms/Cargo.toml")).expect("a manifest");
    let manifest: toml::Table = manifest.parse().expect("TOML");
    let table = manifest["dependencies"].as_table().expect("dependencies");
    assert_eq!(table.keys().collect::<Vec<_>>(), ["serde"]);
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[test]
fn pure_crates_know_no_clock_no_chance_no_tasks_and_no_logs() {
    let banned =
        ["tokio", "Instant", "SystemTime", "thread_rng", "async", "await", "tracing", "println", "HashMap", "HashSet"];
    for room in ["algorithms", "member"] {
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
                for name in catalog::names() {
                    assert!(!line.contains(&format!("\"{name}\"")), "{}: {line}", path.display());
                }
            }
        }
    }
}

#[test]
fn the_wire_format_is_known_to_one_file() {
    for room in ["algorithms", "member", "transport", "client", "node", "ctl", "sim", "model"] {
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
