//! Cost of the store: storing a report, reading its history, a plot and an export, with a million stored metrics.
//!
//! Goals: 50 ms for a report of 1,000 metrics, 100 ms for its history and a plot.
//!
//! Set `WINGBEAT_BENCH_DATABASE` to the URL of an empty PostgreSQL database to run there as well.

use std::{
    hint::black_box,
    path::{Path, PathBuf},
};

use criterion::{Criterion, criterion_group, criterion_main};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;
use wingbeat_track::{
    model::{
        BenchmarkName, Boundary, Measure, Metric, Outcome, ReasonKind, Report, Results, Verdict,
    },
    store::{HistoryLimits, PlotQuery, ReportFilter, Store},
};

fn benchmark(index: usize) -> BenchmarkName {
    BenchmarkName::new(format!("module::benchmark_{index:04}")).expect("a name")
}

/// A report with that many metrics, each with a verdict.
fn report(number: u64, metrics: usize) -> Report {
    let mut results = Results::default();
    let mut verdicts = Vec::new();
    for index in 0..metrics {
        let value = 1000.0 + (number * 7919 + index as u64 * 104_729) as f64 % 97.0;
        let metric = Metric::new(value).within(value - 3.0, value + 3.0);
        results.add(benchmark(index), Measure::latency(), metric).expect("added");
        verdicts.push(Verdict {
            outcome: Outcome::NoChange,
            boundary: Some(Boundary {
                baseline: Some(1048.0),
                lower_limit: None,
                upper_limit: Some(1100.0),
            }),
            p: Some(0.4),
            smallest_visible: Some(0.03),
            points: 64,
            reason: ReasonKind::WithinLimits.into(),
            ..Verdict::new(0, benchmark(index), Measure::latency().slug)
        });
    }
    let start_time = OffsetDateTime::UNIX_EPOCH + Duration::minutes(number as i64);
    let uuid = Uuid::from_u64_pair(metrics as u64, number);
    let (project, branch) = ("project".parse(), "main".parse().expect("a name"));
    let testbed = "testbed".parse().expect("a name");
    Report {
        hash: Some(format!("{number:040x}")),
        iterations: vec![results],
        verdicts,
        ..Report::new(uuid, project.expect("a name"), branch, testbed, start_time)
    }
}

/// Location of a store: a file in the folder, or a schema of the given database.
fn place(folder: &Path, name: &str) -> PathBuf {
    match std::env::var("WINGBEAT_BENCH_DATABASE") {
        Ok(url) => format!("{url}?schema={name}").into(),
        Err(_) => folder.join(name).with_extension("db"),
    }
}

/// A small store under `cargo test`, which only checks that the benchmark works.
fn filled(path: &Path, reports: u64, metrics: usize) -> Store {
    let is_measured = std::env::args().any(|argument| argument == "--bench");
    let reports = if is_measured { reports } else { reports.min(20) };
    let store = Store::open(path).expect("a store");
    for number in 0..reports {
        store.insert(&report(number, metrics)).expect("stored");
    }
    store
}

/// 1,000 reports of 1,000 metrics.
fn a_million_metrics(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = place(folder.path(), "results");
    let begin = std::time::Instant::now();
    let store = filled(&path, 1000, 1000);
    let size = std::fs::metadata(&path).map_or(0, |file| file.len());
    let stored_s = begin.elapsed().as_secs_f64();
    println!("1,000 reports of 1,000 metrics: {} MB, stored in {stored_s:.1} s", size / 1_000_000);
    let mut group = criterion.benchmark_group("a million metrics");
    group.sample_size(20);

    let new = report(1_000_000, 1000);
    // `wingbeat run` reads at most 512.
    for reports in [64, 255, 512] {
        let limits = HistoryLimits { reports, ..HistoryLimits::NONE };
        group.bench_function(format!("history of 1,000 series, {reports} points"), |bencher| {
            bencher.iter(|| black_box(store.history(&new, limits).expect("a history")));
        });
    }
    let plot = PlotQuery {
        branches: vec![new.branch.clone()],
        benchmarks: (0..8).map(|index| benchmark(index * 100)).collect(),
        measures: vec![Measure::latency().slug],
        ..PlotQuery::of(new.project.clone())
    };
    group.bench_function("plot of 8 series, 1,000 points", |bencher| {
        bencher.iter(|| black_box(store.plot(&plot).expect("a plot")));
    });
    let wide =
        PlotQuery { benchmarks: (0..100).map(|index| benchmark(index * 10)).collect(), ..plot };
    group.bench_function("plot of 100 series, 1,000 points", |bencher| {
        bencher.iter(|| black_box(store.plot(&wide).expect("a plot")));
    });
    group.bench_function("report of 1,000 metrics", |bencher| {
        let uuid = report(500, 1000).uuid;
        bencher.iter(|| black_box(store.report(uuid).expect("read")));
    });
    group.bench_function("log of 20 reports", |bencher| {
        let filter = ReportFilter::default();
        bencher.iter(|| black_box(store.reports(&filter, 20).expect("a list")));
    });
    group.bench_function("open", |bencher| {
        bencher.iter(|| black_box(Store::open_existing(&path).expect("a store")));
    });
    let mut number = 1000;
    group.bench_function("store a report of 1,000 metrics", |bencher| {
        let next = || {
            number += 1;
            report(number, 1000)
        };
        let size = criterion::BatchSize::LargeInput;
        bencher.iter_batched(next, |report| store.insert(&report).expect("stored"), size);
    });
    group.finish();
}

/// 10,000 reports of 10 metrics. One report has no file yet.
fn ten_thousand_reports(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = filled(&place(folder.path(), "many"), 10_000, 10);
    let files = folder.path().join("files");
    store.export(&files).expect("exported");
    let mut group = criterion.benchmark_group("ten thousand reports");
    group.sample_size(20);
    let mut number = 10_000;
    group.bench_function("export of one new report", |bencher| {
        bencher.iter(|| {
            number += 1;
            store.insert(&report(number, 10)).expect("stored");
            assert_eq!(store.export(&files).expect("exported").documents.reports, 1);
        });
    });
    group.bench_function("import of what is there", |bencher| {
        bencher.iter(|| assert_eq!(store.import(&files).expect("imported").documents.reports, 0));
    });
    group.finish();
}

criterion_group! {
    name = benches;
    // With the results of the other benches, independent of the working directory.
    config = Criterion::default()
        .output_directory(&Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("criterion"));
    targets = a_million_metrics, ten_thousand_reports
}
criterion_main!(benches);
