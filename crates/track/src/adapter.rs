//! Adapters: parse the output of one benchmark tool into [`Results`]. Pure: bytes in, metrics out.
//!
//! Each file below reads one tool. All of them follow the same rules: unknown text is skipped if it may come from
//! something else, and rejected if it is a malformed result of the tool; a benchmark that failed inside a successful
//! run is a failure, never a fast result; times are converted to nanoseconds and throughput to operations per second;
//! other values keep their units.

mod bpftool;
mod c_sharp_dot_net;
mod cpp_catch2;
mod cpp_google;
pub mod criterion_dir;
mod csv;
mod dart_benchmark_harness;
mod documents;
mod go_bench;
mod java_jmh;
mod js_benchmark;
mod js_time;
mod js_vitest;
mod json;
mod line;
mod magic;
mod naming;
mod perf_stat;
mod python_asv;
mod python_pytest;
mod ruby_benchmark;
mod rust_bench;
mod rust_criterion;
mod rust_divan;
mod rust_gungraun;
mod rust_iai;
mod shape;
mod shell_hyperfine;
mod targets;
mod unit;
mod veristat;
mod wingbeat_bench;

/// Common imports of adapters: positions in an output, units, names, and the model.
mod prelude {
    pub(super) use super::{
        Adapter, Parsed,
        documents::{documents, objects},
        line::{At, in_one_line, lines, numbered, rsplit_once, split_once, without_cargo},
        naming::{self, Entries, Once},
        shape::{Figure, around, required},
        unit::{ODD_COMMA, has_odd_comma, nanoseconds, no_number, number, power, ungrouped},
    };
    pub(super) use crate::model::{
        Average, BenchmarkName, Direction, Measure, MeasureKind, Metric, Results,
    };
}

use std::{borrow::Cow, fmt, str::FromStr};

use self::line::without_colors;
pub(crate) use self::{
    documents::without_no_numbers,
    line::in_one_line,
    shape::{Shape, spread},
    unit::Measures,
};
pub use crate::model::Adapter;
use crate::model::{AddError, Average, Results, Slugs, results::Lost};

/// The result of parsing an output or a part of it.
pub type Parsed<T = Results> = Result<T, AdapterError>;

type Parse = fn(&str, Option<Average>) -> Parsed;

/// Adapter, name, parse function, and the averages to choose from (empty: no choice).
struct Entry(Adapter, &'static str, Parse, &'static [Average]);

use Average::{Mean, Median};

const ADAPTERS: &[Entry] = &[
    Entry(Adapter::Magic, "magic", magic::parse, &[Mean, Median]),
    Entry(Adapter::Json, "json", json::parse, &[Mean, Median]),
    Entry(Adapter::Csv, "csv", csv::parse, &[Mean, Median]),
    Entry(Adapter::RustBench, "rust_bench", rust_bench::parse, &[Median]),
    Entry(Adapter::RustCriterion, "rust_criterion", rust_criterion::parse, &[Mean]),
    Entry(Adapter::RustDivan, "rust_divan", rust_divan::parse, &[Mean, Median]),
    Entry(Adapter::RustIai, "rust_iai", rust_iai::parse, &[]),
    Entry(Adapter::RustGungraun, "rust_gungraun", rust_gungraun::parse, &[]),
    Entry(Adapter::CppGoogle, "cpp_google", cpp_google::parse, &[Mean]),
    Entry(Adapter::CppCatch2, "cpp_catch2", cpp_catch2::parse, &[Mean]),
    Entry(Adapter::GoBench, "go_bench", go_bench::parse, &[Mean]),
    Entry(Adapter::JavaJmh, "java_jmh", java_jmh::parse, &[Mean]),
    Entry(Adapter::CSharpDotNet, "c_sharp_dot_net", c_sharp_dot_net::parse, &[Mean, Median]),
    Entry(Adapter::JsBenchmark, "js_benchmark", js_benchmark::parse, &[Median]),
    Entry(Adapter::JsTime, "js_time", js_time::parse, &[]),
    Entry(Adapter::JsVitest, "js_vitest", js_vitest::parse, &[Mean, Median]),
    Entry(Adapter::PythonAsv, "python_asv", python_asv::parse, &[Median]),
    Entry(Adapter::PythonPytest, "python_pytest", python_pytest::parse, &[Mean, Median]),
    Entry(Adapter::RubyBenchmark, "ruby_benchmark", ruby_benchmark::parse, &[Mean]),
    Entry(Adapter::ShellHyperfine, "shell_hyperfine", shell_hyperfine::parse, &[Mean, Median]),
    Entry(
        Adapter::DartBenchmarkHarness,
        "dart_benchmark_harness",
        dart_benchmark_harness::parse,
        &[Mean],
    ),
    Entry(Adapter::WingbeatBench, "wingbeat_bench", wingbeat_bench::parse, &[Mean, Median]),
    Entry(Adapter::PerfStat, "perf_stat", perf_stat::parse, &[Mean]),
    Entry(Adapter::Bpftool, "bpftool", bpftool::parse, &[Mean]),
    Entry(Adapter::Veristat, "veristat", veristat::parse, &[]),
];

