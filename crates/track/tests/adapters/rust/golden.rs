//! What the adapters make of the outputs in `golden/`, as `golden/*.expected` tells it.
//!
//! The outputs are those of the versions in their names; `schema` is one that was written after the
//! source of the tool.

use wingbeat_track::model::Average;

use crate::expected::{self, Group};

#[track_caller]
fn check(file: &str) {
    expected::check(Group::Rust, file);
}

#[track_caller]
fn check_average(file: &str, average: Average) {
    expected::check_average(Group::Rust, file, average);
}

#[test]
fn libtest() {
    check("rust_bench/libtest-1.95.txt");
    check("rust_bench/libtest-1.95-nocapture.txt");
    check("rust_bench/libtest-1.97-json.txt");
    check("rust_bench/criterion-0.8.2.txt");
}

#[test]
fn criterion() {
    check("rust_criterion/criterion-0.5.1.txt");
    check("rust_criterion/criterion-0.6.0.txt");
    check("rust_criterion/criterion-0.7.0.txt");
    check("rust_criterion/criterion-0.8.2.txt");
    check("rust_criterion/criterion-0.8.2-colour-stderr.txt");
    check("rust_criterion/criterion-0.8.2-panic.txt");
    check("rust_criterion/criterion-0.8.2-quiet.txt");
}

#[test]
fn divan() {
    check("rust_divan/divan-0.1.21.txt");
    check_average("rust_divan/divan-0.1.21.txt", Average::Mean);
    check("rust_divan/divan-0.1.21-panic.txt");
}

#[test]
fn iai() {
    check("rust_iai/iai-0.1.1.txt");
    check("rust_iai/iai-0.1.1-again.txt");
}

#[test]
fn gungraun() {
    check("rust_gungraun/gungraun-0.20.0.txt");
    check("rust_gungraun/gungraun-0.20.0-again.txt");
    check("rust_gungraun/gungraun-0.20.0-tools.txt");
    check("rust_gungraun/gungraun-0.20.0-panic.txt");
    check("rust_gungraun/gungraun-0.20.0.json");
    check("rust_gungraun/gungraun-0.20.0-tools.json");
}

#[test]
fn wingbeat() {
    check("wingbeat_bench/wingbeat-0.1.0.json");
    check_average("wingbeat_bench/wingbeat-0.1.0.json", Average::Mean);
}

#[test]
fn perf() {
    check("perf_stat/perf-6.1.json");
    check("perf_stat/perf-6.1-repeat.json");
    check("perf_stat/perf-6.1-with-output.json");
    check("perf_stat/perf-6.1-per-cpu.json");
    check("perf_stat/perf-6.1-interval.json");
}

#[test]
fn bpftool() {
    check("bpftool/bpftool-7.1.0.txt");
    check("bpftool/bpftool-7.1.0-data-out.txt");
    check("bpftool/bpftool-7.1.0.json");
    check("bpftool/bpftool-7.1.0-pretty.json");
}

#[test]
fn veristat() {
    check("veristat/schema-0.5.1.csv");
}
