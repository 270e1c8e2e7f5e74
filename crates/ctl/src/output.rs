//! Data on stdout: tables for operators, one JSON object per line for programs. Colour never carries meaning alone.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use serde::Serialize;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Table,
    Json,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum ColorChoice {
    #[default]
    Auto,
    Always,
    Never,
}

/// How to print, decided once per process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) format: Format,
    color: bool,
    terminal: bool,
}

impl Output {
    pub(crate) fn new(format: Format, choice: ColorChoice) -> Self {
        let terminal = io::stdout().is_terminal();
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let color = match choice {
            ColorChoice::Auto => terminal && wanted,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        };
        Output { format, color, terminal }
    }

    pub(crate) fn is_json(self) -> bool {
        self.format == Format::Json
    }

    pub(crate) fn has_color(self) -> bool {
        self.color
    }

    /// Is stdout a terminal?
    pub(crate) fn is_terminal(self) -> bool {
        self.terminal
    }

    pub(crate) fn line(text: impl AsRef<str>) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{}", text.as_ref())?;
        out.flush()
    }

    /// A text that may name commands to type: they are named as this program was called.
    pub(crate) fn words(text: impl AsRef<str>) -> io::Result<()> {
        Output::line(client::Programs::called().in_words(text.as_ref()))
    }

    pub(crate) fn json(value: &impl Serialize) -> io::Result<()> {
        Output::line(serde_json::to_string(value).map_err(io::Error::other)?)
    }

    /// One line: the document for programs, or this text.
    pub(crate) fn show(self, document: &impl Serialize, text: impl FnOnce() -> String) -> io::Result<()> {
        if self.is_json() { Output::json(document) } else { Output::line(text()) }
    }

    /// The same for a text that may name commands to type.
    pub(crate) fn show_words(self, document: &impl Serialize, text: impl FnOnce() -> String) -> io::Result<()> {
        if self.is_json() { Output::json(document) } else { Output::words(text()) }
    }

    pub(crate) fn paint(self, ink: Ink, text: &str) -> String {
        if self.color { format!("\x1b[{}m{text}\x1b[0m", ink as u8) } else { text.to_owned() }
    }
}

/// SGR codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ink {
    Bold = 1,
    Red = 31,
    Green = 32,
    Yellow = 33,
}

/// Columns as wide as their widest cell. A cell is coloured as a whole, after it was padded.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<(String, Option<Ink>)>>,
    right: Vec<bool>,
}

impl Table {
    /// A heading that begins with `>` aligns its column to the right.
    pub(crate) fn new(headings: &[&str]) -> Self {
        let right = headings.iter().map(|heading| heading.starts_with('>')).collect();
        let header = headings.iter().map(|heading| (heading.trim_start_matches('>').to_owned(), Some(Ink::Bold)));
        Table { rows: vec![header.collect()], right }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = (String, Option<Ink>)>) {
        let cells: Vec<_> = cells.into_iter().collect();
        debug_assert_eq!(cells.len(), self.right.len());
        self.rows.push(cells);
    }

    pub(crate) fn plain(&mut self, cells: impl IntoIterator<Item = String>) {
        self.row(cells.into_iter().map(|cell| (cell, None)));
    }

    pub(crate) fn render(&self, output: Output) -> String {
        let width = |column: usize| self.rows.iter().map(|row| row[column].0.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.right.len()).map(width).collect();
        let mut lines = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            let mut line = String::new();
            for (column, (text, ink)) in row.iter().enumerate() {
                let last = column + 1 == row.len();
                let padded = match (self.right[column], last) {
                    (true, _) => format!("{text:>width$}", width = widths[column]),
                    (false, true) => text.clone(),
                    (false, false) => format!("{text:<width$}", width = widths[column]),
                };
                line += &ink.map_or(padded.clone(), |ink| output.paint(ink, &padded));
                if !last {
                    line += "  ";
                }
            }
            lines.push(line);
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_colour_does_not_move_them() {
        let mut table = Table::new(&["ID", ">SENT", "ADDRESS"]);
        table.row([("1".into(), None), ("7".into(), Some(Ink::Red)), ("a:1".into(), None)]);
        table.plain(["12", "12345", "b:1"].map(String::from));
        let plain = Output { format: Format::Table, color: false, terminal: false };
        assert_eq!(table.render(plain), "ID   SENT  ADDRESS\n1       7  a:1\n12  12345  b:1");
        let colored = table.render(Output { color: true, ..plain });
        assert!(colored.contains("\x1b[31m    7\x1b[0m"), "{colored:?}");
    }
}
