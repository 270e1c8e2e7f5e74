//! Measured against theory: a log-log plot, and below it their quotient, which shows what the log-log plot hides.

use std::fmt::Write;

use crate::svg::{COLOURS, colour, escape, page, text};

#[derive(Clone, Debug, Default)]
pub struct Series {
    pub name: String,
    /// (nodes, messages)
    pub measured: Vec<(f64, f64)>,
    /// The same sizes by theory.
    pub theory: Vec<(f64, f64)>,
}

/// The appearance of a series: there are more algorithms than distinguishable colours, so further series have another
/// dash and another mark too.
struct Look(usize);

impl Look {
    fn stroke(&self, width: f64) -> String {
        let dash = ["", "7 3", "2 3", "9 3 2 3"][self.style()];
        format!("fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\" stroke-dasharray=\"{dash}\"", colour(self.0))
    }

    /// A disc, or an open square, diamond or triangle that leaves room for a disc in the same place.
    fn mark(&self, x: f64, y: f64, title: &str) -> String {
        let (shape, opacity) = match self.style() {
            0 => (format!("M{:.1} {y:.1}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z", x - 3.0), 1),
            1 => (format!("M{:.1} {:.1}h9v9h-9z", x - 4.5, y - 4.5), 0),
            2 => (format!("M{x:.1} {:.1}l6 6l-6 6l-6 -6z", y - 6.0), 0),
            _ => (format!("M{x:.1} {:.1}l6 11h-12z", y - 7.0), 0),
        };
        let (colour, title) = (colour(self.0), escape(title));
        let paint = format!("fill=\"{colour}\" fill-opacity=\"{opacity}\" stroke=\"{colour}\"");
        format!("<path d=\"{shape}\" {paint}><title>{title}</title></path>\n")
    }

    /// One more for each time that all colours are used.
    fn style(&self) -> usize {
        self.0 / COLOURS.len() % 4
    }
}

struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: (f64, f64),
    y: (f64, f64),
}

impl Frame {
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let part = |value: f64, (min, max): (f64, f64)| (value - min) / (max - min).max(1e-9);
        (
            self.left + part(x, self.x) * (self.right - self.left),
            self.bottom - part(y, self.y) * (self.bottom - self.top),
        )
    }

    fn path(&self, points: impl Iterator<Item = (f64, f64)>) -> String {
        let mut path = String::new();
        for (nth, (x, y)) in points.enumerate() {
            let (x, y) = self.at(x, y);
            let _ = write!(path, "{}{x:.1} {y:.1}", if nth == 0 { "M" } else { "L" });
        }
        path
    }

    /// A line across, and its label.
    fn grid(&self, y: f64, label: &str) -> String {
        let (_, at) = self.at(self.x.0, y);
        let line = format!(
            "<line class=\"grid\" x1=\"{}\" y1=\"{at:.1}\" x2=\"{}\" y2=\"{at:.1}\"/>\n",
            self.left, self.right
        );
        line + &text(self.left - 8.0, at + 4.0, "end", label)
    }

    /// Powers of ten along the bottom.
    fn decades(&self) -> String {
        let mut body = String::new();
        for power in self.x.0.ceil() as i32..=self.x.1.floor() as i32 {
            let (x, _) = self.at(f64::from(power), self.y.0);
            let _ = writeln!(
                body,
                "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{}\" x2=\"{x:.1}\" y2=\"{}\"/>",
                self.top, self.bottom
            );
            body += &text(x, self.bottom + 16.0, "middle", &power_label(power));
        }
        body
    }
}

fn power_label(power: i32) -> String {
    if (0..4).contains(&power) { 10_i32.pow(power as u32).to_string() } else { format!("1e{power}") }
}