const ALIASES: &[(&str, Adapter)] =
    &[("rust_iai_callgrind", Adapter::RustGungraun), ("rust_callgrind", Adapter::RustGungraun)];

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AdapterError {
    #[error("there is no adapter {0:?}; the adapters are {names}", names = names())]
    NoSuchAdapter(String),
    #[error(
        "the adapter {0} found no result in this output; is it the right one (--adapter), and does the \
         command print its results on stdout? Any program can print them as {EXAMPLE}"
    )]
    Nothing(Adapter),
    #[error(
        "the adapter {0} found no result in this file; is it the right one (--adapter)? Any program can write \
         results as {EXAMPLE}"
    )]
    NothingInFile(Adapter),
    /// A tool's console output, which the adapter does not read.
    #[error("the adapter {adapter} found no result in this output: it is {what}; {next_step}")]
    Console { adapter: Adapter, what: &'static str, next_step: &'static str },
    #[error("the adapter {adapter} cannot give the {asked}: {tool_has}")]
    Average { adapter: Adapter, asked: &'static str, tool_has: &'static str },
    #[error("the adapter {adapter} cannot read line {line}: {reason}")]
    Malformed { adapter: Adapter, line: usize, reason: String },
    #[error("{0}")]
    Metric(#[from] AddError),
}

/// A minimal document for the adapter `json`.
const EXAMPLE: &str =
    r#"JSON: {"NAME": {"latency": {"value": 12.5}}}, with nanoseconds as latency"#;

