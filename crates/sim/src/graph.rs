//! Which nodes of a graph are linked.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::rng::Rng;

/// A kind of graph. Nodes are positions in the list of ids.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Graph {
    /// As wide as high, the last row may be short.
    #[default]
    Square,
    Grid {
        width: usize,
        height: usize,
    },
    /// A grid whose last column is linked to the first, and whose last row to the first.
    Torus {
        width: usize,
        height: usize,
    },
    /// A binary tree, all levels but the last one full.
    Tree,
    Hypercube {
        dimensions: u32,
    },
    /// A random tree, and every further pair of nodes with this probability.
    Random {
        probability: f64,
    },
}

/// More links than this are not drawn.
const LINKS_MAX: f64 = 2e7;

impl Graph {
    /// The number of nodes, where the kind of graph fixes it.
    pub fn nodes(self) -> Option<usize> {
        match self {
            Graph::Grid { width, height } | Graph::Torus { width, height } => width.checked_mul(height),
            Graph::Hypercube { dimensions } => Some(1 << dimensions),
            Graph::Square | Graph::Tree | Graph::Random { .. } => None,
        }
    }

    /// The links of a connected graph of this many nodes; only `Random` uses the seed.
    pub fn links(self, nodes: usize, seed: u64) -> Result<Vec<(usize, usize)>, String> {
        if let Some(wanted) = self.nodes().filter(|&wanted| wanted != nodes) {
            return Err(format!("{self} has {wanted} nodes, not {nodes}"));
        }
        Ok(match self {
            Graph::Square => {
                let width = (nodes as f64).sqrt().ceil().max(1.0) as usize;
                grid(nodes, width, false)
            }
            Graph::Grid { width, .. } => grid(nodes, width, false),
            Graph::Torus { width, .. } => grid(nodes, width, true),
            Graph::Tree => (1..nodes).map(|at| ((at - 1) / 2, at)).collect(),
            Graph::Hypercube { dimensions } => {
                let flip = |at: usize| (0..dimensions).map(move |bit| (at, at ^ 1 << bit)).filter(|(a, b)| a < b);
                (0..nodes).flat_map(flip).collect()
            }
            Graph::Random { probability } => return random(nodes, probability, &mut Rng::new(seed)),
        })
    }
}

fn grid(nodes: usize, width: usize, wraps: bool) -> Vec<(usize, usize)> {
    let mut links = BTreeSet::new();
    let mut link = |a: usize, b: usize| {
        if a != b && b < nodes {
            links.insert((a.min(b), a.max(b)));
        }
    };
    for at in 0..nodes {
        if (at + 1) % width != 0 {
            link(at, at + 1);
        } else if wraps {
            link(at, at + 1 - width);
        }
        if at + width < nodes {
            link(at, at + width);
        } else if wraps {
            link(at, at % width);
        }
    }
    links.into_iter().collect()
}

fn random(nodes: usize, probability: f64, rng: &mut Rng) -> Result<Vec<(usize, usize)>, String> {
    let expected = nodes as f64 * nodes as f64 / 2.0 * probability;
    if expected > LINKS_MAX {
        return Err(format!(
            "about {expected:.0e} links: at most {LINKS_MAX:.0e} are drawn, take a smaller probability"
        ));
    }
    // The tree joins every node to one before it, in a random order.
    let mut order: Vec<usize> = (0..nodes).collect();
    rng.shuffle(&mut order);
    let mut links: BTreeSet<(usize, usize)> = BTreeSet::new();
    for at in 1..nodes {
        let (a, b) = (order[at], order[rng.index(at)]);
        links.insert((a.min(b), a.max(b)));
    }
    if probability > 0.0 {
        // The pairs in one long row; from one chosen pair to the next the distance is geometric.
        let (mut a, mut b) = (0_usize, 0_usize);
        loop {
            let unit = (rng.word() >> 11) as f64 / (1_u64 << 53) as f64;
            let skip = if probability >= 1.0 { 0.0 } else { ((1.0 - unit).ln() / (1.0 - probability).ln()).floor() };
            b = b.saturating_add(1).saturating_add(skip as usize);
            while a < nodes && b >= nodes {
                b = b.saturating_sub(nodes).saturating_add(a + 2);
                a += 1;
            }
            if a + 1 >= nodes {
                break;
            }
            links.insert((a, b));
        }
    }
    Ok(links.into_iter().collect())
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Graph::Square => f.write_str("square"),
            Graph::Grid { width, height } => write!(f, "grid:{width}x{height}"),
            Graph::Torus { width, height } => write!(f, "torus:{width}x{height}"),
            Graph::Tree => f.write_str("tree"),
            Graph::Hypercube { dimensions } => write!(f, "hypercube:{dimensions}"),
            Graph::Random { probability } => write!(f, "random:{probability}"),
        }
    }
}

