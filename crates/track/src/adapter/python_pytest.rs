//! pytest-benchmark's `--benchmark-json`. pytest's console output, if given too, names failed tests: the file contains
//! their times as if they had passed.

mod failures;

use std::collections::HashSet;

use serde::Deserialize;

use self::failures::failures;
use crate::adapter::prelude::*;

/// The reason of a failure without a message from pytest.
const UNTOLD: &str = "pytest says that it failed";

const NS_PER_SECOND: f64 = 1e9;

#[derive(Deserialize)]
struct Report {
    benchmarks: Vec<Benchmark>,
}

#[derive(Deserialize)]
struct Benchmark {
    fullname: String,
    group: Option<String>,
    stats: Option<Stats>,
}

#[derive(Deserialize)]
struct Stats {
    #[serde(deserialize_with = "required")]
    mean: Figure,
    stddev: Figure,
    median: Figure,
    iqr: Figure,
    /// Seconds per iteration, by round. Written only with `--benchmark-save-data` and by newer versions.
    #[serde(default)]
    data: Vec<Figure>,
}

pub(super) fn parse(text: &str, average: Option<Average>) -> Parsed {
    let adapter = Adapter::PythonPytest;
    let reports =
        documents::<Report>(adapter, text, &["\"benchmarks\"", "\"fullname\"", "\"stats\""])?;
    let failures = failures(&reports.rest);
    let mut is_known = vec![false; failures.len()];
    let mut results = Results::default();
    for (at, report) in reports.found {
        let pairs = report.benchmarks.iter().map(|it| (it.fullname.clone(), it.group.clone()));
        let ambiguous = naming::ambiguous(pairs);
        let mut entries = Entries::default();
        for benchmark in report.benchmarks {
            let mut reason = None;
            for (failure, is_known) in failures.iter().zip(&mut is_known) {
                if let Some(said) = failure.of(&benchmark.fullname) {
                    *is_known = true;
                    reason = reason.filter(|known: &&str| !known.is_empty()).or(Some(said));
                }
            }
            let mut name = benchmark.fullname.clone();
            if ambiguous.contains(&name) {
                name = format!("{name} [{}]", benchmark.group.as_deref().unwrap_or("no group"));
            }
            at.read(&mut results, &name, |results, name| {
                entries.add(at, name.clone(), name.as_str())?;
                add(results, name, benchmark, reason, average.unwrap_or(Average::Mean))
            });
        }
    }
    // Without results the text may not be about benchmarks.
    if !results.is_empty() {
        let mut known = HashSet::new();
        let unknown = failures.iter().zip(is_known).filter(|(_, is_known)| !is_known);
        for (failure, _) in unknown.filter(|(failure, _)| failure.is_certain()) {
            if known.insert(failure.parts().0) {
                let at = At { adapter, line: 1 };
                let (name, reason) = failure.parts();
                let reason = if reason.is_empty() { UNTOLD } else { reason };
                results.fail(at.name(&naming::in_one_line(name))?, reason);
            }
        }
    }
    Ok(results)
}

/// Adds a benchmark, as failed if there is a reason.
fn add(
    results: &mut Results,
    name: BenchmarkName,
    benchmark: Benchmark,
    reason: Option<&str>,
    average: Average,
) -> Parsed<()> {
    results.set_bencher_name(&name, &benchmark.fullname);
    if let Some(reason) = reason {
        results.fail(name, if reason.is_empty() { UNTOLD } else { reason });
        return Ok(());
    }
    match benchmark.stats.and_then(|stats| metric(stats, average)) {
        Some(metric) => results.add(name, Measure::latency(), metric)?,
        None => results.fail(name, "it has no time"),
    }
    Ok(())
}

fn metric(stats: Stats, average: Average) -> Option<Metric> {
    let (value, spread) = match average {
        Average::Mean => (stats.mean, stats.stddev),
        Average::Median => (stats.median, stats.iqr),
    };
    around(value, spread, &stats.data, NS_PER_SECOND)
}
