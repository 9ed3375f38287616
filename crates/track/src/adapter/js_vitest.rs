//! Vitest: `vitest bench --outputJson` up to version 4, and `--reporter=json` from version 5 on, where benchmarks are
//! part of tests.

use serde::Deserialize;

use crate::adapter::prelude::*;

const NS_PER_MS: f64 = 1e6;

#[derive(Deserialize)]
struct Report {
    files: Option<Vec<File>>,
    #[serde(rename = "testResults")]
    test_files: Option<Vec<TestFile>>,
}

#[derive(Deserialize)]
struct File {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    full_name: String,
    benchmarks: Vec<Benchmark>,
}

/// Failed benchmarks have a name but no figures. Times are in milliseconds.
#[derive(Deserialize)]
struct Benchmark {
    name: String,
    hz: Figure,
    mean: Figure,
    median: Figure,
    sd: Figure,
    rme: Figure,
    #[serde(default)]
    samples: Vec<Figure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TestFile {
    name: String,
    #[serde(default)]
    assertion_results: Vec<Test>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Test {
    #[serde(default)]
    ancestor_titles: Vec<String>,
    title: String,
    status: String,
    #[serde(default)]
    failure_messages: Vec<String>,
    /// Missing in reports of runs without benchmarks.
    benchmarks: Option<Vec<Comparison>>,
}

#[derive(Deserialize)]
struct Comparison {
    name: String,
    tasks: Vec<Task>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    name: String,
    latency: Statistics,
    throughput: Statistics,
    /// Whether it was read from a file and not measured.
    #[serde(default)]
    from_store: bool,
}

#[derive(Deserialize)]
struct Statistics {
    #[serde(deserialize_with = "required")]
    mean: Figure,
    p50: Figure,
    sd: Figure,
    rme: Figure,
    samples: Option<Vec<Figure>>,
}

pub(super) fn parse(text: &str, average: Option<Average>) -> Parsed {
    let adapter = Adapter::JsVitest;
    let reports = documents::<Report>(adapter, text, &["\"benchmarks\"", "\"fullName\""])?;
    let average = average.unwrap_or(Average::Mean);
    let mut results = Results::default();
    for (at, report) in reports.found {
        let mut entries = Entries::default();
        for group in report.files.into_iter().flatten().flat_map(|file| file.groups) {
            for benchmark in group.benchmarks {
                let name = joined([group.full_name.as_str(), &benchmark.name]);
                let theirs = format!("{} > {}", group.full_name, benchmark.name);
                let theirs = if group.full_name.is_empty() { &benchmark.name } else { &theirs };
                at.read(&mut results, &name, |results, name| {
                    entries.add(at, name.clone(), name.as_str())?;
                    results.set_bencher_name(&name, theirs);
                    add(results, name, &benchmark, average)
                });
            }
        }
        add_tests(&mut results, at, report.test_files.unwrap_or_default(), average)?;
    }
    Ok(results)
}

fn joined<'t>(parts: impl IntoIterator<Item = &'t str>) -> String {
    let parts: Vec<_> =
        parts.into_iter().map(in_one_line).filter(|part| !part.is_empty()).collect();
    parts.join(" > ")
}

fn add(
    results: &mut Results,
    name: BenchmarkName,
    benchmark: &Benchmark,
    average: Average,
) -> Parsed<()> {
    let (value, spread) = match average {
        Average::Mean => (benchmark.mean, benchmark.sd),
        // Quartiles are not reported.
        Average::Median => (benchmark.median, Figure(None)),
    };
    let Some(latency) = around(value, spread, &benchmark.samples, NS_PER_MS) else {
        results.fail(name, "it has no time: it threw an error, or never ran");
        return Ok(());
    };
    results.add(name.clone(), Measure::latency(), latency)?;
    let error = benchmark.hz.0.zip(benchmark.rme.0).map(|(hz, rme)| hz * rme / 100.0);
    if let Some(throughput) = around(benchmark.hz, Figure(error), &[], 1.0) {
        results.add(name, Measure::throughput(), throughput)?;
    }
    Ok(())
}

/// Adds the benchmarks of version 5. Their names include the file only if two files share one.
fn add_tests(results: &mut Results, at: At, files: Vec<TestFile>, average: Average) -> Parsed<()> {
    let test_name =
        |test: &Test| joined(test.ancestor_titles.iter().chain([&test.title]).map(String::as_str));
    let pairs = files.iter().flat_map(|file| {
        file.assertion_results.iter().map(move |test| (test_name(test), file.name.as_str()))
    });
    let ambiguous = naming::ambiguous(pairs);
    let mut entries = Entries::default();
    for file in &files {
        let file_name = file.name.rsplit(['/', '\\']).next().unwrap_or(&file.name);
        for test in &file.assertion_results {
            let Some(benchmarks) = &test.benchmarks else { continue };
            let own_name = test_name(test);
            let prefix = if ambiguous.contains(&own_name) { file_name } else { "" };
            let tasks: Vec<_> = benchmarks
                .iter()
                .flat_map(|comparison| comparison.tasks.iter().map(move |task| (comparison, task)))
                .filter(|(_, task)| !task.from_store)
                .collect();
            let message = test.failure_messages.first().and_then(|message| message.lines().next());
            let failure = (test.status == "failed")
                .then(|| message.unwrap_or("Vitest says that the test failed"));
            if let (Some(reason), true) = (failure, tasks.is_empty()) {
                results.fail(at.name(&joined([prefix, &own_name]))?, reason);
            }
            for (comparison, task) in tasks {
                let name = joined([prefix, &comparison.name, &task.name]);
                at.read(results, &name, |results, name| {
                    entries.add(at, name.clone(), name.as_str())?;
                    match failure {
                        Some(reason) => results.fail(name, reason),
                        None => add_task(results, name, task, average)?,
                    }
                    Ok(())
                });
            }
        }
    }
    Ok(())
}

fn add_task(
    results: &mut Results,
    name: BenchmarkName,
    task: &Task,
    average: Average,
) -> Parsed<()> {
    let of = |statistics: &Statistics, spread: Figure, factor| {
        let samples = statistics.samples.as_deref().unwrap_or_default();
        match average {
            Average::Mean => around(statistics.mean, spread, samples, factor),
            Average::Median => around(statistics.p50, Figure(None), samples, factor),
        }
    };
    let Some(latency) = of(&task.latency, task.latency.sd, NS_PER_MS) else {
        results.fail(name, "it has no time");
        return Ok(());
    };
    results.add(name.clone(), Measure::latency(), latency)?;
    let rates = &task.throughput;
    let error = rates.mean.0.zip(rates.rme.0).map(|(mean, rme)| mean * rme / 100.0);
    if let Some(throughput) = of(rates, Figure(error), 1.0) {
        results.add(name, Measure::throughput(), throughput)?;
    }
    Ok(())
}
