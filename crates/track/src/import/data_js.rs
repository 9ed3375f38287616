//! `data.js` of github-action-benchmark: `window.BENCHMARK_DATA = {…}` with commits and their values, by suite.
//!
//! Suites that measured the same commit become one report, like a single run of all of them.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, de::IgnoredAny};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use uuid::Uuid;

use super::{History, Place, malformed};
use crate::{
    adapter::{Measures, Shape, in_one_line, spread, without_no_numbers},
    model::{Adapter, BenchmarkName, Direction, Measure, Metric, Report, Results, Slugs},
};

pub(super) const VARIABLE: &str = "window.BENCHMARK_DATA";

const TOOL: &str = "data.js of github-action-benchmark";

#[derive(Deserialize)]
struct Data {
    entries: BTreeMap<String, Vec<Entry>>,
}

#[derive(Deserialize)]
struct Entry {
    commit: Commit,
    /// When it was measured, milliseconds since 1970.
    date: Option<f64>,
    #[serde(default)]
    tool: String,
    benches: Vec<Bench>,
}

#[derive(Deserialize)]
struct Commit {
    id: String,
    timestamp: Option<String>,
}

#[derive(Deserialize, PartialEq)]
struct Bench {
    name: String,
    /// Null if JSON cannot represent the number.
    value: Option<f64>,
    unit: Option<String>,
    #[serde(default)]
    range: Shape<IgnoredAny>,
}

pub(super) fn read(text: &str, place: &Place) -> Result<History, String> {
    let json = match text.strip_prefix(VARIABLE) {
        Some(rest) => rest.trim_start().trim_start_matches('=').trim_end().trim_end_matches(';'),
        None => text,
    };
    let data: Data = serde_json::from_str(&without_no_numbers(json)).map_err(malformed(TOOL))?;
    let shared = shared_names(&data);
    let mut history = History::default();
    let mut slugs = Slugs::default();
    let mut places: HashMap<Uuid, usize> = HashMap::new();
    for (suite, entries) in &data.entries {
        let mut seen: HashMap<&str, Vec<&[Bench]>> = HashMap::new();
        for (number, entry) in (1..).zip(entries) {
            let at = || format!("entry {number} of {suite:?}");
            // A commit may have been measured several times, and a measurement may be recorded twice.
            let of_commit = seen.entry(&entry.commit.id).or_default();
            if of_commit.contains(&&*entry.benches) {
                continue;
            }
            of_commit.push(&entry.benches);
            let uuid = uuid(place, &entry.commit.id, of_commit.len());
            let start_time = start_time(entry, &at)?;
            let results = results(suite, entry, &shared, &mut slugs, &mut history);
            if results.is_empty() {
                continue;
            }
            match places.get(&uuid) {
                Some(&known) => {
                    let report: &mut Report = &mut history.reports[known];
                    report.start_time = report.start_time.min(start_time);
                    report.end_time = report.end_time.max(start_time);
                    let mut errors = Vec::new();
                    for benchmark in results.benchmarks {
                        for (measure, metric) in benchmark.metrics {
                            let name = benchmark.name.clone();
                            errors.extend(report.iterations[0].add(name, measure, metric).err());
                        }
                    }
                    for error in errors {
                        history.leave_out(|| format!("{}: {error}", at()));
                    }
                }
                None => {
                    places.insert(uuid, history.reports.len());
                    let Place { project, branch, testbed, .. } = place.clone();
                    let report = Report::new(uuid, project, branch, testbed, start_time);
                    history.reports.push(Report {
                        hash: hash(&entry.commit.id),
                        adapter: adapter(&entry.tool),
                        iterations: vec![results],
                        ..report
                    });
                }
            }
        }
    }
    Ok(history)
}

/// Deterministic for a commit and its place.
fn uuid(place: &Place, commit: &str, time: usize) -> Uuid {
    let Place { project, branch, testbed, .. } = place;
    let name = format!("github-action-benchmark\n{project}\n{branch}\n{testbed}\n{commit}\n{time}");
    Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes())
}

fn hash(commit: &str) -> Option<String> {
    let is_hash =
        (4..=64).contains(&commit.len()) && commit.bytes().all(|it| it.is_ascii_hexdigit());
    is_hash.then(|| commit.to_lowercase())
}

