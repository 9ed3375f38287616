//! Tricky cases that the golden outputs lack, by adapter.

use wingbeat_track::adapter::Adapter;

use super::outline;

/// Checks the outline of the results: names with values, without the units.
fn check(adapter: Adapter, output: &str, expected: &[&str]) {
    let text = match adapter.parse(output.as_bytes(), None) {
        Ok(results) => outline(&results),
        Err(error) => format!("error: {error}"),
    };
    let short = |line: &str| {
        let end = [" nanoseconds", " operations", " bytes", " allocations", " items", " (units)"]
            .iter()
            .filter_map(|unit| line.find(unit))
            .min();
        line[..end.unwrap_or(line.len())].to_owned()
    };
    let found: Vec<_> = text.lines().map(short).collect();
    assert_eq!(found, expected, "{adapter}: {output}");
}

#[test]
fn go_bench() {
    let check = |output: &str, expected: &[&str]| check(Adapter::GoBench, output, expected);
    // Words that look like benchmarks.
    check(
        "Benchmarking 3 things\nBenchmark of 12 bees 5 ns/op\nBenchmarkA\nBenchmarkA-8 1 2 ns/op\n",
        &["BenchmarkA-8 | latency = 2"],
    );
    // One of several repetitions fails.
    check(
        "BenchmarkA-8 \t 10\t 2 ns/op\nBenchmarkA-8 \t--- FAIL: BenchmarkA-8\n    a_test.go:1: no\n\
         BenchmarkB-8 \t 10\t 2 ns/op\n--- FAIL: BenchmarkB\nBenchmarkC-8 \t 10\t 2 ns/op\n",
        &[
            "BenchmarkC-8 | latency = 2",
            "BenchmarkA-8 ! a_test.go:1: no",
            "BenchmarkB ! go test says FAIL",
        ],
    );
    // Numbers of every form, and invalid ones.
    check(
        "BenchmarkA 10 1e-3 ns/op 1.5e+09 x/op\nBenchmarkB 10 2 ns/op NaN x/op\nBenchmarkC 10 2,5 ns/op\n\
         BenchmarkD 10 +Inf ns/op\n",
        &[
            "BenchmarkA | latency = 0.001",
            "BenchmarkA | x-op = 1500000000 x/op, LowerIsBetter, Noisy",
            "BenchmarkB ! its x/op is not a finite number",
            "BenchmarkC ! \"2,5\" has a comma that does not stand between thousands; make the program write \
             decimal points (LC_ALL=C)",
            "BenchmarkD ! its ns/op is not a finite number",
        ],
    );
    // The effect of `Unit` lines.
    check(
        "Unit hives/op better=higher assume=exact\nUnit\nBenchmarkA 10 3 hives/op\n",
        &["BenchmarkA | hives-op = 3 hives/op, HigherIsBetter, Exact"],
    );
    // A user's metric with the name of one of ours.
    check(
        "BenchmarkA 10 2 ns/op 7 latency\n",
        &["BenchmarkA | latency = 2", "BenchmarkA | latency-counter = 7 latency, Unknown, Noisy"],
    );
    // With -count a failure occurs twice.
    check(
        "BenchmarkA 10 NaN ns/op\nBenchmarkA 10 NaN ns/op\nBenchmarkB 10 1 ns/op\n",
        &["BenchmarkB | latency = 1", "BenchmarkA ! its ns/op is not a finite number"],
    );
    // With -v a name is alone on a line before its result.
    let result = "BenchmarkA\n12 5 ns\nBenchmarkA-2 10 2 ns/op\n";
    check(result, &["BenchmarkA-2 | latency = 2"]);
    let panicked =
        format!("{result}BenchmarkB\npanic: argh\n\ngoroutine 5 [running]:\nexit status 2\nFAIL\n");
    check(&panicked, &["BenchmarkA-2 | latency = 2", "BenchmarkB ! panic: argh"]);
    let exited = format!("{result}BenchmarkB\nexit status 1\nFAIL\tx 1s\n");
    check(&exited, &["BenchmarkA-2 | latency = 2", "BenchmarkB ! exit status 1"]);
    for over in ["--- SKIP: BenchmarkB\n    a_test.go:1: no\nPASS", "PASS", "pkg: y"] {
        let other = format!("{result}BenchmarkB\n{over}\nexit status 1\nFAIL\tx 1s\n");
        check(&other, &["BenchmarkA-2 | latency = 2"]);
    }
    // Killed between name and result.
    check("BenchmarkA-8 \texit status 2\nFAIL\tx 1s\n", &["BenchmarkA-8 ! FAIL\tx 1s"]);
    // Windows, colours.
    check("\u{1b}[32mBenchmarkA-8\u{1b}[0m 10 2 ns/op\r\n", &["BenchmarkA-8 | latency = 2"]);
}

