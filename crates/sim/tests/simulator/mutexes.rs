//! Mutual exclusions under workloads: every row of the catalog keeps its promises at the cost that theory expects, and
//! machines with planted mistakes are caught.

mod planted;

use std::collections::BTreeSet;

use algorithms::Uid;
use algorithms::catalog::mutex::{self as catalog, Links, ROWS, Row};
use sim::{
    Contention, MutexChoice, MutexExperiment, MutexRecording, MutexReport, MutexWhat, Rng, Schedule, Table, TokenFault,
};

const CONTENTIONS: [Contention; 3] = [Contention::Saturated, Contention::Random, Contention::Single];

fn ids(n: u32) -> Vec<Uid> {
    (1..=n).map(Uid::plain).collect()
}

fn plan(row: &'static Row, n: u32, requests: u64, contention: Contention, schedule: Schedule) -> MutexExperiment {
    let tells = if contention == Contention::Random { 50 } else { 0 };
    MutexExperiment { contention, schedule, tells, ..MutexExperiment::new(row, ids(n), requests) }
}

fn clean(plan: &MutexExperiment) -> MutexReport {
    let report = plan.run().expect("can be run");
    let what = (plan.row.name, plan.ids.len(), plan.contention.name(), plan.schedule, plan.seed);
    assert!(report.violations.is_empty(), "{what:?}: {:#?}", report.violations);
    report
}

#[test]
fn every_row_keeps_its_promises_at_the_cost_of_theory() {
    for row in ROWS {
        for n in [1, 2, 3, 4, 5, 7, 12] {
            for contention in CONTENTIONS {
                for schedule in [Schedule::Sync, Schedule::Random] {
                    let plan = plan(row, n, 300, contention.clone(), schedule);
                    let report = clean(&plan);
                    assert_eq!((report.requests, report.seen.entries), (300, 300), "{} {n}", row.name);
                }
            }
        }
    }
}

#[test]
fn rows_that_need_no_fifo_links_run_without_them() {
    for row in ROWS.iter().filter(|row| row.links == Links::AnyOrder) {
        for seed in 1..5 {
            for contention in CONTENTIONS {
                clean(&MutexExperiment { fifo: false, seed, ..plan(row, 5, 300, contention, Schedule::Random) });
            }
        }
    }
}

/// The published proof needs FIFO links, and so does the machine.
#[test]
fn lamport_breaks_where_messages_overtake_each_other() {
    let row = catalog::row("lamport").expect("a row");
    let mut broken = BTreeSet::new();
    for seed in 1..20 {
        for contention in [Contention::Saturated, Contention::Random] {
            let plan = MutexExperiment { fifo: false, seed, ..plan(row, 5, 300, contention, Schedule::Random) };
            let report = plan.run().expect("can be run");
            broken.extend(report.violations.iter().filter_map(|what| what.split(':').next()).map(str::to_owned));
        }
    }
    assert!(broken.contains("exclusion"), "{broken:?}");
}

