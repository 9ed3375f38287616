//! Formats change points as a table or as JSON. Pure.

use std::fmt::Write as _;

use serde::{
    Serialize,
    ser::{SerializeMap as _, Serializer},
};
use wingbeat_stats::changes::{Change, POINTS_MIN};
use wingbeat_text::{Paint, Side, exponential, grouped, or_dash, paragraph, rounded, rows, share};

use super::Found;
use crate::shell::json_text;

/// A table with one line per change, followed by the number of series without any. Shortens names to fit the width.
pub(super) fn human(found: &[Found], labels: Option<&[String]>, width: usize) -> String {
    let mut lines: Vec<Vec<String>> = Vec::new();
    for Found { series, changes } in found {
        for change in changes {
            let (before, after) = levels(change);
            let mut line = vec![series.name.clone(), change.index.to_string()];
            // A label may be anything, even several lines.
            line.extend(
                labels.map(|labels| label(labels, change.index).replace(char::is_control, " ")),
            );
            let relative = or_dash(change.relative(), share::change);
            line.extend([before, "→".to_owned(), after, relative, chance(change.p_value)]);
            lines.push(line);
        }
    }
    let mut text = String::new();
    if !lines.is_empty() {
        let mut head = vec![("series", Side::Name), ("index", Side::Right)];
        head.extend(labels.map(|_| ("label", Side::Name)));
        head.extend(["before", "", "after", "change", "p"].map(|heading| (heading, Side::Right)));
        text.push_str(&rows(&head, &lines, width, Paint { has_colours: true }));
    }
    let quiet = found.iter().filter(|found| found.changes.is_empty()).count();
    if quiet > 0 {
        let (quiet, all) = (grouped(quiet), grouped(found.len()));
        let gap = if lines.is_empty() { "" } else { "\n" };
        let short = short(found).map_or_else(String::new, |short| format!("; {short}"));
        let told = paragraph(&format!("no change in {quiet} of {all} series{short}"), 2, width);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{gap}{told}");
    }
    text
}

/// Sentence about the number of series that are too short for a change.
pub(super) fn short(found: &[Found]) -> Option<String> {
    let short = found.iter().filter(|found| found.is_short()).count();
    let has = if short == 1 { "has" } else { "have" };
    (short > 0).then(|| {
        let (short, all) = (grouped(short), grouped(found.len()));
        format!(
            "{short} of {all} series {has} fewer than {POINTS_MIN} values, too few for a change"
        )
    })
}

fn label(labels: &[String], index: usize) -> &str {
    labels.get(index).map_or("", String::as_str)
}

/// Both levels, with enough digits to show their difference to two digits.
fn levels(change: &Change) -> (String, String) {
    let (before, after) = (change.before, change.after);
    let largest = before.abs().max(after.abs());
    let difference = (after - before).abs();
    if !(1e-4..1e15).contains(&largest) {
        return (exponential(before, 3), exponential(after, 3));
    }
    let decimals = (1.0 - difference.log10().floor()).clamp(0.0, 12.0) as usize;
    (rounded(before, decimals), rounded(after, decimals))
}

fn chance(p: f64) -> String {
    if p < 1e-9 { "<1e−9".to_owned() } else { exponential(p, 1) }
}

/// `{"series": {"name": [{"index", "before", "after", "change", "p"}]}}`, all series in order.
pub(super) fn json(found: &[Found], labels: Option<&[String]>) -> anyhow::Result<String> {
    json_text(1, &Json { series: JsonSeries { found, labels } })
}

#[derive(Serialize)]
struct Json<'a> {
    series: JsonSeries<'a>,
}

struct JsonSeries<'a> {
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

impl Serialize for JsonSeries<'_> {
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
