//! The real binary with bad input: a named error, the documented exit code, nothing started and nothing lost.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::{Scratch, node_binary};

/// Two members, the first at this port; `change` edits the text.
fn config(scratch: &Scratch, port: u16, change: impl Fn(String) -> String) -> PathBuf {
    let text = format!(
        "[cluster]\nname = \"t\"\nsafety = \"classic\"\n[[peers]]\nid = 1\naddress = \"127.0.0.1:{port}\"\n\
         [[peers]]\nid = 2\naddress = \"127.0.0.1:2\"\n"
    );
    let path = scratch.path().join("cluster.toml");
    fs::write(&path, change(text)).unwrap();
    path
}

fn node(config: &Path, id: &str, data: &Path) -> Output {
    let mut command = Command::new(node_binary());
    command.arg("--config").arg(config).args(["--id", id, "--data-dir"]).arg(data);
    command.env_remove("CONCLAVE_CONFIG").env_remove("CONCLAVE_ID").output().unwrap()
}

fn check(config: &Path) -> Output {
    check_as(config, &[])
}

fn check_as(config: &Path, id: &[&str]) -> Output {
    let mut command = Command::new(node_binary());
    command.arg("--config").arg(config).arg("--check").args(id);
    command.env_remove("CONCLAVE_CONFIG").env_remove("CONCLAVE_ID").output().unwrap()
}

fn fails(output: &Output, code: i32, says: &str) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(text.contains(says), "{text:?} does not say {says:?}");
}

#[test]
fn a_bad_config_starts_nothing() {
    let scratch = Scratch::new("config").unwrap();
    let data = scratch.path().join("data");
    let config_file = config(&scratch, 1, |text| text.replace("name", "nam"));
    fails(&node(&config_file, "1", &data), 2, "cluster.toml:2: unknown key \"nam\"");
    let config_file = config(&scratch, 1, |text| text);
    fails(&node(&config_file, "7", &data), 2, "no peer has the id 7");
    assert!(!data.exists(), "nothing was started");
}

#[test]
fn a_secret_that_others_can_read_or_that_is_not_of_members_starts_nothing() {
    let scratch = Scratch::new("secret").unwrap();
    let (data, secret) = (scratch.path().join("data"), scratch.path().join("secret"));
    let with = |key: &str| {
        let line = format!("safety = \"classic\"\nsecret_file = \"secret\"\n{key}\n");
        config(&scratch, 1, |text| text.replace("safety = \"classic\"\n", &line))
    };
    let mode = |mode| fs::set_permissions(&secret, fs::Permissions::from_mode(mode)).unwrap();
    let elsewhere = check(&with(""));
    assert_eq!(elsewhere.status.code(), Some(0), "a config is also checked where its secret is not");
    assert!(String::from_utf8_lossy(&elsewhere.stderr).contains("warning: cannot read the secret file"));
    for output in [check_as(&with(""), &["--id", "1"]), node(&with(""), "1", &data)] {
        fails(&output, 2, "cannot read the secret file");
    }
    fs::write(&secret, "short").unwrap();
    mode(0o600);
    for output in [check(&with("")), node(&with(""), "1", &data)] {
        fails(&output, 2, "the secret has 5 bytes; at least 16 are needed");
    }
    fs::write(&secret, "0123456789abcdef").unwrap();
    mode(0o644);
    for output in [check(&with("")), node(&with(""), "1", &data)] {
        fails(&output, 2, "mode 0644");
        fails(&output, 2, &format!("chmod 600 {}", secret.display()));
        fails(&output, 2, "secret_permissions = \"any\"");
    }
    assert_eq!(check(&with("secret_permissions = \"any\"")).status.code(), Some(0));
    mode(0o600);
    assert_eq!(check(&with("")).status.code(), Some(0));

    let own = client::Secret::from_bytes(b"0123456789abcdef").unwrap();
    for access in [client::Access::Reader, client::Access::Operator] {
        fs::write(&secret, own.derived(access).unwrap()).unwrap();
        for output in [check(&with("")), node(&with(""), "1", &data)] {
            fails(&output, 2, &format!("has the secret of {access}s, not of members"));
        }
    }
    assert!(!data.exists(), "nothing was started");
}

#[test]
fn a_check_finds_a_missing_token_and_warns_of_names_without_an_address() {
    let scratch = Scratch::new("check").unwrap();
    let token = scratch.path().join("http.token");
    let config_file = config(&scratch, 1, |text| {
        let text = text.replace(
            "safety = \"classic\"\n",
            "safety = \"classic\"\ninsecure = true\nhttp_token_file = \"http.token\"\n",
        );
        text.replace("127.0.0.1:2\"", "no-such-host.invalid:2\"\nhttp = \"127.0.0.1:3\"")
    });
    fails(&check_as(&config_file, &["--id", "2"]), 2, "http.token");
    assert_eq!(check_as(&config_file, &["--id", "1"]).status.code(), Some(0), "member 1 has no HTTP face");
    fs::write(&token, "0123456789abcdef").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let output = check_as(&config_file, &["--id", "2"]);
    fails(&output, 0, "warning: \"no-such-host.invalid:2\" cannot be resolved on this machine");
    fails(&check_as(&config_file, &["--id", "7"]), 2, "no peer has the id 7");
}

#[test]
fn a_port_in_use_is_named() {
    let scratch = Scratch::new("port").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let config_file = config(&scratch, port, |text| text);
    fails(&node(&config_file, "1", &scratch.path().join("data")), 1, &format!("cannot listen on 127.0.0.1:{port}"));
}

#[test]
fn a_damaged_state_file_is_named_and_kept() {
    let scratch = Scratch::new("state").unwrap();
    let config_file = config(&scratch, 1, |text| text);
    let data = scratch.path().join("data");
    fs::create_dir_all(&data).unwrap();
    for damage in [&b""[..], b"cnclv-st", b"something else entirely"] {
        fs::write(data.join("state"), damage).unwrap();
        fails(&node(&config_file, "1", &data), 1, "is damaged");
        assert_eq!(fs::read(data.join("state")).unwrap(), damage, "not overwritten");
    }
}
