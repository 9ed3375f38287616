//! Hyperfine's `--export-json`: version 1 with lists of times, and version 2 with metrics and their units.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::adapter::prelude::*;

const NS_PER_SECOND: f64 = 1e9;

#[derive(Deserialize)]
struct Export {
    results: Vec<Command>,
}

/// One command: fields of both versions first, then those of version 1, then of version 2.
#[derive(Deserialize)]
struct Command {
    command: String,
    #[serde(default)]
    parameters: BTreeMap<String, Value>,

    mean: Option<Figure>,
    stddev: Figure,
    median: Figure,
    min: Figure,
    max: Figure,
    user: Figure,
    system: Figure,
    times: Option<Vec<Figure>>,
    memory_usage_byte: Option<Vec<Figure>>,
    #[serde(default)]
    exit_codes: Vec<Option<i64>>,

    #[serde(default)]
    measurements: Vec<BTreeMap<String, Value>>,
    #[serde(default)]
    summary: BTreeMap<String, Summary>,
}

#[derive(Deserialize)]
struct Summary {
    unit: String,
    #[serde(deserialize_with = "required")]
    mean: Figure,
    stddev: Figure,
    median: Figure,
    min: Figure,
    max: Figure,
}

pub(super) fn parse(text: &str, average: Option<Average>) -> Parsed {
    let adapter = Adapter::ShellHyperfine;
    let exports = documents::<Export>(adapter, text, &["\"results\"", "\"command\""])?;
    let mut results = Results::default();
    for (at, export) in exports.found {
        let commands = export.results;
        let pairs = commands.iter().map(|command| (command.command.clone(), parameters(command)));
        let ambiguous = naming::ambiguous(pairs);
        let mut entries = Entries::default();
        for command in commands {
            let mut name = in_one_line(&command.command).into_owned();
            if ambiguous.contains(&command.command) {
                name = format!("{name} ({})", parameters(&command));
            }
            at.read(&mut results, &name, |results, name| {
                entries.add(at, name.clone(), name.as_str())?;
                add(results, name, &command, average.unwrap_or(Average::Mean))
            });
        }
    }
    Ok(results)
}

fn add(
    results: &mut Results,
    name: BenchmarkName,
    command: &Command,
    average: Average,
) -> Parsed<()> {
    results.set_bencher_name(&name, &command.command);
    if let Some(reason) = failure(command) {
        results.fail(name, reason);
        return Ok(());
    }
    let Some(metrics) = metrics(command, average) else {
        results.fail(name, "hyperfine reports no time");
        return Ok(());
    };
    for (measure, metric) in metrics {
        results.add(name.clone(), measure, metric)?;
    }
    Ok(())
}

/// `a=1, b=2`
fn parameters(command: &Command) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        value => match value.as_i64() {
            Some(whole) => whole.to_string(),
            None => number(value).map_or_else(String::new, |number| number.to_string()),
        },
    };
    let pairs = command.parameters.iter().map(|(name, value)| format!("{name}={}", text(value)));
    pairs.collect::<Vec<_>>().join(", ")
}

/// A number, alone or with its unit: `{"value": 1.5, "unit": "second"}`.
fn number(value: &Value) -> Option<f64> {
    value.get("value").unwrap_or(value).as_f64()
}

fn failure(command: &Command) -> Option<String> {
    let of_runs = command.measurements.iter().filter_map(|run| run.get("exit_code"));
    let of_runs = of_runs.filter(|code| code.is_i64() || code.is_null()).map(Value::as_i64);
    let codes: Vec<Option<i64>> = command.exit_codes.iter().copied().chain(of_runs).collect();
    let bad: Vec<_> = codes.iter().filter(|code| **code != Some(0)).collect();
    let what = match bad.first()? {
        Some(code) => format!("exited with code {code}"),
        None => "was ended by a signal".to_owned(),
    };
    let runs = if codes.len() == 1 { "run" } else { "runs" };
    Some(format!("the command {what}; {} of {} {runs} failed", bad.len(), codes.len()))
}

fn metrics(command: &Command, average: Average) -> Option<Vec<(Measure, Metric)>> {
    let is_first = command.summary.is_empty();
    if is_first { first_version(command, average) } else { second_version(command, average) }
}

fn first_version(command: &Command, average: Average) -> Option<Vec<(Measure, Metric)>> {
    let samples = |all: &Option<Vec<Figure>>| {
        all.iter().flatten().filter_map(|sample| sample.0).collect::<Vec<f64>>()
    };
    let summary = Summary {
        unit: "second".to_owned(),
        mean: command.mean?,
        stddev: command.stddev,
        median: command.median,
        min: command.min,
        max: command.max,
    };
    let latency = metric(&summary, average, NS_PER_SECOND, samples(&command.times))?;
    let mut metrics = vec![(Measure::latency(), latency)];
    if let (Some(user), Some(system)) = (command.user.0, command.system.0) {
        let cpu_time = Metric::new((user + system) * NS_PER_SECOND);
        metrics.push((Measure::named("cpu-time"), cpu_time));
    }
    let bytes = samples(&command.memory_usage_byte);
    if !bytes.is_empty() {
        let mean = bytes.iter().sum::<f64>() / bytes.len() as f64;
        metrics.push((peak_memory(), Metric::new(mean).with_samples(bytes)));
    }
    Some(metrics)
}

fn second_version(command: &Command, average: Average) -> Option<Vec<(Measure, Metric)>> {
    let mut metrics = Vec::new();
    for (name, summary) in &command.summary {
        let Some((measure, factor)) = measure(name, &summary.unit) else { continue };
        let samples = command.measurements.iter().filter_map(|run| number(run.get(name)?));
        let Some(metric) = metric(summary, average, factor, samples.collect()) else { continue };
        match measure.slug.as_str() {
            "latency" => metrics.insert(0, (measure, metric)),
            _ => metrics.push((measure, metric)),
        }
    }
    metrics.first().is_some_and(|(measure, _)| *measure == Measure::latency()).then_some(metrics)
}

/// The measure of a metric of version 2, and the factor of its values. User and system time are parts of the CPU time.
fn measure(name: &str, unit: &str) -> Option<(Measure, f64)> {
    Some(match (name, unit) {
        ("time_wall_clock", "second") => (Measure::latency(), NS_PER_SECOND),
        ("time_cpu", "second") => (Measure::named("cpu-time"), NS_PER_SECOND),
        ("time_user" | "time_system", _) => return None,
        ("memory_peak_resident", "byte") => (peak_memory(), 1.0),
        // The whole process is counted, including the loader and the kernel.
        ("instructions", _) => (Measure { kind: MeasureKind::Noisy, ..Measure::named(name) }, 1.0),
        _ => (naming::counter(name, unit, Direction::LowerIsBetter), 1.0),
    })
}

fn peak_memory() -> Measure {
    Measure::custom("Peak Memory", "bytes (B)", Direction::LowerIsBetter, MeasureKind::Noisy)
}

fn metric(summary: &Summary, average: Average, factor: f64, samples: Vec<f64>) -> Option<Metric> {
    let (value, ends) = match average {
        Average::Mean => {
            let mean = summary.mean.0?;
            (mean, summary.stddev.0.map(|stddev| (mean - stddev, mean + stddev)))
        }
        Average::Median => (summary.median.0?, summary.min.0.zip(summary.max.0)),
    };
    let ends = ends.map(|(lower, upper)| (lower * factor, upper * factor));
    let metric = Metric::new(value * factor).with_ends(ends);
    Some(metric.with_samples(samples.into_iter().map(|sample| sample * factor).collect()))
}
