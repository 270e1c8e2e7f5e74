//! Runs seeds of a row, or of all: `faults SEEDS [NAME]`.

use algorithms::catalog;

fn main() {
    let mut args = std::env::args().skip(1);
    let seeds = args.next().and_then(|n| n.parse().ok()).unwrap_or(100);
    let name = args.next();
    for row in catalog::ROWS.iter().filter(|row| name.as_deref().is_none_or(|name| name == row.name)) {
        let trace_lines = std::env::var("LINES").ok().and_then(|n| n.parse().ok()).unwrap_or(30);
        let preempt = std::env::var_os("NO_PREEMPT").is_none();
        let options = sim::FaultOptions { preempt, trace_lines, ..Default::default() };
        if let Some(seed) = args.next().and_then(|seed| seed.parse().ok()) {
            return println!("{}", sim::run_faults(row, seed, &options));
        }
        let many = sim::run_many(row, 0..seeds, &options, |_| {});
        println!(
            "{}: {} runs, {} broken, {} events, {} kills, {} reigns, settle <= {} ms, digest {:016x}",
            row.name,
            many.runs,
            many.broken_count,
            many.events,
            many.kills,
            many.reigns,
            many.slowest_settle_ms,
            many.digest
        );
        let mut counts = std::collections::BTreeMap::new();
        for broken in &many.broken {
            *counts.entry(broken.violations[0].invariant).or_insert(0) += 1;
        }
        println!("  first broken by invariant: {counts:?}");
        for broken in &many.broken {
            println!("{broken}");
        }
    }
}
