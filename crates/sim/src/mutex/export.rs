//! A run for other tools, with the Lamport clock on every event.

use std::fmt::Write;

use algorithms::Uid;
use serde_json::json;

use super::recording::{MutexEvent, MutexRecording, MutexWhat};
use crate::export::{End, VectorClocks, message_end, message_text, micros, trace};

fn describe(ids: &[Uid], recording: &MutexRecording, event: &MutexEvent) -> String {
    let mut text = match event.what {
        MutexWhat::Sent(nth) => message_text(ids, &recording.messages[nth], End::Sent),
        MutexWhat::Received(nth) => message_text(ids, &recording.messages[nth], End::Received),
        MutexWhat::Asked => "ask".into(),
        MutexWhat::Entered(token) => format!("enter with token {token}"),
        MutexWhat::Left => "leave".into(),
        MutexWhat::Crashed => "crash".into(),
    };
    if let (MutexWhat::Asked | MutexWhat::Entered(_), Some(stamp)) = (event.what, event.stamp) {
        let _ = write!(text, " {stamp}");
    }
    if let Some(clock) = event.clock {
        let _ = write!(text, " [clock {clock}]");
    }
    text
}

/// A log for ShiViz with its default parser: `(?<host>\S*) (?<clock>{.*})\n(?<event>.*)`.
pub fn shiviz_mutex(ids: &[Uid], recording: &MutexRecording) -> String {
    let mut clocks = VectorClocks::new(ids, &recording.messages);
    let mut log = String::new();
    for event in &recording.events {
        let clock = clocks.event(event.member, message_of(event));
        let _ = writeln!(log, "{clock}\n{}", describe(ids, recording, event));
    }
    log
}

fn message_of(event: &MutexEvent) -> Option<(End, usize)> {
    match event.what {
        MutexWhat::Sent(nth) => Some((End::Sent, nth)),
        MutexWhat::Received(nth) => Some((End::Received, nth)),
        MutexWhat::Asked | MutexWhat::Entered(_) | MutexWhat::Left | MutexWhat::Crashed => None,
    }
}

/// The trace event format. A wait and a section are slices.
pub fn chrome_mutex(title: &str, ids: &[Uid], recording: &MutexRecording) -> String {
    let mut events = trace(title, ids);
    for event in &recording.events {
        let (ts, tid) = (micros(event.at), event.member);
        let args = json!({ "text": describe(ids, recording, event), "clock": event.clock });
        let slice = |phase: &str, name: &str| json!({ "ph": phase, "pid": 1, "tid": tid, "ts": ts, "name": name, "args": args });
        if let Some((end, nth)) = message_of(event) {
            events.extend(message_end(ts, tid, recording.messages[nth].kind.name, (end, nth), &args));
        }
        match event.what {
            MutexWhat::Asked => events.push(slice("B", "wanted")),
            MutexWhat::Entered(_) => events.extend([slice("E", "wanted"), slice("B", "held")]),
            MutexWhat::Left => events.push(slice("E", "held")),
            MutexWhat::Crashed => {
                events.push(
                    json!({ "ph": "i", "s": "t", "pid": 1, "tid": tid, "ts": ts, "name": "crash", "args": args }),
                );
            }
            MutexWhat::Sent(_) | MutexWhat::Received(_) => {}
        }
    }
    json!({ "displayTimeUnit": "ms", "traceEvents": events }).to_string()
}
