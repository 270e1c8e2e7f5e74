//! A directory that is removed when its owner is dropped.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(label: &str) -> Result<Self> {
        let name = format!("conclave-{label}-{}-{:08x}", std::process::id(), getrandom::u32()?);
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Scratch(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A failure here cannot be handled; the system cleans its temporary directory later.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
