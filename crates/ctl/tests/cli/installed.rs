//! The programs under the names that they are installed by.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use testkit::{Scratch, ctl_binary, free_ports_elsewhere, node_binary, stderr, stdout};

/// A directory with a program under another name. Not a symbolic link: a program knows the file that it was started from.
fn install(binary: &Path, directory: &Path, name: &str) -> PathBuf {
    std::fs::create_dir_all(directory).unwrap();
    let to = directory.join(name);
    if std::fs::hard_link(binary, &to).is_err() {
        std::fs::copy(binary, &to).unwrap();
    }
    to
}

fn run(program: &Path, directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory);
    command.env_remove("CONCLAVE_CONFIG").env_remove("CONCLAVE_ENDPOINTS").env_remove("CONCLAVE_ID");
    command.output().unwrap()
}

#[test]
fn messages_help_pages_and_completions_name_the_programs_as_they_were_called() {
    let scratch = Scratch::new("installed").unwrap();
    let here = scratch.path();
    let ctl = install(&ctl_binary(), &here.join("bin"), "conclavectl");
    let node = install(&node_binary(), &here.join("bin"), "conclave-node");

    let refused = run(&ctl, here, &["leader"]);
    assert!(stderr(&refused).starts_with("conclavectl: "), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("`conclavectl up`"), "{}", stderr(&refused));
    let refused = run(&node, here, &["--config", "missing.toml", "--id", "1"]);
    assert!(stderr(&refused).starts_with("conclave-node: "), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("`conclavectl config --example`"), "{}", stderr(&refused));

    for arguments in [&["--help"][..], &["lead", "--help"], &["sim", "run", "--help"], &["init", "--help"]] {
        let help = stdout(&run(&ctl, here, arguments));
        assert!(help.contains("conclavectl "), "{help}");
        let plain = help.lines().find(|line| line.trim_start().starts_with("ctl ") || line.contains("`ctl "));
        assert_eq!(plain, None, "{arguments:?}");
    }
    assert!(stdout(&run(&ctl, here, &["--version"])).starts_with("conclavectl "));

    let pages = run(&ctl, here, &["man", "pages"]);
    assert_eq!(pages.status.code(), Some(0), "{}", stderr(&pages));
    let page = |name: &str| std::fs::read_to_string(here.join("pages").join(name)).unwrap();
    for (name, sections) in [
        ("man1/conclavectl.1", &["ENVIRONMENT", "FILES", "CONCLAVE_ENDPOINTS", "conclave\\-node(8)"][..]),
        ("man1/conclavectl-sim-run.1", &["SYNOPSIS"]),
        ("man8/conclave-node.8", &["ENVIRONMENT", "FILES", "CONCLAVE_DATA_DIR", "WATCHDOG_USEC", "conclavectl(1)"]),
        ("man5/conclave.toml.5", &["ALL KEYS", "suspect_after", "FILES", "conclave\\-node(8)"]),
    ] {
        let text = page(name);
        for wanted in sections {
            assert!(text.contains(wanted), "{name} has no {wanted}");
        }
    }
    for (of, name) in [("ctl", "conclavectl"), ("node", "conclave-node")] {
        let script = stdout(&run(&ctl, here, &["completions", "bash", "--of", of]));
        assert!(script.contains(name), "{script}");
    }
}

#[test]
fn a_relative_path_is_named_as_it_was_typed() {
    let scratch = Scratch::new("installed").unwrap();
    install(&ctl_binary(), &scratch.path().join("bin"), "ctl");
    let output = run(Path::new("./bin/ctl"), scratch.path(), &["leader"]);
    assert!(stderr(&output).starts_with("ctl: "), "{}", stderr(&output));
    assert!(stderr(&output).contains("`./bin/ctl up`"), "{}", stderr(&output));
}

/// Another program called `node` is widespread: it is never started.
#[test]
fn up_starts_the_installed_program_and_never_another_node_on_the_path() {
    let scratch = Scratch::new("installed").unwrap();
    let (path, other) = (scratch.path().join("path"), scratch.path().join("other"));
    let ctl = install(&ctl_binary(), &scratch.path().join("bin"), "conclavectl");
    let touched = scratch.path().join("touched");
    std::fs::create_dir_all(&path).unwrap();
    for stranger in [path.join("node"), scratch.path().join("bin/node")] {
        std::fs::write(&stranger, format!("#!/bin/sh\n: > {}\necho node 1\n", touched.display())).unwrap();
        std::fs::set_permissions(&stranger, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let port = free_ports_elsewhere(1).unwrap()[0].to_string();
    let up = |path: String| {
        let mut command = Command::new(&ctl);
        command.args(["up", "-n", "1", "-o", "json", "--base-port", &port]).env("PATH", path);
        command.current_dir(scratch.path());
        command
    };
    let strangers = path.display().to_string();
    let refused = up(strangers.clone()).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("`conclave-node` on the PATH"), "{}", stderr(&refused));

    install(&node_binary(), &other, "conclave-node");
    let mut running =
        up(format!("{strangers}:{}", other.display())).stdout(Stdio::piped()).spawn().expect("conclavectl runs");
    let mut line = String::new();
    BufReader::new(running.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("\"leader\":1"), "{line}");
    kill_process(Pid::from_raw(running.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
    assert!(running.wait().unwrap().success());
    assert!(!touched.exists(), "another program called node was run");
}
