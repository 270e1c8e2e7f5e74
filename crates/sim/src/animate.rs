//! A run as a moving SVG: nodes on a circle, messages that travel between them; at its end it begins anew. It has no script, so it
//! moves wherever an SVG is shown as a picture.

use std::collections::BTreeSet;
use std::f64::consts::PI;
use std::fmt::Write;

use algorithms::{Outcome, Uid};

use crate::diagram::in_rounds;
use crate::draw::{MAX_DRAWN_MESSAGES, MAX_DRAWN_NODES};
use crate::observe::{Mark, Passage, ROUND, Recording, What, end, kinds};
use crate::svg::{colour, escape, page, text};

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 440.0;
const CENTRE: (f64, f64) = (WIDTH / 2.0, 250.0);
const RADIUS: f64 = 140.0;
const BODY: f64 = 26.0;
const SECONDS_PER_ROUND: f64 = 1.1;
/// A long run is shown faster.
const LONGEST: f64 = 30.0;
/// The result stays for a while before the run begins again.
const REST: f64 = 2.5;

/// The moving picture of a run; an error if it is too large to be followed by the eye.
pub fn animate(title: &str, ids: &[Uid], recording: &Recording) -> Result<String, String> {
    let messages = recording.messages.len() as u64 + recording.dropped;
    if ids.len() > MAX_DRAWN_NODES || messages > MAX_DRAWN_MESSAGES as u64 {
        return Err(format!(
            "{} nodes and {messages} messages are too many to follow: the limits are {MAX_DRAWN_NODES} and {MAX_DRAWN_MESSAGES}",
            ids.len()
        ));
    }
    let film = Film::new(ids, recording);
    let mut body = format!("<g font-size=\"15\">{}</g>{STYLE}", text(16.0, 26.0, "start", title));
    body += &film.legend();
    body += &film.links();
    for message in &recording.messages {
        body += &film.message(message);
    }
    for (node, id) in ids.iter().enumerate() {
        body += &film.node(node, *id);
    }
    for mark in &recording.marks {
        body += &film.sign(mark);
    }
    Ok(page(WIDTH, HEIGHT, title, &body))
}

