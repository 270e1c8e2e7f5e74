//! `ctl sim` on runs that break, cannot be run, or are not what they seem.

use std::process::{Command, Output};

use algorithms::Topology;
use algorithms::catalog::{self, Elects, ROWS, Row};
use serde_json::Value;
use testkit::{Scratch, ctl_binary, stderr, stdout};

fn run(arguments: &[&str]) -> Output {
    let scratch = Scratch::new("cli").unwrap();
    Command::new(ctl_binary()).args(arguments).current_dir(scratch.path()).output().expect("ctl runs")
}

fn sim_run(row: &Row, arguments: &[&str]) -> Output {
    run(&[&["sim", "run", "--algorithm", row.name], arguments].concat())
}

fn ring() -> &'static Row {
    ROWS.iter().find(|row| row.topology == Topology::Ring && row.elects == Elects::Best).unwrap()
}

fn graph() -> &'static Row {
    ROWS.iter().find(|row| row.topology == Topology::Graph).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

#[test]
fn a_ring_that_a_crash_stops_is_stuck_whenever_the_node_dies() {
    for crash in ["5", "5@4"] {
        let output = sim_run(ring(), &["--nodes", "5", "--crash", crash, "--order", "increasing"]);
        assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
        assert!(stdout(&output).contains("stuck: outside the model"), "{}", stdout(&output));
        let document =
            json(&sim_run(ring(), &["--nodes", "5", "--crash", crash, "--order", "increasing", "-o", "json"]));
        assert!(document["stuck"].is_string() && document["violations"].as_array().unwrap().is_empty(), "{document}");
        assert_eq!(document["crashes"][0]["id"], 5);
    }
}

#[test]
fn the_document_of_a_run_has_ids_crashes_expectation_and_violations() {
    let document = json(&sim_run(ring(), &["--ids", "3:1,3:7,2:9", "--crash", "9@900", "-o", "json"]));
    assert_eq!(document["ids"], serde_json::json!(["3:1", "3:7", "2:9"]));
    assert_eq!(document["leader"], 7, "the higher priority counts before the id");
    assert_eq!(document["crashes"], serde_json::json!([{ "id": 9, "before_round": 900, "after_end": true }]));
    assert_eq!(document["stuck"], Value::Null);
    let document = json(&sim_run(ring(), &["--ids", "3,1,2", "-o", "json"]));
    assert!(document["expectation"]["election"]["min"].is_u64(), "{document}");
    assert_eq!(document["violations"], serde_json::json!([]));
}

