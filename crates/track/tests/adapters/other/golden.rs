//! What the adapters make of the outputs in `golden/`, as `golden/*.expected` tells it.

use wingbeat_track::model::Average;

use crate::expected::{self, Group};

#[track_caller]
fn check(file: &str) {
    expected::check(Group::Other, file);
}

#[track_caller]
fn check_average(file: &str, average: Average) {
    expected::check_average(Group::Other, file, average);
}

#[test]
fn google_benchmark() {
    check("cpp_google/benchmark-1.7.1.json");
    check("cpp_google/benchmark-1.7.1-repetitions.json");
    check("cpp_google/benchmark-1.7.1-aggregates.json");
    check("cpp_google/benchmark-1.7.1-aborted.json");
    check("cpp_google/python-1.9.5.json");
    check("cpp_google/schema-1.9-console.txt");
}

#[test]
fn catch2() {
    check("cpp_catch2/catch2-2.13.10.txt");
    check("cpp_catch2/catch2-3.7.1.txt");
    check("cpp_catch2/catch2-3.7.1-colour.txt");
    check("cpp_catch2/catch2-3.7.1-no-analysis.txt");
}

#[test]
fn go_test() {
    check("go_bench/go-1.27.3-benchmem.txt");
    check("go_bench/go-1.27.3-count.txt");
    check("go_bench/go-1.27.3-json.txt");
}

#[test]
fn jmh() {
    check("java_jmh/jmh-1.38-snapshot.json");
    check("java_jmh/jmh-1.38-snapshot-modes.json");
    check("java_jmh/jmh-1.38-snapshot-with-output.txt");
}

#[test]
fn benchmark_dot_net() {
    check("c_sharp_dot_net/schema-0.15-full.json");
    check("c_sharp_dot_net/schema-0.15-brief.json");
    check_average("c_sharp_dot_net/schema-0.15-brief.json", Average::Median);
}

#[test]
fn benchmark_js() {
    check("js_benchmark/benchmark-2.1.4.txt");
}

#[test]
fn console_time() {
    check("js_time/node-20.20.2.txt");
}

#[test]
fn vitest() {
    check("js_vitest/vitest-3.2.7.json");
    check_average("js_vitest/vitest-3.2.7.json", Average::Median);
    check("js_vitest/vitest-4.1.12.json");
    check("js_vitest/vitest-5.1.1.json");
    check("js_vitest/vitest-5.1.1-samples.json");
    check_average("js_vitest/vitest-5.1.1.json", Average::Median);
}

#[test]
fn asv() {
    check("python_asv/asv-0.6.6.txt");
    check("python_asv/asv-0.6.6-quick.txt");
}

#[test]
fn pytest_benchmark() {
    check("python_pytest/pytest-benchmark-5.3.1.json");
    check_average("python_pytest/pytest-benchmark-5.3.1.json", Average::Median);
    check("python_pytest/pytest-benchmark-5.3.1-with-output.txt");
}

#[test]
fn ruby() {
    check("ruby_benchmark/ruby-3.1.2.txt");
    check("ruby_benchmark/benchmark-ips-2.7.2.txt");
}

#[test]
fn hyperfine() {
    check("shell_hyperfine/hyperfine-1.20.0.json");
    check_average("shell_hyperfine/hyperfine-1.20.0.json", Average::Median);
    check("shell_hyperfine/hyperfine-2.0.0.json");
    check("shell_hyperfine/hyperfine-2.0.0-stdout.txt");
}

#[test]
fn dart() {
    check("dart_benchmark_harness/schema-2.3.1.txt");
}
