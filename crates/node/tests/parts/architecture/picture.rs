//! `docs/architecture.svg`: the crates as `cargo metadata` tells them, and the way of a byte. `UPDATE_GOLDEN=1` writes it.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::graph::{self, Crate};
use super::layout::{self, BOX_WIDTH, Layout, Place};
use super::way::{ARROWS, STEPS};

const MARGIN: f64 = 24.0;
const LINE: f64 = 14.0;
/// Letters of a sentence that fit into a box.
const LETTERS: usize = 34;
/// Between two rows.
const SPACE: f64 = 44.0;

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn wrap(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("a line");
        if last.is_empty() {
            last.push_str(word);
        } else if last.len() + 1 + word.len() <= LETTERS {
            let _ = write!(last, " {word}");
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// A box with a bold title and lines below it, its middle at `x`.
fn draw_box(svg: &mut String, x: f64, y: f64, height: f64, title: &str, lines: &[String]) {
    let left = x - BOX_WIDTH / 2.0;
    let _ = writeln!(
        svg,
        "<rect class=\"box\" x=\"{left:.0}\" y=\"{y:.0}\" width=\"{BOX_WIDTH:.0}\" height=\"{height:.0}\" rx=\"6\"/>"
    );
    let _ = writeln!(svg, "<text class=\"name\" x=\"{x:.0}\" y=\"{:.0}\">{}</text>", y + 18.0, escape(title));
    for (at, line) in lines.iter().enumerate() {
        let y = y + 18.0 + LINE * (at + 1) as f64;
        let _ = writeln!(svg, "<text x=\"{x:.0}\" y=\"{y:.0}\">{}</text>", escape(line));
    }
}

fn box_height(lines: usize) -> f64 {
    28.0 + LINE * lines as f64
}

/// The crates, from `top` on; gives where they end.
fn draw_crates(svg: &mut String, crates: &[Crate], layout: &Layout<'_>, left: f64, top: f64) -> f64 {
    let sentences: BTreeMap<&str, Vec<String>> =
        crates.iter().map(|one| (one.name.as_str(), wrap(&one.sentence))).collect();
    // Of every place: its middle, the top and the bottom of its row.
    let mut places: BTreeMap<&Place<'_>, (f64, f64, f64)> = BTreeMap::new();
    let mut y = top;
    for row in &layout.rows {
        let lines = row.iter().map(|(place, _)| match place {
            Place::Crate(name) => sentences[name].len(),
            Place::Passage(..) => 0,
        });
        let height = box_height(lines.max().unwrap_or(0));
        for (place, middle) in row {
            places.insert(place, (left + middle, y, y + height));
            if let Place::Crate(name) = place {
                draw_box(svg, left + middle, y, height, name, &sentences[name]);
            }
        }
        y += height + SPACE;
    }
    for arrow in &layout.arrows {
        let (x, _, bottom) = places[&arrow[0]];
        let mut path = format!("M{x:.0} {bottom:.0}");
        let mut from = (x, bottom);
        for place in &arrow[1..] {
            let (x, top, bottom) = places[place];
            let half = f64::midpoint(from.1, top);
            let _ = write!(path, " C{:.0} {half:.0} {x:.0} {half:.0} {x:.0} {top:.0}", from.0);
            if matches!(place, Place::Passage(..)) {
                let _ = write!(path, " L{x:.0} {bottom:.0}");
            }
            from = (x, bottom);
        }
        let _ = writeln!(svg, "<path class=\"arrow\" d=\"{path}\"/>");
    }
    y - SPACE
}

/// The way of a byte, from `top` on; gives where it ends.
fn draw_way(svg: &mut String, left: f64, width: f64, top: f64) -> f64 {
    let (pitch, height) = ((width - BOX_WIDTH) / 3.0, box_height(3));
    let mut places: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    let mut end = top;
    for step in STEPS {
        let x = left + BOX_WIDTH / 2.0 + pitch * f64::from(step.column);
        let y = top + (height + SPACE) * f64::from(step.row);
        let lines = step.file.into_iter().map(str::to_owned).chain(wrap(step.words)).collect::<Vec<_>>();
        draw_box(svg, x, y, height, step.title, &lines);
        places.insert(step.title, (x, y));
        end = f64::max(end, y + height);
    }
    for (from, to) in ARROWS {
        let ((x1, y1), (x2, y2)) = (places[from], places[to]);
        let path = if y1 < y2 {
            let (bottom, half) = (y1 + height, y1 + height + SPACE / 2.0);
            format!("M{x1:.0} {bottom:.0} C{x1:.0} {half:.0} {x2:.0} {half:.0} {x2:.0} {y2:.0}")
        } else {
            let (side, middle) = (if x1 < x2 { BOX_WIDTH / 2.0 } else { -BOX_WIDTH / 2.0 }, y1 + height / 2.0);
            format!("M{:.0} {middle:.0} L{:.0} {middle:.0}", x1 + side, x2 - side)
        };
        let _ = writeln!(svg, "<path class=\"arrow\" d=\"{path}\"/>");
    }
    end
}

fn heading(svg: &mut String, y: f64, title: &str, words: &str) {
    let _ = writeln!(svg, "<text class=\"heading\" x=\"{MARGIN:.0}\" y=\"{y:.0}\">{title}</text>");
    let _ = writeln!(svg, "<text class=\"words\" x=\"{MARGIN:.0}\" y=\"{:.0}\">{words}</text>", y + 18.0);
}

fn picture(crates: &[Crate]) -> String {
    let layout = layout::lay_out(crates);
    // The way of a byte has four columns.
    let width = layout.width.max(4.0 * BOX_WIDTH + 3.0 * 30.0);
    let mut body = String::new();
    let uses = "An arrow points to the crate that is used. Arrows that follow from others, and what only tests use, are left out.";
    heading(&mut body, 36.0, "Crates", uses);
    let y = draw_crates(&mut body, crates, &layout, MARGIN + (width - layout.width) / 2.0, 76.0) + 56.0;
    heading(
        &mut body,
        y,
        "The way of a byte",
        "From a socket through one member to a socket, the disk and the clients.",
    );
    let y = draw_way(&mut body, MARGIN, width, y + 40.0) + MARGIN;
    let width = width + 2.0 * MARGIN;
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {y:.0}" width="{width:.0}" height="{y:.0}" role="img" font-family="system-ui, sans-serif" font-size="11">
<title>Crates of Conclave and the way of a byte</title>
<style>
  text {{ fill: #222; text-anchor: middle }} .name {{ font-weight: bold; font-size: 13px }}
  .heading {{ font-size: 17px; text-anchor: start }} .words {{ font-size: 12px; text-anchor: start }}
  .bg {{ fill: #fff }} .box {{ fill: #f3f5f8; stroke: #8a94a3 }} .arrow {{ fill: none; stroke: #5b6675; stroke-width: 1.4; marker-end: url(#tip) }} .tip {{ fill: #5b6675 }}
  @media (prefers-color-scheme: dark) {{
    text {{ fill: #ddd }} .bg {{ fill: #16181c }} .box {{ fill: #23272e; stroke: #6b7480 }} .arrow {{ stroke: #a2adbb }} .tip {{ fill: #a2adbb }}
  }}
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>
<rect class="bg" width="100%" height="100%"/>
{body}</svg>
"#
    )
}

#[test]
fn the_picture_shows_the_crates_as_they_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/architecture.svg");
    let wanted = picture(&graph::workspace());
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &wanted).expect("a writable picture");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/architecture.svg is out of date: UPDATE_GOLDEN=1 cargo test -p node architecture writes it anew"
    );
}

#[test]
fn every_step_of_the_way_of_a_byte_is_in_a_file_that_exists() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for file in STEPS.iter().filter_map(|step| step.file) {
        assert!(crates.join(file).is_file(), "there is no crates/{file}");
    }
}
