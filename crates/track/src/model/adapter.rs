//! The tools whose output can be read.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adapter {
    Magic,
    /// Bencher Metric Format.
    Json,
    /// `cargo bench` of libtest, and Criterion's `--output-format bencher`.
    RustBench,
    RustCriterion,
    RustDivan,
    RustIai,
    /// Gungraun, formerly iai-callgrind.
    #[serde(alias = "rust_iai_callgrind")]
    RustGungraun,
    /// Google Benchmark, JSON.
    CppGoogle,
    /// Catch2.
    CppCatch2,
    /// `go test -bench`.
    GoBench,
    JavaJmh,
    /// BenchmarkDotNet, JSON.
    CSharpDotNet,
    JsBenchmark,
    /// `console.time`.
    JsTime,
    JsVitest,
    PythonAsv,
    /// pytest-benchmark, JSON.
    PythonPytest,
    /// Ruby's benchmark module and benchmark-ips.
    RubyBenchmark,
    ShellHyperfine,
    /// Dart's benchmark_harness.
    DartBenchmarkHarness,
    /// `wingbeat bench --format json`.
    WingbeatBench,
    /// `perf stat -j`.
    PerfStat,
    /// `bpftool prog run`.
    Bpftool,
    /// `veristat -o csv`.
    Veristat,
}
