//! What one client of a lock wrote down, event by event: a process that is killed has written everything that it did.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use types::{Token, since_boot};

use crate::lock_history::Hold;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Asks for the lock.
    Asked,
    Granted(Token),
    /// Has the right to act, and acts now: a write, or the request of the release.
    Acted,
    /// The register refused the write.
    Refused,
    /// The release is answered.
    Freed,
    /// The lock, or the place in the queue, is lost.
    Lost,
}

#[derive(Debug)]
pub struct ClientLog {
    file: File,
}

impl ClientLog {
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(ClientLog { file: OpenOptions::new().create(true).append(true).open(path)? })
    }

    /// With the present time. The line is with the kernel when this returns.
    pub fn write(&mut self, event: Event) -> io::Result<()> {
        let (word, token) = match event {
            Event::Asked => ("asked", 0),
            Event::Granted(token) => ("granted", token.0),
            Event::Acted => ("acted", 0),
            Event::Refused => ("refused", 0),
            Event::Freed => ("freed", 0),
            Event::Lost => ("lost", 0),
        };
        self.file.write_all(format!("{word} {} {token}\n", since_boot().as_nanos()).as_bytes())
    }
}

/// What the log of one process contains.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Told {
    pub holds: Vec<Hold>,
    pub refused: usize,
    pub lost: Vec<Duration>,
}

impl Told {
    pub fn read(path: &Path, client: u32) -> io::Result<Self> {
        let text = std::fs::read_to_string(path)?;
        let mut told = Told::default();
        let mut asked = None;
        let mut open: Option<Hold> = None;
        for line in text.lines() {
            let (at, event) = parse(line).ok_or_else(|| io::Error::other(format!("no event: {line:?}")))?;
            match (event, &mut open) {
                (Event::Asked, _) => asked = Some(at),
                (Event::Granted(token), _) => {
                    let asked = asked.take().ok_or_else(|| io::Error::other("granted without a request"))?;
                    open = Some(Hold { client, token, asked, granted: at, acted: None, freed: None });
                }
                (Event::Acted, Some(hold)) => hold.acted = Some(at),
                (Event::Refused, _) => told.refused += 1,
                (Event::Freed, Some(hold)) => {
                    hold.freed = Some(at);
                    told.holds.extend(open.take());
                }
                (Event::Lost, _) => {
                    told.lost.push(at);
                    told.holds.extend(open.take());
                }
                (Event::Acted | Event::Freed, None) => return Err(io::Error::other("an act without a lock")),
            }
        }
        // It was killed while it held the lock.
        told.holds.extend(open);
        Ok(told)
    }
}

fn parse(line: &str) -> Option<(Duration, Event)> {
    let mut words = line.split(' ');
    let (word, at, token) = (words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let event = match word {
        "asked" => Event::Asked,
        "granted" => Event::Granted(Token(token)),
        "acted" => Event::Acted,
        "refused" => Event::Refused,
        "freed" => Event::Freed,
        "lost" => Event::Lost,
        _ => return None,
    };
    Some((Duration::from_nanos(at), event))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctl::cluster::Scratch;

    #[test]
    fn a_log_is_read_as_it_was_written_also_if_its_process_was_killed() {
        let scratch = Scratch::new("log").unwrap();
        let path = scratch.path().join("log");
        let mut log = ClientLog::create(&path).unwrap();
        let first = [Event::Asked, Event::Granted(Token(5)), Event::Acted, Event::Refused, Event::Freed];
        let second = [Event::Asked, Event::Lost, Event::Asked, Event::Granted(Token(8)), Event::Acted];
        for event in first.into_iter().chain(second) {
            log.write(event).unwrap();
        }
        let told = Told::read(&path, 3).unwrap();
        let tokens: Vec<u64> = told.holds.iter().map(|hold| hold.token.0).collect();
        assert_eq!((tokens, told.refused, told.lost.len()), (vec![5, 8], 1, 1));
        assert!(told.holds[0].freed.is_some() && told.holds[1].freed.is_none());
        assert_eq!(crate::lock_history::judge(&told.holds), None);
    }
}