/// Readers who want no motion see the result.
const STYLE: &str = "<style>.body { fill: #f2f4f6; stroke: #777 } .id { font-size: 18px; font-weight: 600 }
  @media (prefers-color-scheme: dark) { .body { fill: #22262d; stroke: #999 } }
  @media (prefers-reduced-motion: reduce) { .moves { display: none } .comes { opacity: 1 !important } }</style>\n";

struct Film<'a> {
    recording: &'a Recording,
    kinds: Vec<&'static str>,
    places: Vec<(f64, f64)>,
    /// Seconds of a round, and of all.
    round: f64,
    length: f64,
}

impl<'a> Film<'a> {
    fn new(ids: &[Uid], recording: &'a Recording) -> Self {
        let rounds = in_rounds(end(&recording.messages, recording.marks.iter().map(|mark| mark.at)));
        let round = SECONDS_PER_ROUND.min(LONGEST / rounds);
        let place = |nth: usize| {
            let angle = 2.0 * PI * nth as f64 / ids.len() as f64 - PI / 2.0;
            (CENTRE.0 + RADIUS * angle.cos(), CENTRE.1 + RADIUS * angle.sin())
        };
        Film {
            recording,
            kinds: kinds(&recording.messages),
            places: (0..ids.len()).map(place).collect(),
            round,
            length: rounds * round + REST,
        }
    }

    /// A moment of the run as a part of the whole length.
    fn part(&self, at: u64) -> f64 {
        at as f64 / ROUND as f64 * self.round / self.length
    }

    fn legend(&self) -> String {
        let mut drawn = String::new();
        let mut x = 16.0;
        for (nth, kind) in self.kinds.iter().enumerate() {
            let _ = write!(drawn, r#"<circle cx="{:.0}" cy="46" r="5" fill="{}"/>"#, x + 5.0, colour(nth));
            drawn += &text(x + 15.0, 50.0, "start", kind);
            x += 34.0 + kind.len() as f64 * 7.2;
        }
        drawn
    }

    /// A line between nodes that exchange messages in this run.
    fn links(&self) -> String {
        let pair = |message: &Passage| (message.from.min(message.to), message.from.max(message.to));
        let pairs: BTreeSet<_> = self.recording.messages.iter().map(pair).collect();
        let line = |(a, b): (usize, usize)| {
            let ((x1, y1), (x2, y2)) = (self.places[a], self.places[b]);
            format!("<line class=\"grid\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>\n")
        };
        pairs.into_iter().map(line).collect()
    }

    fn node(&self, node: usize, id: Uid) -> String {
        let (x, y) = self.places[node];
        let body = format!("<circle class=\"body\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{BODY}\" stroke-width=\"2\"/>");
        format!("{body}<g class=\"id\">{}</g>", text(x, y + 6.0, "middle", &id.to_string()))
    }

    /// Visible only on its way.
    fn message(&self, message: &Passage) -> String {
        let (end, received) = message.arrived.unwrap_or((message.sent + ROUND / 2, false));
        let ((x1, y1), (mut x2, mut y2)) = (self.places[message.from], self.places[message.to]);
        if !received {
            // Lost: it ends before it reaches the node.
            (x2, y2) = (x1 + (x2 - x1) * 0.78, y1 + (y2 - y1) * 0.78);
        }
        let nth = self.kinds.iter().position(|kind| *kind == message.kind.name).unwrap_or(0);
        let (from, to) = (self.part(message.sent), self.part(end));
        let moving = |attribute: &str, a: f64, b: f64| {
            format!(
                r#"<animate attributeName="{attribute}" dur="{:.2}s" repeatCount="indefinite" keyTimes="0;{from:.4};{to:.4};1" values="{a:.1};{a:.1};{b:.1};{b:.1}"/>"#,
                self.length
            )
        };
        let seen = self.appears("0;1;0", &format!("0;{from:.4};{to:.4}"));
        format!(
            "<circle class=\"moves\" r=\"7\" fill=\"{}\" cx=\"{x1:.1}\" cy=\"{y1:.1}\" opacity=\"0\"><title>{}</title>{}{}{seen}</circle>\n",
            colour(nth),
            escape(message.kind.name),
            moving("cx", x1, x2),
            moving("cy", y1, y2)
        )
    }

    /// The opacity jumps from value to value.
    fn appears(&self, values: &str, times: &str) -> String {
        format!(
            r#"<animate attributeName="opacity" dur="{:.2}s" repeatCount="indefinite" calcMode="discrete" keyTimes="{times}" values="{values}"/>"#,
            self.length
        )
    }

    fn sign(&self, mark: &Mark) -> String {
        let (x, y) = self.places[mark.node];
        let shape = match &mark.what {
            What::Timer(_) => return String::new(),
            What::Woke => format!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{:.0}\" fill=\"none\" stroke=\"{}\" stroke-width=\"3\" stroke-dasharray=\"5 4\"/>",
                BODY + 4.0,
                colour(0)
            ),
            What::Crashed => format!(
                "<path d=\"M{:.1} {:.1}l40 40m0 -40l-40 40\" stroke=\"#c00\" stroke-width=\"3\" opacity=\".7\"/>",
                x - 20.0,
                y - 20.0
            ),
            What::Decided(Outcome::Won) => format!(
                "<path d=\"M{:.1} {:.1}v-14l8 8 6 -13 6 13 8 -8v14z\" fill=\"#e6a700\" stroke=\"#7a5900\"/>",
                x - 14.0,
                y - BODY - 4.0
            ),
            What::Decided(_) => format!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{BODY}\" fill=\"none\" stroke=\"#e6a700\" stroke-width=\"3\"/>"
            ),
        };
        let at = self.part(mark.at);
        let comes = if at > 0.0 { self.appears("0;1", &format!("0;{at:.4}")) } else { String::new() };
        format!("<g class=\"comes\">{shape}{comes}</g>\n")
    }
}

#[cfg(test)]
mod tests {
    use algorithms::catalog;

    use super::*;
    use crate::Experiment;

    fn film(nodes: u32) -> Result<String, String> {
        let row = catalog::row(catalog::DEFAULT).unwrap();
        let experiment = Experiment::new(row, (1..=nodes).map(Uid::plain).collect());
        let (report, recording) = experiment.observe(Recording::new(MAX_DRAWN_MESSAGES)).unwrap();
        let svg = animate("a run", &experiment.ids, &recording)?;
        assert_eq!(
            svg.matches("class=\"moves\"").count() as u64,
            report.messages.election + report.messages.announcement
        );
        Ok(svg)
    }

    #[test]
    fn every_message_moves_once_and_every_moment_is_within_the_length() {
        let svg = film(5).unwrap();
        for times in svg.split("keyTimes=\"").skip(1) {
            let times = times.split('"').next().unwrap();
            let times: Vec<f64> = times.split(';').map(|time| time.parse().unwrap()).collect();
            assert!(times.is_sorted() && times[0] == 0.0 && times.iter().all(|time| *time <= 1.0), "{times:?}");
        }
    }

    #[test]
    fn a_run_that_no_eye_can_follow_is_refused() {
        assert!(film(41).unwrap_err().contains("too many"));
    }
}