#[test]
fn cpp_google() {
    let check = |output: &str, expected: &[&str]| {
        check(Adapter::CppGoogle, &output.replace('\'', "\""), expected);
    };
    let report = |runs: &str| format!("{{'context': {{}}, 'benchmarks': [{runs}]}}");
    // One of several repetitions fails: nothing of the benchmark counts.
    check(
        &report(
            "{'name': 'a', 'run_type': 'iteration', 'real_time': 1, 'time_unit': 'us'},
             {'name': 'a', 'run_type': 'iteration', 'error_occurred': true, 'error_message': 'no', 'real_time': 0},
             {'name': 'a_mean', 'run_name': 'a', 'run_type': 'aggregate', 'aggregate_name': 'mean', 'real_time': 1},
             {'name': 'b', 'skipped': true, 'skip_message': 'not here', 'real_time': 0},
             {'name': 'c', 'real_time': 1.5, 'time_unit': 's'}",
        ),
        &["c | latency = 1500000000", "a ! no", "b ! not here"],
    );
    check(
        &report(
            "{'name': 'a', 'real_time': NaN, 'time_unit': 'us'}, {'name': 'b', 'real_time': -inf}",
        ),
        &["a ! its time is not a number", "b ! its time is not a number"],
    );
    check(
        &report("{'name': 'a', 'real_time': 1, 'time_unit': 'bees'}"),
        &[
            "error: the adapter cpp_google cannot read line 1: \"a\" has the time unit \"bees\", which is unknown",
        ],
    );
    // Surrounding text, and a second report.
    let one = report("{'name': 'a', 'real_time': 1}");
    check(
        &format!("Running b\n{one}\n{one}\ndone {{\n"),
        &["a | latency = 1 [1 .. 1] (2 samples)"],
    );
    check(
        &report("{'name': 'a', 'real_time': 1, 'latency': 5, 'note': 'text', 'more': {'x': 1}}"),
        &["a | latency = 1", "a | latency-counter = 5 latency"],
    );
}

#[test]
fn cpp_google_console() {
    let check = |rows: &[&str], expected: &[&str]| {
        let head = "Benchmark               Time             CPU   Iterations\n";
        check(Adapter::CppGoogle, &format!("{head}-----\n{}\n", rows.join("\n")), expected);
    };
    let one = "a                    100 ns         99.4 ns      6000000";
    let failed = "a              ERROR OCCURRED: 'no'";
    let other = "b                      1 ns            1 ns          100";
    let other_result = ["b | latency = 1", "b | cpu-time = 1"];
    let expected = [&other_result[..], &["a ! no"]].concat();
    // One or all repetitions fail: nothing of the benchmark counts, as in the JSON.
    check(&[one, failed, one, other], &expected);
    check(&[failed, one, one, other], &expected);
    check(&[failed, failed, failed, other], &expected);
    check(&["a              SKIPPED: 'no'", "a              SKIPPED: 'no'", other], &expected);
    let mean = "a_mean               100 ns         99.4 ns            2";
    let [median, deviation] =
        ["a_median", "a_stddev"].map(|name| format!("{name:<10}{}", &mean[10..]));
    check(&[one, failed, one, mean, &median, &deviation, other], &expected);
    // Figures that cannot be read, or carry no information.
    let comma = "c                  237,735 ns      237,735 ns          100";
    let zero = "d                  0.000 s         0.000 s            1";
    let expected = [
        "b | latency = 1",
        "b | cpu-time = 1",
        "c ! its time has a comma that does not stand between thousands; make the program write decimal points \
         (LC_ALL=C)",
        "d ! its time is printed as 0.000 s; let it use a smaller unit, or use --benchmark_format=json",
    ];
    check(&[comma, zero, other], &expected);
    // Nothing failed: these are two benchmarks.
    let twice = format!("a ! \"a\" has a result in line 3 already, {TWICE}");
    check(&[one, one, other], &[&other_result[..], &[&*twice]].concat());
}

/// Why the second benchmark of the same name is rejected.
const TWICE: &str = "and the tool measures each name once, so two benchmarks would become one; rename one of them, \
                     or repeat the whole run with --iter";

