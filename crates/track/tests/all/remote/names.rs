//! The benchmark names sent to a server: those that Bencher's own client derives from the same output, by its adapters
//! of version 0.6.12.

use super::*;
use serde_json::Value;
use wingbeat_track::{remote, run::Fold};

/// Checks the names sent for an output, each with its latency, or else its first measure.
#[track_caller]
fn check(adapter: Adapter, output: &str, expected: &[(&str, f64)]) {
    let results = adapter.parse(output.as_bytes(), None).expect(output);
    let folded = Fold::Min.fold(vec![results.clone()]);
    for results in [results, folded] {
        let report = Report { iterations: vec![results], ..report() };
        let request = remote::request(&Submission::of(&report));
        let sent: Value =
            serde_json::from_str(request["results"][0].as_str().expect("BMF")).expect("JSON");
        let mut found: Vec<_> = sent
            .as_object()
            .expect("benchmarks")
            .iter()
            .map(|(name, measures)| {
                let all = measures.as_object().expect("measures");
                let metric = all.get("latency").or_else(|| all.values().next());
                (name.as_str(), metric.and_then(|one| one["value"].as_f64()).expect("a value"))
            })
            .collect();
        found.sort_by(|a, b| a.0.cmp(b.0));
        assert_eq!(found, expected, "{adapter}: {output}");
    }
}

fn json(text: &str) -> String {
    text.replace('\'', "\"")
}

#[test]
fn benchmark_dot_net_without_class_and_parameters() {
    let one = |namespace: &str, class: &str, parameters: &str, job: &str, mean: f64| {
        format!(
            "{{'DisplayInfo': '{class}.Sum: {job} [{parameters}]', 'Namespace': {namespace}, 'Type': '{class}', \
             'Method': 'Sum', 'Parameters': '{parameters}', 'FullName': 'Hive.{class}.Sum({parameters})', \
             'Statistics': {{'Mean': {mean}, 'StandardDeviation': 0}}}}"
        )
    };
    let check = |all: &[String], expected: &[(&str, f64)]| {
        let text = format!("{{'Benchmarks': [{}]}}", all.join(","));
        check(Adapter::CSharpDotNet, &json(&text), expected);
    };
    check(&[one("'Hive'", "Bees", "", "Job", 1.0)], &[("Hive.Sum", 1.0)]);
    check(&[one("null", "Bees", "n: 8", "Job", 1.0)], &[("Sum", 1.0)]);
    // Bencher's client keeps the last.
    let several = [
        one("'Hive'", "Bees", "n: 8", "Job", 1.0),
        one("'Hive'", "Bees", "n: 64", "Job", 2.0),
        one("'Hive'", "Bees", "n: 64", "Other", 3.0),
    ];
    check(
        &several,
        &[("Hive.Bees.Sum(n: 64) [Job]", 2.0), ("Hive.Bees.Sum(n: 8)", 1.0), ("Hive.Sum", 3.0)],
    );
}

#[test]
fn jmh_without_parameters_and_mode() {
    let one = |params: &str, mode: &str, score: f64| {
        format!(
            "{{'benchmark': 'hive.Bees.sum', 'mode': '{mode}', 'params': {{{params}}}, 'primaryMetric': \
             {{'score': {score}, 'scoreConfidence': [{score}, {score}], 'scoreUnit': 'ns/op'}}}}"
        )
    };
    let check = |all: &[String], expected: &[(&str, f64)]| {
        check(Adapter::JavaJmh, &json(&format!("[{}]", all.join(","))), expected);
    };
    check(&[one("'n': '8'", "avgt", 1.0)], &[("hive.Bees.sum", 1.0)]);
    check(
        &[one("'n': '8'", "avgt", 1.0), one("'n': '64'", "avgt", 2.0)],
        &[("hive.Bees.sum", 2.0), ("hive.Bees.sum (n=8)", 1.0)],
    );
    check(
        &[one("", "sample", 1.0), one("", "avgt", 2.0)],
        &[("hive.Bees.sum", 2.0), ("hive.Bees.sum [sample]", 1.0)],
    );
}

#[test]
fn gungraun_with_the_lines_of_a_name() {
    let figures = |value| format!("  Instructions:  {value}|N/A  (***)\n");
    let text = format!("a::b::c x:1\n{}a::b::c x:1\nand 2\n{}", figures(1), figures(7));
    check(Adapter::RustGungraun, &text, &[("a::b::c x:1", 1.0), ("a::b::c x:1\nand 2", 7.0)]);
}

#[test]
fn google_benchmark_with_the_ending_of_an_aggregate() {
    let one = |name: &str, rest: &str, time: f64| {
        format!(
            "{{'name': '{name}', 'run_name': 'a/8', {rest} 'real_time': {time}, 'time_unit': 'ns'}}"
        )
    };
    let aggregate = |name: &str, time| {
        let rest = format!("'run_type': 'aggregate', 'aggregate_name': '{name}',");
        one(&format!("a/8_{name}"), &rest, time)
    };
    let check = |all: &[String], expected: &[(&str, f64)]| {
        let text = format!("{{'context': {{'caches': []}}, 'benchmarks': [{}]}}", all.join(","));
        check(Adapter::CppGoogle, &json(&text), expected);
    };
    check(&[one("a/8", "", 1.0)], &[("a/8", 1.0)]);
    let (mean, deviation) = (aggregate("mean", 2.0), aggregate("stddev", 0.5));
    check(&[mean.clone(), deviation.clone()], &[("a/8_mean", 2.0)]);
    check(&[one("a/8", "", 2.0), mean, deviation], &[("a/8", 2.0)]);
}

