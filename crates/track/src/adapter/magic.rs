//! Detects the tool that wrote an output: the first adapter that finds a result in it.
//!
//! Unmistakable formats come before ambiguous ones. An adapter is tried only if the output contains words that the tool
//! always writes, which is cheap to check.

use memchr::memmem;

use super::{Adapter, AdapterError, Parsed, csv};
use crate::model::{Average, Results};

/// An adapter, and groups of words. All words of at least one group always occur in its tool's output.
type Candidate = (Adapter, &'static [&'static [&'static str]]);

const CANDIDATES: &[Candidate] = &[
    // JSON documents with distinctive fields.
    (Adapter::WingbeatBench, &[&["\"schema_version\"", "\"baselines\""]]),
    (
        Adapter::CppGoogle,
        &[
            &["\"benchmarks\"", "\"real_time\""],
            &["\"benchmarks\"", "\"error_occurred\""],
            &["Benchmark ", " Time ", " CPU ", " Iterations"],
        ],
    ),
    (Adapter::JavaJmh, &[&["\"primaryMetric\""]]),
    (Adapter::CSharpDotNet, &[&["\"Benchmarks\"", "\"Statistics\""]]),
    (Adapter::PythonPytest, &[&["\"benchmarks\"", "\"fullname\""]]),
    (Adapter::JsVitest, &[&["\"files\"", "\"groups\""], &["\"testResults\""]]),
    (Adapter::ShellHyperfine, &[&["\"results\"", "\"command\""]]),
    (Adapter::PerfStat, &[&["\"counter-value\""]]),
    (Adapter::RustGungraun, &[&["\"module_path\"", "\"profiles\""], &["::", "|"]]),
    (
        Adapter::Bpftool,
        &[&["Return value: ", "duration (average): "], &["\"retval\"", "\"duration\""]],
    ),
    (Adapter::Json, &[&["{", "\"value\""]]),
    (Adapter::Csv, csv::HEADS),
    // Tables and lines with distinctive words.
    (Adapter::Veristat, &[&["file_name", "prog_name"]]),
    (Adapter::RustIai, &[&["L1 Accesses:"]]),
    (Adapter::RustDivan, &[&["fastest", "slowest", "│"]]),
    (Adapter::RustCriterion, &[&["time:", "["]]),
    (Adapter::RustBench, &[&[" ... bench:"], &["\"type\": \"bench\""]]),
    (Adapter::CppCatch2, &[&["benchmark name"]]),
    (Adapter::GoBench, &[&["Benchmark", "/op"], &["Benchmark", "--- FAIL"]]),
    (Adapter::JsBenchmark, &[&["ops/sec"]]),
    (Adapter::PythonAsv, &[&["%] "]]),
    (Adapter::DartBenchmarkHarness, &[&["(RunTime)"]]),
    (Adapter::RubyBenchmark, &[&["user", "system", "real"], &["i/s"]]),
    // Anything with a colon and a time.
    (Adapter::JsTime, &[&[": "]]),
];

pub(super) fn parse(text: &str, average: Option<Average>) -> Parsed {
    let (adapter, found) = find(text)?;
    let mut results = match average {
        // Detection does not depend on the requested average.
        Some(_) => adapter.parse(text.as_bytes(), average)?,
        None => found,
    };
    results.set_chosen(adapter);
    Ok(results)
}

pub(super) fn find(text: &str) -> Parsed<(Adapter, Results)> {
    let has = |word: &&str| memmem::find(text.as_bytes(), word.as_bytes()).is_some();
    let console = recognized(Adapter::Magic, text);
    let mut broken = None;
    for (adapter, words) in CANDIDATES {
        if !words.iter().any(|all| all.iter().all(has)) {
            continue;
        }
        let found = match adapter {
            // Output recognized as another tool's contains no timers.
            Adapter::JsTime if console.is_some() => continue,
            Adapter::JsTime => js_time(text),
            _ => adapter.parse(text.as_bytes(), None),
        };
        match found {
            Ok(results) => return Ok((*adapter, results)),
            Err(AdapterError::Nothing(_) | AdapterError::Console { .. }) => {}
            // It may be a complete result of a later tool.
            Err(error) => broken = broken.or(Some(error)),
        }
    }
    Err(broken.or(console).unwrap_or(AdapterError::Nothing(Adapter::Magic)))
}

/// The timers in a text, except for those that Divan prints before it measures.
fn js_time(text: &str) -> Parsed {
    let mut results = Adapter::JsTime.parse(text.as_bytes(), None)?;
    results.benchmarks.retain(|benchmark| benchmark.name.as_str() != "Timer precision");
    if results.is_empty() { Err(AdapterError::Nothing(Adapter::JsTime)) } else { Ok(results) }
}

/// Words that all occur in the output, a description of it, and the suggestion.
type Console = (&'static [&'static str], &'static str, &'static str);

const CONSOLES: &[Console] = &[
    (
        &["--- benchmark", "Rounds", "Iterations"],
        "the table of pytest-benchmark",
        "add --benchmark-json FILE to pytest, and --file FILE to wingbeat run",
    ),
    (
        &["Time (", "Range (", "User: "],
        "the console of hyperfine",
        "add --export-json FILE to hyperfine, and --file FILE to wingbeat run",
    ),
    (
        &["name ", " hz ", " rme ", " samples"],
        "the table of Vitest",
        "add --outputJson FILE to vitest bench (from version 5 on --reporter=json --outputFile=FILE), and --file \
         FILE to wingbeat run",
    ),
    (
        &["Benchmark ", " Mode ", " Cnt ", " Score "],
        "the table of JMH",
        "add -rf json -rff FILE to it, and --file FILE to wingbeat run",
    ),
    (
        &["| Method ", "| Mean "],
        "the table of BenchmarkDotNet",
        "add --exporters json to it, and --file with the file that it writes to wingbeat run",
    ),
    (
        &["Performance counter stats for "],
        "the table of perf stat",
        "add -j to perf stat, and 2>&1 to the command",
    ),
    (
        &["iteration_duration", "avg=", "p(95)="],
        "the summary of k6",
        "let handleSummary(data) return {stdout: JSON.stringify(…)} with {\"NAME\": {\"latency\": {\"value\": \
         NANOSECONDS}}}",
    ),
    (
        &["Thread Stats", "Requests/sec:"],
        "the summary of wrk",
        "let done(summary, latency, requests) in a script (-s) print {\"NAME\": {\"latency\": {\"value\": \
         NANOSECONDS}}}",
    ),
    (
        &["/iter", "(min … max)", "p75"],
        "the table of mitata",
        "print {\"NAME\": {\"latency\": {\"value\": NANOSECONDS}}} of what run() returns",
    ),
    (
        &["(index)", "Latency avg"],
        "the table of tinybench",
        "print {\"NAME\": {\"latency\": {\"value\": NANOSECONDS}}} of the results in bench.tasks",
    ),
];

/// The error for the recognized output of a tool whose adapter does not read it.
pub(super) fn recognized(adapter: Adapter, text: &str) -> Option<AdapterError> {
    let has = |word: &&str| memmem::find(text.as_bytes(), word.as_bytes()).is_some();
    let (_, what, next_step) = *CONSOLES.iter().find(|console| console.0.iter().all(has))?;
    Some(AdapterError::Console { adapter, what, next_step })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::check_error;

    #[test]
    fn every_adapter_is_tried_once() {
        for adapter in Adapter::all().filter(|adapter| *adapter != Adapter::Magic) {
            let times = CANDIDATES.iter().filter(|candidate| candidate.0 == adapter).count();
            assert_eq!(times, 1, "{adapter}");
        }
    }

    #[test]
    fn an_average_that_the_tool_does_not_have() {
        let text = "test a ... bench: 1 ns/iter (+/- 0)";
        assert!(parse(text, Some(Average::Median)).is_ok());
        check_error(
            parse(text, Some(Average::Mean)),
            "the adapter rust_bench cannot give the mean",
        );
    }

    #[test]
    fn a_broken_result_is_told() {
        check_error(parse("test a ... bench: x ns/iter", None), "rust_bench cannot read line 1");
        let error = parse("Timer precision: 21 ns\n", None).expect_err("no benchmark of Divan's");
        assert_eq!(error, AdapterError::Nothing(Adapter::Magic));
        let results = parse("Timer precision: 21 ns\na: 5ms\n", None).expect("a timer");
        assert_eq!(results.benchmarks.len(), 1);
        let error = parse("nothing here", None).expect_err("nothing");
        assert_eq!(error, AdapterError::Nothing(Adapter::Magic));
    }
}
