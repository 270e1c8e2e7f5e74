//! The crates of this workspace as `cargo metadata` tells them, in layers: a crate stands above all it depends on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

pub(crate) struct Crate {
    pub(crate) name: String,
    /// The first sentence of the documentation of its library.
    pub(crate) sentence: String,
    /// The crates of this workspace that it depends on; tests may depend on more.
    pub(crate) uses: BTreeSet<String>,
}

pub(crate) fn workspace() -> Vec<Crate> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline", "--manifest-path", manifest])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let names: BTreeSet<&str> = packages.iter().map(|package| text(package, "name")).collect();
    let mut crates: Vec<Crate> = packages.iter().map(|package| read(package, &names)).collect();
    crates.sort_by(|a, b| a.name.cmp(&b.name));
    crates
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().expect("a string")
}

fn read(package: &Value, names: &BTreeSet<&str>) -> Crate {
    let library = Path::new(text(package, "manifest_path")).with_file_name("src").join("lib.rs");
    let source = fs::read_to_string(&library).expect("every crate has a library");
    let dependencies = package["dependencies"].as_array().expect("dependencies").iter();
    let normal = dependencies.filter(|dependency| dependency["kind"].is_null());
    let uses = normal.map(|dependency| text(dependency, "name")).filter(|name| names.contains(name));
    Crate {
        name: text(package, "name").to_owned(),
        sentence: first_sentence(&source),
        uses: uses.map(str::to_owned).collect(),
    }
}

fn first_sentence(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let paragraph: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ").replace(['`', '[', ']'], "").replace("mod@", "");
    paragraph.split_once(". ").map_or_else(|| paragraph.trim_end_matches('.').to_owned(), |(first, _)| first.to_owned())
}

/// What the picture shows of the dependencies: those that do not follow from others.
pub(crate) fn without_implied(crates: &[Crate]) -> Vec<(&str, &str)> {
    let mut kept = Vec::new();
    for one in crates {
        for to in &one.uses {
            let implied = one.uses.iter().any(|other| other != to && reaches(crates, other, to));
            if !implied {
                kept.push((one.name.as_str(), to.as_str()));
            }
        }
    }
    kept
}

fn reaches(crates: &[Crate], from: &str, to: &str) -> bool {
    let from = crates.iter().find(|one| one.name == from).expect("a crate of this workspace");
    from.uses.iter().any(|next| next == to || reaches(crates, next, to))
}

/// The layer of every crate: 0 depends on nothing here, every other crate is one above the highest it depends on.
pub(crate) fn layers(crates: &[Crate]) -> BTreeMap<&str, usize> {
    let mut layers: BTreeMap<&str, usize> = BTreeMap::new();
    while layers.len() < crates.len() {
        let before = layers.len();
        for one in crates {
            let below: Option<Vec<usize>> = one.uses.iter().map(|to| layers.get(to.as_str()).copied()).collect();
            if let Some(below) = below {
                layers.insert(&one.name, below.iter().max().map_or(0, |highest| highest + 1));
            }
        }
        assert!(layers.len() > before, "crates depend on each other in a circle");
    }
    layers
}
