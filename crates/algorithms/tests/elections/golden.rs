//! Golden transcripts: a run of four members per row, every input and every effect, to be read by people.
//!
//! `UPDATE_GOLDEN=1 cargo test -p algorithms` rewrites them; read the difference before committing it.

use std::path::PathBuf;
use std::{env, fs};

use algorithms::Uid;
use algorithms::catalog::{ROWS, Row};

use crate::subject::{Plan, Schedule, subject, uids, view};

#[test]
fn transcripts_have_not_changed() {
    let mut changed = Vec::new();
    for row in ROWS {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{}.txt", row.name));
        let transcript = transcript(row);
        if env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, transcript).expect("the golden directory can be written");
        } else if fs::read_to_string(&path).ok().as_ref() != Some(&transcript) {
            changed.push(row.name);
        }
    }
    assert!(changed.is_empty(), "transcripts of {changed:?} differ; UPDATE_GOLDEN=1 rewrites them");
}

fn transcript(row: &'static Row) -> String {
    let view = view(row.topology, uids(&[3, 1, 4, 2]));
    let plan =
        Plan { view: &view, wins: row.wins, initiators: &[0, 1], dead: &[], schedule: Schedule::Synchronous, seed: 1 };
    let ids: Vec<String> = view.members().iter().map(Uid::to_string).collect();
    let mut lines = vec![
        format!("{}, {}", row.name, row.paper),
        format!("{} {}, the {:?} wins; 3 and 1 start", row.topology.name(), ids.join(" "), row.wins).to_lowercase(),
        String::new(),
    ];
    let run = subject(row).run(&plan, Some(&mut lines));
    lines.push(String::new());
    let counts = run.counts.iter().map(|(kind, count)| format!("{count} {}", kind.name));
    lines.push(counts.collect::<Vec<_>>().join(", "));
    lines.join("\n") + "\n"
}
