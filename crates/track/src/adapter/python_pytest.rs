//! pytest-benchmark's `--benchmark-json`. Where pytest's own output is beside it, its failed tests are
//! known too: the file has their times as if nothing had been wrong.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;

use super::{
    Adapter, AdapterError,
    documents::documents,
    figure::{Figure, around},
    line::At,
    naming,
    text::without_colors,
};
use crate::{
    model::{Measure, Metric},
    results::{Average, Results},
};

const NS_PER_SECOND: f64 = 1e9;

#[derive(Deserialize)]
struct Report {
    benchmarks: Vec<Benchmark>,
}

#[derive(Deserialize)]
struct Benchmark {
    fullname: String,
    stats: Option<Stats>,
}

#[derive(Deserialize)]
struct Stats {
    mean: Figure,
    #[serde(default)]
    stddev: Figure,
    #[serde(default)]
    median: Figure,
    #[serde(default)]
    iqr: Figure,
    /// Seconds per iteration, by round. Only `--benchmark-save-data` and newer versions write it.
    #[serde(default)]
    data: Vec<f64>,
}

pub(super) fn parse(text: &str, average: Option<Average>) -> Result<Results, AdapterError> {
    let adapter = Adapter::PythonPytest;
    let reports =
        documents::<Report>(adapter, text, &["\"benchmarks\"", "\"fullname\"", "\"stats\""])?;
    let told = without_colors(&reports.rest);
    let failed: HashMap<_, _> = told.lines().filter_map(failure).collect();
    let mut known = HashSet::new();
    let mut results = Results::default();
    for (line, report) in reports.found {
        for benchmark in report.benchmarks {
            let at = At { adapter, line };
            let name = at.name(&naming::in_one_line(&benchmark.fullname))?;
            if let Some((test, reason)) = failed.get_key_value(benchmark.fullname.as_str()) {
                results.fail(name, *reason);
                known.insert(*test);
                continue;
            }
            let metric =
                benchmark.stats.and_then(|stats| metric(stats, average.unwrap_or(Average::Mean)));
            match metric {
                Some(metric) => results.add(name, Measure::latency(), metric)?,
                None => results.fail(name, "it has no time"),
            }
        }
    }
    // Without results the text is not known to be that of benchmarks.
    if !results.is_empty() {
        for (test, reason) in told.lines().filter_map(failure) {
            if known.insert(test) {
                let at = At { adapter, line: 1 };
                results.fail(at.name(&naming::in_one_line(test))?, reason);
            }
        }
    }
    Ok(results)
}

fn metric(stats: Stats, average: Average) -> Option<Metric> {
    let (value, spread) = match average {
        Average::Mean => (stats.mean, stats.stddev),
        Average::Median => (stats.median, stats.iqr),
    };
    around(value, spread, stats.data, NS_PER_SECOND)
}

/// A line of pytest's summary: `FAILED file.py::test - reason`.
fn failure(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "))?;
    let (test, reason) = rest.split_once(" - ").unwrap_or((rest, "pytest says that it failed"));
    test.contains("::").then_some((test.trim(), reason.trim()))
}
