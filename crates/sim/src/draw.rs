//! A run as a picture: processes are lines, time runs to the right, messages are arrows. A run too large to draw is
//! shown as its messages per round, and the picture names what it left out.

use std::fmt::Write;

use algorithms::{Outcome, Uid};

use crate::diagram::{Diagram, LEFT, in_rounds, key};
use crate::observe::{Mark, Passage, ROUND, Recording, What, end, kinds};
use crate::svg::{colour, escape, page, text};

/// Beyond these limits the arrows are unreadable.
pub const MAX_DRAWN_NODES: usize = 40;
pub const MAX_DRAWN_MESSAGES: usize = 400;

/// Bars of the summary.
const MAX_BARS: usize = 240;

/// The picture of a run; `ids` are those of the experiment.
pub fn draw(title: &str, ids: &[Uid], recording: &Recording) -> String {
    let all = recording.messages.len() as u64 + recording.dropped;
    if ids.len() <= MAX_DRAWN_NODES && all <= MAX_DRAWN_MESSAGES as u64 {
        diagram(title, ids, recording)
    } else {
        summary(title, ids.len(), all, recording)
    }
}

fn diagram(title: &str, ids: &[Uid], recording: &Recording) -> String {
    let last = end(&recording.messages, recording.marks.iter().map(|mark| mark.at));
    let rounds = in_rounds(last);
    // Long silences are shortened: at most 4000 pixels in total.
    let per_round = (1200.0 / rounds).clamp(44.0, 90.0).min(4000.0 / rounds);
    let kinds = kinds(&recording.messages);
    let diagram = Diagram { ids, top: 64.0, row: 46.0, per_round, kinds, ink: colour, head: 'a' };
    let width = (diagram.x(last) + 60.0).max(420.0);
    let mut body = diagram.heading(title);
    let mut x = 16.0;
    for (nth, kind) in diagram.kinds.iter().enumerate() {
        body += &key(&mut x, 38, 4, colour(nth), kind);
    }
    for node in 0..ids.len() {
        body += &diagram.line(node, width);
    }
    if per_round >= 20.0 {
        body += &diagram.axis(last);
    }
    for message in &recording.messages {
        body += &arrow(message, &diagram);
    }
    for mark in &recording.marks {
        body += &sign(mark, &diagram);
    }
    page(width, diagram.height(), title, &body)
}

fn arrow(message: &Passage, diagram: &Diagram<'_>) -> String {
    let end = message.arrived.map_or(message.sent + ROUND / 2, |end| end.0);
    let (x1, y1, x2, y2) = (diagram.x(message.sent), diagram.y(message.from), diagram.x(end), diagram.y(message.to));
    let fate = match message.arrived {
        Some((at, true)) => format!("round {:.2} to {:.2}", in_rounds(message.sent), in_rounds(at)),
        Some((_, false)) => "lost: the receiver is dead".into(),
        None => "still in flight at the end".into(),
    };
    // A message to the sender itself is a loop above the line.
    let path = if message.from == message.to {
        format!("M{x1:.1} {y1:.1}C{x1:.1} {:.1} {x2:.1} {:.1} {x2:.1} {y2:.1}", y1 - 26.0, y2 - 26.0)
    } else {
        format!("M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}")
    };
    diagram.arrow(message, &path, &fate)
}

