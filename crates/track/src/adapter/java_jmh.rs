//! JMH's `-rf json`. Each set of parameters is a benchmark of its own. Failed benchmarks are missing in the file and
//! only in JMH's printed output.

use std::collections::HashSet;

use serde::Deserialize;

use super::shape::Ordered;
use crate::adapter::prelude::*;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Benchmark {
    benchmark: String,
    /// `thrpt`, `avgt`, `sample`, `ss`.
    mode: String,
    params: Option<Ordered<String>>,
    primary_metric: Score,
    secondary_metrics: Option<Ordered<Score>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Score {
    #[serde(deserialize_with = "required")]
    score: Figure,
    #[serde(default)]
    score_confidence: [Figure; 2],
    score_unit: String,
    #[serde(default)]
    raw_data: Vec<Vec<Figure>>,
}

pub(super) fn parse(text: &str, _: Option<Average>) -> Parsed {
    let adapter = Adapter::JavaJmh;
    let reports =
        documents::<Vec<Benchmark>>(adapter, text, &["\"primaryMetric\"", "\"scoreUnit\""])?;
    let mut results = Results::default();
    for (at, benchmarks) in reports.found {
        let pairs = benchmarks
            .iter()
            .map(|b| ((name(b), b.primary_metric.score_unit.starts_with("ops/")), b.mode.clone()));
        let ambiguous = naming::ambiguous(pairs);
        let mut entries = Entries::default();
        for benchmark in benchmarks {
            let own = name(&benchmark);
            let is_rate = benchmark.primary_metric.score_unit.starts_with("ops/");
            let mode = match ambiguous.contains(&(own.clone(), is_rate)) {
                true => format!(" [{}]", benchmark.mode),
                false => String::new(),
            };
            at.read(&mut results, &format!("{own}{mode}"), |results, name| {
                entries.add(at, (own.clone(), benchmark.mode.clone()), &own)?;
                add(results, at, name, benchmark)
            });
        }
    }
    if !results.is_empty() {
        add_failures(&mut results, &reports.rest)?;
    }
    Ok(results)
}

fn add(results: &mut Results, at: At, name: BenchmarkName, benchmark: Benchmark) -> Parsed<()> {
    // Bencher merges all parameters and modes into one benchmark.
    results.set_bencher_name(&name, &benchmark.benchmark);
    let unit = &benchmark.primary_metric.score_unit;
    let Some((measure, factor)) = known_measure(unit) else {
        return Err(at.malformed(format!(
            "{:?} has the unit {unit:?}, which is neither a time nor a rate",
            name.as_str()
        )));
    };
    let Some(metric) = metric(&benchmark.primary_metric, factor) else {
        results.fail(name, "its score is not a number");
        return Ok(());
    };
    results.add(name.clone(), measure, metric)?;
    for (label, score) in benchmark.secondary_metrics.into_iter().flat_map(|all| all.0) {
        if let Some((measure, factor)) = secondary(&label, &score.score_unit)
            && let Some(metric) = metric_of(&score, factor)
        {
            results.add(name.clone(), measure, metric)?;
        }
    }
    Ok(())
}

/// `package.Class.method (size=8, text=a)`
fn name(benchmark: &Benchmark) -> String {
    let params: Vec<_> = benchmark
        .params
        .iter()
        .flat_map(|params| params.0.iter().map(|(name, value)| format!("{name}={value}")))
        .collect();
    with_params(&benchmark.benchmark, &params)
}

fn with_params(benchmark: &str, params: &[String]) -> String {
    if params.is_empty() {
        benchmark.to_owned()
    } else {
        format!("{benchmark} ({})", params.join(", "))
    }
}

/// The measure of a time per operation or of operations per time, and the factor of its values.
fn known_measure(unit: &str) -> Option<(Measure, f64)> {
    let nanoseconds = |unit: &str| match unit {
        "hr" => Some(3600e9),
        "day" => Some(86_400e9),
        _ => nanoseconds(unit),
    };
    match (unit.strip_suffix("/op"), unit.strip_prefix("ops/")) {
        (Some(time), _) => Some((Measure::latency(), nanoseconds(time)?)),
        (_, Some(time)) => Some((Measure::throughput(), 1e9 / nanoseconds(time)?)),
        _ => None,
    }
}

/// The measure of a secondary metric: percentiles, allocated bytes, and counters of the benchmark.
/// The garbage collector's other profiler metrics depend on the duration of the run.
fn secondary(label: &str, unit: &str) -> Option<(Measure, f64)> {
    // Older versions write `method·p0.50` and `·gc.alloc.rate.norm`.
    let label = label.rsplit('\u{b7}').next().unwrap_or(label);
    if label == "gc.alloc.rate.norm" {
        return Some((Measure { kind: MeasureKind::Noisy, ..Measure::named("allocated") }, 1.0));
    }
    if label.starts_with("gc.") {
        return None;
    }
    if let Some(quantile) = label.strip_prefix("p").filter(|rest| rest.starts_with(['0', '1'])) {
        let slug = match quantile {
            "0.50" => "latency-p50",
            "0.90" => "latency-p90",
            "0.99" => "latency-p99",
            "0.999" => "latency-p999",
            "1.00" => "latency-max",
            _ => return None,
        };
        return Some((Measure::named(slug), known_measure(unit)?.1));
    }
    let direction = match unit {
        _ if unit.starts_with("ops/") => Direction::HigherIsBetter,
        _ if unit.ends_with("/op") => Direction::LowerIsBetter,
        _ => Direction::Unknown,
    };
    Some((naming::counter(label, unit, direction), 1.0))
}

fn metric(score: &Score, factor: f64) -> Option<Metric> {
    let samples: Option<Vec<_>> =
        score.raw_data.iter().flatten().map(|sample| sample.scaled(factor)).collect();
    Some(metric_of(score, factor)?.with_samples(samples.unwrap_or_default()))
}

/// The metric without samples.
fn metric_of(score: &Score, factor: f64) -> Option<Metric> {
    let metric = Metric::new(score.score.scaled(factor)?);
    let [lower, upper] = score.score_confidence.map(|end| end.scaled(factor));
    Some(metric.with_ends(lower.zip(upper)))
}

/// Finds failed benchmarks in JMH's console output:
///
/// ```text
/// # Benchmark: com.example.Hive.fails
/// # Parameters: (size = 64)
/// Warmup Iteration   1: <failure>
///
/// java.lang.IllegalStateException: no bees
/// ```
fn add_failures(results: &mut Results, text: &str) -> Parsed<()> {
    let mut benchmark = "";
    let mut params = Vec::new();
    let mut known = HashSet::new();
    let mut lines = text.lines().map(str::trim).enumerate();
    while let Some((index, line)) = lines.next() {
        if let Some(name) = line.strip_prefix("# Benchmark: ") {
            benchmark = name;
            params = Vec::new();
        } else if let Some(list) = line.strip_prefix("# Parameters: (") {
            let list = list.strip_suffix(')').unwrap_or(list);
            params = list.split(", ").map(|pair| pair.replacen(" = ", "=", 1)).collect();
        } else if line.ends_with("<failure>") && !benchmark.is_empty() {
            let name = with_params(benchmark, &params);
            let reason = lines.find(|(_, line)| !line.is_empty());
            let reason = reason.map_or("JMH says that it failed", |found| found.1);
            if known.insert(name.clone()) {
                let at = At { adapter: Adapter::JavaJmh, line: index + 1 };
                results.fail(at.name(&in_one_line(&name))?, reason);
            }
        }
    }
    Ok(())
}