impl Adapter {
    pub fn all() -> impl Iterator<Item = Self> {
        ADAPTERS.iter().map(|entry| entry.0)
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    pub fn parse(self, output: &[u8], average: Option<Average>) -> Parsed {
        let Entry(_, _, parse, averages) = self.entry();
        if let Some(asked) = average
            && !averages.contains(&asked)
        {
            let tool_has = match averages {
                [] => "the tool gives one figure, which is not an average",
                [Mean] => "the tool reports only the mean",
                _ => "the tool reports only the median",
            };
            let asked = if asked == Mean { "mean" } else { "median" };
            return Err(AdapterError::Average { adapter: self, asked, tool_has });
        }
        let text = decoded(output);
        let text = without_colors(&text);
        let read = match self {
            Self::RustBench
            | Self::RustCriterion
            | Self::RustDivan
            | Self::RustIai
            | Self::RustGungraun => targets::parse(&text, |text| parse(text, average)),
            _ => parse(&text, average),
        };
        let mut results = settled(self, read?)?;
        results.tell_apart(&mut Slugs::default());
        match results.is_empty() {
            true => Err(magic::recognized(self, &text).unwrap_or(AdapterError::Nothing(self))),
            false => Ok(results),
        }
    }

    /// Parses a file written by a tool, and the tool's console output: some tools name failed benchmarks only there.
    pub fn parse_file(self, file: &[u8], printed: &[u8], average: Option<Average>) -> Parsed {
        self.parse_both(file, printed, average).map_err(|error| match error {
            AdapterError::Nothing(adapter) => AdapterError::NothingInFile(adapter),
            other => other,
        })
    }

    fn parse_both(self, file: &[u8], printed: &[u8], average: Option<Average>) -> Parsed {
        let (tool, found) = match self {
            Self::Magic => {
                let (tool, results) = magic::find(&decoded(file))?;
                (tool, Some(results))
            }
            named => (named, None),
        };
        let results = match (tool, found) {
            // Appended to the file, so that the file's line numbers stay the same.
            (Self::JavaJmh | Self::PythonPytest, _) if !printed.is_empty() => {
                tool.parse(&[file, b"\n", printed].concat(), average)
            }
            // They were found without the requested average.
            (_, Some(mut results)) if average.is_none() => {
                results.tell_apart(&mut Slugs::default());
                Ok(results)
            }
            _ => tool.parse(file, average),
        };
        let mut results = results?;
        if self == Self::Magic {
            results.set_chosen(tool);
        }
        Ok(results)
    }

    fn entry(self) -> &'static Entry {
        // Every adapter has an entry, as a test checks.
        ADAPTERS.iter().find(|entry| entry.0 == self).unwrap_or(&ADAPTERS[0])
    }
}

/// Removes failed benchmarks from the results. If nothing remains and a result could not be read, returns that error.
fn settled(adapter: Adapter, mut results: Results) -> Parsed {
    results.settle_failures();
    match results.all_lost() {
        Some(Lost { line, name, reason }) => {
            // Reasons omit the name, because failures are listed by name.
            let of = if reason.starts_with("it") {
                format!(" (benchmark {name:?})")
            } else {
                String::new()
            };
            Err(AdapterError::Malformed { adapter, line, reason: reason + &of })
        }
        None => Ok(results),
    }
}

/// Decodes an output. The check alone is much faster than a lossy conversion.
fn decoded(output: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(output) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(output),
    }
}

impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Adapter {
    type Err = AdapterError;

    fn from_str(text: &str) -> Parsed<Self> {
        let alias = ALIASES.iter().find(|alias| alias.0 == text).map(|alias| alias.1);
        alias
            .or_else(|| Self::all().find(|adapter| adapter.name() == text))
            .ok_or_else(|| AdapterError::NoSuchAdapter(text.to_owned()))
    }
}

fn names() -> String {
    ADAPTERS.iter().map(|entry| entry.1).collect::<Vec<_>>().join(", ")
}

/// Checks that parsing failed, and the error message.
#[cfg(test)]
#[track_caller]
fn check_error(read: Parsed, expected: &str) {
    let read = read.and_then(|results| settled(Adapter::Magic, results));
    let error = read.expect_err(expected).to_string();
    assert!(error.contains(expected), "{error}");
}

/// The names of the benchmarks, for tests.
#[cfg(test)]
fn benchmarks(results: &Results) -> Vec<&str> {
    results.benchmarks.iter().map(|benchmark| benchmark.name.as_str()).collect()
}