fn start_time(entry: &Entry, at: &impl Fn() -> String) -> Result<OffsetDateTime, String> {
    let wrong = |time: String| format!("{}: {time} is not between the years 1678 and 2261", at());
    let time = match (entry.date, &entry.commit.timestamp) {
        (Some(date), _) => {
            let time =
                OffsetDateTime::from_unix_timestamp_nanos((date as i128).saturating_mul(1_000_000));
            time.map_err(|_| wrong(format!("{date} milliseconds since 1970")))?
        }
        (None, Some(text)) => {
            OffsetDateTime::parse(text, &Rfc3339).map_err(|_| wrong(format!("{text:?}")))?
        }
        (None, None) => return Err(wrong("no date".to_owned())),
    };
    let is_stored = crate::run::YEARS.contains(&time.year());
    if is_stored { Ok(time) } else { Err(wrong(time.to_string())) }
}

/// Benchmark names used by several suites.
fn shared_names(data: &Data) -> HashSet<&str> {
    let mut first: HashMap<&str, &str> = HashMap::new();
    let mut shared = HashSet::new();
    for (suite, entries) in &data.entries {
        for bench in entries.iter().flat_map(|entry| &entry.benches) {
            if *first.entry(&bench.name).or_insert(suite) != suite.as_str() {
                shared.insert(&*bench.name);
            }
        }
    }
    shared
}

fn results(
    suite: &str,
    entry: &Entry,
    shared: &HashSet<&str>,
    slugs: &mut Slugs,
    history: &mut History,
) -> Results {
    let (mut results, mut measures) = (Results::default(), Measures::default());
    for bench in &entry.benches {
        let unit = bench.unit.as_deref().unwrap_or_default().trim();
        let (measure, factor) = measure(&mut measures, &entry.tool, unit);
        // Go's additional metrics are appended to the benchmark's name.
        let further = bench.name.strip_suffix(&format!(" - {unit}"));
        let is_there = |name: &str| {
            let own = results.benchmarks.iter().find(|it| it.name.as_str() == name);
            own.is_some_and(|own| own.metrics.iter().any(|(known, _)| known.is(&measure)))
        };
        if further.is_some_and(is_there) {
            continue;
        }
        let name = further.unwrap_or(&bench.name);
        let name = match shared.contains(&*bench.name) {
            true => format!("{suite}/{name}"),
            false => name.to_owned(),
        };
        let added = bench.value.ok_or_else(|| "it is not a number".to_owned()).and_then(|value| {
            let name = BenchmarkName::new(in_one_line(&name)).map_err(|error| error.to_string())?;
            let metric = Metric::new(value).with_error(spread(value, &bench.range));
            let added = results.add(name, measure, metric.scaled(factor));
            added.map_err(|error| error.to_string())
        });
        if let Err(reason) = added {
            let commit: String = entry.commit.id.chars().take(10).collect();
            history.leave_out(|| format!("{name:.80} at {commit}: {reason}"));
        }
    }
    results.tell_apart(slugs);
    results
}

/// The measure of a unit, and the factor to its units.
fn measure(measures: &mut Measures, tool: &str, unit: &str) -> (Measure, f64) {
    let (measure, factor) = match unit {
        "iter/sec" => (Measure::throughput(), 1.0),
        "ops/ns" => (Measure::throughput(), 1e9),
        "ops/us" => (Measure::throughput(), 1e6),
        "ops/ms" => (Measure::throughput(), 1e3),
        "ops/min" => (Measure::throughput(), 1.0 / 60.0),
        "B/op" => (Measure::named("allocated"), 1.0),
        "allocs/op" => (Measure::named("allocations"), 1.0),
        _ => {
            let (measure, factor) = measures.of(unit);
            (measure.clone(), factor)
        }
    };
    let direction = match tool {
        "customSmallerIsBetter" => Direction::LowerIsBetter,
        "customBiggerIsBetter" => Direction::HigherIsBetter,
        _ => measure.direction,
    };
    (Measure { direction, ..measure }, factor)
}

fn adapter(tool: &str) -> Adapter {
    match tool {
        "cargo" => Adapter::RustBench,
        "go" => Adapter::GoBench,
        "benchmarkjs" => Adapter::JsBenchmark,
        "pytest" => Adapter::PythonPytest,
        "googlecpp" => Adapter::CppGoogle,
        "catch2" => Adapter::CppCatch2,
        "jmh" => Adapter::JavaJmh,
        "benchmarkdotnet" => Adapter::CSharpDotNet,
        _ => Adapter::Json,
    }
}