/// Checks the outline of a document. A name followed by `twice` is that of the first two entries.
fn check_entries(adapter: Adapter, output: &str, expected: &[&str]) {
    let twice = |name: &str| format!("{name} ! entries 1 and 2 are both called {name:?}, {TWICE}");
    let told: Vec<String> = expected
        .iter()
        .map(|line| line.strip_suffix(" twice").map_or_else(|| (*line).to_owned(), twice))
        .collect();
    let told: Vec<&str> = told.iter().map(String::as_str).collect();
    check(adapter, &output.replace('\'', "\""), &told);
}

/// Two entries of the same name in a document fail that benchmark, and so does a malformed one.
#[test]
fn entries_that_cost_their_benchmark() {
    check_entries(
        Adapter::ShellHyperfine,
        "{'results': [{'command': 'a', 'mean': 1}, {'command': 'a', 'mean': 2}, {'command': 'b', 'mean': 3},
                      {'command': 'c', 'mean': 'soon'}]}",
        &["b | latency = 3000000000", "a twice", "c ! hyperfine reports no time"],
    );
    let run = |name: &str, mode: &str, unit: &str| {
        format!(
            "{{'benchmark': '{name}', 'mode': '{mode}', 'primaryMetric': {{'score': 2, 'scoreUnit': '{unit}'}}}}"
        )
    };
    let [first, rate, other] =
        [("a", "avgt", "ns/op"), ("a", "thrpt", "ops/s"), ("b", "avgt", "ns/op")]
            .map(|(name, mode, unit)| run(name, mode, unit));
    check_entries(
        Adapter::JavaJmh,
        &format!("[{first}, {first}, {rate}, {other}]"),
        &["b | latency = 2", "a twice"],
    );
    check_entries(
        Adapter::PythonPytest,
        "{'benchmarks': [{'fullname': 'a', 'stats': {'mean': 1}}, {'fullname': 'a', 'stats': {'mean': 2}},
                         {'fullname': 'b', 'group': 'x', 'stats': {'mean': 3, 'data': [null]}},
                         {'fullname': 'b', 'group': 'y', 'stats': {'mean': 4}}]}",
        &["b [x] | latency = 3000000000", "b [y] | latency = 4000000000", "a twice"],
    );
    check_entries(
        Adapter::CSharpDotNet,
        "{'Benchmarks': [{'FullName': 'a', 'Method': 'a', 'Statistics': {'Mean': 1}},
                         {'FullName': 'a', 'Method': 'a', 'Statistics': {'Mean': 2}},
                         {'FullName': 'b', 'Method': 'b', 'Statistics': {'Mean': 3}}]}",
        &["b | latency = 3", "a twice"],
    );
}

#[test]
fn entries_that_cost_their_benchmark_in_groups() {
    check_entries(
        Adapter::JsVitest,
        "{'files': [{'groups': [{'fullName': '', 'benchmarks': [{'name': 'a', 'mean': 1}, {'name': 'a', 'mean': 2},
                                                               {'name': 'b', 'mean': 3}]}]}]}",
        &["b | latency = 3000000", "a twice"],
    );
    let task = |name: &str| {
        format!("{{'name': '{name}', 'latency': {{'mean': 3}}, 'throughput': {{'mean': null}}}}")
    };
    let tasks = [task("a"), task("a"), task("b")].join(", ");
    check_entries(
        Adapter::JsVitest,
        &format!(
            "{{'testResults': [{{'name': 'x', 'assertionResults': [{{'title': 't', 'fullName': 't', 'status': 'passed',
               'benchmarks': [{{'name': '', 'tasks': [{tasks}]}}]}}]}}]}}"
        ),
        &["b | latency = 3000000", "a twice"],
    );
    let google = |name: &str, family: u32| {
        format!("{{'name': '{name}', 'real_time': 1, 'family_index': {family}}}")
    };
    let runs = [google("a", 0), google("a", 1), google("b", 2)].join(", ");
    check_entries(
        Adapter::CppGoogle,
        &format!("{{'context': {{}}, 'benchmarks': [{runs}]}}"),
        &["b | latency = 1", "a twice"],
    );
}

#[test]
fn shell_hyperfine() {
    let check = |output: &str, expected: &[&str]| {
        check(Adapter::ShellHyperfine, &output.replace('\'', "\""), expected);
    };
    check(
        "{'results': [
            {'command': 'a\\nb', 'mean': 1, 'stddev': null, 'median': 1, 'exit_codes': [0]},
            {'command': 'killed', 'mean': 1, 'exit_codes': [0, null]},
            {'command': 'n', 'mean': 1, 'parameters': {'n': '1'}},
            {'command': 'n', 'mean': 2, 'parameters': {'n': '2'}},
            {'command': 'none', 'mean': null}
         ]}",
        &[
            "a b | latency = 1000000000",
            "n (n=1) | latency = 1000000000",
            "n (n=2) | latency = 2000000000",
            "killed ! the command was ended by a signal; 1 of 2 runs failed",
            "none ! hyperfine reports no time",
        ],
    );
}

