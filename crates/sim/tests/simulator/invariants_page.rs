//! `docs/invariants.md` says what the catalog of invariants says, and names only files that exist.

use std::fs;
use std::path::{Path, PathBuf};

use sim::INVARIANTS;

/// Pages whose files must exist.
const PAGES: &[&str] =
    &["docs/invariants.md", "docs/adding-an-algorithm.md", "docs/glossary.md", "docs/chaos.md", "docs/testing.md"];

const MODEL_PROPERTIES: &[&str] = &["crates/model/src/members/properties.rs", "crates/model/src/reign/properties.rs"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Where a line ends does not matter.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What stands between the heading of an invariant and the next heading.
fn section(page: &str, name: &str) -> String {
    let heading = format!("\n## {name}\n");
    let (_, rest) = page.split_once(&heading).unwrap_or_else(|| panic!("the page has no section {name}"));
    one_line(rest.split("\n## ").next().unwrap_or_default())
}

#[test]
fn the_page_has_the_sentence_and_the_checkers_of_every_invariant() {
    let page = text("docs/invariants.md");
    for info in INVARIANTS {
        let section = section(&page, info.name);
        assert!(section.starts_with(info.sentence), "{} begins with another sentence: {section}", info.name);
        for checker in info.checkers {
            assert!(section.contains(&format!("`{checker}`")), "{} does not name {checker}", info.name);
        }
    }
}

#[test]
fn every_file_of_the_catalog_and_of_the_pages_exists() {
    for checker in INVARIANTS.iter().flat_map(|info| info.checkers) {
        assert!(root().join(checker).is_file(), "the catalog names {checker}");
    }
    for name in PAGES {
        let page = text(name);
        // Every second piece between backticks is code.
        let code = page.split('`').skip(1).step_by(2);
        let files: Vec<&str> = code.filter(|code| code.starts_with("crates/") && !code.contains('<')).collect();
        assert!(!files.is_empty(), "{name} names no file");
        for file in files {
            assert!(root().join(file).exists(), "{name} names {file}");
        }
    }
}

#[test]
fn the_page_lists_every_numbered_property_of_the_model() {
    let page = text("docs/invariants.md");
    let mut listed = 0;
    for file in MODEL_PROPERTIES {
        for property in text(file).split('"').skip(1).step_by(2) {
            let Some((number, _)) = property.split_once(": ").filter(|(number, _)| number.starts_with('E')) else {
                continue;
            };
            assert!(section(&page, number).contains(&format!("\"{property}\"")), "{number} does not list {property}");
            listed += 1;
        }
    }
    assert!(listed > 5, "only {listed} properties were found");
}
