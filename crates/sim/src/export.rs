//! A run for other tools: ShiViz (vector clocks) and Chrome's or Perfetto's trace viewer.

use std::collections::BTreeMap;
use std::fmt::Write;

use algorithms::{Outcome, Uid};
use serde_json::json;

use crate::observe::{ROUND, Recording, What};

/// One event, in order.
struct Entry {
    seq: u64,
    at: u64,
    node: usize,
    text: String,
    /// For a delivery: the message.
    received: Option<usize>,
    sent: Option<usize>,
}

fn entries(ids: &[Uid], recording: &Recording) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (nth, message) in recording.messages.iter().enumerate() {
        let (from, to) = (ids[message.from], ids[message.to]);
        entries.push(Entry {
            seq: message.send_seq,
            at: message.sent,
            node: message.from,
            text: format!("send {} to {to}: {}", message.kind.name, message.text),
            received: None,
            sent: Some(nth),
        });
        if let Some((at, true)) = message.arrived {
            entries.push(Entry {
                seq: message.arrive_seq,
                at,
                node: message.to,
                text: format!("receive {} from {from}: {}", message.kind.name, message.text),
                received: Some(nth),
                sent: None,
            });
        }
    }
    for mark in &recording.marks {
        let text = describe(&mark.what);
        entries.push(Entry { seq: mark.seq, at: mark.at, node: mark.node, text, received: None, sent: None });
    }
    entries.sort_by_key(|entry| entry.seq);
    entries
}

fn describe(what: &What) -> String {
    match what {
        What::Woke => "start".into(),
        What::Timer(timer) => format!("timer {timer}"),
        What::Crashed => "crash".into(),
        What::Decided(Outcome::Won) => "win".into(),
        What::Decided(Outcome::Follow(Some(uid))) => format!("follow {uid}"),
        What::Decided(outcome) => format!("{outcome:?}"),
    }
}

/// What ShiViz reads a log with: two lines per event.
const SHIVIZ_PARSER: &str = r"(?<event>.*)\n(?<host>\S*) (?<clock>{.*})";

/// A log for ShiViz. Its first line is the regular expression of the events; the second one, empty here, could separate
/// several executions.
pub fn shiviz(ids: &[Uid], recording: &Recording) -> String {
    let mut clocks: Vec<BTreeMap<usize, u64>> = vec![BTreeMap::new(); ids.len()];
    let mut carried: Vec<BTreeMap<usize, u64>> = vec![BTreeMap::new(); recording.messages.len()];
    let mut log = format!("{SHIVIZ_PARSER}\n\n");
    for entry in entries(ids, recording) {
        let clock = &mut clocks[entry.node];
        for (&node, &time) in entry.received.map(|nth| &carried[nth]).into_iter().flatten() {
            let known = clock.entry(node).or_default();
            *known = time.max(*known);
        }
        *clock.entry(entry.node).or_default() += 1;
        if let Some(nth) = entry.sent {
            carried[nth] = clock.clone();
        }
        let times: Vec<String> = clock.iter().map(|(&node, time)| format!("\"n{}\": {time}", ids[node])).collect();
        let _ = writeln!(log, "{}\nn{} {{{}}}", entry.text, ids[entry.node], times.join(", "));
    }
    log
}

/// The trace event format; a round takes a millisecond on its clock.
pub fn chrome(title: &str, ids: &[Uid], recording: &Recording) -> String {
    let micros = |at: u64| at as f64 / (ROUND as f64 / 1000.0);
    let mut events = vec![json!({ "ph": "M", "pid": 1, "name": "process_name", "args": { "name": title } })];
    for (node, id) in ids.iter().enumerate() {
        let args = json!({ "name": format!("node {id}") });
        events.push(json!({ "ph": "M", "pid": 1, "tid": node, "name": "thread_name", "args": args }));
    }
    for entry in entries(ids, recording) {
        let (ts, tid) = (micros(entry.at), entry.node);
        match entry.sent.or(entry.received) {
            None => events.push(json!({ "ph": "i", "s": "t", "pid": 1, "tid": tid, "ts": ts, "name": entry.text })),
            Some(nth) => {
                // Arrows join slices, so each end gets a short one.
                let phase = if entry.sent.is_some() { "s" } else { "f" };
                let name = recording.messages[nth].kind.name;
                let args = json!({ "text": entry.text });
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
