//! Files that are generated and compared.

use std::fs;
use std::path::Path;

/// Compares, or rewrites the file under `UPDATE_GOLDEN=1`.
pub fn compare(path: &Path, wanted: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, wanted).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    assert!(found == wanted, "{} is out of date: UPDATE_GOLDEN=1 rewrites it", path.display());
}
