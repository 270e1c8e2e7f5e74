//! The binaries under test, beside the test executable. Tests do not build: cargo does that before they run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

pub fn node_binary() -> PathBuf {
    static NODE: OnceLock<PathBuf> = OnceLock::new();
    NODE.get_or_init(|| up_to_date("node")).clone()
}

pub fn ctl_binary() -> PathBuf {
    static CTL: OnceLock<PathBuf> = OnceLock::new();
    CTL.get_or_init(|| up_to_date("ctl")).clone()
}

/// `target/PROFILE`: test executables are in `target/PROFILE/deps`.
pub(crate) fn profile_directory() -> PathBuf {
    let executable = std::env::current_exe().expect("the path of this executable");
    let directory = executable.parent().expect("an executable is in a directory");
    if directory.ends_with("deps") {
        directory.parent().expect("deps is in a directory").into()
    } else {
        directory.into()
    }
}

fn up_to_date(name: &str) -> PathBuf {
    let directory = profile_directory();
    let binary = directory.join(name);
    if let Err(problem) = check(&binary) {
        let release = if directory.ends_with("release") { " --release" } else { "" };
        panic!("{} {problem}: run `cargo build --workspace --bins{release}`", binary.display());
    }
    binary
}

/// Is the binary there, and newer than each source file that cargo made it of?
fn check(binary: &Path) -> Result<(), String> {
    let built = modified(binary).ok_or("is missing")?;
    // Cargo writes it beside every binary: `binary: source source ...`.
    let sources = fs::read_to_string(binary.with_extension("d")).map_err(|_| "has no list of its sources beside it")?;
    let newer = sources_of(&sources).find(|source| modified(source).is_none_or(|changed| changed > built));
    newer.map_or(Ok(()), |source| Err(format!("is older than {}", source.display())))
}

fn sources_of(list: &str) -> impl Iterator<Item = PathBuf> {
    let (_, sources) = list.split_once(": ").unwrap_or_default();
    // A space inside a path is written with a backslash.
    let sources = sources.replace("\\ ", "\0");
    sources.split_whitespace().map(|path| PathBuf::from(path.replace('\0', " "))).collect::<Vec<_>>().into_iter()
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|about| about.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctl::cluster::Scratch;

    #[test]
    fn a_binary_is_missing_or_older_than_a_source_or_up_to_date() {
        let scratch = Scratch::new("binaries").unwrap();
        let (binary, source) = (scratch.path().join("node"), scratch.path().join("a b.rs"));
        assert_eq!(check(&binary), Err("is missing".to_owned()));
        fs::write(&source, "").unwrap();
        fs::write(&binary, "").unwrap();
        assert!(check(&binary).unwrap_err().contains("no list of its sources"));
        let escaped = source.display().to_string().replace(' ', "\\ ");
        fs::write(scratch.path().join("node.d"), format!("{}: {escaped}\n", binary.display())).unwrap();
        let built = modified(&binary).unwrap();
        let at = |time| fs::File::options().write(true).open(&source).unwrap().set_modified(time).unwrap();
        at(built - std::time::Duration::from_secs(1));
        assert_eq!(check(&binary), Ok(()));
        at(built + std::time::Duration::from_secs(1));
        assert_eq!(check(&binary), Err(format!("is older than {}", source.display())));
        fs::remove_file(&source).unwrap();
        assert!(check(&binary).is_err(), "a source that is gone");
    }
}