fn sign(mark: &Mark, diagram: &Diagram<'_>) -> String {
    let (x, y) = (diagram.x(mark.at), diagram.y(mark.node));
    let (shape, what) = match &mark.what {
        What::Woke => {
            (format!(r##"<circle cx="{x:.1}" cy="{y}" r="4" fill="#fff" stroke="#222""##), "starts".to_string())
        }
        What::Timer(timer) => (
            format!(r##"<rect x="{:.1}" y="{}" width="6" height="6" fill="#888""##, x - 3.0, y - 3.0),
            format!("timer {timer}"),
        ),
        What::Crashed => (
            format!(r##"<path d="M{:.1} {}l10 10m0 -10l-10 10" stroke="#c00" stroke-width="2.5""##, x - 5.0, y - 5.0),
            "dies".into(),
        ),
        What::Decided(Outcome::Won) => (
            format!(
                r##"<path d="M{:.1} {}v-9l5 5 4 -8 4 8 5 -5v9z" fill="#e6a700" stroke="#7a5900""##,
                x - 9.0,
                y + 4.0
            ),
            "wins".into(),
        ),
        What::Decided(outcome) => (
            format!(r##"<circle cx="{x:.1}" cy="{y}" r="4.5" fill="#222" stroke="#fff""##),
            match outcome {
                Outcome::Follow(Some(uid)) => format!("follows {uid}"),
                Outcome::Follow(None) => "knows that a node won".into(),
                other => format!("{other:?}"),
            },
        ),
    };
    let hover = format!("{} {what}, round {:.2}", diagram.ids[mark.node], in_rounds(mark.at));
    // Every shape above is an open tag.
    let tag = shape.split([' ', '<']).nth(1).unwrap_or("path").to_string();
    format!("{shape}><title>{}</title></{tag}>\n", escape(&hover))
}

/// Messages per round as bars, senders as a line: the picture of a run that is too large.
fn summary(title: &str, nodes: usize, messages: u64, recording: &Recording) -> String {
    let (width, height, floor) = (960.0, 420.0, 370.0);
    let per_bar = recording.rounds.len().div_ceil(MAX_BARS).max(1);
    let bars: Vec<(u64, u64, u64, u64)> = recording
        .rounds
        .chunks(per_bar)
        .map(|chunk| {
            let peak = |of: fn(&crate::observe::RoundSummary) -> u64| chunk.iter().map(of).max().unwrap_or(0);
            (chunk[0].round, peak(|r| r.messages), peak(|r| r.senders), chunk.iter().map(|r| r.decisions).sum())
        })
        .collect();
    let top = bars.iter().map(|bar| bar.1.max(bar.2)).max().unwrap_or(1).max(2) as f64;
    // One message is a visible bar, none is none.
    let y = |value: u64| floor - (value as f64).ln_1p() / top.ln_1p() * 270.0;
    let step = (width - LEFT - 30.0) / bars.len().max(1) as f64;
    let mut body = format!("<g font-size=\"15\">{}</g>", text(16.0, 24.0, "start", title));
    let too_many = format!(
        "{nodes} nodes and {messages} messages: the arrows are left out (limits {MAX_DRAWN_NODES} and {MAX_DRAWN_MESSAGES})."
    );
    body += &text(16.0, 44.0, "start", &too_many);
    body += &text(16.0, 62.0, "start", "Bars: messages sent per round; line: nodes that sent any (log scale).");
    let mut line = String::new();
    for (nth, &(round, sent, senders, decided)) in bars.iter().enumerate() {
        let x = LEFT + nth as f64 * step;
        let _ = writeln!(
            body,
            r#"<rect x="{x:.1}" y="{:.1}" width="{:.1}" height="{:.1}" fill="{}"><title>from round {round}: {sent} messages of {senders} nodes, {decided} decisions</title></rect>"#,
            y(sent),
            (step - 0.6).max(0.4),
            floor - y(sent),
            colour(0)
        );
        let _ = write!(line, "{}{:.1} {:.1}", if nth == 0 { "M" } else { "L" }, x + step / 2.0, y(senders));
    }
    let _ = writeln!(body, r#"<path d="{line}" fill="none" stroke="{}" stroke-width="2"/>"#, colour(1));
    for power in (0..).map(|power| 10_u64.pow(power)).take_while(|&value| value as f64 <= top) {
        body += &text(LEFT - 8.0, y(power) + 4.0, "end", &power.to_string());
    }
    let last = recording.rounds.last().map_or(0, |round| round.round);
    body += &text(LEFT, floor + 18.0, "start", "round 0");
    body += &text(width - 30.0, floor + 18.0, "end", &format!("round {last} ({per_bar} rounds to a bar)"));
    page(width, height, title, &body)
}
