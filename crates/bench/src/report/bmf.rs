//! Bencher Metric Format: `{"BENCHMARK": {"MEASURE": {"value": …}}}`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::result::{Case, Latency, Report};

/// Bytes that Bencher takes for the name of a benchmark (`bencher_valid`, `benchmark_name.rs`, 0.6).
const NAME_BYTES_MAX: usize = 1024;

/// Writes the cases, each with what was measured of it. `docs/bench.md` lists the measures.
///
/// # Errors
///
/// Those of the writer, which have no cause here.
pub fn bmf(report: &Report) -> serde_json::Result<String> {
    let mut benchmarks: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for case in &report.cases {
        let mut name = cut(&case.name, NAME_BYTES_MAX).to_owned();
        let mut number = 2_usize;
        // Nothing is to vanish because two have the same name.
        while benchmarks.contains_key(&name) {
            let suffix = format!("#{number}");
            name = format!("{}{suffix}", cut(&case.name, NAME_BYTES_MAX - suffix.len()));
            number += 1;
        }
        benchmarks.insert(name, measures(case));
    }
    serde_json::to_string_pretty(&benchmarks).map(|json| json + "\n")
}

fn measures(case: &Case) -> Map<String, Value> {
    let single = case.distribution.measured();
    let counts = case.counts.measured();
    let size = &case.size;
    let real = |number: f64| finite(number).map(Value::from);
    let latency = case.latency.measured().and_then(latency);
    let figures = [
        ("latency-p50", single.and_then(|single| real(single.p50_ns))),
        ("latency-p99", single.and_then(|single| real(single.p99_ns))),
        ("latency-p999", single.and_then(|single| real(single.p999_ns))),
        ("instructions", counts.map(|counts| counts.instructions.into())),
        ("verified-instructions", case.verifier.processed_instructions.map(Value::from)),
        ("verifier-states", case.verifier.total_states.map(Value::from)),
        ("jited-size", Some(size.jited_bytes.into())),
        ("xlated-size", Some(size.xlated_bytes.into())),
        ("stack-depth", Some(case.verifier.stack_depth_bytes.into())),
        ("map-memory", size.map_memory_bytes.map(Value::from)),
    ];
    let figures = figures.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let figures = figures.map(|(name, value)| (name, json!({ "value": value })));
    let all = latency.map(|latency| ("latency", latency)).into_iter().chain(figures);
    all.map(|(name, measure)| (name.to_owned(), measure)).collect()
}

fn latency(latency: &Latency) -> Option<Value> {
    let mut measure = json!({ "value": finite(latency.median_ns)? });
    if let (Some(lower), Some(upper)) = (finite(latency.lower_ns), finite(latency.upper_ns)) {
        measure["lower_value"] = lower.into();
        measure["upper_value"] = upper.into();
    }
    Some(measure)
}

/// A value has to be a number, which NaN is not in JSON.
fn finite(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

/// As many whole characters as fit into so many bytes.
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
