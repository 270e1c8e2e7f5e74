//! Pictures, exports, sweeps and runs by hand, over the whole catalog.

use std::collections::BTreeSet;

use algorithms::catalog;
use algorithms::{Topology, Uid};
use sim::{Choice, Experiment, Initiators, Order, Recording, Schedule, SweepOptions, Verdict, step_through};

fn recorded(experiment: &Experiment) -> Recording {
    experiment.observe(Recording::new(1000)).expect("can be run").1
}

/// Tags open and close in order: enough to know that a viewer accepts the picture.
pub(crate) fn well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("every tag ends");
        let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap_or("").trim_end_matches('/');
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "{svg}");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_small_run_is_drawn_arrow_by_arrow_with_hover_text() {
    for row in catalog::ROWS {
        for schedule in [Schedule::Sync, Schedule::Random] {
            let experiment = Experiment { schedule, ..Experiment::new(row, Order::Random.ids(5, 2)) };
            let recording = recorded(&experiment);
            let svg = sim::draw(row.name, &experiment.ids, &recording);
            well_formed(&svg);
            assert_eq!(svg.matches("marker-end").count(), recording.messages.len(), "{}", row.name);
            assert!(svg.contains(" wins, round"), "{}", row.name);
        }
    }
}

#[test]
fn a_large_run_says_what_it_left_out() {
    let row = sim::bench_row();
    let experiment = Experiment::new(row, Order::Random.ids(5000, 2));
    let recording = recorded(&experiment);
    let svg = sim::draw(row.name, &experiment.ids, &recording);
    well_formed(&svg);
    assert!(svg.contains("left out") && svg.contains("5000 nodes"));
    assert!(svg.len() < 200_000);
    let counted: u64 = recording.rounds.iter().map(|round| round.messages).sum();
    assert_eq!(counted, experiment.run().expect("can be run").messages.total);
}

#[test]
fn a_crash_is_drawn_and_its_messages_are_shown_as_lost() {
    let row = catalog::ROWS.iter().find(|row| row.topology == Topology::Mesh).expect("there is a mesh row");
    let ids: Vec<Uid> = (1..=4).map(Uid::plain).collect();
    let initiators = Initiators::At(vec![0]);
    let experiment = Experiment { crashes: vec![(3, 0)], initiators, ..Experiment::new(row, ids) };
    let svg = sim::draw(row.name, &experiment.ids, &recorded(&experiment));
    assert!(svg.contains("4 dies") && svg.contains("lost: the receiver is dead"));
}

#[test]
fn a_shiviz_log_has_a_clock_per_event_and_receivers_know_their_senders() {
    for row in catalog::ROWS {
        let experiment = Experiment::new(row, Order::Random.ids(4, 1));
        let recording = recorded(&experiment);
        let log = sim::shiviz(&experiment.ids, &recording);
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len() % 2, 0);
        // ShiViz expects its regular expression in the first line and a separator of executions in the second.
        assert_eq!(lines[..2], [r"(?<event>.*)\n(?<host>\S*) (?<clock>{.*})", ""]);
        assert!(lines.len() > 2);
        for pair in lines[2..].chunks(2) {
            let (host, clock) = pair[1].split_once(' ').expect("host and clock");
            let clock: serde_json::Value = serde_json::from_str(clock).expect("a clock is JSON");
            assert!(clock[host].as_u64() >= Some(1), "{pair:?}");
            if let Some(rest) = pair[0].strip_prefix("receive ") {
                let from = rest.split(" from ").nth(1).and_then(|rest| rest.split(':').next()).expect("a sender");
                assert!(clock[format!("n{from}")].as_u64() >= Some(1), "{pair:?}");
            }
        }
    }
}

#[test]
fn a_chrome_trace_is_json_with_one_arrow_per_delivery() {
    let row = sim::bench_row();
    let experiment = Experiment::new(row, Order::Random.ids(6, 1));
    let recording = recorded(&experiment);
    let trace: serde_json::Value =
        serde_json::from_str(&sim::chrome(row.name, &experiment.ids, &recording)).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert_eq!(of("s"), recording.messages.len());
    assert_eq!(of("f"), recording.messages.len());
}

