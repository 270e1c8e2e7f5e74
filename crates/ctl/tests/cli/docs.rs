//! The documentation says what the code does: pages and tables are generated from the catalog, the file headers and the
//! simulator, and compared; examples are run (those of README.md by `scripts/test-readme`). `UPDATE_GOLDEN=1` writes the pages anew.

use std::fmt::Write as _;
use std::fs;

use algorithms::catalog::{Elects, ROWS, Row};
use algorithms::{Topology, Uid, Wins};
use sim::{Experiment, Recording};
use testkit::{ctl, golden, root, stderr};

/// The header of the file that implements a row: the longest file name that begins the row's name.
fn header(row: &Row) -> String {
    let name = row.name.replace('-', "_");
    let dir = root().join("crates/algorithms/src/election");
    let files = fs::read_dir(dir).expect("the elections").map(|entry| entry.expect("an entry").path());
    let fits = files.filter(|path| name.starts_with(&*path.file_stem().unwrap_or_default().to_string_lossy()));
    let path = fits.max_by_key(|path| path.as_os_str().len()).expect("a file per algorithm");
    let text = fs::read_to_string(path).expect("source");
    let lines = text.lines().take_while(|line| line.starts_with("//!"));
    lines.map(|line| line.trim_start_matches("//!").trim_start_matches(' ').to_owned() + "\n").collect()
}

fn five(row: &'static Row) -> Experiment {
    Experiment::new(row, [3, 1, 5, 2, 4].map(Uid::plain).to_vec())
}

fn counts(row: &'static Row) -> String {
    let mut table = String::from(
        "| n | ids along the sending direction | messages | theory | announcement | rounds |\n|--|--|--|--|--|--|\n",
    );
    for n in [1u32, 2, 3, 4, 5, 6, 8, 16] {
        for (order, ids) in [("increasing", (1..=n).collect::<Vec<_>>()), ("decreasing", (1..=n).rev().collect())] {
            let experiment = Experiment::new(row, ids.into_iter().map(Uid::plain).collect());
            let report = experiment.run().expect("a run");
            assert!(report.violations.is_empty(), "{}: {:?}", row.name, report.violations);
            let theory = report.expectation.map_or_else(
                || "-".to_owned(),
                |e| match (e.election.min, e.election.max) {
                    (min, max) if min == max => min.to_string(),
                    (min, u64::MAX) => format!("≥ {min}"),
                    (min, max) => format!("{min}..{max}"),
                },
            );
            let rounds = report.rounds.map_or_else(|| "-".to_owned(), |rounds| rounds.to_string());
            let messages = &report.messages;
            let _ = writeln!(
                table,
                "| {n} | {order} | {} | {theory} | {} | {rounds} |",
                messages.election, messages.announcement
            );
        }
    }
    table
}

const GRAPH: &str = "The graph is a grid, as wide as high; the last row may be short. ";

fn winner(row: &Row) -> String {
    let id = match row.wins {
        Wins::Highest => "the highest id",
        Wins::Lowest => "the lowest id",
    };
    match row.elects {
        Elects::Best => id.to_owned(),
        Elects::BestCandidate => format!("{id} of those that start"),
        Elects::FirstCandidate => "the first candidate".to_owned(),
        Elects::Majority => "the first candidate with a majority".to_owned(),
        Elects::Anyone => "any node: chance decides".to_owned(),
    }
}

fn page(row: &'static Row) -> String {
    format!(
        "# {name}\n\n{header}\n## At a glance\n\n| | |\n|--|--|\n| source | {paper} |\n| topology | {topology} |\n\
         | wins by default | {wins} |\n| assumes | {assumes} |\n\n## Five nodes\n\n{graph}All start at once, every \
         message takes one round.\n\n![{name} on five nodes]({name}.svg)\n\n## Counted\n\nAll start at once, \
         synchronous rounds; measured by the simulator beside what theory expects, without the announcement.\n\n{counts}\n\
         Again: `ctl sim run --algorithm {name} --nodes 16 --order increasing`\n",
        name = row.name,
        wins = winner(row),
        header = header(row),
        paper = row.paper,
        topology = row.topology.name(),
        assumes = row.assumes,
        graph = if row.topology == Topology::Graph { GRAPH } else { "" },
        counts = counts(row),
    )
}

#[test]
fn every_algorithm_has_its_page_and_picture() {
    let dir = root().join("docs/algorithms");
    for row in ROWS {
        let experiment = five(row);
        let (_, recording) = experiment.observe(Recording::new(sim::MAX_DRAWN_MESSAGES)).expect("a run");
        let picture = sim::draw(row.name, &experiment.ids, &recording);
        golden::compare(&dir.join(format!("{}.svg", row.name)), &picture);
        golden::compare(&dir.join(format!("{}.md", row.name)), &page(row));
    }
}

#[test]
fn the_readme_lists_the_catalog() {
    let path = root().join("README.md");
    let readme = fs::read_to_string(&path).expect("a README");
    let (begin, end) = ("<!-- algorithms -->\n", "<!-- /algorithms -->");
    let (before, rest) = readme.split_once(begin).expect("where the table begins");
    let (_, after) = rest.split_once(end).expect("where the table ends");
    let mut table = String::from("| name | source | topology | wins | assumes |\n|--|--|--|--|--|\n");
    for row in ROWS {
        let wins = match row.elects {
            Elects::Anyone | Elects::Majority => "chance decides".to_owned(),
            Elects::FirstCandidate => "first candidate".to_owned(),
            Elects::Best | Elects::BestCandidate => format!("{:?}", row.wins).to_lowercase(),
        };
        let _ = writeln!(
            table,
            "| [`{0}`](docs/algorithms/{0}.md) | {1} | {2} | {wins} | {3} |",
            row.name,
            row.paper,
            row.topology.name(),
            row.assumes
        );
    }
    golden::compare(&path, &format!("{before}{begin}{table}{end}{after}"));
}

#[test]
fn every_cause_is_in_the_list_of_json_values() {
    let page = fs::read_to_string(root().join("docs/json.md")).expect("the page");
    for cause in client::Cause::ALL {
        assert!(page.contains(&format!("`{cause}`")), "docs/json.md does not name {cause}");
    }
}

/// The simulator's commands of a page stand alone in a line; on a healthy tree none of them finds anything.
#[tokio::test]
async fn the_examples_of_the_page_on_failing_seeds_run() {
    let page = fs::read_to_string(root().join("docs/debugging-a-seed.md")).expect("the page");
    let commands: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("ctl ")).collect();
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands {
        let words: Vec<&str> = command.split('#').next().unwrap_or_default().split_whitespace().collect();
        let output = ctl(&words).await;
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", stderr(&output));
    }
}
