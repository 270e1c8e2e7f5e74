//! What the diagrams of elections and of mutual exclusions share: a line for each node, time to the right, messages as arrows.

use std::fmt::Write;

use algorithms::Uid;

use crate::observe::{Passage, ROUND};
use crate::svg::{escape, text};

/// Where time begins.
pub(crate) const LEFT: f64 = 90.0;

pub(crate) struct Diagram<'a> {
    pub ids: &'a [Uid],
    pub top: f64,
    /// The height of a node's line.
    pub row: f64,
    pub per_round: f64,
    /// The kinds of messages that occur.
    pub kinds: Vec<&'static str>,
    /// The colour of a kind.
    pub ink: fn(usize) -> &'static str,
    /// Begins the names of the arrow heads.
    pub head: char,
}

impl Diagram<'_> {
    pub(crate) fn x(&self, at: u64) -> f64 {
        LEFT + in_rounds(at) * self.per_round
    }

    pub(crate) fn y(&self, node: usize) -> f64 {
        self.top + self.row / 2.0 + node as f64 * self.row
    }

    pub(crate) fn height(&self) -> f64 {
        self.top + self.ids.len() as f64 * self.row + 30.0
    }

    /// The title, and the head of an arrow for each kind.
    pub(crate) fn heading(&self, title: &str) -> String {
        let mut body = format!("<g font-size=\"15\">{}</g>", text(16.0, 24.0, "start", title));
        body += "<defs>";
        for nth in 0..self.kinds.len() {
            let _ = write!(
                body,
                r#"<marker id="{}{nth}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path d="M0 0 8 4 0 8z" fill="{}"/></marker>"#,
                self.head,
                (self.ink)(nth)
            );
        }
        body + "</defs>\n"
    }

    pub(crate) fn line(&self, node: usize, width: f64) -> String {
        let (y, end) = (self.y(node), width - 24.0);
        let name = text(LEFT - 14.0, y + 4.0, "end", &format!("node {}", self.ids[node]));
        format!("{name}<line class=\"line\" x1=\"{LEFT}\" y1=\"{y}\" x2=\"{end:.1}\" y2=\"{y}\"/>\n")
    }

    /// The numbers of the rounds.
    pub(crate) fn axis(&self, last: u64) -> String {
        let number = |round: u64| text(self.x(round * ROUND), self.height() - 10.0, "middle", &round.to_string());
        (0..=last / ROUND).map(number).collect()
    }

    /// A message along this path, dashed where it was not received.
    pub(crate) fn arrow(&self, message: &Passage, path: &str, fate: &str) -> String {
        let Passage { kind, from, to, text, .. } = message;
        let nth = self.kinds.iter().position(|name| *name == kind.name).unwrap_or(0);
        let dashes = if message.is_received() { "" } else { r#" stroke-dasharray="5 4""# };
        let hover = format!("{} {} -> {}: {text} ({fate})", kind.name, self.ids[*from], self.ids[*to]);
        format!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"{dashes} marker-end=\"url(#{}{nth})\"><title>{}</title></path>\n",
            (self.ink)(nth),
            self.head,
            escape(&hover)
        )
    }
}

pub(crate) fn in_rounds(at: u64) -> f64 {
    at as f64 / ROUND as f64
}

/// An entry of the legend: a bar of this height and a name; `x` moves on to the next entry.
pub(crate) fn key(x: &mut f64, y: u32, thick: u32, paint: &str, name: &str) -> String {
    let bar = format!(r#"<rect x="{x:.0}" y="{y}" width="12" height="{thick}" fill="{paint}"/>"#);
    let entry = bar + &text(*x + 17.0, 45.0, "start", name);
    *x += 34.0 + name.len() as f64 * 7.2;
    entry
}
