//! Google Benchmark: `--benchmark_format=json`, or its console output. C++, and its Python bindings.
//!
//! Repetitions are samples. Aggregates are ignored if their repetitions are present. If there are only aggregates, the
//! mean is used, with one standard deviation on either side.

mod console;

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

use crate::adapter::prelude::*;

#[derive(Deserialize)]
struct Report {
    #[serde(rename = "context")]
    _context: IgnoredAny,
    benchmarks: Vec<Run>,
}

/// An entry: a repetition, or an aggregate of several.
#[derive(Default)]
struct Run {
    name: String,
    /// Name without the suffix of an aggregate. Missing in old versions.
    run_name: Option<String>,
    /// Indices of the benchmark's family and of its set of arguments.
    instance: [Option<u64>; 2],
    /// `mean`, `median`, `stddev`, `cv`, `BigO`, `RMS`.
    aggregate: Option<String>,
    is_failed: bool,
    /// Whether it failed because its figures cannot be read.
    is_unreadable: bool,
    message: Option<String>,
    real_time: Figure,
    cpu_time: Figure,
    time_unit: Option<String>,
    counters: Vec<(String, Figure)>,
}

impl Run {
    fn run_name(&self) -> &str {
        self.run_name.as_deref().unwrap_or(&self.name)
    }
}

pub(super) fn parse(text: &str, _: Option<Average>) -> Parsed {
    let adapter = Adapter::CppGoogle;
    let reports = documents::<Report>(adapter, text, &["\"benchmarks\"", "\"real_time\""])?;
    let mut results = Results::default();
    let mut measures = HashMap::new();
    let mut found: Vec<_> =
        reports.found.into_iter().map(|(at, report)| (at, report.benchmarks)).collect();
    if found.is_empty() {
        found = console::tables(At { adapter, line: 1 }, text);
    }
    for (at, runs) in found {
        read(at, &runs, &mut measures, &mut results);
    }
    Ok(results)
}

/// Adds the results of one document or table.
fn read(at: At, runs: &[Run], measures: &mut HashMap<String, Measure>, results: &mut Results) {
    // Repetitions share a name, and so do two benchmarks registered under the same one.
    let mut instances = HashMap::new();
    for (entry, run) in (1..).zip(runs).filter(|(_, run)| run.aggregate.is_none()) {
        let (first, instance) = *instances.entry(run.run_name()).or_insert((entry, run.instance));
        if instance != run.instance {
            let name = run.run_name();
            at.lose(results, name, once::both(at, first, entry, name));
        }
    }
    let mut failed = HashSet::new();
    let mut repeated = HashSet::new();
    for run in runs {
        if run.is_failed {
            if failed.insert(run.run_name()) {
                let reason = run.message.as_deref().unwrap_or("it was skipped");
                at.read(results, run.run_name(), |results, name| match run.is_unreadable {
                    true => Err(at.malformed(reason)),
                    false => {
                        results.fail(name, reason);
                        Ok(())
                    }
                });
            }
        } else if run.aggregate.is_none() {
            repeated.insert(run.run_name());
        }
    }
    // Where single repetitions are not listed, each mean gets its deviation.
    let deviations: HashMap<&str, &Run> = runs
        .iter()
        .filter(|run| run.aggregate.as_deref() == Some("stddev"))
        .map(|run| (run.run_name(), run))
        .collect();
    for run in runs {
        let run_name = run.run_name();
        if failed.contains(run_name) {
            continue;
        }
        let deviation = match run.aggregate.as_deref() {
            None => None,
            Some("mean") if !repeated.contains(run_name) => deviations.get(run_name).copied(),
            Some(_) => continue,
        };
        at.read(results, run_name, |results, name| {
            let Some(metrics) = metrics(at, run, deviation, measures)? else {
                results.fail(name, "its time is not a number");
                return Ok(());
            };
            // Bencher treats aggregates as benchmarks.
            results.set_bencher_name(&name, &run.name);
            for (measure, metric) in metrics {
                results.add(name.clone(), measure, metric)?;
            }
            Ok(())
        });
    }
}