#[test]
fn a_crash_after_the_end_is_told_and_bounds_of_living_nodes_are_told_as_such() {
    let output = sim_run(ring(), &["--nodes", "5", "--crash", "2@1000"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("2 was to crash before round 1000: the run was over by then"));
    let mesh = catalog::row(catalog::DEFAULT).unwrap();
    let output = sim_run(mesh, &["--nodes", "5", "--crash", "5", "--initiators", "4"]);
    assert!(stdout(&output).contains("in theory, if none of them crashes:"), "{}", stdout(&output));
}

#[test]
fn what_would_be_ignored_or_cannot_be_is_refused() {
    let synchronous = ROWS.iter().find(|row| row.assumes.starts_with("synchronous")).unwrap().name;
    let chance = ROWS.iter().find(|row| row.elects == Elects::Anyone).unwrap().name;
    let small = ROWS.iter().find(|row| row.max_nodes < 20).unwrap().name;
    let restless = ROWS.iter().find(|row| !row.can_wait).unwrap().name;
    let (ring, graph) = (ring().name, graph().name);
    let cases: &[(&[&str], &str)] = &[
        (&["run", "--algorithm", synchronous, "-n", "4", "--schedule", "random"], "is synchronous"),
        (&["run", "--algorithm", synchronous, "-n", "4", "--initiators", "one"], "begins at all nodes"),
        (&["run", "--algorithm", chance, "-n", "4", "--wins", "lowest"], "--wins has no meaning"),
        (&["run", "--algorithm", ring, "-n", "3", "--crash", "1,2,3"], "dead before the start"),
        (&["run", "--algorithm", ring, "-n", "3", "--crash", "2", "--initiators", "2"], "dead before the start"),
        (&["run", "--algorithm", ring, "-n", "3", "--crash", "2@18446744073709551615"], "the last round is"),
        (&["run", "-n", "100000", "--order", "increasing"], "--budget"),
        (&["run", "--ids", "3:,1"], "priority:id"),
        (&["run", "--algorithm", ring, "-n", "4", "--graph", "tree"], "not on a graph"),
        (&["run", "--algorithm", ring, "--links", "1-2"], "links are for graphs"),
        (&["run", "--algorithm", graph, "--links", "1-2,3-4"], "no path of links leads from 1 to 3"),
        (&["run", "--algorithm", graph, "--links", "1-1"], "a link joins 1 to itself"),
        (&["run", "--algorithm", graph, "--ids", "1,2", "--links", "1-7"], "there is no id 7"),
        (&["run", "--algorithm", graph, "-n", "5", "--graph", "grid:2x2"], "has 4 nodes, not 5"),
        (&["run", "--algorithm", graph, "--graph", "tree"], "--nodes N"),
        (&["run", "--algorithm", ring, "-n", "4", "--repair"], "--crash"),
        (&["run", "--algorithm", ring, "-n", "4", "--crash", "2@1", "--repair"], "crashes during the election"),
        (&["run", "--algorithm", ring, "-n", "2", "--crash", "1,2", "--repair"], "at least one node"),
        (&["run", "--algorithm", ring, "-n", "4", "--crash", "2", "--initiators", "2", "--repair"], "there is no id 2"),
        (&["run", "--algorithm", graph, "-n", "4", "--crash", "2", "--repair"], "--repair is for rings"),
        (&["faults", "--drift=-5"], "a number from 0 to 90"),
        (&["faults", "--drift", "1e300"], "a number from 0 to 90"),
        (&["faults", "--drift", "inf"], "a number from 0 to 90"),
        (&["faults", "--algorithm", small, "--nodes", "20"], "at most"),
        (&["faults", "--algorithm", restless, "--no-preempt"], "cannot leave a worse leader alone"),
    ];
    for (arguments, expected) in cases {
        let output = run(&[&["sim"], *arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}{}", stdout(&output), stderr(&output));
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
    let largest = run(&["sim", "faults", "--drift", "90", "--seeds", "1"]);
    assert!(matches!(largest.status.code(), Some(0 | 7)), "{}", stderr(&largest));
}

#[test]
fn graphs_run_by_links_and_by_kind_and_theory_knows_the_links() {
    for row in ROWS.iter().filter(|row| row.topology == Topology::Graph) {
        for (arguments, links) in [
            (&["--links", "1-2,2-3,3-1,3-4"][..], 4),
            (&["--graph", "grid:4x4"], 24),
            (&["--graph", "torus:3x3"], 18),
            (&["--graph", "hypercube:3"], 12),
            (&["--graph", "tree", "-n", "9"], 8),
            (&["--graph", "random:1", "-n", "6"], 15),
        ] {
            let output = sim_run(row, &[arguments, &["-o", "json"]].concat());
            assert_eq!(output.status.code(), Some(0), "{} {arguments:?}: {}", row.name, stderr(&output));
            assert_eq!(json(&output)["theory"]["best"], f64::from(2 * links), "{} {arguments:?}", row.name);
        }
    }
}

/// The nodes around the dead ones are neighbours, and the election costs what it costs among the living.
#[test]
fn a_repaired_ring_elects_among_the_living() {
    for row in ROWS.iter().filter(|row| row.topology == Topology::Ring && row.elects == Elects::Best) {
        let whole = sim_run(row, &["--ids", "1,3,2", "-o", "json"]);
        let repaired = sim_run(row, &["--ids", "1,5,3,4,2", "--crash", "5,4", "--repair", "-o", "json"]);
        assert_eq!(repaired.status.code(), Some(0), "{}: {}", row.name, stderr(&repaired));
        let (whole, repaired) = (json(&whole), json(&repaired));
        for key in ["leader", "messages", "rounds", "theory", "expectation", "ids"] {
            assert_eq!(whole[key], repaired[key], "{} {key}", row.name);
        }
    }
    let text = stdout(&sim_run(ring(), &["--nodes", "5", "--crash", "5", "--repair"]));
    assert!(text.contains("leader 4") && text.contains("repaired without 5: 4 nodes are left"), "{text}");
}

#[test]
fn the_list_of_active_nodes_is_shown_where_the_algorithm_keeps_one() {
    let mut keeping = 0;
    for row in ROWS.iter().filter(|row| row.topology == Topology::Ring) {
        let document = json(&sim_run(row, &["--ids", "5,2,4", "-o", "json"]));
        if document["active"].is_array() {
            keeping += 1;
            assert_eq!(document["active"], serde_json::json!(["2", "4", "5"]), "{}", row.name);
            let text = stdout(&sim_run(row, &["--ids", "5,2,4"]));
            assert!(text.contains("active list: 2, 4, 5"), "{text}");
            let text = stdout(&sim_run(row, &["--nodes", "30"]));
            assert!(text.contains("20, ... (30 in all)"), "{text}");
        }
    }
    assert_eq!(keeping, 1);
}

#[test]
fn many_trials_print_one_line_and_an_open_range_has_no_end() {
    let output = sim_run(ring(), &["--nodes", "8", "--trials", "1000"]);
    assert_eq!(stdout(&output).lines().count(), 1, "{}", stdout(&output));
    let chance = ROWS.iter().find(|row| row.elects == Elects::Anyone).unwrap();
    let text = stdout(&sim_run(chance, &["--nodes", "5"]));
    assert!(text.contains("9 or more") && !text.contains("18446744073709551615"), "{text}");
}

#[test]
fn a_run_that_is_stuck_is_drawn_and_exported_all_the_same() {
    let stuck = ["--algorithm", ring().name, "--nodes", "5", "--crash", "5"];
    let drawn = run(&[&["sim", "draw"][..], &stuck].concat());
    assert!(stdout(&drawn).contains("<svg") && stdout(&drawn).contains(", stuck"), "{}", stderr(&drawn));
    assert_eq!(drawn.status.code(), Some(4));
    let exported = run(&[&["sim", "export", "--format", "shiviz"][..], &stuck].concat());
    assert!(stdout(&exported).starts_with("(?<event>.*)"), "{}", stderr(&exported));
    assert_eq!(exported.status.code(), Some(4));
}
