//! A run for other tools, with the Lamport clock on every event.

use std::collections::BTreeMap;
use std::fmt::Write;

use algorithms::Uid;
use serde_json::json;

use super::recording::{MutexEvent, MutexRecording, MutexWhat};
use crate::observe::ROUND;

fn describe(ids: &[Uid], recording: &MutexRecording, event: &MutexEvent) -> String {
    let mut text = match event.what {
        MutexWhat::Sent(nth) => {
            let message = &recording.messages[nth];
            format!("send {} to {}: {}", message.kind.name, ids[message.to], message.text)
        }
        MutexWhat::Received(nth) => {
            let message = &recording.messages[nth];
            format!("receive {} from {}: {}", message.kind.name, ids[message.from], message.text)
        }
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
    let mut clocks: Vec<BTreeMap<usize, u64>> = vec![BTreeMap::new(); ids.len()];
    let mut carried: Vec<BTreeMap<usize, u64>> = vec![BTreeMap::new(); recording.messages.len()];
    let mut log = String::new();
    for event in &recording.events {
        let clock = &mut clocks[event.member];
        if let MutexWhat::Received(nth) = event.what {
            for (&member, &time) in &carried[nth] {
                let known = clock.entry(member).or_default();
                *known = time.max(*known);
            }
        }
        *clock.entry(event.member).or_default() += 1;
        if let MutexWhat::Sent(nth) = event.what {
            carried[nth] = clock.clone();
        }
        let times: Vec<String> = clock.iter().map(|(&member, time)| format!("\"n{}\": {time}", ids[member])).collect();
        let text = describe(ids, recording, event);
        let _ = writeln!(log, "n{} {{{}}}\n{text}", ids[event.member], times.join(", "));
    }
    log
}

/// The trace event format; a round takes a millisecond on its clock. A wait and a section are slices.
pub fn chrome_mutex(title: &str, ids: &[Uid], recording: &MutexRecording) -> String {
    let micros = |at: u64| at as f64 / (ROUND as f64 / 1000.0);
    let mut events = vec![json!({ "ph": "M", "pid": 1, "name": "process_name", "args": { "name": title } })];
    for (member, id) in ids.iter().enumerate() {
        let args = json!({ "name": format!("node {id}") });
        events.push(json!({ "ph": "M", "pid": 1, "tid": member, "name": "thread_name", "args": args }));
    }
    for event in &recording.events {
        let (ts, tid) = (micros(event.at), event.member);
        let args = json!({ "text": describe(ids, recording, event), "clock": event.clock });
        let slice = |phase: &str, name: &str| json!({ "ph": phase, "pid": 1, "tid": tid, "ts": ts, "name": name, "args": args });
        match event.what {
            MutexWhat::Asked => events.push(slice("B", "wanted")),
            MutexWhat::Entered(_) => events.extend([slice("E", "wanted"), slice("B", "held")]),
            MutexWhat::Left => events.push(slice("E", "held")),
            MutexWhat::Crashed => {
                events.push(
                    json!({ "ph": "i", "s": "t", "pid": 1, "tid": tid, "ts": ts, "name": "crash", "args": args }),
                );
            }
            MutexWhat::Sent(nth) | MutexWhat::Received(nth) => {
                let phase = if matches!(event.what, MutexWhat::Sent(_)) { "s" } else { "f" };
                let name = recording.messages[nth].kind.name;
                events
                    .push(json!({ "ph": "X", "pid": 1, "tid": tid, "ts": ts, "dur": 20, "name": name, "args": args }));
                events.push(json!({
                    "ph": phase, "bp": "e", "pid": 1, "tid": tid, "ts": ts, "id": nth, "cat": "message", "name": name
                }));
            }
        }
    }
    json!({ "displayTimeUnit": "ms", "traceEvents": events }).to_string()
}
