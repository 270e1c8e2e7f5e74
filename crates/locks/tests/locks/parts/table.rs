//! The table of holders, and who fits beside whom.

use locks::service::LockSettings;
use locks::wire::Mode;
use types::Token;

use crate::bench::{Bench, name};

fn holders(bench: &Bench, lock: &str) -> usize {
    bench.machine().keeper().copy().unwrap().table.holders(&name(lock)).count()
}

fn bench(sessions: u64) -> Bench {
    let mut bench = Bench::alone(&LockSettings::default());
    (2..=sessions).for_each(|session| drop(bench.open(session, 1)));
    bench
}

#[test]
fn one_writer_or_many_readers_or_so_many_slots() {
    for (mode, fits) in [(Mode::Exclusive, 1), (Mode::Shared, 5), (Mode::Slots(1), 1), (Mode::Slots(3), 3)] {
        let mut bench = bench(5);
        for session in 1..=5 {
            bench.acquire(session, 1, "a", mode);
        }
        assert_eq!(holders(&bench, "a"), fits, "{mode:?}");
        assert_eq!(bench.machine().clerk().unwrap().queues().len(&name("a")), 5 - fits, "{mode:?}");
    }
}

#[test]
fn readers_and_writers_exclude_each_other() {
    let mut bench = bench(2);
    bench.acquire(1, 1, "a", Mode::Shared);
    bench.acquire(2, 1, "a", Mode::Exclusive);
    assert_eq!(holders(&bench, "a"), 1);
    bench.acquire(1, 2, "b", Mode::Exclusive);
    bench.acquire(2, 2, "b", Mode::Shared);
    assert_eq!(holders(&bench, "b"), 1);
}

#[test]
fn names_that_are_prefixes_of_each_other_are_different_locks() {
    let mut bench = bench(1);
    for (request, lock) in (1..).zip(["a", "ab", "a\u{10ffff}", "b"]) {
        bench.acquire(1, request, lock, Mode::Exclusive);
        assert_eq!(holders(&bench, lock), 1);
    }
    assert_eq!(bench.machine().clerk().unwrap().names(), 4);
}

#[test]
fn tokens_count_from_one_in_every_epoch() {
    let mut bench = bench(1);
    bench.acquire(1, 1, "a", Mode::Exclusive);
    let view = bench.machine().lock(&name("a")).unwrap();
    assert_eq!(view.holders[0].token, Token::new(types::Epoch(1), 1));
    assert_eq!(bench.machine().locks(None, 10).unwrap(), [view]);
    assert_eq!(bench.machine().locks(Some(&name("b")), 10).unwrap(), []);
}

#[test]
fn locks_are_listed_in_order_and_in_pages() {
    let mut bench = bench(3);
    for (request, lock) in (1..).zip(["d", "a", "c"]) {
        bench.acquire(1, request, lock, Mode::Exclusive);
        bench.acquire(2, request, lock, Mode::Exclusive);
    }
    bench.acquire(3, 1, "b", Mode::Shared);
    let names = |bench: &Bench, from: Option<&str>, most| -> Vec<String> {
        let views = bench.machine().locks(from.map(name).as_ref(), most).unwrap();
        views.iter().map(|view| view.name.to_string()).collect()
    };
    assert_eq!(names(&bench, None, 9), ["a", "b", "c", "d"]);
    assert_eq!(names(&bench, None, 2), ["a", "b"]);
    assert_eq!(names(&bench, Some("b"), 2), ["b", "c"]);
    assert_eq!(names(&bench, Some("bb"), 2), ["c", "d"]);
}
