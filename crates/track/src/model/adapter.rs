//! The tools whose output can be read.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adapter {
    Magic,
    /// Bencher Metric Format.
    Json,
    /// A table of names and values.
    Csv,
    /// `cargo bench` of libtest, and Criterion's `--output-format bencher`.
    RustBench,
    RustCriterion,
    RustDivan,
    RustIai,
    #[serde(alias = "rust_iai_callgrind")]
    RustGungraun,
    CppGoogle,
    CppCatch2,
    /// `go test -bench`.
    GoBench,
    JavaJmh,
    CSharpDotNet,
    JsBenchmark,
    /// `console.time`.
    JsTime,
    JsVitest,
    PythonAsv,
    PythonPytest,
    /// Ruby's benchmark module and benchmark-ips.
    RubyBenchmark,
    ShellHyperfine,
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
