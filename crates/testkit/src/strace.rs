//! `strace` between a process and the kernel: faults on its system calls, or their order.

use std::path::Path;
use std::process::Command;

/// False, and loud, where processes cannot be traced. Under `CI=true` a failure.
pub fn works() -> bool {
    let works = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status().is_ok_and(|s| s.success());
    if !works {
        let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!ci, "strace is missing or may not trace: install it, or allow ptrace");
        eprintln!("SKIPPED: strace is missing or may not trace");
    }
    works
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