/// Marks are measured, lines are theory.
pub fn plot(title: &str, series: &[Series], notes: &[String]) -> String {
    let series: Vec<&Series> = series.iter().filter(|one| !one.measured.is_empty()).collect();
    let points = || series.iter().flat_map(|one| one.measured.iter().chain(&one.theory));
    let range = |of: fn(&(f64, f64)) -> f64| {
        points()
            .map(of)
            .filter(|v| *v > 0.0 && v.is_finite())
            .fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v.log10()), high.max(v.log10())))
    };
    let (x, y) = (range(|p| p.0), range(|p| p.1));
    let widen = |(low, high): (f64, f64)| if low > high { (0.0, 1.0) } else { (low - 0.05, high + 0.05) };
    let upper = Frame { left: 80.0, right: 720.0, top: 50.0, bottom: 430.0, x: widen(x), y: widen(y) };
    let residuals: Vec<Vec<(f64, f64)>> = series.iter().map(|one| quotients(one)).collect();
    let most = residuals.iter().flatten().map(|point| point.1).fold(1.2_f64, f64::max).min(4.0);
    let lower = Frame { left: 80.0, right: 720.0, top: 490.0, bottom: 690.0, x: upper.x, y: (0.0, most * 1.05) };
    let mut body = format!("<g font-size=\"15\">{}</g>", text(16.0, 24.0, "start", title));
    body += &text(16.0, 42.0, "start", "messages of one election, announcement apart; marks measured, lines theory");
    for power in upper.y.0.ceil() as i32..=upper.y.1.floor() as i32 {
        body += &upper.grid(f64::from(power), &power_label(power));
    }
    body += &(upper.decades() + &lower.decades());
    body += &text(16.0, 476.0, "start", "measured / theory");
    let step = if most > 2.0 { 1.0 } else { 0.25 };
    for nth in 0..=(most / step) as i32 {
        body += &lower.grid(f64::from(nth) * step, &format!("{}", f64::from(nth) * step));
    }
    for (nth, one) in series.iter().enumerate() {
        let look = Look(nth);
        body += &curve(&upper, one, &look);
        body += &residual(&lower, &residuals[nth], one, &look);
        body += &legend(64.0 + nth as f64 * 18.0, &one.name, &look);
    }
    for (nth, note) in notes.iter().enumerate() {
        body += &text(16.0, 728.0 + nth as f64 * 16.0, "start", note);
    }
    page(960.0, 740.0 + notes.len() as f64 * 16.0, title, &body)
}

fn quotients(series: &Series) -> Vec<(f64, f64)> {
    let theory = |x: f64| series.theory.iter().find(|point| point.0 == x).map(|point| point.1);
    let quotient = |&(x, y): &(f64, f64)| theory(x).filter(|t| *t > 0.0 && t.is_finite()).map(|t| (x, y / t));
    series.measured.iter().filter_map(quotient).collect()
}

fn curve(frame: &Frame, series: &Series, look: &Look) -> String {
    let visible = |point: &&(f64, f64)| point.1 > 0.0 && point.1.is_finite();
    let logs = |&(x, y): &(f64, f64)| (x.log10(), y.log10());
    let theory = frame.path(series.theory.iter().filter(visible).map(logs));
    let mut body = format!("<path d=\"{theory}\" {} opacity=\"0.7\"/>\n", look.stroke(1.2));
    for point in series.measured.iter().filter(visible) {
        let (x, y) = frame.at(point.0.log10(), point.1.log10());
        body += &look.mark(x, y, &format!("{}: {} nodes, {:.1} messages", series.name, point.0, point.1));
    }
    body
}

fn residual(frame: &Frame, points: &[(f64, f64)], series: &Series, look: &Look) -> String {
    let path = frame.path(points.iter().map(|&(x, y)| (x.log10(), y.min(frame.y.1))));
    format!("<path d=\"{path}\" {}><title>{}</title></path>\n", look.stroke(1.6), escape(&series.name))
}

fn legend(y: f64, name: &str, look: &Look) -> String {
    let line = format!("<path d=\"M730 {:.1}h32\" {}/>\n", y - 4.0, look.stroke(1.6));
    line + &look.mark(746.0, y - 4.0, name) + &text(770.0, y, "start", name)
}
