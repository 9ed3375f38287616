//! Instruction counts of adapters and of the decision under Valgrind. `cargo xtask track` fails when they grow.

#[path = "../../stats/benches/support/mode.rs"]
mod mode;

use std::{hint::black_box, process::ExitCode};

use time::OffsetDateTime;
use wingbeat_stats::{normal, random::Random};
use wingbeat_track::{
    adapter::Adapter,
    model::{threshold::Test, *},
    verdict::{ReportInput, Series, Settings, decide},
};

const POINTS: usize = 100;

fn main() -> ExitCode {
    mode::main(counted::start, || {
        adapter(Adapter::RustCriterion, &criterion());
        adapter(Adapter::RustGungraun, &gungraun());
        adapter(Adapter::Json, &metric_format());
        decision(Test::Auto, &values());
        decision(Test::TTest, &values());
    })
}

fn criterion() -> String {
    include_str!("../tests/all/adapters/rust/golden/rust_criterion/criterion-0.8.2.txt").repeat(10)
}

/// Ten benchmark programs, since names are unique within a program.
fn gungraun() -> String {
    let golden =
        include_str!("../tests/all/adapters/rust/golden/rust_gungraun/gungraun-0.20.0.txt");
    (0..10).map(|program| golden.replace("b::", &format!("b{program}::"))).collect()
}

fn metric_format() -> String {
    let figures = r#"{"value": 24.43, "lower_value": 24.1, "upper_value": 25.07}"#;
    let entry = |number| format!("\"module::bench_{number}\": {{\"latency\": {figures}}}");
    format!("{{{}}}", (0..200).map(entry).collect::<Vec<_>>().join(",\n"))
}

fn values() -> Vec<f64> {
    let mut random = Random::new(1);
    let value = |_| 100.0 + 3.0 * normal::quantile(random.unit().max(1e-17));
    (0..POINTS).map(value).collect()
}

fn adapter(adapter: Adapter, output: &str) {
    let results = adapter.parse(black_box(output.as_bytes()), None);
    black_box(results.expect("a golden output can be read"));
}

fn decision(test: Test, values: &[f64]) {
    let (environment, time) = (Environment::default(), OffsetDateTime::UNIX_EPOCH);
    let past = vec![PastReport::at("main".parse().expect("a name"), time); POINTS];
    let point = |(report, &value): (usize, &f64)| PastPoint::new(report, value);
    let history: Vec<_> = values.iter().enumerate().map(point).collect();
    let upper = (test == Test::TTest).then_some(0.99);
    let model = ThresholdModel::new(test).within(None, upper);
    let name = BenchmarkName::new("benchmark").expect("a name");
    let (measure, metric) = (Measure::latency(), Metric::new(101.0));
    let series = Series::new(&name, &measure, &metric);
    let series = Series { model: Some(model), history: &history, ..series };
    let report = ReportInput {
        start_time: time,
        environment: &environment,
        hash: None,
        past: &past,
        series: vec![series],
    };
    black_box(decide(black_box(&report), &Settings::default()));
}

/// Each function in the form Gungraun expects: benchmarked functions take their input by value.
mod counted {
    use gungraun::{library_benchmark, library_benchmark_group, main};

    use super::{Adapter, Test, criterion, gungraun, metric_format, values};

    #[library_benchmark]
    #[bench::criterion(Adapter::RustCriterion, criterion())]
    #[bench::gungraun(Adapter::RustGungraun, gungraun())]
    #[bench::metric_format(Adapter::Json, metric_format())]
    fn adapter(adapter: Adapter, output: String) {
        crate::adapter(adapter, &output);
    }

    #[library_benchmark]
    #[bench::auto(Test::Auto, values())]
    #[bench::t_test(Test::TTest, values())]
    fn decision(test: Test, values: Vec<f64>) {
        crate::decision(test, &values);
    }

    library_benchmark_group!(name = track, benchmarks = [adapter, decision]);
    main!(library_benchmark_groups = track);

    /// Starts the runner, or the function that the runner requests.
    pub(super) fn start() {
        main();
    }
}
