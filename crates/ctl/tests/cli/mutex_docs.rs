//! The pages and pictures of mutual exclusions and their table in the README, generated from the catalog, the headers of
//! the files and the simulator, and compared. `UPDATE_GOLDEN=1` writes them anew.

use std::fmt::Write as _;
use std::fs;

use algorithms::catalog::mutex::{Links, Purpose, ROWS, Row};
use algorithms::theory::Range;
use algorithms::{Topology, Uid};
use sim::{Contention, MutexExperiment, MutexRecording, MutexReport, Times};
use testkit::{ctl, golden, root, stderr};

fn ids(n: u32) -> Vec<Uid> {
    (1..=n).map(Uid::plain).collect()
}

/// The header of the file that implements a row: the longest file name that begins the row's name.
fn header(row: &Row) -> String {
    let name = row.name.replace('-', "_");
    let dir = root().join("crates/algorithms/src/mutex");
    let files = fs::read_dir(dir).expect("the mutual exclusions").map(|entry| entry.expect("an entry").path());
    let fits = files.filter(|path| name.starts_with(&*path.file_stem().unwrap_or_default().to_string_lossy()));
    let path = fits.max_by_key(|path| path.as_os_str().len()).expect("a file per algorithm");
    let text = fs::read_to_string(path).expect("source");
    let lines = text.lines().take_while(|line| line.starts_with("//!"));
    lines.map(|line| line.trim_start_matches("//!").trim_start_matches(' ').to_owned() + "\n").collect()
}

fn run(plan: &MutexExperiment) -> MutexReport {
    let report = plan.run().expect("a run");
    assert!(report.violations.is_empty(), "{}: {:?}", report.algorithm, report.violations);
    report
}

fn words(range: Range) -> String {
    match range {
        Range { min, max } if min == max => min.to_string(),
        Range { min, max: u64::MAX } => format!("≥ {min}"),
        Range { min, max } => format!("{min}..{max}"),
    }
}

fn mean(times: &Times) -> String {
    times.in_messages().map_or_else(|| "-".to_owned(), |(_, mean, _)| format!("{mean:.2}"))
}

fn per_entry(report: &MutexReport) -> String {
    report.per_entry(report.messages).map_or_else(|| "-".to_owned(), |number| format!("{number:.2}"))
}

fn counts(row: &'static Row) -> String {
    let mut table = String::from(
        "| n | messages alone | saturated | theory | client delay | theory | synchronisation delay | theory |\n\
         |--|--|--|--|--|--|--|--|\n",
    );
    for n in [1, 2, 3, 4, 5, 9, 16, 25] {
        let plan = MutexExperiment::new(row, ids(n), 500);
        let saturated = run(&plan);
        let single = run(&MutexExperiment { contention: Contention::Single, ..plan });
        let messages = match (single.theory.messages, saturated.theory.messages) {
            (alone, all) if alone == all => words(alone),
            (alone, all) => format!("{}; saturated {}", words(alone), words(all)),
        };
        let _ = writeln!(
            table,
            "| {n} | {} | {} | {messages} | {} | {} | {} | {} |",
            per_entry(&single),
            per_entry(&saturated),
            mean(&single.seen.client_delay),
            words(single.theory.client_delay),
            mean(&saturated.seen.sync_delay),
            words(saturated.theory.sync_delay),
        );
    }
    table
}

fn links(row: &Row) -> &'static str {
    match row.links {
        Links::Fifo => "FIFO",
        Links::AnyOrder => "any order",
    }
}

/// The textbooks' example: nodes 3 and 2 ask at the same moment, with the timestamps <7,3> and <15,2>.
fn example(row: &'static Row) -> MutexExperiment {
    MutexExperiment {
        contention: Contention::Script(vec![(2, 0), (1, 0)]),
        clocks: vec![(2, 6), (1, 14)],
        readers: 0,
        ..MutexExperiment::new(row, ids(3), 0)
    }
}

fn example_section(row: &Row) -> String {
    if !row.fair {
        return String::new();
    }
    format!(
        "## The example <7,3> and <15,2>\n\nNodes 3 and 2 ask at the same moment; their clocks make the timestamps <7,3> \
         and <15,2>. The smaller one enters first, although its id is larger.\n\n![{0}: <7,3> and <15,2>]({0}-example.svg)\n\n\
         `ctl sim draw --algorithm {0} --ids 1,2,3 --clock 3=6,2=14 --request 3,2 --out example.svg`\n\n",
        row.name
    )
}

fn page(row: &'static Row) -> String {
    let order = if row.fair { "a request that happened before another one enters first" } else { "no promise" };
    format!(
        "# {name}\n\n{header}\n## At a glance\n\n| | |\n|--|--|\n| source | {paper} |\n| topology | {topology} |\n\
         | links | {links} |\n| order | {order} |\n| readers together | {readers} |\n| runs | {runs} |\n| assumes | {assumes} |\n\n\
         ## Four nodes\n\nAll ask at the same moment, each once; every message and every section takes one round. On each \
         line: where the node waits, where it is inside and with which fencing token{clock}.\n\n\
         ![{name} with four nodes]({name}.svg)\n\n{example}## Counted\n\n500 requests, synchronous rounds; measured by the \
         simulator beside theory. Messages are per entry: alone, one node at a time in random order; saturated, every node \
         asks again the moment it is out. Delays are means, in message times: from a request to its entry alone, and from an \
         exit to the next entry when saturated.{endless}\n\n{counts}\nAgain: `ctl sim run --algorithm {name} --nodes 16 \
         --order increasing --requests 500`, with `--contention single` for a node alone.\n",
        name = row.name,
        header = header(row),
        paper = row.paper,
        topology = row.topology.name(),
        links = links(row),
        readers = if row.shared { "yes" } else { "no" },
        runs = match row.purpose {
            Purpose::Live => "everywhere",
            Purpose::Simulated => "in simulations and models only",
        },
        assumes = row.assumes,
        clock = if has_clock(row) { ", and the Lamport clock after every event" } else { "" },
        example = example_section(row),
        endless =
            if row.endless { " The token also moves while no node asks, and these messages count too." } else { "" },
        counts = counts(row),
    )
}