#[test]
fn a_sweep_skips_what_is_over_budget_and_says_so() {
    let mut options = SweepOptions::new(catalog::ROWS.iter().collect(), 64);
    options.trials = 3;
    options.budget = 3000.0;
    let report = sim::sweep(&options, |_, _| {});
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    assert!(report.skipped.iter().any(|skipped| skipped.contains("the budget is")), "{:?}", report.skipped);
    assert_eq!(report.rows.len() + report.skipped.len(), options.rows.len() * options.sizes.len());
    assert_eq!(report.csv().lines().count(), report.rows.len() + 1);
    assert_eq!(report, sim::sweep(&options, |_, _| {}));
    let svg = report.svg("messages");
    well_formed(&svg);
    assert!(svg.contains("left out: "));
    // Only the legend has lines of this length.
    let looks = svg.lines().filter(|line| line.contains("h32\"")).filter_map(|line| line.split_once("h32"));
    let looks: BTreeSet<&str> = looks.map(|(_, look)| look).collect();
    assert_eq!(looks.len(), options.rows.len(), "every algorithm looks different: {looks:?}");
}

#[test]
fn by_hand_any_choice_leads_to_one_leader_and_choices_keep_each_link_in_order() {
    for row in catalog::ROWS {
        let experiment = Experiment::new(row, Order::Random.ids(4, 3));
        let outcome = step_through(&experiment, |steps| {
            for turn in 0..10_000 {
                let choices = steps.choices();
                if choices.is_empty() {
                    break;
                }
                // Always another one: a schedule no other test has.
                assert!(steps.take(turn * 7 % choices.len()));
                assert!(!matches!(choices[0], Choice::Timer { .. }) || choices.len() == 1);
            }
            assert!(!steps.take(usize::MAX));
            assert_eq!(steps.states().len(), 4);
            steps.verdicts().iter().filter(|verdict| **verdict == Verdict::Won).count()
        });
        match outcome {
            Ok(winners) => assert_eq!(winners, 1, "{}", row.name),
            Err(why) => assert!(why.contains("synchronous"), "{why}"),
        }
    }
}

#[test]
fn the_summary_of_a_large_run_counts_senders_and_shows_single_messages_and_whole_sentences() {
    let row = sim::bench_row();
    for (initiators, schedule) in [(Initiators::All, Schedule::Random), (Initiators::At(vec![0]), Schedule::Sync)] {
        let experiment = Experiment { initiators, schedule, ..Experiment::new(row, Order::Decreasing.ids(100, 1)) };
        let recording = recorded(&experiment);
        assert!(recording.rounds.iter().all(|round| round.senders <= 100 && round.senders <= round.messages));
        assert!(recording.rounds.iter().any(|round| round.senders > 0));
        let svg = sim::draw(row.name, &experiment.ids, &recording);
        well_formed(&svg);
        let bars = svg.lines().filter(|line| line.contains("messages of")).collect::<Vec<_>>();
        assert!(bars.iter().any(|bar| bar.contains(": 1 messages")) || experiment.schedule == Schedule::Random);
        assert!(bars.iter().all(|bar| bar.contains(": 0 messages") || !bar.contains("height=\"0.0\"")), "{bars:?}");
        let longest = svg.lines().filter(|line| line.contains("<text")).map(str::len).max();
        assert!(longest < Some(200), "a sentence of {longest:?} characters is cut off at the edge");
    }
}

#[test]
fn a_sweep_names_the_theory_it_divides_by_and_does_not_overrate_chance() {
    let options = SweepOptions { trials: 1, ..SweepOptions::new(catalog::ROWS.iter().collect(), 1024) };
    let chance = catalog::ROWS.iter().find(|row| row.elects == catalog::Elects::Anyone).expect("a row");
    let report = sim::sweep(&SweepOptions { rows: vec![chance], ..options.clone() }, |_, _| {});
    assert_eq!(report.skipped, [""; 0]);
    let likely = Experiment::new(chance, Order::Random.ids(1024, 1)).likely_messages();
    let measured = report.rows.last().expect("1024 nodes").election_mean;
    assert!((0.3..3.0).contains(&(likely / measured)), "{likely} against {measured}");
    let few = sim::sweep(&SweepOptions { sizes: vec![4], ..options }, |_, _| {});
    let said = few.divisors().join("\n");
    assert!(catalog::ROWS.iter().all(|row| said.contains(row.name)), "{said}");
    assert!(said.contains("the mean over all orders: ") && said.contains("the worst case: "), "{said}");
    assert!(few.svg("messages").contains("theory is the worst case"));
}
