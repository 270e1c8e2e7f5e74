//! A resource that refuses late work: a file of the tokens that were written to it, none smaller than the one before. Many processes
//! write to it. It survives the end of any of them, not that of the machine; [`client::Fence`] does.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// The bytes of one entry: a token and the number of the client that wrote it.
const ENTRY: u64 = 12;

#[derive(Debug)]
pub struct Register {
    file: File,
}

impl Register {
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        Ok(Register { file })
    }

    /// True if the token was accepted. Blocks while another process writes.
    pub fn write(&mut self, token: u64, client: u32) -> io::Result<bool> {
        self.file.lock()?;
        let written = self.compare_and_append(token, client);
        self.file.unlock()?;
        written
    }

    fn compare_and_append(&mut self, token: u64, client: u32) -> io::Result<bool> {
        let length = self.file.metadata()?.len();
        if let Some(last) = length.checked_sub(ENTRY) {
            self.file.seek(SeekFrom::Start(last))?;
            let mut largest = [0; 8];
            self.file.read_exact(&mut largest)?;
            if token < u64::from_be_bytes(largest) {
                return Ok(false);
            }
        }
        let mut entry = [0; ENTRY as usize];
        entry[..8].copy_from_slice(&token.to_be_bytes());
        entry[8..].copy_from_slice(&client.to_be_bytes());
        self.file.write_all(&entry)?;
        Ok(true)
    }

    /// How many writes were accepted so far.
    pub fn count(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len() / ENTRY)
    }

    /// All accepted writes, in their order: token and client.
    pub fn accepted(&mut self) -> io::Result<Vec<(u64, u32)>> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes)?;
        let entries = bytes.chunks_exact(ENTRY as usize).map(|entry| {
            let (token, client) = entry.split_at(8);
            let token = token.try_into().map(u64::from_be_bytes).unwrap_or_default();
            (token, client.try_into().map(u32::from_be_bytes).unwrap_or_default())
        });
        Ok(entries.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctl::cluster::Scratch;

    #[test]
    fn smaller_tokens_are_refused_also_of_another_process() {
        let scratch = Scratch::new("register").unwrap();
        let path = scratch.path().join("register");
        let (mut one, mut two) = (Register::open(&path).unwrap(), Register::open(&path).unwrap());
        assert!(one.write(5, 1).unwrap() && two.write(5, 1).unwrap() && two.write(7, 2).unwrap());
        assert!(!one.write(6, 1).unwrap());
        assert_eq!(one.accepted().unwrap(), [(5, 1), (5, 1), (7, 2)]);
        assert_eq!(two.count().unwrap(), 3);
    }
}
