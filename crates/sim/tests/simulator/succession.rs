//! The best member has a slow disk, or its process ends every few seconds: the other members are not disturbed for long.

use std::time::Duration;

use algorithms::catalog::{self, Row};
use member::Safety;
use sim::{FaultOptions, Trouble, run_trouble};

const LENGTH: Duration = Duration::from_mins(10);

/// One algorithm of each topology. An algorithm that cannot leave a worse leader alone is none of them: it begins an
/// election at every start.
fn rows() -> Vec<&'static Row> {
    let mut rows: Vec<&Row> = Vec::new();
    for row in catalog::ROWS.iter().filter(|row| row.can_wait) {
        if rows.iter().all(|other| other.topology != row.topology) {
            rows.push(row);
        }
    }
    rows
}

fn changes_at_most(most: u64, trouble: Trouble) {
    for safety in [Safety::Classic, Safety::Quorum] {
        let options = FaultOptions { safety, ..FaultOptions::default() };
        for row in rows() {
            let report = run_trouble(row, 1, &options, trouble, LENGTH);
            assert!(report.ok(), "{report}");
            let changes = report.stats.accessions - 1;
            println!("{} under {}, {trouble:?}: the leader changed {changes} times", row.name, safety.name());
            assert!(changes <= most, "{} under {}: {changes} changes", row.name, safety.name());
        }
    }
}

#[test]
fn a_best_member_that_restarts_every_three_seconds_does_not_keep_changing_the_leader() {
    changes_at_most(4, Trouble::CrashLoop(Duration::from_secs(3)));
}

#[test]
fn a_best_member_whose_writes_outlast_the_lease_does_not_keep_changing_the_leader() {
    changes_at_most(4, Trouble::SlowDisk(Duration::from_millis(900)));
}