#[test]
fn catch2_from_the_line_of_the_samples_on() {
    let rule = "-".repeat(79);
    let text = format!(
        "{rule}\nHive\n  a section\n{rule}\nb.cc:3\n....\n\nbenchmark name    samples   iterations    estimated\n    \
         mean\n    std dev\n{rule}\nshort     100  208  7 ms \n   1 ns   11 ns   29 ns \n  1 ns 1 ns 1 ns\n\n\
         a name that is long\nand goes on     100  208  7 ms \n   2 ns   11 ns   29 ns \n  1 ns 1 ns 1 ns\n"
    );
    let expected = [("Hive a section: and goes on", 2.0), ("Hive a section: short", 1.0)];
    check(Adapter::CppCatch2, &text, &expected);
}

#[test]
fn go_without_the_package() {
    let text = "pkg: hive/a\nBenchmarkSum-8  10  1 ns/op\npkg: hive/b\nBenchmarkSum-8  10  2 ns/op\n\
                BenchmarkOne/n=8-8  10  3 ns/op\n";
    let expected =
        [("BenchmarkOne/n=8-8", 3.0), ("BenchmarkSum-8", 2.0), ("hive/a.BenchmarkSum-8", 1.0)];
    check(Adapter::GoBench, text, &expected);
}

#[test]
fn hyperfine_without_parameters() {
    let one = |command: &str, n: u32, mean: f64| {
        format!(
            "{{'command': '{command}', 'mean': {mean}, 'stddev': null, 'median': 1, 'user': 0, 'system': 0, 'min': 1, \
             'max': 1, 'exit_codes': [0], 'parameters': {{'n': '{n}'}}}}"
        )
    };
    let text = |all: &[String]| json(&format!("{{'results': [{}]}}", all.join(",")));
    check(Adapter::ShellHyperfine, &text(&[one("a\\nb", 8, 1e-9)]), &[("a\nb", 1.0)]);
    let several = text(&[one("a", 8, 1e-9), one("a", 64, 2e-9)]);
    check(Adapter::ShellHyperfine, &several, &[("a", 2.0), ("a (n=8)", 1.0)]);
}

#[test]
fn javascript() {
    let console = "default: 7617ms - timer ended\n  in a group: 5ms - timer ended\n";
    check(Adapter::JsTime, console, &[("  in a group", 5e6), ("default", 7617e6)]);
    let benchmark = "fib(10) x 5 ops/sec ±0.00% (90 runs sampled)\n  b x 2 c x 6 ops/sec ±0.00% (9 runs sampled)\n";
    check(Adapter::JsBenchmark, benchmark, &[("  b x 2 c", 6.0), ("fib(10)", 5.0)]);
    let vitest = "{'files': [{'groups': [{'fullName': 'a.bench.ts > sums', 'benchmarks': [{'name': ' n ', 'hz': 1, \
                  'mean': 1, 'median': 1, 'sd': 0, 'rme': 0}]}]}]}";
    check(Adapter::JsVitest, &json(vitest), &[("a.bench.ts > sums >  n ", 1e6)]);
}

/// Outputs for which our names are the same as Bencher's.
#[test]
fn all_others_as_they_are() {
    let time = "[1.0000 ns 2.0000 ns 3.0000 ns]";
    let long = "a name of more than 23 bytes/8";
    let criterion =
        format!("a b: c  time:   {time}\n{long}\n                        time:   {time}\n");
    check(Adapter::RustCriterion, &criterion, &[("a b: c", 2.0), (long, 2.0)]);
    let libtest = "running 1 test\ntest a::b ... bench:  1,234 ns/iter (+/- 34)\n";
    check(Adapter::RustBench, libtest, &[("a::b", 1234.0)]);
    let counts = "  Instructions:  9\n  L1 Accesses:  9\n  L2 Accesses:  9\n  RAM Accesses:  9\n  Estimated Cycles:  9\n";
    check(Adapter::RustIai, &format!("short\n{counts}\n"), &[("short", 9.0)]);
    let gungraun = "{'version': '6', 'baselines': [], 'benchmark_exe': '', 'module_path': 'a::b::c', 'id': 'x', \
        'profiles': [{'tool': 'Callgrind', 'summaries': {'total': {'summary': {'Callgrind': \
        {'Ir': {'metrics': {'Left': {'Int': 5}}}}}}}}]}";
    check(Adapter::RustGungraun, &json(gungraun), &[("a::b::c::x", 5.0)]);
    check(Adapter::PythonAsv, "[50.00%] ··· a.B.time_c   3.0±1.0ns\n", &[("a.B.time_c", 3.0)]);
    let pytest = "{'benchmarks': [{'fullname': 'd/a.py::B::test[x y]', 'stats': {'mean': 2}}]}";
    check(Adapter::PythonPytest, &json(pytest), &[("d/a.py::B::test[x y]", 2e9)]);
    let ruby = "       user     system      total        real\nfor:   0.5   0.25   0.75 (  1.5)\n";
    check(Adapter::RubyBenchmark, ruby, &[("for:", 1.5e9)]);
    check(Adapter::DartBenchmarkHarness, "A (b)(RunTime): 2.0 us.\n", &[("A (b)", 2000.0)]);
    let bmf = "{'a name': {'latency': {'value': 2}}, 'b_bencher_ignore': {'latency': {'value': 3}}, \
               'cBencherIgnore': {'latency': {'value': 4}}}";
    let ending = [("a name", 2.0), ("b_bencher_ignore", 3.0), ("c_bencher_ignore", 4.0)];
    check(Adapter::Json, &json(bmf), &ending);
}
