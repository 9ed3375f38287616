//! Results as text: tables for people, JSON with everything, Bencher Metric Format, CSV with
//! veristat's columns.
//!
//! A result in, text out: no kernel, no clock, no files. The same result gives the same text.
//! `docs/bench.md` tells what the figures mean.

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

/// Narrower terminals get lines of this width: fewer characters hold no table.
const WIDTH_MIN: usize = 60;

/// Values by key, both in the order in which they come first.
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

/// A form of a result.
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

/// Writes a result in a form, with a line break at its end. `style` is for people only.
pub fn write(format: Format, report: &BenchReport, style: Style) -> io::Result<String> {
    match format {
        Format::Human => Ok(human(report, style)),
        Format::Json => Ok(json(report)?),
        Format::Bmf => Ok(bmf(report)?),
        Format::Csv => csv(report),
    }
}

/// Writes a comparison in a form. Bencher Metric Format and CSV have no place for two objects: they hold
/// the one under test. Fails as [`write()`].
pub fn write_comparison(format: Format, found: &Comparison, style: Style) -> io::Result<String> {
    match format {
        Format::Human => Ok(comparison(found, style)),
        Format::Json => Ok(json(found)?),
        Format::Bmf => Ok(bmf(&found.report)?),
        Format::Csv => csv(&found.report),
    }
}

/// Everything, as JSON: a [`BenchReport`] or a [`Comparison`]. Numbers that are none (NaN) are `null`.
pub fn json<T: Serialize>(result: &T) -> serde_json::Result<String> {
    serde_json::to_string_pretty(result).map(|json| json + "\n")
}