#[test]
fn who_is_fair_is_never_overtaken_and_who_is_not_sometimes_is() {
    for row in ROWS {
        let overtakes = |seed| {
            let plan = MutexExperiment { seed, ..plan(row, 5, 1000, Contention::Random, Schedule::Random) };
            clean(&plan).seen.overtakes
        };
        let overtakes: u64 = (1..4).map(overtakes).sum();
        assert_eq!(overtakes == 0, row.fair, "{}: {overtakes}", row.name);
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another_one() {
    for row in ROWS {
        let run = |seed| {
            let plan = MutexExperiment { seed, ..plan(row, 5, 200, Contention::Random, Schedule::Random) };
            format!("{:?}", plan.run().expect("can be run").seen)
        };
        assert_eq!(run(3), run(3), "{}", row.name);
        assert_ne!(run(3), run(4), "{}", row.name);
    }
}

#[test]
fn a_lost_token_ends_everything_and_a_duplicate_is_shown_by_fencing_tokens() {
    let mut rows_with_token = 0;
    let mut rows_broken_by_a_copy = 0;
    for row in ROWS {
        let plan = |fault| MutexExperiment { fault: Some(fault), ..MutexExperiment::new(row, ids(5), 1000) };
        let Ok(lost) = plan(TokenFault::Lose).run() else { continue };
        rows_with_token += 1;
        assert!((500..520).contains(&lost.seen.entries), "{}: {} entries", row.name, lost.seen.entries);
        assert!(lost.violations.iter().any(|what| what.starts_with("progress: 5 members")), "{:?}", lost.violations);
        let twice = plan(TokenFault::Duplicate).run().expect("has a token");
        if !twice.violations.is_empty() {
            rows_broken_by_a_copy += 1;
            let all = twice.violations.join("\n");
            assert!(all.contains("exclusion") && all.contains("fencing tokens"), "{}: {all}", row.name);
        }
    }
    assert!(rows_with_token >= 3 && rows_broken_by_a_copy >= 2, "{rows_with_token}, {rows_broken_by_a_copy}");
}

#[test]
fn a_crash_stops_some_algorithms_and_not_others() {
    let all = sim::compare(&ids(5), 100, 1).expect("can be run");
    assert_eq!(all.len(), ROWS.len());
    for one in &all {
        assert_eq!(one.violations().next(), None, "{}", one.row.name);
    }
    let fatal: BTreeSet<usize> = all.iter().map(|one| one.fatal_crashes).collect();
    assert!(fatal.contains(&1), "a clerk that dies stops all, another member none: {fatal:?}");
    assert!(fatal.contains(&5), "where every member must answer, every crash is fatal: {fatal:?}");
}

#[test]
fn a_crash_inside_the_section_keeps_all_others_out() {
    for row in ROWS {
        let alone = MutexExperiment {
            contention: Contention::Script(vec![(1, 1)]),
            readers: 0,
            ..MutexExperiment::new(row, ids(4), 0)
        };
        let (_, recording) = alone.observe(MutexRecording::new(1000)).expect("can be run");
        let entered = recording.events.iter().find(|event| matches!(event.what, MutexWhat::Entered(_)));
        // Sections last one round: at its end the member dies, before it can leave.
        let dies = entered.expect("it enters").at / sim::ROUND + 1;
        let crashes = vec![(1, dies)];
        let contention = Contention::Script(vec![(1, 1), (0, dies + 5), (2, dies + 5), (3, dies + 5)]);
        let report = MutexExperiment { crashes, contention, ..alone }.run().expect("can be run");
        assert_eq!(report.seen.entries, 1, "{}", row.name);
        assert!(report.violations.iter().any(|what| what.starts_with("progress: 3")), "{:?}", report.violations);
    }
}

#[test]
fn two_locks_in_opposite_order_deadlock_and_one_order_for_all_does_not() {
    for row in ROWS {
        for nodes in [2, 5] {
            let table = |ordered| Table { row, ids: ids(nodes), meals: 100, ordered, seed: 1 };
            let stuck = sim::dine(&table(false)).expect("can be run");
            assert!(stuck.meals < stuck.wanted, "{} {nodes}: no deadlock found", row.name);
            assert_eq!(stuck.circle.len(), nodes as usize, "{}: all wait for each other", row.name);
            for wait in &stuck.circle {
                let other = stuck.circle.iter().find(|other| other.member == wait.held_by).expect("in the circle");
                assert_eq!(other.holds, wait.wants, "{}", row.name);
            }
            let done = sim::dine(&table(true)).expect("can be run");
            assert_eq!((done.meals, done.circle.len()), (done.wanted, 0), "{} {nodes}", row.name);
        }
    }
}

/// The textbooks' example: two requests at the same moment, with the timestamps <7,3> and <15,2>.
fn example(row: &'static Row) -> MutexExperiment {
    MutexExperiment {
        contention: Contention::Script(vec![(2, 0), (1, 0)]),
        clocks: vec![(2, 6), (1, 14)],
        readers: 0,
        ..MutexExperiment::new(row, ids(3), 0)
    }
}

#[test]
fn of_two_requests_the_smaller_timestamp_enters_first_although_its_id_is_larger() {
    for row in ROWS.iter().filter(|row| row.fair) {
        let (report, recording) = example(row).observe(MutexRecording::new(1000)).expect("can be run");
        assert!(report.violations.is_empty(), "{:?}", report.violations);
        let order: Vec<usize> = report.seen.first_entries.iter().map(|entry| entry.0).collect();
        assert_eq!(order, [2, 1], "{}", row.name);
        let svg = sim::draw_mutex(row.name, &ids(3), &recording).expect("small");
        super::pictures::well_formed(&svg);
        assert!(svg.contains("asks &lt;7,3&gt;") && svg.contains("asks &lt;15,2&gt;"), "{svg}");
        assert!(svg.contains("3 is inside with token") && svg.contains("2 is inside with token"), "{svg}");
    }
}

#[test]
fn pictures_show_every_message_and_every_section() {
    for row in ROWS {
        let plan = plan(row, 4, 6, Contention::Saturated, Schedule::Random);
        let (report, recording) = plan.observe(MutexRecording::new(1000)).expect("can be run");
        let svg = sim::draw_mutex(row.name, &plan.ids, &recording).expect("small");
        super::pictures::well_formed(&svg);
        assert_eq!(svg.matches("marker-end").count() as u64, report.messages, "{}", row.name);
        assert_eq!(svg.matches("is inside with token").count() as u64, report.seen.entries, "{}", row.name);
        let too_large = MutexExperiment { requests: 10_000, ..plan };
        let (_, recording) = too_large.observe(MutexRecording::new(sim::MAX_DRAWN_MESSAGES)).expect("can be run");
        assert!(sim::draw_mutex(row.name, &ids(4), &recording).unwrap_err().contains("too many"), "{}", row.name);
    }
}

#[test]
fn exports_have_a_clock_on_every_event_of_a_machine_that_has_one() {
    for row in ROWS {
        let plan = plan(row, 4, 8, Contention::Saturated, Schedule::Sync);
        let (_, recording) = plan.observe(MutexRecording::new(1000)).expect("can be run");
        let clocked = recording.events.iter().any(|event| event.clock.is_some());
        let log = sim::shiviz_mutex(&plan.ids, &recording);
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 2 * recording.events.len());
        for pair in lines.chunks(2) {
            let (host, clock) = pair[0].split_once(' ').expect("host and clock");
            let clock: serde_json::Value = serde_json::from_str(clock).expect("a clock is JSON");
            assert!(clock[host].as_u64() >= Some(1), "{pair:?}");
            assert_eq!(pair[1].contains("[clock "), clocked, "{}: {pair:?}", row.name);
        }
        let trace = sim::chrome_mutex(row.name, &plan.ids, &recording);
        let trace: serde_json::Value = serde_json::from_str(&trace).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("events");
        let held = events.iter().filter(|event| event["name"] == "held" && event["ph"] == "B").count();
        let entered = recording.events.iter().filter(|event| matches!(event.what, MutexWhat::Entered(_))).count();
        assert_eq!((held, entered), (8, 8), "{}", row.name);
    }
}

#[test]
fn a_run_by_hand_never_lets_two_in() {
    for row in ROWS {
        let plan = MutexExperiment {
            fifo: row.links == Links::Fifo,
            schedule: Schedule::Random,
            ..MutexExperiment::new(row, ids(4), 1)
        };
        let mut dice = Rng::new(7);
        let entries = sim::step_mutex(&plan, |steps| {
            let mut entries = 0;
            for _ in 0..2000 {
                let choices = steps.choices();
                let choice = dice.index(choices.len());
                let before = steps.inside().len();
                assert!(steps.take(choice));
                let inside = steps.inside().len();
                assert!(inside <= 1, "{}: {:?}", row.name, choices[choice]);
                entries += usize::from(inside > before);
                let left = matches!(choices[choice], MutexChoice::Exit(_));
                assert!(!left || inside < before || inside == 1, "{}", row.name);
            }
            entries
        });
        assert!(entries.expect("can be run") > 20, "{}", row.name);
    }
}

#[test]
fn a_workload_that_cannot_be_run_is_refused() {
    let row = &ROWS[0];
    let good = || MutexExperiment::new(row, ids(3), 10);
    let cases = [
        (MutexExperiment { ids: Vec::new(), ..good() }, "1 to"),
        (MutexExperiment { ids: [1, 1].map(Uid::plain).to_vec(), ..good() }, "twice"),
        (MutexExperiment { fifo: false, ..good() }, "overtake"),
        (MutexExperiment { requesters: Some(vec![3]), ..good() }, "position 3"),
        (MutexExperiment { requesters: Some(Vec::new()), ..good() }, "no member makes requests"),
        (MutexExperiment { fault: Some(TokenFault::Lose), ..good() }, "no token"),
    ];
    for (plan, why) in cases {
        let refused = plan.run().expect_err(why);
        assert!(refused.contains(why), "{refused}");
    }
}