#[test]
fn cpp_catch2() {
    let head = "-------------------------------------------------------------------------------\ncase\n\
                -------------------------------------------------------------------------------\n\
                benchmark name    samples   iterations    estimated\n    mean\n    std dev\n\
                -------------------------------------------------------------------------------\n";
    let check = |rows: &str, expected: &[&str]| {
        check(Adapter::CppCatch2, &format!("{head}{rows}"), expected);
    };
    // Wrapped names as in version 2.11, and units that vary between lines.
    check(
        "long     100  208  7 ms \nname   1.5 us  341 ns  349 ns \n       19 ns   11 ns   29 ns \n",
        &["case: long name | latency = 1500 [1481 .. 1519]"],
    );
    // Decimal commas, some of which look like thousands separators.
    let comma = "a     100  208  7,1968 ms \n       237,735 us  26,3077 ns  26,1 ns \n       4,5 ns   4,3 ns   4,9 ns \n\n";
    let good = "b     100  208  7 ms \n       1 us  1 ns  1 ns \n       19 ns   11 ns   29 ns \n";
    check(
        &format!("{comma}{good}"),
        &[
            "case: b | latency = 1000 [981 .. 1019]",
            "case: a ! its time has a comma that does not stand between thousands; make the program write decimal \
             points (LC_ALL=C)",
        ],
    );
    check(
        "a     100  208  7 ms \nsomething else\n",
        &["error: the adapter cpp_catch2 cannot read line 9: the times of \"a\" are missing here"],
    );
}

#[test]
fn java_jmh() {
    let check = |output: &str, expected: &[&str]| {
        check(Adapter::JavaJmh, &output.replace('\'', "\""), expected);
    };
    let run = |name: &str, metric: &str| {
        format!("{{'benchmark': '{name}', 'mode': 'avgt', 'primaryMetric': {{{metric}}}}}")
    };
    let good = run("a", "'score': 2, 'scoreError': 'NaN', 'scoreUnit': 'min/op'");
    let none = run("b", "'score': 'NaN', 'scoreUnit': 'ns/op'");
    let zero = run("c", "'score': 2, 'scoreUnit': 'ops/us', 'rawData': [[1, 'NaN', 3]]");
    check(
        &format!("[{good}, {none}, {zero}]"),
        &[
            "a | latency = 120000000000",
            "c | throughput = 2000000",
            "b ! its score is not a number",
        ],
    );
    check(
        &format!("[{}]", run("a", "'score': 2, 'scoreUnit': 'bees'")),
        &[
            "error: the adapter java_jmh cannot read line 1: \"a\" has the unit \"bees\", which is neither a time nor a rate",
        ],
    );
}

#[test]
fn python_pytest() {
    let check = |output: &str, expected: &[&str]| {
        check(Adapter::PythonPytest, &output.replace('\'', "\""), expected);
    };
    check(
        "{'benchmarks': [{'fullname': 'a.py::b', 'stats': {'mean': 1e-9, 'stddev': Infinity, 'ops': NaN}},
                         {'fullname': 'a.py::c', 'stats': null}]}\nFAILED a.py::d - no\nERROR here\n",
        &["a.py::b | latency = 1", "a.py::c ! it has no time", "a.py::d ! no"],
    );
    // A program's log lines are not tests.
    check(
        "{'benchmarks': [{'fullname': 'a.py::b', 'stats': {'mean': 1e-9}}]}\nlost b.py::connect ERROR\n",
        &["a.py::b | latency = 1"],
    );
    // A path may contain a blank if the test is known.
    check(
        "{'benchmarks': [{'fullname': 'my tests/a.py::b', 'stats': {'mean': 1e-9}}]}\n\
         FAILED my tests/a.py::b - no\n",
        &["my tests/a.py::b ! no"],
    );
    check(
        "FAILED a.py::d - no\n",
        &[
            "error: the adapter python_pytest found no result in this output; is it the right one (--adapter), \
             and does the command print its results on stdout? Any program can print them as JSON: {\"NAME\": \
             {\"latency\": {\"value\": 12.5}}}, with",
        ],
    );
}

#[test]
fn ruby_benchmark() {
    check(
        Adapter::RubyBenchmark,
        "       user     system      total        real\na   0.5   0.25   0.75 (  1.5)\nnoise\n\
         b   0.5   0.25   0.75 (  1.5)\n",
        &["a | latency = 1500000000", "a | cpu-time = 750000000"],
    );
}
