//! Bencher Metric Format: `{"BENCHMARK": {"MEASURE": {"value": …}}}`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::{
    analyse::compare::{JITED, PROCESSED, STACK, STATES},
    result::{BenchReport, Case, Latency, RunCounts, Size, Verifier},
};

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
