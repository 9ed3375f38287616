//! What was found, as a table or as JSON. Pure.

use std::fmt::Write as _;

use owo_colors::OwoColorize as _;
use serde::{
    Serialize,
    ser::{SerializeMap as _, Serializer},
};
use unicode_width::UnicodeWidthStr as _;
use wingbeat_stats::changes::{Change, POINTS_MIN};
use wingbeat_track::output::{number, paragraph, shortened};

use super::Found;
use crate::store::table::shared;

/// A line for each change, in columns; then how many series have none. Names are shortened as far as it
/// takes to fit them into that many columns.
pub(super) fn human(found: &[Found], labels: Option<&[String]>, width: usize) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for Found { series, changes } in found {
        for change in changes {
            let (before, after) = levels(change);
            let mut row = vec![series.name.clone(), change.index.to_string()];
            // A label may be anything, also more than a line.
            row.extend(
                labels.map(|labels| label(labels, change.index).replace(char::is_control, " ")),
            );
            row.extend([before, "→".to_owned(), after, percent(change), chance(change.p_value)]);
            rows.push(row);
        }
    }
    let mut text = String::new();
    if !rows.is_empty() {
        let mut head = vec!["series", "index"];
        head.extend(labels.map(|_| "label"));
        head.extend(["before", "", "after", "change", "p"]);
        let names: &[usize] = if labels.is_some() { &[0, 2] } else { &[0] };
        fit(&head, &mut rows, names, width);
        text.push_str(&columns(&head, &rows, names));
    }
    let quiet = found.iter().filter(|found| found.changes.is_empty()).count();
    if quiet > 0 {
        let (quiet, all) = (number::count(quiet), number::count(found.len()));
        let gap = if rows.is_empty() { "" } else { "\n" };
        let short = short(found).map_or_else(String::new, |short| format!("; {short}"));
        let told = paragraph(&format!("no change in {quiet} of {all} series{short}"), 2, width);
        // Writing into a string does not fail.
        let _ = writeln!(text, "{gap}{told}");
    }
    text
}

/// How many series are too short for a change, as a sentence.
pub(super) fn short(found: &[Found]) -> Option<String> {
    let short = found.iter().filter(|found| found.is_short()).count();
    let has = if short == 1 { "has" } else { "have" };
    (short > 0).then(|| {
        let (short, all) = (number::count(short), number::count(found.len()));
        format!(
            "{short} of {all} series {has} fewer than {POINTS_MIN} values, too few for a change"
        )
    })
}

/// Shortens the cells of columns that hold names, the widest first, until all columns fit into a line.
fn fit(head: &[&str], rows: &mut [Vec<String>], names: &[usize], width: usize) {
    let widest = |rows: &[Vec<String>], at: usize| {
        rows.iter().map(|row| row[at].width()).fold(head[at].width(), usize::max)
    };
    let others = (0..head.len()).filter(|at| !names.contains(at));
    let gaps = 2 * (head.len() - 1);
    let taken = others.map(|at| widest(rows, at)).sum::<usize>() + gaps;
    let room = width.saturating_sub(taken);
    let wanted: Vec<usize> = names.iter().map(|&at| widest(rows, at)).collect();
    for (&at, most) in names.iter().zip(shared(&wanted, room, NAME_MIN)) {
        for row in rows.iter_mut() {
            row[at] = shortened(&row[at], most);
        }
    }
}

/// Columns that a name keeps, however narrow the terminal.
const NAME_MIN: usize = 8;

/// Names stand at the left of their column, the rest at its right.
fn columns(head: &[&str], rows: &[Vec<String>], names: &[usize]) -> String {
    let widths: Vec<usize> = (0..head.len())
        .map(|at| rows.iter().map(|row| row[at].width()).fold(head[at].width(), usize::max))
        .collect();
    let line = |cells: &[&str]| {
        let mut line = String::new();
        for (at, cell) in cells.iter().enumerate() {
            let fill = " ".repeat(widths[at] - cell.width());
            let gap = if at == 0 { "" } else { "  " };
            let (before, after) = if names.contains(&at) { ("", &*fill) } else { (&*fill, "") };
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