impl FromStr for Graph {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORMS: &str = "write square, tree, grid:WxH, torus:WxH, hypercube:D or random:P";
        let sides = |sides: &str| -> Option<(usize, usize)> {
            let (width, height) = sides.split_once('x')?;
            let (width, height): (u32, u32) = (width.parse().ok()?, height.parse().ok()?);
            let small = width.checked_mul(height).is_some();
            (width > 0 && height > 0 && small).then_some((width as usize, height as usize))
        };
        let graph = match text.split_once(':') {
            None if text == "square" => Some(Graph::Square),
            None if text == "tree" => Some(Graph::Tree),
            Some(("grid", size)) => sides(size).map(|(width, height)| Graph::Grid { width, height }),
            Some(("torus", size)) => sides(size).map(|(width, height)| Graph::Torus { width, height }),
            Some(("hypercube", size)) => {
                size.parse().ok().filter(|&d: &u32| d <= 24).map(|dimensions| Graph::Hypercube { dimensions })
            }
            Some(("random", p)) => {
                p.parse().ok().filter(|p| (0.0..=1.0).contains(p)).map(|probability| Graph::Random { probability })
            }
            _ => None,
        };
        graph.ok_or_else(|| FORMS.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use algorithms::{Uid, View};

    fn shape(graph: &str, nodes: usize) -> (usize, Option<usize>) {
        let links = graph.parse::<Graph>().unwrap().links(nodes, 3).unwrap();
        let shape = View::graph((1..=nodes as u32).map(Uid::plain).collect(), &links).shape().unwrap();
        assert_eq!(shape.links, links.len(), "{graph}: a link is there twice");
        (shape.links, shape.diameter)
    }

    #[test]
    fn graphs_have_the_links_and_the_diameter_of_their_kind() {
        assert_eq!(shape("grid:4x3", 12), (17, Some(5)));
        assert_eq!(shape("torus:4x3", 12), (24, Some(3)));
        assert_eq!(shape("torus:2x2", 4), (4, Some(2)));
        assert_eq!(shape("tree", 7), (6, Some(4)));
        assert_eq!(shape("hypercube:4", 16), (32, Some(4)));
        assert_eq!(shape("square", 7), (8, Some(4)));
        assert_eq!(shape("random:0", 50).0, 49);
        assert_eq!(shape("random:1", 20), (190, Some(1)));
        let (links, diameter) = shape("random:0.1", 200);
        assert!((1900..2400).contains(&links) && diameter.is_some(), "{links} links, 2170 expected");
        for nodes in 1..=3 {
            for graph in ["square", "tree", "random:0.5"] {
                assert!(shape(graph, nodes).1.is_some(), "{graph} of {nodes} is connected");
            }
        }
    }

    #[test]
    fn graphs_that_cannot_be_are_refused() {
        for text in
            ["grid", "grid:4", "grid:0x3", "grid:99999999x99999999", "random:2", "random:-1", "random:nan", "star"]
        {
            assert!(text.parse::<Graph>().is_err(), "{text}");
        }
        assert!("hypercube:25".parse::<Graph>().is_err());
        assert!("grid:4x3".parse::<Graph>().unwrap().links(11, 1).unwrap_err().contains("has 12 nodes, not 11"));
        assert!(Graph::Random { probability: 1.0 }.links(100_000, 1).is_err());
    }
}
