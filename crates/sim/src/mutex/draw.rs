//! A run as a picture: members are lines, messages are arrows, thick parts of a line are the wait and the section.

use std::fmt::Write;

use algorithms::Uid;

use super::recording::{MutexEvent, MutexRecording, MutexWhat};
use crate::diagram::{Diagram, in_rounds, key};
use crate::draw::{MAX_DRAWN_MESSAGES, MAX_DRAWN_NODES};
use crate::observe::{Passage, ROUND, end, kinds};
use crate::svg::{colour, escape, page, text};

const WANTED: &str = "#e69f00";
const HELD: &str = "#009e73";

/// The picture of a run; `ids` are those of the experiment. A run that is too large is refused.
pub fn draw_mutex(title: &str, ids: &[Uid], recording: &MutexRecording) -> Result<String, String> {
    if ids.len() > MAX_DRAWN_NODES || recording.dropped > 0 || recording.messages.len() > MAX_DRAWN_MESSAGES {
        let messages = recording.messages.len() as u64 + recording.dropped;
        return Err(format!(
            "{} members and {messages} messages are too many to draw: at most {MAX_DRAWN_NODES} and {MAX_DRAWN_MESSAGES}",
            ids.len()
        ));
    }
    let last = end(&recording.messages, recording.events.iter().map(|event| event.at));
    let rounds = in_rounds(last);
    let per_round = (1200.0 / rounds).clamp(60.0, 120.0).min(8000.0 / rounds);
    let kinds = kinds(&recording.messages);
    let diagram = Diagram { ids, top: 76.0, row: 66.0, per_round, kinds, ink, head: 'm' };
    let width = (diagram.x(last) + 60.0).max(460.0);
    let mut body = diagram.heading(title);
    body += &legend(&diagram.kinds);
    for member in 0..ids.len() {
        body += &diagram.line(member, width);
        body += &stays(member, recording, last, &diagram);
    }
    body += &diagram.axis(last);
    for message in &recording.messages {
        body += &arrow(message, &diagram);
    }
    body += &clocks(recording, &diagram);
    Ok(page(width, diagram.height(), title, &body))
}

/// Green and amber are for the lines.
fn ink(nth: usize) -> &'static str {
    colour([0, 1, 3, 6, 5, 7][nth % 6])
}

fn legend(kinds: &[&str]) -> String {
    let kinds = kinds.iter().enumerate().map(|(nth, kind)| (*kind, ink(nth), 4));
    let lines = [("wanted", WANTED, 8), ("held", HELD, 10), ("numbers: Lamport clock after the event", "none", 0)];
    let mut x = 16.0;
    kinds.chain(lines).map(|(name, paint, thick)| key(&mut x, 41 - thick / 2, thick, paint, name)).collect()
}

/// Where a member waits and where it is inside.
fn stays(member: usize, recording: &MutexRecording, last: u64, diagram: &Diagram<'_>) -> String {
    let mut body = String::new();
    let mut since: Option<(u64, String)> = None;
    let (id, y) = (diagram.ids[member], diagram.y(member));
    let mut bar = |from: u64, to: u64, paint: &str, thick: f64, hover: &str| {
        let (x, width) = (diagram.x(from), (diagram.x(to) - diagram.x(from)).max(1.5));
        let _ = writeln!(
            body,
            r#"<rect x="{x:.1}" y="{:.1}" width="{width:.1}" height="{thick}" fill="{paint}"><title>{}</title></rect>"#,
            y - thick / 2.0,
            escape(hover)
        );
    };
    let mut labels = String::new();
    for event in recording.events.iter().filter(|event| event.member == member) {
        match event.what {
            MutexWhat::Asked => {
                let stamp = event.stamp.map_or_else(String::new, |stamp| format!(" {stamp}"));
                labels += &text(diagram.x(event.at), y - 12.0, "start", &format!("asks{stamp}"));
                since = Some((event.at, format!("{id} wants to enter{stamp}")));
            }
            MutexWhat::Entered(token) => {
                if let Some((from, hover)) = since.take() {
                    bar(from, event.at, WANTED, 8.0, &hover);
                }
                labels += &text(diagram.x(event.at) + 3.0, y - 12.0, "start", &format!("token {token}"));
                since = Some((event.at, format!("{id} is inside with token {token}")));
            }
            MutexWhat::Left => {
                if let Some((from, hover)) = since.take() {
                    bar(from, event.at, HELD, 10.0, &hover);
                }
            }
            MutexWhat::Crashed => {
                labels += &text(diagram.x(event.at), y - 12.0, "middle", "dies");
                since = None;
            }
            MutexWhat::Sent(_) | MutexWhat::Received(_) => {}
        }
    }
    if let Some((from, hover)) = since {
        let paint = if hover.contains("inside") { HELD } else { WANTED };
        bar(from, last, paint, 8.0, &format!("{hover}, to the end of the run"));
    }
    body + &labels
}

fn arrow(message: &Passage, diagram: &Diagram<'_>) -> String {
    let received = message.is_received();
    let end = message.arrived.map_or(0, |end| end.0);
    let end = if received { end } else { end.max(message.sent + ROUND / 2) };
    let (x1, y1, x2, y2) = (diagram.x(message.sent), diagram.y(message.from), diagram.x(end), diagram.y(message.to));
    // A lost message ends half way.
    let y2 = if received { y2 } else { f64::midpoint(y1, y2) };
    let fate = match message.arrived {
        Some((at, true)) => format!("{:.2} to {:.2}", in_rounds(message.sent), in_rounds(at)),
        Some((_, false)) => "lost".into(),
        None => "still under way at the end".into(),
    };
    diagram.arrow(message, &format!("M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}"), &fate)
}

/// The values of the Lamport clock, one label for all events of a member at one moment.
fn clocks(recording: &MutexRecording, diagram: &Diagram<'_>) -> String {
    let mut body = String::from("<g font-size=\"10\">\n");
    for member in 0..diagram.ids.len() {
        let mine: Vec<&MutexEvent> = recording.events.iter().filter(|event| event.member == member).collect();
        for moment in mine.chunk_by(|a, b| a.at == b.at) {
            let mut values: Vec<u64> = moment.iter().filter_map(|event| event.clock).collect();
            values.dedup();
            let label: Vec<String> = values.iter().map(u64::to_string).collect();
            if !label.is_empty() {
                body += &text(diagram.x(moment[0].at) - 3.0, diagram.y(member) + 17.0, "start", &label.join(" "));
            }
        }
    }
    body + "</g>\n"
}