/// The metrics of a repetition, or of a mean with its deviation. `None` if there is no time.
fn metrics(
    at: At,
    run: &Run,
    deviation: Option<&Run>,
    measures: &mut HashMap<String, Measure>,
) -> Parsed<Option<Vec<(Measure, Metric)>>> {
    let unit = run.time_unit.as_deref().unwrap_or("ns");
    let wrong = || format!("{:?} has the time unit {unit:?}, which is unknown", run.name);
    let factor = nanoseconds(unit).ok_or_else(|| at.malformed(wrong()))?;
    let spread = |of: fn(&Run) -> Figure| deviation.map_or(Figure(None), of);
    let mut metrics = Vec::with_capacity(2 + run.counters.len());
    let mut add = |label: &str, value, spread, factor| {
        let metric = around(value, spread, &[], factor)?;
        let known = measures.get(label).cloned();
        let measure = known.unwrap_or_else(|| {
            let made = measure(label);
            measures.insert(label.to_owned(), made.clone());
            made
        });
        metrics.push((measure, metric));
        Some(())
    };
    if add(LATENCY, run.real_time, spread(|run| run.real_time), factor).is_none() {
        return Ok(None);
    }
    add(CPU_TIME, run.cpu_time, spread(|run| run.cpu_time), factor);
    for (label, value) in &run.counters {
        let same =
            |run: &Run| run.counters.iter().find(|other| other.0 == *label).map(|other| other.1);
        add(label, *value, deviation.and_then(same).unwrap_or_default(), 1.0);
    }
    Ok(Some(metrics))
}

/// Labels of the times. Counters are in the same object, so they cannot use these.
const LATENCY: &str = "real_time";
const CPU_TIME: &str = "cpu_time";

/// The measure of a time or a counter. Only the library's own rates have a known direction.
fn measure(counter: &str) -> Measure {
    match counter {
        LATENCY => Measure::latency(),
        CPU_TIME => Measure::named("cpu-time"),
        "bytes_per_second" | "items_per_second" => Measure::named(&counter.replace('_', "-")),
        "allocs_per_iter" => naming::counter(counter, "allocations", Direction::LowerIsBetter),
        "max_bytes_used" | "total_allocated_bytes" | "net_heap_growth" => {
            naming::counter(counter, "bytes (B)", Direction::LowerIsBetter)
        }
        _ => naming::counter(counter, "", Direction::Unknown),
    }
}

impl<'de> Deserialize<'de> for Run {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Run;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a benchmark")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Run, A::Error> {
                let mut run = Run::default();
                let mut is_aggregate = false;
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "name" => run.name = map.next_value()?,
                        "run_name" => run.run_name = map.next_value()?,
                        "run_type" => is_aggregate = map.next_value::<String>()? == "aggregate",
                        "aggregate_name" => run.aggregate = map.next_value()?,
                        "error_occurred" | "skipped" => {
                            run.is_failed |= map.next_value::<bool>()?;
                        }
                        "error_message" | "skip_message" => run.message = map.next_value()?,
                        "real_time" => run.real_time = map.next_value()?,
                        "cpu_time" => run.cpu_time = map.next_value()?,
                        "time_unit" => run.time_unit = map.next_value()?,
                        "family_index" => run.instance[0] = map.next_value()?,
                        "per_family_instance_index" => run.instance[1] = map.next_value()?,
                        "repetitions" | "repetition_index" | "threads" | "iterations" | "label"
                        | "aggregate_unit" | "cpu_coefficient" | "real_coefficient" | "big_o"
                        | "rms" => {
                            map.next_value::<IgnoredAny>()?;
                        }
                        _ => {
                            if let Counter::Number(value) = map.next_value()? {
                                run.counters.push((key, value));
                            }
                        }
                    }
                }
                if run.name.is_empty() {
                    return Err(serde::de::Error::missing_field("name"));
                }
                if is_aggregate && run.aggregate.is_none() {
                    run.aggregate = Some("unknown".to_owned());
                }
                Ok(run)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// A field unknown to this version of the adapter.
#[derive(Deserialize)]
#[serde(untagged)]
enum Counter {
    Number(Figure),
    Other(IgnoredAny),
}
