//! Golden transcripts: a run of four members per row, every input and every effect, to be read by people.
//!
//! `UPDATE_GOLDEN=1 cargo test -p algorithms` rewrites them; read the difference before committing it.

use std::path::PathBuf;
use std::{env, fs};

use algorithms::Uid;
use algorithms::catalog::mutex::{self, ROWS, Row};

use crate::audit::mixed;
use crate::run::{Plan, plain, subject, view, writers};

#[test]
fn transcripts_have_not_changed() {
    let mut transcripts: Vec<(String, String)> = ROWS.iter().map(|row| (row.name.to_owned(), example(row))).collect();
    for row in ROWS.iter().filter(|row| row.fair && !row.shared) {
        transcripts.push((format!("{}-7-3-and-15-2", row.name), two_timestamps(row)));
    }
    let mut changed = Vec::new();
    for (name, transcript) in transcripts {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/mutex").join(format!("{name}.txt"));
        if env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, transcript).expect("the golden directory can be written");
        } else if fs::read_to_string(&path).ok().as_ref() != Some(&transcript) {
            changed.push(name);
        }
    }
    assert!(changed.is_empty(), "transcripts of {changed:?} differ; UPDATE_GOLDEN=1 rewrites them");
}

fn transcript(row: &'static Row, plan: &Plan<'_>, about: &str) -> String {
    let ids: Vec<String> = plan.view.members().iter().map(Uid::to_string).collect();
    let mut lines = vec![
        format!("{}, {}", row.name, row.paper),
        format!("{} {}; {about}", row.topology.name(), ids.join(" ")),
        String::new(),
    ];
    let run = subject(row).run(plan, Some(&mut lines));
    lines.push(String::new());
    let counts = run.counts.iter().map(|(kind, count)| format!("{count} {}", kind.name));
    lines.push(counts.collect::<Vec<_>>().join(", "));
    let order = run.entries.iter().map(|entry| {
        let stamp = entry.stamp.map_or_else(String::new, |stamp| format!(" {stamp}"));
        format!("{}{stamp} with token {}", plan.view.members()[entry.at], entry.token)
    });
    lines.push(format!("inside: {}", order.collect::<Vec<_>>().join(", ")));
    lines.join("\n") + "\n"
}

fn example(row: &'static Row) -> String {
    let (view, requests) = (view(row.topology, &[3, 1, 4, 2]), mixed(row, &[1, 1, 0, 1]));
    transcript(row, &plain(&view, &requests), "3, 1 and 2 want to enter, once")
}

/// Member 3 asks with timestamp <7,3> and member 2 with <15,2>, neither knows of the other yet.
fn two_timestamps(row: &'static Row) -> String {
    let row = mutex::row(row.name).unwrap_or(row);
    let (view, requests) = (view(row.topology, &[1, 2, 3]), writers(&[0, 1, 1]));
    let plan = Plan { clocks: &[0, 14, 6], ..plain(&view, &requests) };
    let run = subject(row).run(&plan, None);
    let stamps: Vec<String> = run.entries.iter().filter_map(|entry| Some(entry.stamp?.to_string())).collect();
    assert_eq!(stamps, ["<7,3>", "<15,2>"]);
    transcript(row, &plan, "3 asks with <7,3> and 2 with <15,2>")
}
