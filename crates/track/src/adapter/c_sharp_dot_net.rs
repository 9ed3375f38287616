//! BenchmarkDotNet's JSON exporters, brief and full. Times are in nanoseconds.

use serde::Deserialize;

use crate::adapter::prelude::*;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Summary {
    benchmarks: Vec<Benchmark>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Benchmark {
    #[serde(default)]
    display_info: String,
    namespace: Option<String>,
    #[serde(rename = "Type")]
    class: Option<String>,
    method: String,
    parameters: Option<String>,
    full_name: Option<String>,
    /// Missing if the benchmark failed.
    statistics: Option<Statistics>,
    memory: Option<Memory>,
    #[serde(default)]
    measurements: Vec<Measurement>,
    #[serde(default)]
    metrics: Vec<OfDiagnoser>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Statistics {
    #[serde(deserialize_with = "required")]
    mean: Figure,
    standard_deviation: Figure,
    median: Figure,
    interquartile_range: Figure,
    #[serde(default)]
    original_values: Vec<Figure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Memory {
    gen0_collections: Figure,
    gen1_collections: Figure,
    gen2_collections: Figure,
    total_operations: Figure,
    bytes_allocated_per_operation: Figure,
}

/// One iteration of one launch.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Measurement {
    iteration_mode: String,
    iteration_stage: String,
    #[serde(deserialize_with = "required")]
    operations: Figure,
    #[serde(deserialize_with = "required")]
    nanoseconds: Figure,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OfDiagnoser {
    #[serde(deserialize_with = "required")]
    value: Figure,
    descriptor: Descriptor,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Descriptor {
    id: String,
    #[serde(default)]
    display_name: String,
    unit: Option<String>,
    #[serde(default)]
    the_greater_the_better: bool,
}

pub(super) fn parse(text: &str, average: Option<Average>) -> Parsed {
    let adapter = Adapter::CSharpDotNet;
    let summaries = documents::<Summary>(adapter, text, &["\"Benchmarks\"", "\"Method\""])?;
    let average = average.unwrap_or(Average::Mean);
    let mut results = Results::default();
    for (at, summary) in summaries.found {
        let pairs = summary.benchmarks.iter().map(|b| (name(b), b.display_info.as_str()));
        let ambiguous = naming::ambiguous(pairs);
        let mut entries = Entries::default();
        for benchmark in &summary.benchmarks {
            let mut text = name(benchmark);
            if ambiguous.contains(&text) {
                text = format!("{text} [{}]", job(&benchmark.display_info));
            }
            at.read(&mut results, &text, |results, name| {
                entries.add(at, name.clone(), name.as_str())?;
                results.set_bencher_name(&name, &bencher_name(benchmark));
                add(results, name, benchmark, average)
            });
        }
    }
    Ok(results)
}

/// BenchmarkDotNet's own identity: `Namespace.Class.Method(Size: 8)`.
fn name(benchmark: &Benchmark) -> String {
    if let Some(name) = benchmark.full_name.as_ref().filter(|name| !name.is_empty()) {
        return name.clone();
    }
    let parts =
        [benchmark.namespace.as_deref(), benchmark.class.as_deref(), Some(&benchmark.method)];
    let parts: Vec<_> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    match benchmark.parameters.as_deref() {
        None | Some("") => parts.join("."),
        Some(parameters) => format!("{}({parameters})", parts.join(".")),
    }
}

/// Without class and parameters, so Bencher merges several benchmarks.
fn bencher_name(benchmark: &Benchmark) -> String {
    match &benchmark.namespace {
        Some(namespace) => format!("{namespace}.{}", benchmark.method),
        None => benchmark.method.clone(),
    }
}

/// Extracts the job from `Class.Method: Job(Runtime=.NET 9.0) [Size=8]`.
fn job(display_info: &str) -> &str {
    let job = display_info.split_once(": ").map_or(display_info, |(_, job)| job);
    job.rsplit_once(" [").map_or(job, |(job, _)| job)
}

fn add(
    results: &mut Results,
    name: BenchmarkName,
    benchmark: &Benchmark,
    average: Average,
) -> Parsed<()> {
    let metric = benchmark.statistics.as_ref().and_then(|statistics| {
        let (value, spread) = match average {
            Average::Mean => (statistics.mean, statistics.standard_deviation),
            Average::Median => (statistics.median, statistics.interquartile_range),
        };
        around(value, spread, &samples(statistics, &benchmark.measurements), 1.0)
    });
    let Some(latency) = metric else {
        results.fail(name, "it has no statistics: BenchmarkDotNet could not run it");
        return Ok(());
    };
    results.add(name.clone(), Measure::latency(), latency)?;
    if let Some(memory) = &benchmark.memory {
        // The numbers of collections and operations depend on the tool's choice of iterations.
        let count =
            |title, units| Measure::custom(title, units, Direction::Unknown, MeasureKind::Noisy);
        let figures = [
            (Measure::named("allocated"), memory.bytes_allocated_per_operation),
            (count("Gen0 Collects", "collects"), memory.gen0_collections),
            (count("Gen1 Collects", "collects"), memory.gen1_collections),
            (count("Gen2 Collects", "collects"), memory.gen2_collections),
            (count("Total Operations", "operations"), memory.total_operations),
        ];
        for (measure, value) in figures {
            if let Some(value) = value.0 {
                results.add(name.clone(), measure, Metric::new(value))?;
            }
        }
    }
    for metric in &benchmark.metrics {
        if let Some(value) = metric.value.0
            && !is_of_memory(&metric.descriptor.id)
        {
            results.add(name.clone(), measure(&metric.descriptor), Metric::new(value))?;
        }
    }
    Ok(())
}

/// Times per operation of the measured iterations.
fn samples(statistics: &Statistics, measurements: &[Measurement]) -> Vec<Figure> {
    let all = &statistics.original_values;
    if !all.is_empty() && all.iter().all(|value| value.0.is_some()) {
        return all.clone();
    }
    measurements
        .iter()
        .filter(|m| m.iteration_mode == "Workload" && m.iteration_stage == "Result")
        .filter_map(|m| Some(m.nanoseconds.0? / m.operations.0.filter(|&count| count > 0.0)?))
        .map(|time| Figure(Some(time)))
        .collect()
}

/// Whether a diagnoser's metric duplicates the field `Memory`.
fn is_of_memory(id: &str) -> bool {
    id == "Allocated Memory" || (id.starts_with("Gen") && id.ends_with("Collects"))
}

fn measure(descriptor: &Descriptor) -> Measure {
    let name =
        if descriptor.display_name.is_empty() { &descriptor.id } else { &descriptor.display_name };
    let direction = match descriptor.the_greater_the_better {
        true => Direction::HigherIsBetter,
        false => Direction::LowerIsBetter,
    };
    naming::counter(name, descriptor.unit.as_deref().unwrap_or_default(), direction)
}