fn four(row: &'static Row) -> MutexExperiment {
    let plan = MutexExperiment::new(row, ids(4), 4);
    MutexExperiment { contention: Contention::Script((0..4).map(|at| (at, 0)).collect()), ..plan }
}

fn record(plan: &MutexExperiment) -> MutexRecording {
    plan.observe(MutexRecording::new(sim::MAX_DRAWN_MESSAGES)).expect("a run").1
}

fn has_clock(row: &'static Row) -> bool {
    record(&four(row)).events.iter().any(|event| event.clock.is_some())
}

#[test]
fn every_mutual_exclusion_has_its_page_and_pictures() {
    let dir = root().join("docs/algorithms");
    for row in ROWS {
        let draw =
            |plan: &MutexExperiment, title: &str| sim::draw_mutex(title, &plan.ids, &record(plan)).expect("small");
        golden::compare(&dir.join(format!("{}.svg", row.name)), &draw(&four(row), row.name));
        if row.fair {
            let picture = draw(&example(row), &format!("{}: <7,3> and <15,2>", row.name));
            golden::compare(&dir.join(format!("{}-example.svg", row.name)), &picture);
        }
        golden::compare(&dir.join(format!("{}.md", row.name)), &page(row));
    }
}

#[test]
fn the_readme_lists_the_mutual_exclusions() {
    let mut table = String::from(
        "| name | source | topology | messages per entry, 9 members | client delay | synchronisation delay | order | assumes |\n\
         |--|--|--|--|--|--|--|--|\n",
    );
    for row in ROWS {
        let theory =
            run(&MutexExperiment { contention: Contention::Single, ..MutexExperiment::new(row, ids(9), 10) }).theory;
        let shape = match row.topology {
            Topology::Ring => "ring",
            Topology::Mesh | Topology::Graph => "mesh",
        };
        let _ = writeln!(
            table,
            "| [`{0}`](docs/algorithms/{0}.md) | {1} | {shape} | {2} | {3} | {4} | {5} | {6} |",
            row.name,
            row.paper,
            words(theory.messages),
            words(theory.client_delay),
            words(theory.sync_delay),
            if row.fair { "fair" } else { "-" },
            row.assumes
        );
    }
    between("README.md", "<!-- mutexes -->\n", "<!-- /mutexes -->", &table);
}

/// Replaces what stands between two marks of a page, or compares it.
fn between(page: &str, begin: &str, end: &str, table: &str) {
    let path = root().join(page);
    let text = fs::read_to_string(&path).expect("the page");
    let (before, rest) = text.split_once(begin).expect("where the table begins");
    let (_, after) = rest.split_once(end).expect("where the table ends");
    golden::compare(&path, &format!("{before}{begin}{table}{end}{after}"));
}

#[test]
fn the_page_on_mutual_exclusion_compares_all_of_them() {
    let mut table = String::from(
        "| algorithm | alone | saturated | theory | client delay | theory | synchronisation delay | theory | overtakes | fatal crashes |\n\
         |--|--|--|--|--|--|--|--|--|--|\n",
    );
    for one in sim::compare(&ids(9), 1000, 1).expect("runs") {
        assert_eq!(one.violations().next(), None, "{}", one.row.name);
        let (alone, all) = (&one.single, &one.saturated);
        let messages = match (alone.theory.messages, all.theory.messages) {
            (alone, all) if alone == all => words(alone),
            (alone, all) => format!("{}; saturated {}", words(alone), words(all)),
        };
        let _ = writeln!(
            table,
            "| [`{0}`](algorithms/{0}.md) | {1} | {2} | {messages} | {3} | {4} | {5} | {6} | {7} | {8} |",
            one.row.name,
            per_entry(alone),
            per_entry(all),
            mean(&alone.seen.client_delay),
            words(alone.theory.client_delay),
            mean(&all.seen.sync_delay),
            words(all.theory.sync_delay),
            one.random.seen.overtakes,
            one.fatal_crashes,
        );
    }
    between("docs/mutual-exclusion.md", "<!-- comparison -->\n", "<!-- /comparison -->", &table);
}

/// A comment behind a command says with which exit code it ends, if not with 0.
#[tokio::test]
async fn the_commands_of_the_page_end_as_it_says() {
    let page = fs::read_to_string(root().join("docs/mutual-exclusion.md")).expect("the page");
    let commands: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("ctl ")).collect();
    assert!(commands.len() >= 15, "{commands:?}");
    for command in commands {
        let (command, comment) = command.split_once('#').unwrap_or((command, ""));
        let expected = if comment.contains("exit 7") { 7 } else { 0 };
        let words: Vec<&str> = command.split_whitespace().collect();
        let output = ctl(&words).await;
        assert_eq!(output.status.code(), Some(expected), "{words:?}: {}", stderr(&output));
    }
}
