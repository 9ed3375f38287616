//! Hyperfine's `--export-json`: of version 1 with its lists of times, and of version 2 with metrics that
//! carry their units.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use super::{Adapter, AdapterError, documents::documents, figure::Figure, line::At, naming, once};
use crate::model::{Average, Direction, Measure, MeasureKind, Metric, Results};

const NS_PER_SECOND: f64 = 1e9;

#[derive(Deserialize)]
struct Export {
    results: Vec<Command>,
}

/// One command. The first fields are those of both versions, then version 1, then version 2.
#[derive(Deserialize)]
struct Command {
    command: String,
    #[serde(default)]
    parameters: BTreeMap<String, Entry>,

    mean: Option<Figure>,
    #[serde(default)]
    stddev: Figure,
    #[serde(default)]
    median: Figure,
    #[serde(default)]
    min: Figure,
    #[serde(default)]
    max: Figure,
    #[serde(default)]
    user: Figure,
    #[serde(default)]
    system: Figure,
    times: Option<Vec<f64>>,
    memory_usage_byte: Option<Vec<f64>>,
    #[serde(default)]
    exit_codes: Vec<Option<i64>>,

    #[serde(default)]
    measurements: Vec<BTreeMap<String, Entry>>,
    #[serde(default)]
    summary: BTreeMap<String, Summary>,
}

/// A metric over all runs, as version 2 writes it.
#[derive(Deserialize)]
struct Summary {
    unit: String,
    mean: Figure,
    #[serde(default)]
    stddev: Figure,
    #[serde(default)]
    median: Figure,
    #[serde(default)]
    min: Figure,
    #[serde(default)]
    max: Figure,
}

/// The named entries of version 2: a run's value with its unit, or the exit code.
enum Entry {
    Value(Figure),
    Code(Option<i64>),
    Text(String),
    Other,
}

pub(super) fn parse(text: &str, average: Option<Average>) -> Result<Results, AdapterError> {
    let adapter = Adapter::ShellHyperfine;
    let exports = documents::<Export>(adapter, text, &["\"results\"", "\"command\""])?;
    let mut results = Results::default();
    for (line, export) in exports.found {
        let commands = export.results;
        let pairs = commands.iter().map(|command| (command.command.clone(), parameters(command)));
        let ambiguous = naming::ambiguous(pairs);
        let at = At { adapter, line };
        once::in_document(at, commands.iter().map(|c| ((&c.command, parameters(c)), &c.command)))?;
        for command in commands {
            let mut name = naming::in_one_line(&command.command).into_owned();
            if ambiguous.contains(&command.command) {
                name = format!("{name} ({})", parameters(&command));
            }
            let name = at.name(&name)?;
            results.set_bencher_name(&name, &command.command);
            if let Some(reason) = failure(&command) {
                results.fail(name, reason);
                continue;
            }
            let Some(metrics) = metrics(&command, average.unwrap_or(Average::Mean)) else {
                results.fail(name, "hyperfine tells no time");
                continue;
            };
            for (measure, metric) in metrics {
                results.add(name.clone(), measure, metric)?;
            }
        }
    }
    Ok(results)
}

/// `a=1, b=2`
fn parameters(command: &Command) -> String {
    let text = |entry: &Entry| match entry {
        Entry::Text(text) => text.clone(),
        Entry::Value(Figure(Some(value))) => value.to_string(),
        Entry::Code(Some(value)) => value.to_string(),
        _ => String::new(),
    };
    let pairs: Vec<_> =
        command.parameters.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
    pairs.join(", ")
}

fn failure(command: &Command) -> Option<String> {
    let of_runs = command.measurements.iter().filter_map(|run| match run.get("exit_code") {
        Some(Entry::Code(code)) => Some(*code),
        _ => None,
    });
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
    if command.summary.is_empty() {
        first_version(command, average)
    } else {
        second_version(command, average)
    }
}

