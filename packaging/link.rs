//! The build script of `node` and `ctl`: linker options of programs that are built to be small (`opt-level` "s" or "z": the
//! profile `small`). The linker is rustc's own (lld) or GNU ld.

use std::env::var;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=../../packaging/link.rs");
    let is = |name: &str, values: &[&str]| var(name).is_ok_and(|value| values.contains(&value.as_str()));
    if !is("OPT_LEVEL", &["s", "z"]) || !is("CARGO_CFG_TARGET_OS", &["linux"]) || !is("CARGO_CFG_TARGET_ENV", &["gnu"])
    {
        return;
    }
    // What the loader corrects at the start, as a bitmap: the table would be 0.2 MiB, which stay in memory. Needs glibc 2.36
    // where the program runs.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    let seldom = Path::new(&var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../packaging/seldom.ld");
    println!("cargo::rerun-if-changed={}", seldom.display());
    println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", seldom.display());
}
