//! `docs/json.md` describes every object that `ctl -o json` prints: real output is compared with the page, key by key.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use algorithms::catalog;
use serde_json::Value;
use testkit::{Live, Plan, Scratch, ctl, root, stderr, stdout};

/// What the page says of each schema: every word in backticks, `[]` dropped.
struct Page(BTreeMap<String, BTreeSet<String>>);

/// Objects whose keys are data: kinds of messages.
const MAPS: &[&str] = &["by_kind", "sent"];

impl Page {
    fn read() -> Self {
        let text = fs::read_to_string(root().join("docs/json.md")).expect("docs/json.md");
        let mut schemas: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for paragraph in text.split("\n\n").flat_map(|part| part.split("\n|")) {
            let words: Vec<&str> = paragraph.split('`').skip(1).step_by(2).collect();
            for schema in words.iter().filter(|word| word.starts_with("conclave.")) {
                let keys = words.iter().map(|word| word.trim_end_matches("[]").to_owned());
                schemas.entry((*schema).to_owned()).or_default().extend(keys);
            }
        }
        Page(schemas)
    }

    /// Fails where an object has a key that the page does not name.
    fn describes(&self, document: &Value) {
        let schema = document["schema"].as_str().unwrap_or_else(|| panic!("no schema: {document}"));
        let known = self.0.get(schema).unwrap_or_else(|| panic!("docs/json.md does not describe {schema}"));
        let unknown: Vec<String> =
            keys(document).into_iter().filter(|key| key != "schema" && !known.contains(key)).collect();
        assert!(unknown.is_empty(), "docs/json.md does not name {unknown:?} of {schema}: {document}");
    }

    /// Runs the command and compares every line; returns how many there are.
    async fn compare(&self, words: &[&str]) -> usize {
        let output = ctl(&[words, &["-o", "json"]].concat()).await;
        let text = stdout(&output);
        assert!(!text.is_empty(), "{words:?}: {}", stderr(&output));
        text.lines().inspect(|line| self.describes(&serde_json::from_str(line).expect("JSON"))).count()
    }
}

fn keys(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(keys).collect(),
        Value::Object(object) => {
            let below =
                object.iter().filter(|(key, _)| !MAPS.contains(&key.as_str())).flat_map(|(_, value)| keys(value));
            below.chain(object.keys().cloned()).collect()
        }
        _ => BTreeSet::new(),
    }
}

/// Every schema that stands in the sources of the crates.
fn schemas(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            schemas(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("source");
            let quoted = text.split("\"conclave.").skip(1).filter_map(|rest| rest.split_once('"'));
            // A schema inside a string has a backslash before its quote.
            let names = quoted.map(|(name, _)| name.trim_end_matches('\\')).filter(|name| name.contains('/'));
            found.extend(names.map(|name| format!("conclave.{name}")));
        }
    }
}

#[test]
fn every_schema_is_on_the_page() {
    let (page, mut found) = (Page::read(), BTreeSet::new());
    for package in ["client", "ctl", "face", "node", "sim"] {
        schemas(&root().join("crates").join(package).join("src"), &mut found);
    }
    assert!(found.len() > 30, "{found:?}");
    let missing: Vec<&String> = found.iter().filter(|schema| !page.0.contains_key(*schema)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[tokio::test]
async fn the_page_names_every_key_of_commands_without_a_cluster() {
    let (page, scratch) = (Page::read(), Scratch::new("json").unwrap());
    let path = |name: &str| scratch.path().join(name).display().to_string();
    let (plain, tls, fence) = (path("plain"), path("tls"), path("fence"));
    let commands: &[&[&str]] = &[
        &["algorithms"],
        &["sim", "run", "--ids", "1,2,3", "--crash", "3"],
        &["sim", "run", "--algorithm", "maekawa", "--nodes", "4", "--requests", "10"],
        &["sim", "compare", "--nodes", "4"],
        &["sim", "deadlock"],
        &["sim", "faults", "--algorithm", "bully", "--seeds", "1"],
        &["sim", "sweep", "--algorithm", "bully", "--largest", "4", "--trials", "1"],
        &["bench", "sim", "-n", "1000", "--trials", "1"],
        &["init", "-n", "1", "a", "--dir", &plain],
        &["init", "-n", "1", "a", "--tls", "--dir", &tls],
        &["fence-check", &fence, "7"],
    ];
    for words in commands {
        page.compare(words).await;
    }
    page.compare(&["--secret-file", &format!("{plain}/secret"), "secret", "derive", "--access", "reader"]).await;
    let failed = ctl(&["--endpoints", "127.0.0.1:1", "--cluster", "c", "leader", "-o", "json"]).await;
    page.describes(&serde_json::from_str(stderr(&failed).trim()).expect("an error in JSON"));
}

#[tokio::test]
async fn the_page_names_every_key_of_commands_that_ask_a_cluster() {
    let page = Page::read();
    let row = catalog::row(catalog::DEFAULT).expect("the default row");
    let plan = Plan { safety: types::Safety::Quorum, chaos: true, ..Plan::new(3, row) };
    let mut live = Live::start(&plan);
    live.agreement_on(3, &[1, 2, 3]).await;
    let config = live.cluster.config().display().to_string();
    let commands: &[&[&str]] = &[
        &["leader"],
        &["status"],
        &["locks"],
        &["member", "list"],
        &["member", "promote", "1"],
        &["priority", "1", "0"],
        &["secret", "reload"],
        &["chaos", "delay", "1", "2", "1ms"],
        &["chaos", "heal"],
        &["transfer", "2"],
        &["demo", "counter", "--times", "1", "--processes", "1"],
        &["history"],
        &["history", "--at", "-0s"],
        &["audit"],
        &["explain"],
    ];
    for words in commands {
        page.compare(&[&["--config", config.as_str()], *words].concat()).await;
    }
    let asked = live.client(1).await;
    let mut watch = asked.watch_everything().await.expect("a stream");
    let now = watch.next_announcement().await.expect("an announcement").expect("the present standing");
    page.describes(&serde_json::to_value(client::json::Event::announced(&now, "a:1")).expect("JSON"));
    let directory = live.cluster.data_directory(1).display().to_string();
    live.kill_all(&[1, 2, 3]).await;
    page.compare(&["--config", &config, "member", "survey", &directory]).await;
}
