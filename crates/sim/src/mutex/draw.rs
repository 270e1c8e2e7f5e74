//! A run as a picture: members are lines, messages are arrows, thick parts of a line are the wait and the section.

use std::fmt::Write;

use algorithms::Uid;

use super::recording::{MutexEvent, MutexPassage, MutexRecording, MutexWhat};
use crate::draw::{MAX_DRAWN_MESSAGES, MAX_DRAWN_NODES};
use crate::observe::ROUND;
use crate::svg::{colour, escape, page, text};

const LEFT: f64 = 90.0;
const TOP: f64 = 76.0;
const ROW: f64 = 66.0;
const WANTED: &str = "#e69f00";
const HELD: &str = "#009e73";

struct Scale {
    per_round: f64,
}

impl Scale {
    fn x(&self, at: u64) -> f64 {
        LEFT + at as f64 / ROUND as f64 * self.per_round
    }

    fn y(member: usize) -> f64 {
        TOP + ROW / 2.0 + member as f64 * ROW
    }
}

/// The picture of a run; `ids` are those of the experiment. A run that is too large is refused.
pub fn draw_mutex(title: &str, ids: &[Uid], recording: &MutexRecording) -> Result<String, String> {
    if ids.len() > MAX_DRAWN_NODES || recording.dropped > 0 || recording.messages.len() > MAX_DRAWN_MESSAGES {
        let messages = recording.messages.len() as u64 + recording.dropped;
        return Err(format!(
            "{} members and {messages} messages are too many to draw: at most {MAX_DRAWN_NODES} and {MAX_DRAWN_MESSAGES}",
            ids.len()
        ));
    }
    let ends = recording.messages.iter().map(|message| message.arrived.map_or(message.sent, |end| end.0));
    let last = ends.chain(recording.events.iter().map(|event| event.at)).max().unwrap_or(0).max(ROUND);
    let rounds = last as f64 / ROUND as f64;
    let scale = Scale { per_round: (1200.0 / rounds).clamp(60.0, 120.0).min(8000.0 / rounds) };
    let width = (scale.x(last) + 60.0).max(460.0);
    let height = TOP + ids.len() as f64 * ROW + 30.0;
    let kinds = kinds(recording);
    let mut body = heading(title, &kinds);
    for (member, id) in ids.iter().enumerate() {
        let y = Scale::y(member);
        body += &text(LEFT - 14.0, y + 4.0, "end", &format!("node {id}"));
        let _ = writeln!(body, r#"<line class="line" x1="{LEFT}" y1="{y}" x2="{:.1}" y2="{y}"/>"#, width - 24.0);
        body += &stays(member, *id, recording, last, &scale);
    }
    for round in 0..=(last / ROUND) {
        body += &text(scale.x(round * ROUND), height - 10.0, "middle", &round.to_string());
    }
    for message in &recording.messages {
        body += &arrow(message, ids, &kinds, &scale);
    }
    body += &clocks(ids.len(), recording, &scale);
    Ok(page(width, height, title, &body))
}

fn kinds(recording: &MutexRecording) -> Vec<&'static str> {
    let mut kinds = Vec::new();
    for message in &recording.messages {
        if !kinds.contains(&message.kind.name) {
            kinds.push(message.kind.name);
        }
    }
    kinds
}

/// Green and amber are for the lines.
fn ink(nth: usize) -> &'static str {
    colour([0, 1, 3, 6, 5, 7][nth % 6])
}

