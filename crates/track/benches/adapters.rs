//! How fast adapters read: 10 MB of a golden output, over and over, is to go through at 100 MB/s and more.

use std::{fs, hint::black_box, path::Path, time::Duration};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use wingbeat_track::adapter::Adapter;

const OUTPUT_BYTES: usize = 10_000_000;

/// An adapter, and a golden output of its tool.
const OUTPUTS: &[(Adapter, &str)] = &[
    (Adapter::RustBench, "rust/golden/rust_bench/libtest-1.95.txt"),
    (Adapter::RustCriterion, "rust/golden/rust_criterion/criterion-0.8.2-colour-stderr.txt"),
    (Adapter::RustDivan, "rust/golden/rust_divan/divan-0.1.21.txt"),
    (Adapter::RustIai, "rust/golden/rust_iai/iai-0.1.1-again.txt"),
    (Adapter::RustGungraun, "rust/golden/rust_gungraun/gungraun-0.20.0-tools.txt"),
    (Adapter::RustGungraun, "rust/golden/rust_gungraun/gungraun-0.20.0.json"),
    (Adapter::WingbeatBench, "rust/golden/wingbeat_bench/wingbeat-0.1.0.json"),
    (Adapter::PerfStat, "rust/golden/perf_stat/perf-6.1-repeat.json"),
    (Adapter::Bpftool, "rust/golden/bpftool/bpftool-7.1.0-data-out.txt"),
    (Adapter::Veristat, "rust/golden/veristat/schema-0.5.1.csv"),
    (Adapter::CppGoogle, "other/golden/cpp_google/benchmark-1.7.1-repetitions.json"),
    (Adapter::CppCatch2, "other/golden/cpp_catch2/catch2-3.7.1.txt"),
    (Adapter::GoBench, "other/golden/go_bench/go-1.27.3-benchmem.txt"),
    (Adapter::JavaJmh, "other/golden/java_jmh/jmh-1.38-snapshot.json"),
    (Adapter::CSharpDotNet, "other/golden/c_sharp_dot_net/schema-0.15-full.json"),
    (Adapter::JsBenchmark, "other/golden/js_benchmark/benchmark-2.1.4.txt"),
    (Adapter::JsTime, "other/golden/js_time/node-20.20.2.txt"),
    (Adapter::JsVitest, "other/golden/js_vitest/vitest-5.1.1-samples.json"),
    (Adapter::PythonAsv, "other/golden/python_asv/asv-0.6.6.txt"),
    (Adapter::PythonPytest, "other/golden/python_pytest/pytest-benchmark-5.3.1.json"),
    (Adapter::RubyBenchmark, "other/golden/ruby_benchmark/ruby-3.1.2.txt"),
    (Adapter::ShellHyperfine, "other/golden/shell_hyperfine/hyperfine-1.20.0.json"),
    (Adapter::DartBenchmarkHarness, "other/golden/dart_benchmark_harness/schema-2.3.1.txt"),
];

fn adapters(criterion: &mut Criterion) {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/adapters");
    let mut group = criterion.benchmark_group("adapters");
    group.sample_size(10).warm_up_time(Duration::from_millis(500));
    group.throughput(Throughput::BytesDecimal(OUTPUT_BYTES as u64));
    for (adapter, file) in OUTPUTS {
        let once = fs::read(suite.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let mut output = Vec::with_capacity(OUTPUT_BYTES + once.len());
        while output.len() < OUTPUT_BYTES {
            output.extend_from_slice(&once);
            output.push(b'\n');
        }
        let kind = file.rsplit('.').next().unwrap_or_default();
        group.bench_function(format!("{adapter}/{kind}"), |bencher| {
            bencher.iter(|| {
                adapter.parse(black_box(&output), None).expect("a golden output can be read")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, adapters);
criterion_main!(benches);