fn first_version(command: &Command, average: Average) -> Option<Vec<(Measure, Metric)>> {
    let times = command.times.as_deref().unwrap_or_default();
    let summary = Summary {
        unit: "second".to_owned(),
        mean: command.mean?,
        stddev: command.stddev,
        median: command.median,
        min: command.min,
        max: command.max,
    };
    let latency = metric(&summary, average, NS_PER_SECOND, times.to_vec())?;
    let mut metrics = vec![(Measure::latency(), latency)];
    if let (Some(user), Some(system)) = (command.user.0, command.system.0) {
        let cpu_time = Metric::new((user + system) * NS_PER_SECOND);
        metrics.push((Measure::named("cpu-time"), cpu_time));
    }
    if let Some(bytes) = command.memory_usage_byte.as_ref().filter(|bytes| !bytes.is_empty()) {
        let mean = bytes.iter().sum::<f64>() / bytes.len() as f64;
        metrics.push((peak_memory(), Metric::new(mean).with_samples(bytes.clone())));
    }
    Some(metrics)
}

fn second_version(command: &Command, average: Average) -> Option<Vec<(Measure, Metric)>> {
    let mut metrics = Vec::new();
    for (name, summary) in &command.summary {
        let Some((measure, factor)) = measure(name, &summary.unit) else { continue };
        let samples = command.measurements.iter().filter_map(|run| match run.get(name) {
            Some(Entry::Value(Figure(Some(value)))) => Some(*value),
            _ => None,
        });
        let Some(metric) = metric(summary, average, factor, samples.collect()) else { continue };
        match measure.slug.as_str() {
            "latency" => metrics.insert(0, (measure, metric)),
            _ => metrics.push((measure, metric)),
        }
    }
    metrics.first().is_some_and(|(measure, _)| *measure == Measure::latency()).then_some(metrics)
}

/// The measure of a metric of version 2, and what its values are multiplied by. User and system time
/// are parts of the CPU time.
fn measure(name: &str, unit: &str) -> Option<(Measure, f64)> {
    Some(match (name, unit) {
        ("time_wall_clock", "second") => (Measure::latency(), NS_PER_SECOND),
        ("time_cpu", "second") => (Measure::named("cpu-time"), NS_PER_SECOND),
        ("time_user" | "time_system", _) => return None,
        ("memory_peak_resident", "byte") => (peak_memory(), 1.0),
        // The whole process is counted, with what its loader and the kernel make of it.
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
    let mut metric = Metric::new(value * factor);
    if let Some((lower, upper)) = ends {
        metric = metric.within(lower * factor, upper * factor);
    }
    Some(metric.with_samples(samples.into_iter().map(|sample| sample * factor).collect()))
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyEntry;

        impl<'de> Visitor<'de> for AnyEntry {
            type Value = Entry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value with its unit, or an exit code")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
                let mut found = Entry::Other;
                while let Some(key) = map.next_key::<String>()? {
                    if key == "value" {
                        found = match map.next_value()? {
                            Entry::Code(Some(value)) => Entry::Value(Figure(Some(value as f64))),
                            other => other,
                        };
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(found)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Entry, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Entry::Other)
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Entry, E> {
                Ok(Entry::Code(Some(value)))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Entry, E> {
                Ok(match i64::try_from(value) {
                    Ok(value) => Entry::Code(Some(value)),
                    Err(_) => Entry::Value(Figure(Some(value as f64))),
                })
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Entry, E> {
                Ok(Entry::Value(Figure(Some(value))))
            }

            fn visit_unit<E: Error>(self) -> Result<Entry, E> {
                Ok(Entry::Code(None))
            }

            fn visit_bool<E: Error>(self, _: bool) -> Result<Entry, E> {
                Ok(Entry::Other)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Entry, E> {
                Ok(Entry::Text(text.to_owned()))
            }
        }

        deserializer.deserialize_any(AnyEntry)
    }
}