/// The measures of a benchmark with their values, for tests.
#[cfg(test)]
fn values(benchmark: &crate::model::BenchmarkResults) -> Vec<(&str, f64)> {
    let metrics = benchmark.metrics.iter();
    metrics.map(|(measure, metric)| (measure.slug.as_str(), metric.value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_adapters_and_back() {
        for adapter in Adapter::all() {
            assert_eq!(adapter.name().parse(), Ok(adapter));
            let json = serde_json::to_value(adapter).expect("a name");
            assert_eq!(json, adapter.name(), "the JSON has the same name");
        }
        assert_eq!("rust_iai_callgrind".parse(), Ok(Adapter::RustGungraun));
        assert!("rust".parse::<Adapter>().is_err());
    }

    #[test]
    fn averages_that_a_tool_does_not_have() {
        let error = Adapter::RustBench.parse(b"", Some(Mean)).expect_err("no mean");
        let text = "the adapter rust_bench cannot give the mean: the tool reports only the median";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn a_file_and_what_was_printed() {
        let file = br#"{"benchmarks": [{"fullname": "a.py::b", "stats": {"mean": 1}}]}"#;
        for adapter in [Adapter::PythonPytest, Adapter::Magic] {
            let results = adapter.parse_file(file, b"..\n", None).expect("results");
            assert_eq!((results.benchmarks.len(), results.failures.len()), (1, 0));
            let printed = b"FAILED a.py::b - no bees\n";
            let results = adapter.parse_file(file, printed, None).expect("results");
            assert_eq!((results.benchmarks.len(), &*results.failures[0].reason), (0, "no bees"));
        }
        // Output that looks like another tool's is not part of the file.
        let file = br#"{"a": {"latency": {"value": 1}}}"#;
        let results = Adapter::Magic.parse_file(file, b"b: 5ms\n", None).expect("results");
        assert_eq!(results.benchmarks.len(), 1);
    }

    #[test]
    fn nothing_is_told_with_what_helps() {
        let check = |error: AdapterError, expected: &str| {
            let text = error.to_string();
            assert!(text.contains(expected) && !text.contains("stdin"), "{text}");
        };
        for (console, expected) in [
            (
                "--- benchmark: 1 tests ---\nName (time in us)  Rounds  Iterations\n",
                "--benchmark-json FILE",
            ),
            (
                "Benchmark 1: x\n  Time (mean ± σ): 1 ms ± 0 ms [User: 1 ms, System: 0 ms]\n  Range (min … max): 1 ms … 1 ms  9 runs\n",
                "--export-json FILE",
            ),
            (
                "     name            hz     min  rme  samples\n   · a  1 0 1% 3\n",
                "--outputJson FILE",
            ),
            ("     iteration_duration...: avg=1s min=1s p(95)=1s\n", "handleSummary(data)"),
            (
                "  Thread Stats   Avg\nRequests/sec:  748868.53\n",
                "done(summary, latency, requests)",
            ),
            ("benchmark  avg (min … max) p75\na  1.2 µs/iter 1.3\n", "run() returns"),
            ("│ (index) │ Task name │ Latency avg (ns) │\n", "bench.tasks"),
            (
                "Benchmark    Mode  Cnt  Score   Error  Units\nA  avgt  5  1.2\n",
                "-rf json -rff FILE",
            ),
        ] {
            for adapter in [Adapter::Magic, Adapter::PythonPytest] {
                check(adapter.parse(console.as_bytes(), None).expect_err("a console"), expected);
                check(
                    adapter.parse_file(console.as_bytes(), b"", None).expect_err("a console"),
                    expected,
                );
            }
        }
        check(Adapter::Magic.parse(b"42\n", None).expect_err("a number"), "JSON: {\"NAME\"");
        let of_file = Adapter::Magic.parse_file(b"42\n", b"", None).expect_err("a number");
        assert_eq!(of_file, AdapterError::NothingInFile(Adapter::Magic));
        check(of_file, "JSON: {\"NAME\"");
    }

    #[test]
    fn no_output_has_a_result_only_if_there_is_one() {
        for adapter in Adapter::all() {
            for output in [&b""[..], b"\n", b"hello\nworld\n", b"{}", b"[]", b"\xff\xfe"] {
                let found = adapter.parse(output, None);
                assert!(found.is_err(), "{adapter}: {found:?}");
            }
        }
    }
}
