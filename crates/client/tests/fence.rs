//! A fence over its whole life: files, restarts, damage, rivals.

use std::fs;
use std::path::PathBuf;

use client::{Fence, FenceError};

/// A directory of this test, gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("conclave-fence-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("fence")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_largest_token_is_remembered_over_restarts_and_smaller_ones_are_refused() {
    let scratch = Scratch::new("restarts");
    for (token, accepted) in [(10, true), (10, true), (12, true), (11, false), (12, true), (0, false), (13, true)] {
        let mut fence = Fence::open(scratch.file()).unwrap();
        let before = fence.largest();
        match fence.check(token) {
            Ok(()) => assert!(accepted, "{token} after {before:?}"),
            Err(FenceError::Stale { token: named, largest }) => {
                assert!(!accepted, "{token} after {before:?}");
                assert_eq!((named, Some(largest)), (token, before));
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(Fence::open(scratch.file()).unwrap().largest(), Some(13));
}

#[test]
fn a_damaged_file_is_refused_and_left_as_it_is() {
    let scratch = Scratch::new("damage");
    for damage in ["", "conclave-fence/1 5 00000000\n", "something else"] {
        fs::write(scratch.file(), damage).unwrap();
        assert!(matches!(Fence::open(scratch.file()), Err(FenceError::Damaged { .. })), "{damage:?}");
        assert_eq!(fs::read_to_string(scratch.file()).unwrap(), damage);
    }
}

#[test]
fn what_a_crash_left_beside_the_file_does_not_count() {
    let scratch = Scratch::new("crash");
    Fence::open(scratch.file()).unwrap().check(5).unwrap();
    fs::write(scratch.0.join("fence.tmp"), "half a").unwrap();
    let mut fence = Fence::open(scratch.file()).unwrap();
    assert_eq!(fence.largest(), Some(5));
    fence.check(6).unwrap();
    assert!(!scratch.0.join("fence.tmp").exists());
}

#[test]
fn rivals_take_turns_and_none_goes_back() {
    let scratch = Scratch::new("rivals");
    let rivals: Vec<_> = (0..8_u64)
        .map(|rival| {
            let file = scratch.file();
            std::thread::spawn(move || {
                for token in 0..20 {
                    let mut fence = Fence::open(&file).unwrap();
                    let before = fence.largest();
                    let accepted = fence.check(token * 8 + rival).is_ok();
                    assert_eq!(accepted, Some(token * 8 + rival) >= before);
                }
            })
        })
        .collect();
    for rival in rivals {
        rival.join().unwrap();
    }
    assert_eq!(Fence::open(scratch.file()).unwrap().largest(), Some(19 * 8 + 7));
}
