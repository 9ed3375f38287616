//! Throughput of adapters. The goal is at least 100 MB/s on 10 MB.
//!
//! The 10 MB are a golden output repeated: once unchanged, so that each benchmark has thousands of repetitions, and
//! once with a number in each name, so that there are tens of thousands of benchmarks. Results are dropped outside the
//! measurement.

use std::{
    fs,
    hint::black_box,
    path::Path,
    time::{Duration, Instant},
};

use criterion::{
    BenchmarkGroup, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
    measurement::WallTime,
};
use wingbeat_track::adapter::Adapter;

/// Size of an output in bytes. Small under `cargo test`, which only checks that the benchmark works.
fn output_bytes() -> usize {
    let is_measured = std::env::args().any(|argument| argument == "--bench");
    if is_measured { 10_000_000 } else { 100_000 }
}

/// An adapter, a golden output of its tool, and words separated by bars, one of which is in each name. No words if the
/// tool has no names.
type Output = (Adapter, &'static str, &'static str);

const OUTPUTS: &[Output] = &[
    (Adapter::RustBench, "libtest-1.95.txt", "bench_sum|group|prints|_good|b_bad|d_silent"),
    (
        Adapter::RustCriterion,
        "criterion-0.8.2-colour-stderr.txt",
        "a name with spaces|one very long name|empty|bytes/|elements/|sum",
    ),
    (Adapter::RustDivan, "divan-0.1.21.txt", "b       "),
    (Adapter::RustIai, "iai-0.1.1-again.txt", "short|long"),
    (Adapter::RustGungraun, "gungraun-0.20.0-tools.txt", "tools"),
    (Adapter::RustGungraun, "gungraun-0.20.0.json", "\"module_path\":\"b"),
    (Adapter::WingbeatBench, "wingbeat-0.1.0.json", "\"name\": \"fun_xdp"),
    (Adapter::PerfStat, "perf-6.1-repeat.json", ""),
    (Adapter::Bpftool, "bpftool-7.1.0-data-out.txt", ""),
    (Adapter::Veristat, "schema-0.5.1.csv", "fun.bpf.o"),
    (Adapter::CppGoogle, "benchmark-1.7.1-repetitions.json", "\"name\": \"|\"run_name\": \""),
    (Adapter::CppCatch2, "catch2-3.7.1.txt", "Fibonacci|Slow things|Throws|Fails first"),
    (Adapter::GoBench, "go-1.27.3-benchmem.txt", "Benchmark"),
    (Adapter::JavaJmh, "jmh-1.38-snapshot.json", "com.example"),
    (Adapter::CSharpDotNet, "schema-0.15-full.json", "\"FullName\": \"Hive"),
    (Adapter::JsBenchmark, "benchmark-2.1.4.txt", "RegExp#test|größe|stings|slow|<Test #"),
    (Adapter::JsTime, "node-20.20.2.txt", "default|a name|long"),
    (Adapter::JsVitest, "vitest-5.1.1-samples.json", "\"name\":\""),
    (Adapter::PythonAsv, "asv-0.6.6.txt", "hive"),
    (Adapter::PythonPytest, "pytest-benchmark-5.3.1.json", "test_hive"),
    (Adapter::RubyBenchmark, "ruby-3.1.2.txt", "for|a long name|sort!|sleep|one|two|>"),
    (Adapter::ShellHyperfine, "hyperfine-1.20.0.json", "\"command\": \""),
    (Adapter::DartBenchmarkHarness, "schema-2.3.1.txt", "Template|Größe|Tiny|Broken|Wings"),
];

/// Adds the number after each of the words. Uses up the padding after a word, so that columns stay aligned.
fn numbered(output: &str, words: &str, number: usize) -> String {
    words.split('|').fold(output.to_owned(), |output, word| {
        let new = format!("{}{number}", word.trim_end());
        output.replace(word, &format!("{new:width$}", width = word.len()))
    })
}

/// Bencher Metric Format is a single document, so repeating one is not valid.
fn metric_format(bytes: usize) -> String {
    let figures = r#"{"value": 24.43, "lower_value": 24.1, "upper_value": 25.07}"#;
    let mut output = "{".to_owned();
    for number in 0.. {
        output += &format!("\"module::bench_{number}\": {{\"latency\": {figures}}}");
        if output.len() >= bytes {
            break;
        }
        output += ",\n";
    }
    output + "}"
}

fn adapters(criterion: &mut Criterion) {
    let suites = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/adapters");
    let mut group = criterion.benchmark_group("adapters");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(700));
    let bytes = output_bytes();
    group.throughput(Throughput::BytesDecimal(bytes as u64));
    measure(&mut group, "json/distinct", Adapter::Json, &metric_format(bytes));
    for (adapter, file, words) in OUTPUTS {
        let paths =
            ["rust", "other"].map(|suite| suites.join(format!("{suite}/golden/{adapter}/{file}")));
        let once = paths.iter().find_map(|path| fs::read_to_string(path).ok()).expect(file);
        let kind = file.rsplit('.').next().unwrap_or_default();
        for names in ["repeated", "distinct"] {
            let is_distinct = names == "distinct";
            // Gungraun measures each name once.
            let has_none = match is_distinct {
                true => words.is_empty(),
                false => *adapter == Adapter::RustGungraun,
            };
            if has_none {
                continue;
            }
            let (mut output, mut copies) = (String::with_capacity(bytes + once.len()), 0);
            while output.len() < bytes {
                match is_distinct {
                    true => output.push_str(&numbered(&once, words, copies)),
                    false => output.push_str(&once),
                }
                output.push('\n');
                copies += 1;
            }
            let count =
                measure(&mut group, &format!("{adapter}/{kind}/{names}"), *adapter, &output);
            assert!(!is_distinct || count >= copies, "{file}: {count} distinct names");
        }
    }
    group.finish();
}

/// Measures one adapter on one output, and reports the number of benchmarks in it.
fn measure(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    adapter: Adapter,
    output: &str,
) -> usize {
    let parse = || {
        let output = black_box(output.as_bytes());
        adapter.parse(output, None).expect("a golden output can be read")
    };
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|iterations| {
            let time = |_| {
                let start = Instant::now();
                let results = parse();
                let duration = start.elapsed();
                drop(results);
                duration
            };
            (0..iterations).map(time).sum()
        });
    });
    parse().benchmarks.len()
}

criterion_group! {
    name = benches;
    // With the results of the other benches, independent of the working directory.
    config = Criterion::default()
        .output_directory(&Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("criterion"));
    targets = adapters
}
criterion_main!(benches);
