//! Recognizes console output of tools whose adapters read a different output, and suggests how to get that.

use memchr::memmem;

use super::{Adapter, AdapterError};

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
