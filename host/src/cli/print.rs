//! Standard output: JSON, or text for people. Whatever came from outside is
//! escaped before a terminal shows it.

use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::rules::escape::{escape_json, escape_line};

/// Prints answers in the shape that was asked for.
pub(super) struct Printer {
    json: bool,
}

impl Printer {
    pub(super) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Prints `value` as JSON, or else `text`, whose lines are escaped.
    pub(super) fn answer(
        &self,
        value: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<()> {
        if self.json {
            let json = serde_json::to_string(value).context("the answer is no JSON")?;
            return write(&escape_json(&json));
        }
        let text = text();
        let lines: Vec<String> = text.lines().map(escape_line).collect();
        write(&lines.join("\n"))
    }

    /// A remark for people, beside the output.
    pub(super) fn note(&self, text: &str) {
        if !self.json {
            let _closed = writeln!(std::io::stderr(), "{}", escape_line(text));
        }
    }
}

/// A reader that has seen enough closes the pipe; that is no failure.
fn write(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let end = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    match write!(out, "{text}{end}").and_then(|()| out.flush()) {
        Err(cause) if cause.kind() != ErrorKind::BrokenPipe => {
            Err(cause).context("could not write to standard output")
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Lines with aligned columns; the last column is as long as it is. Cells are
/// escaped here already, so that none of them breaks a line.
pub(super) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let rows: Vec<Vec<String>> = std::iter::once(head.map(str::to_owned))
        .chain(rows.iter().cloned())
        .map(|row| row.iter().map(|cell| escape_line(cell)).collect())
        .collect();
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_cannot_leave_its_line() {
        let rows = [
            ["a".to_owned(), "x\ny\u{1b}[2K".to_owned()],
            ["long".to_owned(), String::new()],
        ];
        assert_eq!(
            table(["ONE", "TWO"], &rows),
            "ONE   TWO\na     x\\u{a}y\\u{1b}[2K\nlong\n"
        );
    }
}
