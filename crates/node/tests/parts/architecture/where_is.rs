//! The table "Where is ...?" of ARCHITECTURE.md: every file is there, and defines what the table says.

use std::fs;
use std::path::Path;

/// The code in backquotes of a cell.
fn code(cell: &str) -> &str {
    cell.split('`').nth(1).unwrap_or_else(|| panic!("no code in the cell {cell:?}"))
}

#[test]
fn every_answer_of_the_table_names_a_file_and_a_definition_in_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("the page");
    let (_, section) = page.split_once("\n## Where is ...?\n").expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows: Vec<Vec<&str>> = section
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('`'))
        .map(|line| line.trim_matches('|').split('|').collect())
        .collect();
    assert!(rows.len() >= 12, "{} rows", rows.len());
    for row in rows {
        let [_, file, definition] = row[..] else { panic!("three cells, not {row:?}") };
        let (file, definition) = (code(file), code(definition));
        let source = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let ends = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
        let defines = source.match_indices(definition).any(|(at, found)| ends(&source[at + found.len()..]));
        assert!(defines, "{file} does not define `{definition}`");
    }
}
