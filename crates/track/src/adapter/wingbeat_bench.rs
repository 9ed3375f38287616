//! `wingbeat bench --format json`: a metric for each figure of each case, and the batches as samples.
//!
//! A case with an unexpected return value is a failure. With `--against`, the results are those of the object under
//! test.

use std::collections::HashSet;

use serde::{Deserialize, de::DeserializeOwned};

use crate::adapter::prelude::*;

const SCHEMA_VERSION: u32 = 1;

#[derive(Deserialize)]
struct Comparison {
    report: Report,
}

#[derive(Deserialize)]
struct Report {
    schema_version: u32,
    cases: Vec<Case>,
    #[serde(default)]
    failures: Vec<Failure>,
    #[serde(default)]
    verified: Vec<Verified>,
}

#[derive(Deserialize)]
struct Failure {
    name: String,
    reason: String,
}

#[derive(Deserialize)]
struct Verified {
    name: String,
    verifier: Verifier,
    size: Size,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    outcome: Outcome,
    latency: Part<Latency>,
    distribution: Part<Distribution>,
    counts: Part<Counts>,
    verifier: Verifier,
    size: Size,
}

#[derive(Deserialize)]
struct Outcome {
    return_value: u32,
    unmet_expectation: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Part<T> {
    Measured(T),
    Unavailable(serde::de::IgnoredAny),
}

impl<T> Part<T> {
    fn measured(self) -> Option<T> {
        match self {
            Self::Measured(value) => Some(value),
            Self::Unavailable(_) => None,
        }
    }
}

#[derive(Deserialize)]
struct Latency {
    median_ns: f64,
    mean_ns: f64,
    lower_ns: f64,
    upper_ns: f64,
    net_ns: Option<f64>,
    #[serde(default)]
    samples_ns: Vec<f64>,
}

#[derive(Deserialize)]
struct Distribution {
    p50_ns: f64,
    p90_ns: f64,
    p99_ns: f64,
    p999_ns: f64,
    max_ns: f64,
}

#[derive(Deserialize)]
struct Counts {
    instructions: f64,
}

#[derive(Deserialize)]
struct Verifier {
    processed_instructions: Option<f64>,
    total_states: Option<f64>,
    peak_states: Option<f64>,
    stack_depth_bytes: f64,
    duration_us: Option<f64>,
}

#[derive(Deserialize)]
struct Size {
    xlated_bytes: f64,
    jited_bytes: f64,
    map_memory_bytes: Option<f64>,
}

pub(super) fn parse(text: &str, average: Option<Average>) -> Parsed {
    let is_comparison = memchr::memmem::find(text.as_bytes(), b"\"against\"").is_some();
    match is_comparison {
        true => read::<Comparison>(text, average, |comparison| comparison.report),
        false => read::<Report>(text, average, |report| report),
    }
}

fn read<T: DeserializeOwned>(
    text: &str,
    average: Option<Average>,
    report: impl Fn(T) -> Report,
) -> Parsed {
    let mut results = Results::default();
    for document in objects::<T>(Adapter::WingbeatBench, text) {
        let at = document.at;
        match document.content {
            Ok(content) => add(&mut results, at, report(content), average)?,
            Err(_) if !document.head.contains("\"schema_version\"") => {}
            Err(_) if document.head.contains("\"programs\"") => {
                let reason = "it was measured live: write it with --format bmf, and the adapter json reads it";
                return Err(at.malformed(reason));
            }
            Err(error) => return Err(at.malformed(error)),
        }
    }
    Ok(results)
}

fn add(results: &mut Results, at: At, report: Report, average: Option<Average>) -> Parsed<()> {
    let Report { schema_version, cases, failures, verified } = report;
    if schema_version != SCHEMA_VERSION {
        return Err(at.malformed(format!(
            "schema_version is {schema_version}, and {SCHEMA_VERSION} can be read; another version of \
             wingbeat wrote it"
        )));
    }
    // Two programs of the same name are not repetitions: the second gets a number.
    let mut names = HashSet::new();
    let mut unique = |name: &str| {
        let numbered = |number: usize| match number {
            1 => name.to_owned(),
            _ => format!("{name}#{number}"),
        };
        let free = (1..).map(numbered).find(|name| names.insert(name.clone()));
        at.name(&free.unwrap_or_default())
    };
    let failed: HashSet<_> = failures.iter().map(|failure| failure.name.clone()).collect();
    for case in cases {
        let name = unique(&case.name)?;
        if let Some(expected) = case.outcome.unmet_expectation {
            let returned = case.outcome.return_value;
            results.fail(name, format!("it returned {returned} instead of {expected}"));
        } else if !failed.contains(&case.name) {
            figures(results, &name, case, average)?;
        }
    }
    for program in verified {
        if !failed.contains(&program.name) {
            let name = unique(&program.name)?;
            named(results, &name, &verification(&program.verifier, &program.size))?;
        }
    }
    for failure in failures {
        results.fail(at.name(&failure.name)?, failure.reason);
    }
    Ok(())
}

fn figures(
    results: &mut Results,
    name: &BenchmarkName,
    case: Case,
    average: Option<Average>,
) -> Parsed<()> {
    if let Some(latency) = case.latency.measured() {
        let metric = match average {
            // The interval is that of the median.
            Some(Average::Mean) => Metric::new(latency.mean_ns),
            _ => Metric::new(latency.median_ns).within(latency.lower_ns, latency.upper_ns),
        };
        let metric = metric.with_samples(latency.samples_ns);
        results.add(name.clone(), Measure::latency(), metric)?;
        named(results, name, &[("net-latency", latency.net_ns)])?;
    }
    if let Some(single) = case.distribution.measured() {
        let figures = [
            ("latency-p50", Some(single.p50_ns)),
            ("latency-p90", Some(single.p90_ns)),
            ("latency-p99", Some(single.p99_ns)),
            ("latency-p999", Some(single.p999_ns)),
            ("latency-max", Some(single.max_ns)),
        ];
        named(results, name, &figures)?;
    }
    if let Some(counts) = case.counts.measured() {
        named(results, name, &[("instructions", Some(counts.instructions))])?;
    }
    named(results, name, &verification(&case.verifier, &case.size))
}

/// Figures of a program that need no run.
fn verification(verifier: &Verifier, size: &Size) -> [(&'static str, Option<f64>); 8] {
    [
        ("verified-instructions", verifier.processed_instructions),
        ("verifier-states", verifier.total_states),
        ("verifier-peak-states", verifier.peak_states),
        ("verification-time", verifier.duration_us.map(|duration| duration * 1e3)),
        ("stack-depth", Some(verifier.stack_depth_bytes)),
        ("xlated-size", Some(size.xlated_bytes)),
        ("jited-size", Some(size.jited_bytes)),
        ("map-memory", size.map_memory_bytes),
    ]
}

fn named(
    results: &mut Results,
    name: &BenchmarkName,
    figures: &[(&str, Option<f64>)],
) -> Parsed<()> {
    for (slug, value) in figures {
        if let Some(value) = value {
            results.add(name.clone(), Measure::named(slug), Metric::new(*value))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{benchmarks, check_error, values};

    const CASE: &str = r#"{"name": "p", "outcome": {"return_value": 2, "unmet_expectation": null},
        "latency": {"measured": {"median_ns": 24.5, "mean_ns": 25.0, "lower_ns": 24.0, "upper_ns": 26.0,
            "net_ns": 1.5, "samples_ns": [24.0, 24.5, 26.0]}},
        "distribution": {"unavailable": "no wrapper"}, "counts": {"measured": {"instructions": 16}},
        "verifier": {"processed_instructions": 20, "total_states": null, "stack_depth_bytes": 8, "duration_us": 68},
        "size": {"xlated_bytes": 128, "jited_bytes": 84, "map_memory_bytes": null}}"#;

    fn report(cases: &str, rest: &str) -> String {
        format!("{{\"schema_version\": 1, \"baselines\": [], \"cases\": [{cases}]{rest}}}")
    }

    #[test]
    fn what_was_not_measured_has_no_metric() {
        let results = parse(&report(CASE, ""), None).expect("results");
        let found = values(&results.benchmarks[0]);
        let expected = [
            ("latency", 24.5),
            ("net-latency", 1.5),
            ("instructions", 16.0),
            ("verified-instructions", 20.0),
            ("verification-time", 68e3),
            ("stack-depth", 8.0),
            ("xlated-size", 128.0),
            ("jited-size", 84.0),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn failures() {
        let check = |text: &str, name: &str, reason: &str| {
            let results = parse(text, None).expect(text);
            assert!(results.benchmarks.iter().all(|benchmark| benchmark.name.as_str() != name));
            let failure = &results.failures[0];
            assert_eq!((failure.name.as_str(), failure.reason.as_str()), (name, reason));
        };
        let unmet = CASE.replace("\"unmet_expectation\": null", "\"unmet_expectation\": 1");
        check(&report(&unmet, ""), "p", "it returned 2 instead of 1");
        let failed = ", \"failures\": [{\"name\": \"p\", \"reason\": \"rejected\"}]";
        check(&report(CASE, failed), "p", "rejected");
        check(&report("", failed), "p", "rejected");
    }

    #[test]
    fn names_are_unique() {
        let results = parse(&report(&format!("{CASE},{CASE}"), ""), None).expect("results");
        assert_eq!(benchmarks(&results), ["p", "p#2"]);
    }

    #[test]
    fn a_comparison_holds_a_report() {
        let text = format!(
            "{{\"report\": {}, \"against\": \"b.o\", \"cases\": [{{\"name\": \"p\", \"measures\": []}}]}}",
            report(CASE, "")
        );
        assert_eq!(parse(&text, None), parse(&report(CASE, ""), None));
    }

    #[test]
    fn what_is_broken() {
        let check = |text: &str, expected: &str| check_error(parse(text, None), expected);
        check(&report(CASE, "").replace("version\": 1", "version\": 2"), "schema_version is 2");
        let whole = report(CASE, "");
        check(&whole[..whole.len() - 1], "EOF");
        check("{\"schema_version\": 1, \"programs\": []}", "--format bmf");
    }
}
