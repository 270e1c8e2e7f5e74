//! `ctl sim` with mutual exclusions: every row of the catalog, exit codes, and what the documents contain.

use algorithms::catalog::mutex::{self, Links, ROWS};
use serde_json::Value;
use testkit::{ctl, stderr, stdout};

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object per line")).collect()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// Runs `ctl` with these words; returns its exit code, stdout and stderr.
async fn run(words: &str) -> (i32, String, String) {
    let output = ctl(&words.split_whitespace().collect::<Vec<_>>()).await;
    (output.status.code().expect("an exit code"), stdout(&output), stderr(&output))
}

#[tokio::test]
async fn every_mutual_exclusion_runs_and_the_same_seed_prints_the_same_bytes() {
    for row in ROWS {
        let words =
            format!("sim run --algorithm {} --nodes 4 --requests 200 --contention random --schedule random", row.name);
        let (code, first, error) = run(&words).await;
        assert_eq!(code, 0, "{}: {error}", row.name);
        assert!(first.contains("200 requests, 200 entries") && first.contains("THEORY"), "{first}");
        assert_eq!(first, run(&words).await.1, "{}", row.name);
        let words = format!("{words} -o json --trials 2");
        let (_, first, _) = run(&words).await;
        assert_eq!(first, run(&words).await.1, "{}", row.name);
        let lines = json_lines(&first);
        assert_eq!(lines.len(), 2);
        assert_eq!((&lines[0]["seed"], &lines[1]["seed"]), (&Value::from(1), &Value::from(2)));
        assert_eq!(lines[0]["schema"], "conclave.sim.mutex/1");
        assert_eq!(lines[0]["entries"], 200);
        assert_eq!(lines[0]["violations"], Value::Array(Vec::new()));
        let total: u64 = lines[0]["messages"]["by_kind"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        assert_eq!(lines[0]["messages"]["total"], total);
    }
}

/// Keys are only ever added.
#[tokio::test]
async fn documents_have_the_keys_that_the_page_lists() {
    let page = std::fs::read_to_string(testkit::root().join("docs/json.md")).expect("the page");
    let name = ROWS[0].name;
    for words in [
        format!("sim run --algorithm {name} --nodes 3 --requests 20 -o json"),
        "sim compare --nodes 3 --requests 20 -o json".to_owned(),
        "sim deadlock --ordered --times 2 -o json".to_owned(),
    ] {
        let (code, text, error) = run(&words).await;
        assert_eq!(code, 0, "{words}: {error}");
        let line = &json_lines(&text)[0];
        let schema = line["schema"].as_str().expect("a schema");
        let row = page.lines().find(|row| row.contains(&format!("`{schema}`"))).expect("a row of the page");
        for key in keys(line).into_iter().filter(|key| *key != "schema") {
            let named = [format!("`{key}`"), format!("`{key}[]`")].iter().any(|name| row.contains(name));
            assert!(named, "docs/json.md does not name {key} of {schema}");
        }
    }
}

#[tokio::test]
async fn broken_links_and_broken_tokens_exit_7_and_say_what_happened() {
    let lamport = mutex::row("lamport").expect("a row");
    assert_eq!(lamport.links, Links::Fifo);
    let (code, _, error) = run("sim run --algorithm lamport --nodes 5 --no-fifo --trials 5 --contention random").await;
    assert_eq!(code, 7);
    assert!(error.contains("exclusion: a member entered while another one was inside"), "{error}");
    let (code, _, error) =
        run("sim run --algorithm ricart-agrawala --nodes 5 --no-fifo --trials 5 --contention random").await;
    assert_eq!(code, 0, "{error}");
    let (code, text, error) = run("sim run --algorithm token-ring --nodes 5 --lose-token").await;
    assert_eq!(code, 7);
    assert!(
        text.contains("the token was lost: no node entered any more") && error.contains("wait for ever"),
        "{text}{error}"
    );
    let (code, text, error) = run("sim run --algorithm suzuki-kasami --nodes 5 --duplicate-token").await;
    assert_eq!(code, 7);
    assert!(text.contains("the token arrived twice") && error.contains("fencing tokens"), "{text}{error}");
}

#[tokio::test]
async fn options_of_the_other_kind_of_algorithm_are_refused() {
    for (words, why) in [
        ("sim run --nodes 3 --requests 5", "--requests is an option of mutual exclusions"),
        ("sim draw --nodes 3 --clock 1=5", "--clock is an option of mutual exclusions"),
        ("sim run --algorithm central --nodes 3 --initiators one", "options of elections"),
        ("sim run --algorithm central --nodes 3 --lose-token", "no token"),
        ("sim run --algorithm central --nodes 3 --readers 10", "no readers"),
        ("sim run --algorithm central --nodes 3 --requesters 9", "no id 9"),
        ("sim run --algorithm central --nodes 3 --clock 1", "id=time"),
        ("sim run --algorithm central --nodes 5000", "1 to 2000"),
    ] {
        let (code, _, error) = run(words).await;
        assert_eq!(code, 2, "{words}: {error}");
        assert!(error.contains(why), "{words}: {error}");
    }
}

#[tokio::test]
async fn the_comparison_has_a_row_for_every_mutual_exclusion() {
    let (code, text, error) = run("sim compare --nodes 5 --requests 100").await;
    assert_eq!(code, 0, "{error}");
    for row in ROWS {
        assert!(text.lines().any(|line| line.split_whitespace().next() == Some(row.name)), "{}: {text}", row.name);
    }
    let (_, json, _) = run("sim compare --nodes 5 --requests 100 -o json").await;
    assert_eq!(json_lines(&json).len(), ROWS.len());
}

#[tokio::test]
async fn a_deadlock_is_found_and_ordered_locks_have_none() {
    let (code, text, error) = run("sim deadlock").await;
    assert_eq!(code, 7, "{text}");
    assert!(text.contains("node 1 holds lock 1 and waits for lock 2, which node 2 holds"), "{text}");
    assert!(error.contains("ctl sim deadlock --ordered"), "{error}");
    let (code, text, error) = run("sim deadlock --ordered").await;
    assert_eq!(code, 0, "{error}");
    assert!(text.contains("200 of 200 times"), "{text}");
}

#[tokio::test]
async fn the_example_of_the_textbooks_is_drawn_and_exported() {
    let example = "--algorithm ricart-agrawala --ids 1,2,3 --clock 3=6,2=14 --request 3,2";
    let (code, svg, error) = run(&format!("sim draw {example}")).await;
    assert_eq!(code, 0, "{error}");
    assert!(svg.contains("asks &lt;7,3&gt;") && svg.contains("asks &lt;15,2&gt;"), "{svg}");
    let (_, log, _) = run(&format!("sim export --format shiviz {example}")).await;
    let first = log.find("enter with token 1 <7,3>").expect("node 3 enters");
    let second = log.find("enter with token 2 <15,2>").expect("node 2 enters");
    assert!(first < second && log.contains("[clock 15]"), "{log}");
    let (_, trace, _) = run(&format!("sim export --format chrome {example}")).await;
    assert!(trace.contains("\"held\"") && trace.contains("\"clock\":7"), "{trace}");
}