fn heading(title: &str, kinds: &[&str]) -> String {
    let mut body = format!("<g font-size=\"15\">{}</g>", text(16.0, 24.0, "start", title));
    body += "<defs>";
    for nth in 0..kinds.len() {
        let _ = write!(
            body,
            r#"<marker id="m{nth}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path d="M0 0 8 4 0 8z" fill="{}"/></marker>"#,
            ink(nth)
        );
    }
    body += "</defs>\n";
    let mut x = 16.0;
    let mut item = |name: &str, paint: &str, thick: u32| {
        let _ = write!(body, r#"<rect x="{x:.0}" y="{}" width="12" height="{thick}" fill="{paint}"/>"#, 41 - thick / 2);
        body += &text(x + 17.0, 45.0, "start", name);
        x += 34.0 + name.len() as f64 * 7.2;
    };
    for (nth, kind) in kinds.iter().enumerate() {
        item(kind, ink(nth), 4);
    }
    item("wanted", WANTED, 8);
    item("held", HELD, 10);
    item("numbers: Lamport clock after the event", "none", 0);
    body
}

/// Where a member waits and where it is inside.
fn stays(member: usize, id: Uid, recording: &MutexRecording, last: u64, scale: &Scale) -> String {
    let mut body = String::new();
    let mut since: Option<(u64, String)> = None;
    let y = Scale::y(member);
    let mut bar = |from: u64, to: u64, paint: &str, thick: f64, hover: &str| {
        let (x, width) = (scale.x(from), (scale.x(to) - scale.x(from)).max(1.5));
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
                labels += &text(scale.x(event.at), y - 12.0, "start", &format!("asks{stamp}"));
                since = Some((event.at, format!("{id} wants to enter{stamp}")));
            }
            MutexWhat::Entered(token) => {
                if let Some((from, hover)) = since.take() {
                    bar(from, event.at, WANTED, 8.0, &hover);
                }
                labels += &text(scale.x(event.at) + 3.0, y - 12.0, "start", &format!("token {token}"));
                since = Some((event.at, format!("{id} is inside with token {token}")));
            }
            MutexWhat::Left => {
                if let Some((from, hover)) = since.take() {
                    bar(from, event.at, HELD, 10.0, &hover);
                }
            }
            MutexWhat::Crashed => {
                labels += &text(scale.x(event.at), y - 12.0, "middle", "dies");
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

fn arrow(message: &MutexPassage, ids: &[Uid], kinds: &[&str], scale: &Scale) -> String {
    let nth = kinds.iter().position(|kind| *kind == message.kind.name).unwrap_or(0);
    let (end, received) = message.arrived.unwrap_or((message.sent + ROUND / 2, false));
    let end = if received { end } else { end.max(message.sent + ROUND / 2) };
    let (x1, y1, x2, y2) = (scale.x(message.sent), Scale::y(message.from), scale.x(end), Scale::y(message.to));
    // A lost message ends half way.
    let (x2, y2) = if received { (x2, y2) } else { (x2, f64::midpoint(y1, y2)) };
    let dashes = if received { "" } else { r#" stroke-dasharray="5 4""# };
    let fate = match message.arrived {
        Some((at, true)) => format!("{:.2} to {:.2}", in_rounds(message.sent), in_rounds(at)),
        Some((_, false)) => "lost".into(),
        None => "still under way at the end".into(),
    };
    let hover =
        format!("{} {} -> {}: {} ({fate})", message.kind.name, ids[message.from], ids[message.to], message.text);
    format!(
        "<path d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"{dashes} \
         marker-end=\"url(#m{nth})\"><title>{}</title></path>\n",
        ink(nth),
        escape(&hover)
    )
}

/// The values of the Lamport clock, one label for all events of a member at one moment.
fn clocks(members: usize, recording: &MutexRecording, scale: &Scale) -> String {
    let mut body = String::from("<g font-size=\"10\">\n");
    for member in 0..members {
        let mine: Vec<&MutexEvent> = recording.events.iter().filter(|event| event.member == member).collect();
        for moment in mine.chunk_by(|a, b| a.at == b.at) {
            let mut values: Vec<u64> = moment.iter().filter_map(|event| event.clock).collect();
            values.dedup();
            let label: Vec<String> = values.iter().map(u64::to_string).collect();
            if !label.is_empty() {
                body += &text(scale.x(moment[0].at) - 3.0, Scale::y(member) + 17.0, "start", &label.join(" "));
            }
        }
    }
    body + "</g>\n"
}

fn in_rounds(at: u64) -> f64 {
    at as f64 / ROUND as f64
}
