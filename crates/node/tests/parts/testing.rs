//! The settings of the tests themselves: which of them nextest runs alone, and which variables they read.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use testkit::root;

/// All files below these directories of the repository.
fn files(below: Vec<PathBuf>) -> Vec<(PathBuf, String)> {
    let (mut directories, mut found) = (below, Vec::new());
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty());
    found
}

/// The directories of the crates' own tests.
fn tests() -> Vec<PathBuf> {
    let crates = fs::read_dir(root().join("crates")).unwrap();
    crates.map(|entry| entry.unwrap().path().join("tests")).filter(|path| path.is_dir()).collect()
}

/// `package(P) & test(/^M::/)` as (P, M), of every override in order; and whether the override gives the test all threads. M may be
/// a module inside another one.
fn serialised() -> Vec<(String, String, bool)> {
    let config = fs::read_to_string(root().join(".config/nextest.toml")).unwrap();
    let config: toml::Table = config.parse().unwrap();
    let overrides = config["profile"]["default"]["overrides"].as_array().unwrap();
    let mut all = Vec::new();
    for one in overrides {
        let filter = one["filter"].as_str().unwrap();
        let package = filter.split("package(").nth(1).and_then(|rest| rest.split(')').next()).expect("a package");
        for rest in filter.split("test(/^").skip(1) {
            let module = rest.split("::/)").next().expect("a module");
            let all_threads = one.get("threads-required").is_some_and(|all| all.as_str() == Some("num-test-threads"));
            all.push((package.to_owned(), module.replace("::", "/"), all_threads));
        }
    }
    assert!(!all.is_empty());
    all
}

/// The file of a module of a package's tests.
fn module_file(package: &str, module: &str) -> Option<PathBuf> {
    let tests = root().join("crates").join(package).join("tests");
    let binaries = fs::read_dir(tests).unwrap().map(|entry| entry.unwrap().path());
    binaries.map(|binary| binary.join(format!("{module}.rs"))).find(|file| file.is_file())
}

#[test]
fn nextest_serialises_modules_that_exist_and_gives_the_machine_to_all_that_ask_for_it() {
    let serialised = serialised();
    for (package, module, _) in &serialised {
        assert!(module_file(package, module).is_some(), "package {package} has no tests in a module {module}");
    }
    let module = |(package, module, all_threads): &(String, String, bool)| {
        Some((module_file(package, module)?.with_extension(""), *all_threads))
    };
    let modules: Vec<(PathBuf, bool)> = serialised.iter().filter_map(module).collect();
    let asks = |(path, text): &(PathBuf, String)| text.contains("Live::alone").then(|| path.clone());
    let mut found = 0;
    for path in files(tests()).iter().filter_map(asks).filter(|path| !path.ends_with("parts/testing.rs")) {
        let path_of_module = path.with_extension("");
        let first = modules.iter().find(|(module, _)| path_of_module.starts_with(module));
        assert!(
            first.is_some_and(|(_, all_threads)| *all_threads),
            "{} asks for the machine alone, but not under nextest",
            path.display()
        );
        found += 1;
    }
    assert!(found > 3, "only {found} files ask for the machine alone");
}

/// Every `CONCLAVE_` variable that a text names.
fn variables(text: &str) -> impl Iterator<Item = String> + '_ {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text.match_indices("CONCLAVE_").filter_map(move |(at, prefix)| {
        let rest: String = text[at + prefix.len()..].chars().take_while(|&c| is_part(c)).collect();
        (!rest.is_empty()).then(|| format!("{prefix}{rest}"))
    })
}

#[test]
fn every_variable_that_tests_and_scripts_name_is_in_the_table() {
    let page = fs::read_to_string(root().join("docs/testing.md")).unwrap();
    let rows: BTreeSet<String> =
        page.lines().filter(|line| line.starts_with("| `CONCLAVE_")).flat_map(variables).collect();
    let mut named = BTreeSet::new();
    let mut places = tests();
    places.extend(["crates/testkit", "crates/model/src", "scripts"].map(|place| root().join(place)));
    for (path, text) in files(places) {
        for variable in variables(&text) {
            assert!(rows.contains(&variable), "{}: {variable} is not in the table of docs/testing.md", short(&path));
            named.insert(variable);
        }
    }
    let unused: Vec<&String> = rows.difference(&named).collect();
    assert!(unused.is_empty(), "no test and no script names {unused:?}");
}

#[test]
fn every_attack_of_the_security_page_names_a_test_that_exists() {
    let page = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let sources = files(tests());
    let mut named = 0;
    for (module, test) in page.split('`').filter_map(|word| word.split_once("::")) {
        let holds = |(path, text): &(PathBuf, String)| {
            path.ends_with(format!("{module}.rs")) && text.contains(&format!("fn {test}("))
        };
        assert!(sources.iter().any(holds), "docs/security.md names {module}::{test}, which does not exist");
        named += 1;
    }
    assert!(named >= 13, "only {named} tests are named");
}

fn short(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}
