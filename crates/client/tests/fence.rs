//! A fence over its whole life: files, restarts, damage, rivals.

use std::fs;
use std::path::PathBuf;

use client::{Fence, FenceError};
use testkit::Scratch;

fn file(scratch: &Scratch) -> PathBuf {
    scratch.path().join("fence")
}

#[test]
fn the_largest_token_is_remembered_over_restarts_and_smaller_ones_are_refused() {
    let scratch = Scratch::new("restarts").unwrap();
    for (token, accepted) in [(10, true), (10, true), (12, true), (11, false), (12, true), (0, false), (13, true)] {
        let mut fence = Fence::open(file(&scratch)).unwrap();
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
    assert_eq!(Fence::open(file(&scratch)).unwrap().largest(), Some(13));
}

#[test]
fn a_damaged_file_is_refused_and_left_as_it_is() {
    let scratch = Scratch::new("damage").unwrap();
    for damage in ["", "conclave-fence/1 5 00000000\n", "something else"] {
        fs::write(file(&scratch), damage).unwrap();
        assert!(matches!(Fence::open(file(&scratch)), Err(FenceError::Damaged { .. })), "{damage:?}");
        assert_eq!(fs::read_to_string(file(&scratch)).unwrap(), damage);
    }
}

#[test]
fn what_a_crash_left_beside_the_file_does_not_count() {
    let scratch = Scratch::new("crash").unwrap();
    Fence::open(file(&scratch)).unwrap().check(5).unwrap();
    fs::write(scratch.path().join("fence.tmp"), "half a").unwrap();
    let mut fence = Fence::open(file(&scratch)).unwrap();
    assert_eq!(fence.largest(), Some(5));
    fence.check(6).unwrap();
    assert!(!scratch.path().join("fence.tmp").exists());
}

#[test]
fn rivals_take_turns_and_none_goes_back() {
    let scratch = Scratch::new("rivals").unwrap();
    let rivals: Vec<_> = (0..8_u64)
        .map(|rival| {
            let file = file(&scratch);
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
    assert_eq!(Fence::open(file(&scratch)).unwrap().largest(), Some(19 * 8 + 7));
}
