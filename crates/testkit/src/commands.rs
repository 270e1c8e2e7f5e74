//! `ctl` as a process, and its output.

use std::process::Output;

use crate::{PATIENCE, ctl_binary};

pub async fn ctl(arguments: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(ctl_binary());
    command.args(arguments).env_remove("CONCLAVE_CONFIG").env_remove("CONCLAVE_ENDPOINTS").kill_on_drop(true);
    tokio::time::timeout(PATIENCE, command.output()).await.expect("ctl ends").expect("ctl runs")
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// It ended with 0.
pub fn done(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(output), stderr(output));
}

/// It ended with this code, and stderr has all of this.
pub fn refused(output: &Output, code: i32, says: &[&str]) {
    assert_eq!(output.status.code(), Some(code), "{}{}", stdout(output), stderr(output));
    for text in says {
        assert!(stderr(output).contains(text), "{text:?} is not said: {}", stderr(output));
    }
}
