//! The way of a byte, from the socket through a member and back: laid out by hand, every step with the file it is in.

/// A box of the picture: where it stands, the file below `crates/` (a socket has none), and what happens there.
pub(crate) struct Step {
    pub(crate) column: u8,
    pub(crate) row: u8,
    pub(crate) file: Option<&'static str>,
    pub(crate) title: &'static str,
    pub(crate) words: &'static str,
}

const fn step(column: u8, row: u8, file: &'static str, title: &'static str, words: &'static str) -> Step {
    Step { column, row, file: Some(file), title, words }
}

pub(crate) const STEPS: &[Step] = &[
    Step { column: 0, row: 0, file: None, title: "socket", words: "TCP from another member" },
    step(1, 0, "transport/src/frame.rs", "frame", "checks the length, cuts one frame off the stream"),
    step(2, 0, "transport/src/net.rs", "transport", "owns all authenticated connections, gives events"),
    step(3, 0, "node/src/daemon.rs", "event loop", "the only task: takes one event per turn"),
    step(3, 1, "node/src/instance.rs", "instance", "one machine of many: decodes the bytes, once"),
    step(2, 1, "algorithms/src/drive.rs", "driver", "runs one step, keeps timers and the barrier"),
    step(1, 1, "member/src/member.rs", "Member::step", "failure detector, rounds, authority, children"),
    step(0, 1, "algorithms/src/protocol.rs", "Protocol::step", "of the election algorithm"),
    step(0, 2, "algorithms/src/drive/effects.rs", "effects", "kept in the order of the calls"),
    step(1, 2, "node/src/daemon/effects.rs", "effect sink", "carries the effects out"),
    step(0, 3, "transport/src/link.rs", "send", "a bounded queue, one write per socket and turn"),
    step(1, 3, "node/src/disk.rs", "persist", "write and fsync; effects behind it wait"),
    step(2, 3, "node/src/publisher.rs", "announce", "one stream: watchers, ledger, log, hooks"),
    step(3, 3, "algorithms/src/drive/timers.rs", "set timer", "fires as an input of a later step"),
];

/// From one title to another.
pub(crate) const ARROWS: &[(&str, &str)] = &[
    ("socket", "frame"),
    ("frame", "transport"),
    ("transport", "event loop"),
    ("event loop", "instance"),
    ("instance", "driver"),
    ("driver", "Member::step"),
    ("Member::step", "Protocol::step"),
    ("Protocol::step", "effects"),
    ("effects", "effect sink"),
    ("effect sink", "send"),
    ("effect sink", "persist"),
    ("effect sink", "announce"),
    ("effect sink", "set timer"),
];
