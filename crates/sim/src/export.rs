//! A run for other tools: ShiViz (vector clocks) and Chrome's or Perfetto's trace viewer.

use std::collections::BTreeMap;
use std::fmt::Write;

use algorithms::{Outcome, Uid};
use serde_json::{Value, json};

use crate::observe::{Event, Mark, Passage, ROUND, Recording, What};

/// One event.
struct Entry {
    at: u64,
    node: usize,
    text: String,
    message: Option<(End, usize)>,
}

/// What an event is to a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Sent,
    Received,
}

/// The text of a send or of a delivery.
pub(crate) fn message_text(ids: &[Uid], message: &Passage, end: End) -> String {
    let Passage { kind, from, to, text, .. } = message;
    match end {
        End::Sent => format!("send {} to {}: {text}", kind.name, ids[*to]),
        End::Received => format!("receive {} from {}: {text}", kind.name, ids[*from]),
    }
}

fn entry(ids: &[Uid], recording: &Recording, event: Event) -> Entry {
    let (nth, end) = match event {
        Event::Sent(nth) => (nth, End::Sent),
        Event::Received(nth) => (nth, End::Received),
        Event::Marked(nth) => {
            let Mark { at, node, what } = &recording.marks[nth];
            return Entry { at: *at, node: *node, text: describe(what), message: None };
        }
    };
    let message = &recording.messages[nth];
    let (at, node) = match end {
        End::Sent => (message.sent, message.from),
        End::Received => (message.arrived.map_or(0, |end| end.0), message.to),
    };
    Entry { at, node, text: message_text(ids, message, end), message: Some((end, nth)) }
}

fn entries(ids: &[Uid], recording: &Recording) -> impl Iterator<Item = Entry> {
    recording.events.iter().map(|&event| entry(ids, recording, event))
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

/// The vector clocks of a run.
pub(crate) struct VectorClocks<'a> {
    ids: &'a [Uid],
    nodes: Vec<BTreeMap<usize, u64>>,
    /// What each message carries.
    carried: Vec<BTreeMap<usize, u64>>,
}

impl<'a> VectorClocks<'a> {
    pub(crate) fn new(ids: &'a [Uid], messages: &[Passage]) -> Self {
        VectorClocks { ids, nodes: vec![BTreeMap::new(); ids.len()], carried: vec![BTreeMap::new(); messages.len()] }
    }

    /// The clock of the node after its next event, as ShiViz reads it.
    pub(crate) fn event(&mut self, node: usize, message: Option<(End, usize)>) -> String {
        let clock = &mut self.nodes[node];
        if let Some((End::Received, nth)) = message {
            for (&other, &time) in &self.carried[nth] {
                let known = clock.entry(other).or_default();
                *known = time.max(*known);
            }
        }
        *clock.entry(node).or_default() += 1;
        if let Some((End::Sent, nth)) = message {
            self.carried[nth].clone_from(clock);
        }
        let times: Vec<String> = clock.iter().map(|(&node, time)| format!("\"n{}\": {time}", self.ids[node])).collect();
        format!("n{} {{{}}}", self.ids[node], times.join(", "))
    }
}

/// A log for ShiViz. Its first line is the regular expression of the events; the second one, empty here, could separate
/// several executions.
pub fn shiviz(ids: &[Uid], recording: &Recording) -> String {
    let mut clocks = VectorClocks::new(ids, &recording.messages);
    let mut log = format!("{SHIVIZ_PARSER}\n\n");
    for entry in entries(ids, recording) {
        let _ = writeln!(log, "{}\n{}", entry.text, clocks.event(entry.node, entry.message));
    }
    log
}

/// A moment on the clock of a trace, on which a round takes a millisecond.
pub(crate) fn micros(at: u64) -> f64 {
    at as f64 / (ROUND as f64 / 1000.0)
}

/// The names at the beginning of a trace.
pub(crate) fn trace(title: &str, ids: &[Uid]) -> Vec<Value> {
    let mut events = vec![json!({ "ph": "M", "pid": 1, "name": "process_name", "args": { "name": title } })];
    for (node, id) in ids.iter().enumerate() {
        let args = json!({ "name": format!("node {id}") });
        events.push(json!({ "ph": "M", "pid": 1, "tid": node, "name": "thread_name", "args": args }));
    }
    events
}

/// An end of a message in a trace. Arrows join slices, so each end gets a short one.
pub(crate) fn message_end(ts: f64, tid: usize, name: &str, (end, nth): (End, usize), args: &Value) -> [Value; 2] {
    let phase = if end == End::Sent { "s" } else { "f" };
    [
        json!({ "ph": "X", "pid": 1, "tid": tid, "ts": ts, "dur": 20, "name": name, "args": args }),
        json!({ "ph": phase, "bp": "e", "pid": 1, "tid": tid, "ts": ts, "id": nth, "cat": "message", "name": name }),
    ]
}

/// The trace event format.
pub fn chrome(title: &str, ids: &[Uid], recording: &Recording) -> String {
    let mut events = trace(title, ids);
    for entry in entries(ids, recording) {
        let (ts, tid) = (micros(entry.at), entry.node);
        match entry.message {
            None => events.push(json!({ "ph": "i", "s": "t", "pid": 1, "tid": tid, "ts": ts, "name": entry.text })),
            Some((end, nth)) => {
                let (name, args) = (recording.messages[nth].kind.name, json!({ "text": entry.text }));
                events.extend(message_end(ts, tid, name, (end, nth), &args));
            }
        }
    }
    json!({ "displayTimeUnit": "ms", "traceEvents": events }).to_string()
}
