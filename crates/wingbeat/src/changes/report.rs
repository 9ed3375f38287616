//! What was found, as a table or as JSON. Pure.

use std::fmt::Write as _;

use owo_colors::OwoColorize as _;
use serde::{
    Serialize,
    ser::{SerializeMap as _, Serializer},
};
use unicode_width::UnicodeWidthStr as _;
use wingbeat_stats::changes::Change;
use wingbeat_track::output::number;

use super::Found;

/// A line for each change, in columns; then how many series have none.
pub(super) fn human(found: &[Found], labels: Option<&[String]>) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for Found { series, changes } in found {
        for change in changes {
            let (before, after) = levels(change);
            let mut row = vec![series.name.clone(), change.index.to_string()];
            row.extend(labels.map(|labels| label(labels, change.index).to_owned()));
            row.extend([before, "→".to_owned(), after, percent(change), chance(change.p_value)]);
            rows.push(row);
        }
    }
    let mut text = String::new();
    if !rows.is_empty() {
        let mut head = vec!["series", "index"];
        head.extend(labels.map(|_| "label"));
        head.extend(["before", "", "after", "change", "p"]);
        text.push_str(&columns(&head, &rows, if labels.is_some() { 3 } else { 1 }));
    }
    let quiet = found.iter().filter(|found| found.changes.is_empty()).count();
    if quiet > 0 {
        let (quiet, all) = (number::count(quiet), number::count(found.len()));
        let gap = if rows.is_empty() { "" } else { "\n" };
        // Writing into a string does not fail.
        let _ = writeln!(text, "{gap}no change in {quiet} of {all} series");
    }
    text
}

/// Series and labels stand at the left of their column, the rest at its right.
fn columns(head: &[&str], rows: &[Vec<String>], left: usize) -> String {
    let widths: Vec<usize> = (0..head.len())
        .map(|at| rows.iter().map(|row| row[at].width()).fold(head[at].width(), usize::max))
        .collect();
    let line = |cells: &[&str]| {
        let mut line = String::new();
        for (at, cell) in cells.iter().enumerate() {
            let fill = " ".repeat(widths[at] - cell.width());
            let gap = if at == 0 { "" } else { "  " };
            let is_left = at == 0 || at + 1 == left;
            let (before, after) = if is_left { ("", &*fill) } else { (&*fill, "") };
            let _ = write!(line, "{gap}{before}{cell}{after}");
        }
        line.truncate(line.trim_end().len());
        line
    };
    let mut text = format!("{}\n", line(head).dimmed());
    for row in rows {
        text.push_str(&line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
        text.push('\n');
    }
    text
}

fn label(labels: &[String], index: usize) -> &str {
    labels.get(index).map_or("", String::as_str)
}

/// Both levels with as many digits as it takes to tell them apart by two.
fn levels(change: &Change) -> (String, String) {
    let (before, after) = (change.before, change.after);
    let largest = before.abs().max(after.abs());
    let difference = (after - before).abs();
    if !(1e-4..1e15).contains(&largest) {
        return (number::exponential(before, 3), number::exponential(after, 3));
    }
    let decimals = (1.0 - difference.log10().floor()).clamp(0.0, 12.0) as usize;
    (number::rounded(before, decimals), number::rounded(after, decimals))
}

fn percent(change: &Change) -> String {
    change.relative().map_or_else(|| "–".to_owned(), number::change)
}

fn chance(p: f64) -> String {
    if p < 1e-9 { "<1e−9".to_owned() } else { number::exponential(p, 1) }
}

/// `{"name": [{"index", "before", "after", "change", "p"}]}`, all series in their order.
pub(super) fn json(
    found: &[Found],
    labels: Option<&[String]>,
) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string_pretty(&Json { found, labels })?;
    text.push('\n');
    Ok(text)
}

struct Json<'a> {
    found: &'a [Found],
    labels: Option<&'a [String]>,
}

#[derive(Serialize)]
struct JsonChange<'a> {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    before: f64,
    after: f64,
    change: Option<f64>,
    p: f64,
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.found.len()))?;
        for Found { series, changes } in self.found {
            let changes = changes.iter().map(|change| JsonChange {
                index: change.index,
                label: self.labels.map(|labels| label(labels, change.index)),
                before: change.before,
                after: change.after,
                change: change.relative(),
                p: change.p_value,
            });
            map.serialize_entry(&series.name, &changes.collect::<Vec<_>>())?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests;
