//! Where the boxes of the crates go: rows by layer, and in a row near the boxes they are connected to. An arrow over
//! several layers gets a narrow place in every row between, so that it crosses no box.

use std::collections::BTreeMap;

use super::graph::{self, Crate};

pub(crate) const BOX_WIDTH: f64 = 214.0;
const PASSAGE_WIDTH: f64 = 14.0;
const GAP: f64 = 26.0;

/// What stands in a row.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place<'a> {
    Crate(&'a str),
    /// Where the arrow between these two crosses the row.
    Passage(&'a str, &'a str),
}

impl Place<'_> {
    fn width(&self) -> f64 {
        match self {
            Place::Crate(_) => BOX_WIDTH,
            Place::Passage(..) => PASSAGE_WIDTH,
        }
    }
}

pub(crate) struct Layout<'a> {
    /// From the top row to the bottom row: each place with its middle.
    pub(crate) rows: Vec<Vec<(Place<'a>, f64)>>,
    /// Each arrow as the places it goes through, from the crate that depends to the one it depends on.
    pub(crate) arrows: Vec<Vec<Place<'a>>>,
    pub(crate) width: f64,
}

pub(crate) fn lay_out(crates: &[Crate]) -> Layout<'_> {
    let layers = graph::layers(crates);
    let top = layers.values().copied().max().unwrap_or(0);
    let mut rows: Vec<Vec<Place<'_>>> = vec![Vec::new(); top + 1];
    for (name, layer) in &layers {
        rows[top - layer].push(Place::Crate(name));
    }
    let mut arrows = Vec::new();
    for (from, to) in graph::without_implied(crates) {
        let mut arrow = vec![Place::Crate(from)];
        for row in &mut rows[top - layers[from] + 1..top - layers[to]] {
            row.push(Place::Passage(from, to));
            arrow.push(Place::Passage(from, to));
        }
        arrow.push(Place::Crate(to));
        arrows.push(arrow);
    }
    untangle(&mut rows, &arrows);
    let width = rows.iter().map(|row| row_width(row)).fold(0.0, f64::max);
    let rows = rows.into_iter().map(|row| centre(row, width)).collect();
    Layout { rows, arrows, width }
}

/// Orders every row by the mean position of what its places are connected to, up and down a few times.
fn untangle<'a>(rows: &mut [Vec<Place<'a>>], arrows: &[Vec<Place<'a>>]) {
    let mut neighbours: BTreeMap<&Place<'a>, Vec<&Place<'a>>> = BTreeMap::new();
    for pair in arrows.iter().flat_map(|arrow| arrow.windows(2)) {
        neighbours.entry(&pair[0]).or_default().push(&pair[1]);
        neighbours.entry(&pair[1]).or_default().push(&pair[0]);
    }
    for _ in 0..8 {
        for at in (0..rows.len()).chain((0..rows.len()).rev()) {
            let middles: BTreeMap<Place<'a>, f64> = rows.iter().flat_map(|row| centre(row.clone(), 0.0)).collect();
            let wish = |place: &Place<'a>| {
                let near = neighbours.get(place).map_or(&[][..], Vec::as_slice);
                let sum: f64 = near.iter().map(|other| middles[*other]).sum();
                if near.is_empty() { middles[place] } else { sum / near.len() as f64 }
            };
            rows[at].sort_by(|a, b| wish(a).total_cmp(&wish(b)).then_with(|| a.cmp(b)));
        }
    }
}

fn row_width(row: &[Place<'_>]) -> f64 {
    row.iter().map(|place| place.width() + GAP).sum::<f64>() - GAP
}

fn centre(row: Vec<Place<'_>>, width: f64) -> Vec<(Place<'_>, f64)> {
    let mut left = (width - row_width(&row)) / 2.0;
    row.into_iter()
        .map(|place| {
            let middle = left + place.width() / 2.0;
            left += place.width() + GAP;
            (place, middle)
        })
        .collect()
}
