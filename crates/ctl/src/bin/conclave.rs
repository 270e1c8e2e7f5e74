//! `node` and `ctl` in one file, for container images: what both are made of is there once. The name by which it is called says
//! which of them it is.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let called = std::env::args_os().next().unwrap_or_default();
    match Path::new(&called).file_name().and_then(|name| name.to_str()) {
        Some("node" | "conclave-node") => node::process::main(),
        _ => ctl::main(),
    }
}
