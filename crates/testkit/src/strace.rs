//! `strace` between a process and the kernel: faults on its system calls, or their order.

use std::fs;
use std::path::Path;
use std::process::Command;

use tokio::io::{AsyncBufReadExt, BufReader};

use crate::PATIENCE;

/// A system call that changes a file or makes a change durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    pub thread: u32,
    pub name: String,
    /// Without the directory; of a rename the old name.
    pub file: String,
}

/// False, with a message, if processes cannot be traced. Under `CI=true` a failure.
pub fn works() -> bool {
    let works = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status().is_ok_and(|s| s.success());
    if !works {
        skipped("strace is missing or may not trace");
    }
    works
}

fn skipped(why: &str) {
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(!ci, "{why}: install it, or allow ptrace");
    eprintln!("SKIPPED: {why}");
}

/// Applies these words, as before a command line, to a process that runs already. It is traced when this returns, and
/// until the child is dropped. `None`, with a message, if only a child may be traced.
pub async fn attach(words: &[String], pid: u32) -> Option<tokio::process::Child> {
    let quiet = |word: &&String| word.as_str() != "-qq";
    let mut command = tokio::process::Command::new(&words[0]);
    command.args(words[1..].iter().filter(quiet)).args(["-p", &pid.to_string()]).kill_on_drop(true);
    let mut strace = command.stderr(std::process::Stdio::piped()).spawn().expect("strace");
    let mut lines = BufReader::new(strace.stderr.take().expect("its stderr")).lines();
    let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("strace says something");
    let line = line.expect("readable").unwrap_or_default();
    if !line.contains("attached") {
        skipped(&format!("strace may not trace a running process: {line}"));
        return None;
    }
    // Its output must be read on, or it would block.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Some(strace)
}

/// The words before a command line: faults on the calls that touch a path.
pub fn inject(path: &Path, faults: &[String]) -> Vec<String> {
    let mut line: Vec<String> = ["strace", "-qq", "-f", "-o", "/dev/null", "-P"].map(str::to_owned).to_vec();
    line.push(path.display().to_string());
    line.extend(["-e".to_owned(), "trace=openat,write,fsync,rename".to_owned()]);
    for fault in faults {
        line.extend(["-e".to_owned(), format!("inject={fault}")]);
    }
    line
}

/// The words before a command line: the calls that write, sync and rename files go to a file of their own.
pub fn record(into: &Path) -> Vec<String> {
    let calls = "trace=write,fsync,fdatasync,rename,renameat,renameat2";
    let mut line: Vec<String> = ["strace", "-qq", "-f", "-y", "-e", calls, "-o"].map(str::to_owned).to_vec();
    line.push(into.display().to_string());
    line
}

/// The recorded calls on files below this directory, in the order in which they began.
pub fn calls(recorded: &Path, below: &Path) -> Vec<Call> {
    let text = fs::read_to_string(recorded).unwrap_or_else(|error| panic!("{}: {error}", recorded.display()));
    let below = below.canonicalize().expect("the directory");
    text.lines().filter_map(|line| call(line, &below.display().to_string())).collect()
}

/// `PID name(3</path>, ...) = 0`, or with quotes around the path where a call takes one. Calls of several threads are cut
/// in two lines; the first has the path.
fn call(line: &str, below: &str) -> Option<Call> {
    let (thread, call) = line.split_once(' ')?;
    let thread = thread.parse().ok()?;
    let (name, arguments) = call.trim_start().split_once('(')?;
    let (_, path) = arguments.split_once(below)?;
    let end = path.find(['>', '"'])?;
    let file = path[..end].trim_start_matches('/').to_owned();
    Some(Call { thread, name: name.to_owned(), file })
}

/// The position of the first call of this name on this file, at or after a position.
pub fn find(calls: &[Call], from: usize, name: &str, file: &str) -> Option<usize> {
    let found = calls.iter().skip(from).position(|call| call.name.starts_with(name) && call.file == file)?;
    Some(from + found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_from_their_lines() {
        let found = |line| call(line, "/tmp/d");
        let is = |name: &str, file: &str| Some(Call { thread: 12, name: name.into(), file: file.into() });
        assert_eq!(found("12 write(3</tmp/d/state.tmp>, \"x\", 1) = 1"), is("write", "state.tmp"));
        assert_eq!(found("12 fsync(4</tmp/d>)  = 0"), is("fsync", ""));
        assert_eq!(found("12 rename(\"/tmp/d/a\", \"/tmp/d/b\") = 0"), is("rename", "a"));
        assert_eq!(found("12 fdatasync(9</tmp/d/ledger> <unfinished ...>"), is("fdatasync", "ledger"));
        assert_eq!(found("12 write(1</dev/null>, \"x\", 1) = 1"), None);
        assert_eq!(found("12 <... fsync resumed>) = 0"), None);
    }
}
