//! An operator's file: the target, its first inputs and its dictionary, all made from the example of the project, which
//! has every key.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use node::config::{Config, EXAMPLE};

/// Values at the ends of what keys take, and beyond. Some are parts of values: digits that make a number too large wherever
/// they are inserted, and characters of several bytes.
const EXTREME: &[&str] = &[
    "999999999",
    // Instead of the value that follows.
    "\"999999999h\" #",
    "\"999999999m\" #",
    "\"\" #",
    "0 #",
    "18446744073709551616",
    "65536",
    "-1",
    "0.0",
    "nan",
    "h",
    "ns",
    "é",
    "€€€€€€",
    "[::1]:0",
    "[[",
    "\"\"",
];

/// A file; or, behind a zero byte, the number of a key of the example and a value for it.
pub fn config(bytes: &[u8]) {
    static KEYS: OnceLock<Vec<Key>> = OnceLock::new();
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Some(chosen) = text.strip_prefix('\0') else { return parse(text) };
    let (keys, mut rest) = (KEYS.get_or_init(keys), chosen.chars());
    let Key { table, name, .. } = keys[rest.next().map_or(0, |number| number as usize) % keys.len()];
    parse(&format!("{table}\n{name} = {}\n", rest.as_str()));
}

/// A config without a problem gives every derived value.
fn parse(text: &str) {
    match Config::parse(text, Path::new("cluster.toml")) {
        Err(problems) => assert!(!problems.to_string().is_empty(), "a refusal says why"),
        Ok(config) => {
            config.facts();
            config.votes_digest();
            for peer in &config.peers {
                config.listen_address(peer.id);
            }
        }
    }
}

/// The lines of a config, also the keys that stand in comments with their defaults, without what is said of them.
fn lines(config: &str) -> Vec<&str> {
    let is_key = |line: &str| {
        let key = line.split_once(" = ").map_or("", |(key, _)| key);
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let written = config.lines().map(|line| line.trim_start_matches(['#', ' ']));
    let written = written.map(|line| line.split(" #").next().unwrap_or(line).trim_end());
    written.filter(|line| line.starts_with('[') || is_key(line)).collect()
}

struct Key {
    /// The line that begins its table.
    table: &'static str,
    name: &'static str,
    value: &'static str,
}

/// Every key of the example.
fn keys() -> Vec<Key> {
    let (mut table, mut keys) = ("", Vec::new());
    for line in lines(EXAMPLE) {
        match line.split_once(" = ") {
            None => table = line,
            Some((name, value)) => keys.push(Key { table, name, value }),
        }
    }
    keys
}

/// Every table with the keys that the example writes below it.
fn tables() -> Vec<String> {
    let mut tables: Vec<String> = Vec::new();
    for line in lines(EXAMPLE) {
        if line.starts_with('[') {
            tables.push(String::new());
        }
        if let Some(table) = tables.last_mut() {
            *table += &format!("{line}\n");
        }
    }
    tables
}

/// The first inputs: all configs of the project, the tables of the example, and every key with its value and with every extreme one.
/// Mutations alone missed a duration that overflows in 400,000 executions.
pub fn seeds() -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config");
    let entries = fs::read_dir(directory).expect("the configs of the project");
    let files = entries.map(|entry| entry.expect("a config").path());
    let tomls = files.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let configs = tomls.map(|path| fs::read_to_string(path).expect("a config")).map(|text| lines(&text).join("\n"));
    let numbered = (0_u8..).zip(keys()).flat_map(|(number, key)| {
        let values = std::iter::once(key.value).chain(EXTREME.iter().copied());
        values.map(move |value| format!("\0{}{value}", char::from(number)))
    });
    configs.chain(tables()).chain(numbered).map(String::into_bytes).collect()
}

/// Words that a mutation inserts or writes over others: every table, key and value of the example.
pub fn dictionary() -> String {
    let mut words: BTreeSet<String> = EXTREME.iter().map(|&word| word.to_owned()).collect();
    for line in lines(EXAMPLE) {
        let (key, value) = line.split_once(" = ").unwrap_or((line, ""));
        words.extend([format!("\n{line}\n"), format!("{key} = "), value.to_owned(), value.replace('"', "")]);
    }
    words.remove("");
    let quoted = |word: String| {
        let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\' || byte == b' ';
        let bytes =
            word.bytes().map(|byte| if plain(byte) { char::from(byte).into() } else { format!("\\x{byte:02X}") });
        format!("\"{}\"\n", bytes.collect::<String>())
    };
    words.into_iter().map(quoted).collect()
}
