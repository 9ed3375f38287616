//! Golden text with timed single runs.

use super::{check, program, report};
use crate::live::{
    Bin, CounterReport, EmptyRuns, LiveReport, ProgramReport, SingleRuns, format::Format,
};

/// Single runs with a median of `p50_ns`.
pub(in crate::live) fn single_runs(runs: u64, p50_ns: f64) -> SingleRuns {
    SingleRuns {
        runs,
        p50_ns: Some(p50_ns),
        p90_ns: Some(p50_ns + 10.5),
        p99_ns: Some(3.0 * p50_ns),
        p999_ns: (runs >= 1_000).then_some(5.0 * p50_ns),
        max_ns: 12_345,
        min_ns: 30,
        mean_ns: p50_ns + 1.25,
        bin_width: 0.03125,
        bins: vec![Bin { lower_ns: 30, upper_ns: Some(31), runs }],
        ..SingleRuns::default()
    }
}

fn counter(event: &str, per_run: f64, net_per_run: Option<f64>) -> CounterReport {
    CounterReport {
        event: event.to_owned(),
        total: Some(900.0 * per_run),
        per_run: Some(per_run),
        net_per_run,
        runs: 900,
        running: Some(0.5),
    }
}

fn measured() -> LiveReport {
    let mut first = program(12, "fun_xdp_v3", 900, 95_000);
    first.single_runs = Some(SingleRuns { net_p50_ns: Some(63.4), ..single_runs(900, 103.4) });
    first.counters = vec![counter("cycles", 410.25, Some(200.25))];
    // No run has finished.
    let second: ProgramReport = program(7, "slow", 0, 0);
    let mut third = program(8, "slower", 2_000, 2_000);
    third.single_runs = Some(SingleRuns {
        p50_ns: None,
        p999_ns: None,
        runs_beyond_bins: 1_500,
        ..single_runs(2_000, 9.0)
    });
    let mut report = report(vec![first, second, third]);
    report.empty_run_ns = Some(41.25);
    report.empty = Some(EmptyRuns {
        single_runs: single_runs(40_000, 40.0),
        counters: vec![counter("cycles", 210.0, None)],
        added_ns: 120.0,
    });
    report
}

#[test]
fn for_people() {
    check(
        &measured(),
        Format::Human,
        "
id  type  name          runs  runs/s      p50  p90  p99    p99.9     max   mean  net p50  CPU %  owners
          (empty)     40,000               40   50  120      200  12,345   41.2
12  xdp   fun_xdp_v3     900     450      103  114  310        –  12,345  104.7       63  <0.01  –
 7  xdp   slow             0     0.0        –    –    –        –       –      –        –   0.00  –
 8  xdp   slower       2,000   1,000  >4.29 s   20   27  >4.29 s  12,345   10.2        –  <0.01  –

name                event     total  per run     net
(empty)             cycles  189,000   210.00       –
fun_xdp_v3 (id 12)  cycles  369,225   410.25  200.25

3 programs in 2.00 s; CPU % is of one CPU, in all <0.01 % of 2 CPUs
times of single runs in ns, tracers included: (empty) is a program that does nothing, and net p50 is without its time
percentiles are exact to 1 ns below 64 ns, above that to 3.1 %; a dash has less than one run above it
during the measurement, each run takes about 120 ns longer
counters cover the runs and the tracers; net excludes what (empty) shows
counters took turns and counted for 50 % of the time at least; totals are scaled up
",
    );
}

#[test]
fn for_spreadsheets() {
    let text = Format::Csv.write(&measured()).expect("text");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let check = |row: usize, name: &str, expected: &str| {
        let column = rows[0].iter().position(|heading| *heading == name).expect(name);
        assert_eq!(rows[row][column], expected, "{name} in {text}");
    };
    check(1, "latency_p50_ns", "103.4");
    check(1, "latency_p999_ns", "");
    check(1, "latency_max_ns", "12345");
    check(1, "latency_p50_net_ns", "63.4");
    check(1, "cycles_per_run", "410.25");
    check(1, "cycles_per_run_net", "200.25");
    check(2, "latency_p50_ns", "");
    check(3, "runs_beyond_bins", "1500");
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
}

#[test]
fn for_bencher() {
    let text = Format::Bmf.write(&measured()).expect("text");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let check = |pointer: &str, expected: Option<f64>| {
        let found = json.pointer(&format!("{pointer}/value")).and_then(serde_json::Value::as_f64);
        assert_eq!(found, expected, "{pointer} in {text}");
    };
    check("/fun_xdp_v3/latency-p50", Some(103.4));
    check("/fun_xdp_v3/latency-p999", None);
    check("/fun_xdp_v3/latency-max", Some(12_345.0));
    check("/fun_xdp_v3/cycles", Some(410.25));
    check("/slower/latency-p50", None);
}
