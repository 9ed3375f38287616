//! Results as text: human-readable tables, complete JSON, Bencher Metric Format, CSV with veristat's columns.
//!
//! Pure: no kernel, no clock, no files. The same result gives the same text. `docs/bench.md` explains the figures.

mod columns;
mod comparison;
mod csv;
mod details;
mod human;
mod notes;
mod ranking;
mod verdict;
pub mod veristat;

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    io,
};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    analyse::compare::{JITED, PROCESSED, STACK, STATES},
    result::{BenchReport, Case, Comparison, Latency, RunCounts, Size, Verifier},
};

pub(crate) use self::csv::{real, whole};
pub use self::{
    comparison::comparison,
    csv::csv,
    human::{errors, human},
};
pub use wingbeat_text::Style;

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

// Bencher Metric Format: `{"BENCHMARK": {"MEASURE": {"value": …}}}`.

/// Maximum length of a benchmark name in Bencher, in bytes (`bencher_valid`, `benchmark_name.rs`, 0.6).
const NAME_BYTES_MAX: usize = 1024;

/// Writes the cases with their measures, and programs that were only loaded. `docs/bench.md` lists the measures.
pub fn bmf(report: &BenchReport) -> serde_json::Result<String> {
    let mut benchmarks: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    let cases = report.cases.iter().map(|case| (&case.name, measures(case)));
    let verified = report.verified.iter().map(|program| {
        (&program.name, verifier_measures(&program.verifier, &program.size).collect())
    });
    for (full_name, measures) in cases.chain(verified) {
        let mut name = cut(full_name, NAME_BYTES_MAX).to_owned();
        let mut number = 2_usize;
        // Do not drop results with duplicate names.
        while benchmarks.contains_key(&name) {
            let suffix = format!("#{number}");
            name = format!("{}{suffix}", cut(full_name, NAME_BYTES_MAX - suffix.len()));
            number += 1;
        }
        benchmarks.insert(name, measures);
    }
    serde_json::to_string_pretty(&benchmarks).map(|json| json + "\n")
}

fn measures(case: &Case) -> Map<String, Value> {
    let single = case.distribution.measured();
    let counts = case.counts.measured();
    let real = |number: f64| finite(number).map(Value::from);
    let latency = case.latency.measured().and_then(latency);
    let time = case.latency.measured();
    let own_output = case.own_output.as_ref();
    let figures = [
        ("latency-own-output", own_output.and_then(|own| real(own.median_ns?))),
        ("instructions-own-output", own_output.and_then(|own| own.instructions).map(Value::from)),
        ("latency-floor", time.and_then(|time| real(time.floor_ns))),
        ("latency-p50", single.and_then(|single| real(single.p50_ns))),
        ("latency-p99", single.and_then(|single| real(single.p99_ns))),
        ("latency-p999", single.and_then(|single| real(single.p999_ns))),
        ("instructions", counts.and_then(RunCounts::exact).map(Value::from)),
    ];
    let latency = latency.map(|latency| ("latency".to_owned(), latency));
    let verifier = verifier_measures(&case.verifier, &case.size);
    latency.into_iter().chain(with_values(figures)).chain(verifier).collect()
}

/// Measures of a program known without running it.
fn verifier_measures(verifier: &Verifier, size: &Size) -> impl Iterator<Item = (String, Value)> {
    let [processed, states, stack, jited] = [PROCESSED, STATES, STACK, JITED]
        .map(|(measure, _, figure)| (measure, figure(verifier, size).map(Value::from)));
    let xlated = ("xlated-size", Some(size.xlated_bytes.into()));
    let memory = ("map-memory", size.map_memory_bytes.map(Value::from));
    with_values([processed, states, stack, jited, xlated, memory])
}

fn with_values<const N: usize>(
    figures: [(&str, Option<Value>); N],
) -> impl Iterator<Item = (String, Value)> {
    let known = figures.map(|(name, value)| Some((name.to_owned(), json!({ "value": value? }))));
    known.into_iter().flatten()
}

fn latency(latency: &Latency) -> Option<Value> {
    let mut measure = json!({ "value": finite(latency.median_ns)? });
    if let (Some(lower), Some(upper)) = (finite(latency.lower_ns), finite(latency.upper_ns)) {
        measure["lower_value"] = lower.into();
        measure["upper_value"] = upper.into();
    }
    Some(measure)
}

/// JSON has no NaN.
fn finite(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

/// Truncates to whole characters within `bytes_max`.
fn cut(name: &str, bytes_max: usize) -> &str {
    name.get(..name.floor_char_boundary(bytes_max)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_between_characters() {
        let check = |name, bytes_max, expected| assert_eq!(cut(name, bytes_max), expected);
        check("abc", 3, "abc");
        check("abc", 2, "ab");
        check("aéb", 2, "a");
        check("", 2, "");
    }
}
