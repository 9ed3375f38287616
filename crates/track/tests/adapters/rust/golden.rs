//! What the adapters make of the outputs in `golden/`, as `golden/*.expected` tells it.
//! `UPDATE_EXPECT=1` writes the expectations anew.
//!
//! The outputs are those of the versions in their names; `schema` is one that was written after the
//! source of the tool.

use std::{env, fs, path::Path};

use wingbeat_track::{adapter::Adapter, results::Average};

use crate::other::outline::outline;

fn check(file: &str) {
    check_average(file, None, "expected");
}

fn check_average(file: &str, average: Option<Average>, extension: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/adapters/rust/golden");
    let output = fs::read(folder.join(file)).expect("the golden output");
    let adapter: Adapter = file.split('/').next().expect("a folder").parse().expect("an adapter");
    let found = match adapter.parse(&output, average) {
        Ok(results) => outline(&results),
        Err(error) => format!("{error}\n"),
    };
    let path = folder.join(format!("{file}.{extension}"));
    if env::var_os("UPDATE_EXPECT").is_some_and(|value| value == "1") {
        fs::write(&path, &found).expect("expectation written");
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{file}: UPDATE_EXPECT=1 rewrites {}", path.display());
}

#[test]
fn libtest() {
    check("rust_bench/libtest-1.95.txt");
    check("rust_bench/libtest-1.95-nocapture.txt");
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
    check_average("rust_divan/divan-0.1.21.txt", Some(Average::Mean), "mean.expected");
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
    check_average("wingbeat_bench/wingbeat-0.1.0.json", Some(Average::Mean), "mean.expected");
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
