//! Results as text: human-readable tables, complete JSON, Bencher Metric Format, CSV with veristat's columns.
//!
//! Pure: no kernel, no clock, no files. The same result gives the same text. `docs/bench.md` explains the figures.

mod bmf;
mod columns;
mod comparison;
mod csv;
mod details;
mod human;
mod notes;
mod ranking;
mod verdict;
pub mod veristat;

use std::{collections::HashMap, hash::Hash, io};

use serde::Serialize;

pub(crate) use self::csv::{real, whole};
pub use self::{
    bmf::bmf,
    comparison::comparison,
    csv::csv,
    human::{errors, human},
};
pub use wingbeat_text::Style;

use crate::result::{BenchReport, Comparison};

/// Minimum line width for narrower terminals: fewer characters cannot hold a table.
const WIDTH_MIN: usize = 60;

/// Groups values by key, both in order of first appearance.
fn by_key<K: Hash + Eq + Clone, V>(pairs: impl Iterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut places: HashMap<K, usize> = HashMap::new();
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        let place = *places.entry(key.clone()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

fn width_of(style: Style) -> usize {
    style.width.max(WIDTH_MIN)
}

/// Output format of a result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Human,
    Json,
    /// Bencher Metric Format.
    Bmf,
    /// A row per program or case.
    Csv,
}

/// Writes a result in a format, with a trailing line break. `style` applies only to human-readable text.
pub fn write(format: Format, report: &BenchReport, style: Style) -> io::Result<String> {
    match format {
        Format::Human => Ok(human(report, style)),
        Format::Json => Ok(json(report)?),
        Format::Bmf => Ok(bmf(report)?),
        Format::Csv => csv(report),
    }
}

/// Writes a comparison in a format. Bencher Metric Format and CSV cannot represent two objects:
/// they contain the one under test. Fails like [`write()`].
pub fn write_comparison(format: Format, found: &Comparison, style: Style) -> io::Result<String> {
    match format {
        Format::Human => Ok(comparison(found, style)),
        Format::Json => Ok(json(found)?),
        Format::Bmf => Ok(bmf(&found.report)?),
        Format::Csv => csv(&found.report),
    }
}

/// Complete JSON of a [`BenchReport`] or a [`Comparison`]. NaN becomes `null`.
pub fn json<T: Serialize>(result: &T) -> serde_json::Result<String> {
    serde_json::to_string_pretty(result).map(|json| json + "\n")
}
