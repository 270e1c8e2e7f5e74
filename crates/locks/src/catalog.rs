//! The lock algorithms that a config may choose: the clerk of a reign, and every mutual exclusion of its catalog, in views.

use std::sync::LazyLock;

use algorithms::catalog::mutex;

/// One algorithm behind `[locks]`.
#[derive(Debug)]
pub struct Row {
    /// The name in configs.
    pub name: &'static str,
    pub kind: Kind,
    /// Does it need the promises of a majority? Then it grants nothing under classic safety.
    pub needs_quorum: bool,
}

/// Which machine it is.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Central,
    /// A machine at every member.
    Views(&'static mutex::Row),
}

impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        self.name == other.name
    }
}

impl Eq for Row {}

/// What a config without `[locks]` gets.
pub fn default() -> &'static Row {
    &CENTRAL
}

static CENTRAL: Row = Row { name: "central", kind: Kind::Central, needs_quorum: true };

/// The catalog has a textbook machine of the clerk's name as well: live that name is the clerk's. It has machines for simulations
/// too, which do not run here.
static IN_VIEWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let live = |row: &&mutex::Row| row.purpose == mutex::Purpose::Live && row.name != CENTRAL.name;
    let others = mutex::ROWS.iter().filter(live);
    others.map(|row| Row { name: row.name, kind: Kind::Views(row), needs_quorum: false }).collect()
});

pub fn rows() -> impl Iterator<Item = &'static Row> + Clone {
    std::iter::once(&CENTRAL).chain(IN_VIEWS.iter())
}

pub fn row(name: &str) -> Option<&'static Row> {
    rows().find(|row| row.name == name)
}

pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    rows().map(|row| row.name)
}
