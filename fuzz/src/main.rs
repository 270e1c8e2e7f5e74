//! One binary for all targets: `FUZZ_TARGET` names the target, `FUZZ_SEEDS=DIR` writes the first inputs of all targets
//! below that directory, and the dictionaries of those that have one, and ends, `FUZZ_LIST=1` prints the names of the targets and ends.

#![no_main]

use std::path::Path;
use std::sync::OnceLock;
use std::{env, fs, process};

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

fn choose() {
    if env::var_os("FUZZ_LIST").is_some() {
        fuzz::TARGETS.iter().for_each(|(name, _)| println!("{name}"));
        process::exit(0);
    }
    if let Ok(base) = env::var("FUZZ_SEEDS") {
        for (target, name, bytes) in fuzz::seeds() {
            let directory = Path::new(&base).join(target);
            fs::create_dir_all(&directory).expect("a directory for the inputs");
            fs::write(directory.join(name), bytes).expect("an input");
        }
        fs::write(Path::new(&base).join("config.dict"), fuzz::dictionary()).expect("a dictionary");
        process::exit(0);
    }
    let wanted = env::var("FUZZ_TARGET").unwrap_or_default();
    let Some((_, target)) = fuzz::TARGETS.iter().find(|(name, _)| *name == wanted) else {
        eprintln!("FUZZ_TARGET={wanted}: no such target");
        process::exit(2);
    };
    TARGET.get_or_init(|| *target);
}

libfuzzer_sys::fuzz_target!(init: choose(), |bytes: &[u8]| {
    if let Some(target) = TARGET.get() {
        target(bytes);
    }
});
