//! The binaries under test, beside the test executable. Tests do not build: cargo does that before they run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

use crate::root;

pub fn node_binary() -> PathBuf {
    static NODE: OnceLock<PathBuf> = OnceLock::new();
    NODE.get_or_init(|| up_to_date("node", "node")).clone()
}

pub fn ctl_binary() -> PathBuf {
    static CTL: OnceLock<PathBuf> = OnceLock::new();
    CTL.get_or_init(|| up_to_date("ctl", "ctl")).clone()
}

/// A client of the lock service that writes to a [register](crate::register).
pub fn register_client_binary() -> PathBuf {
    static CLIENT: OnceLock<PathBuf> = OnceLock::new();
    CLIENT.get_or_init(|| up_to_date("register-client", "testkit")).clone()
}

/// `target/PROFILE`: test executables are in `target/PROFILE/deps`.
pub(crate) fn profile_directory() -> PathBuf {
    let executable = std::env::current_exe().expect("the path of this executable");
    let directory = executable.parent().expect("an executable is in a directory");
    if directory.ends_with("deps") {
        directory.parent().expect("deps is in a directory").into()
    } else if directory.join("deps").is_dir() {
        directory.into()
    } else {
        // Examples of the documentation are compiled into a temporary directory.
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
        target.join("debug")
    }
}

fn up_to_date(name: &str, package: &str) -> PathBuf {
    let directory = profile_directory();
    let binary = directory.join(name);
    if let Err(problem) = check(&binary, &root().join("crates"), package) {
        let release = if directory.ends_with("release") { " --release" } else { "" };
        panic!("{} {problem}: run `cargo build --workspace --bins{release}`", binary.display());
    }
    binary
}

/// Is the binary there, and newer than each source file of its package and of the packages below it?
fn check(binary: &Path, crates: &Path, package: &str) -> Result<(), String> {
    let built = modified(binary).ok_or("is missing")?;
    let mut packages = vec![package.to_owned()];
    let mut at = 0;
    while let Some(package) = packages.get(at) {
        let directory = crates.join(package);
        if let Some(newer) = sources(&directory.join("src")).into_iter().find(|file| modified(file) > Some(built)) {
            return Err(format!("is older than {}", newer.display()));
        }
        let below = dependencies(&directory, crates).into_iter().filter(|found| !packages.contains(found));
        packages.extend(below.collect::<Vec<_>>());
        at += 1;
    }
    Ok(())
}

/// The packages of the workspace that a package is built with.
fn dependencies(package: &Path, crates: &Path) -> Vec<String> {
    let path = package.join("Cargo.toml");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let manifest: toml::Table = text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let table = manifest.get("dependencies").and_then(toml::Value::as_table).cloned().unwrap_or_default();
    table.into_iter().map(|(name, _)| name).filter(|name| crates.join(name).is_dir()).collect()
}

/// Without files of unit tests alone, which are no part of the binary.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_test = |path: &Path| path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests"));
    let paths = paths.filter(|path| !is_test(path));
    paths.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|about| about.modified()).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use ctl::cluster::Scratch;

    #[test]
    fn a_binary_is_missing_or_older_than_a_source_or_up_to_date() {
        let scratch = Scratch::new("binaries").unwrap();
        let (binary, crates) = (scratch.path().join("app"), scratch.path().join("crates"));
        for (package, dependencies) in
            [("app", "[dependencies]\nlibrary.workspace = true"), ("library", ""), ("other", "")]
        {
            fs::create_dir_all(crates.join(package).join("src")).unwrap();
            fs::write(crates.join(package).join("Cargo.toml"), dependencies).unwrap();
        }
        let check = || check(&binary, &crates, "app");
        assert_eq!(check(), Err("is missing".to_owned()));
        fs::write(&binary, "").unwrap();
        assert_eq!(check(), Ok(()));
        let later = modified(&binary).unwrap() + Duration::from_secs(1);
        let source = |path: &str, time| {
            let path = crates.join(path);
            fs::File::create(&path).unwrap().set_modified(time).unwrap();
            path
        };
        source("app/src/lib.rs", later - Duration::from_secs(2));
        source("other/src/lib.rs", later);
        source("library/src/tests.rs", later);
        assert_eq!(check(), Ok(()), "neither is part of it");
        let newer = source("library/src/lib.rs", later);
        assert_eq!(check(), Err(format!("is older than {}", newer.display())));
    }
}
