//! Cost of a decision: at most 200 ms for 1,000 series of 255 points.

use std::{hint::black_box, path::Path};

use criterion::{Criterion, criterion_group, criterion_main};
use time::OffsetDateTime;
use wingbeat_stats::{normal, random::Random};
use wingbeat_track::{
    model::{threshold::Test, *},
    verdict::{ReportInput, Series, Settings, decide},
};

const POINTS: usize = 255;

/// A few under `cargo test`, which only checks that the benchmark works.
fn series_count() -> usize {
    let is_measured = std::env::args().any(|argument| argument == "--bench");
    if is_measured { 1_000 } else { 20 }
}

fn decisions(criterion: &mut Criterion) {
    let mut random = Random::new(1);
    let mut value = || 100.0 + 3.0 * normal::quantile(random.unit().max(1e-17));
    let environment = Environment::default();
    let time = OffsetDateTime::UNIX_EPOCH;
    let past = vec![PastReport::at("main".parse().expect("a name"), time); POINTS];
    let mut point = |report| PastPoint::new(report, value());
    let count = series_count();
    let names: Vec<BenchmarkName> =
        (0..count).map(|i| BenchmarkName::new(format!("b{i}")).expect("a name")).collect();
    let histories: Vec<Vec<PastPoint>> =
        (0..count).map(|_| (0..POINTS).map(&mut point).collect()).collect();
    let (measure, metric) = (Measure::latency(), Metric::new(101.0));
    let mut group = criterion.benchmark_group("1,000 series of 255 points");
    group.sample_size(20);
    for test in [Test::Auto, Test::ChangePoint, Test::TTest] {
        let upper = (test == Test::TTest).then_some(0.99);
        let model = ThresholdModel::new(test).within(None, upper);
        let series = names.iter().zip(&histories).map(|(benchmark, history)| Series {
            model: Some(model),
            history,
            ..Series::new(benchmark, &measure, &metric)
        });
        let report = ReportInput {
            start_time: time,
            environment: &environment,
            hash: None,
            past: &past,
            series: series.collect(),
        };
        group.bench_function(test.name(), |bencher| {
            bencher.iter(|| decide(black_box(&report), &Settings::default()));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    // With the results of the other benches, independent of the working directory.
    config = Criterion::default()
        .output_directory(&Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("criterion"));
    targets = decisions
}
criterion_main!(benches);
