//! Percentiles and counters of synthetic recordings.

use super::*;
use crate::instrument::{tracer::RunRecords, wrapper::Recorded};

/// A recording of these times, each with its number of runs.
fn recording(times: &[(u64, u64)]) -> Recording {
    let recorded = Recorded::of(times);
    let results = RunRecords {
        entries: recorded.count + 3,
        recorded,
        unmatched: 1,
        displaced: 2,
        unfinished: 1,
        counters: Vec::new(),
    };
    Recording { results, recursion_misses: 5 }
}

#[test]
fn percentiles_take_runs_above_them() {
    let check = |runs: u64, expected: [bool; 4]| {
        let found = SingleRuns::new(&recording(&[(100, runs)]), None).expect("runs");
        let known = [found.p50_ns, found.p90_ns, found.p99_ns, found.p999_ns];
        assert_eq!(known.map(|percentile| percentile.is_some()), expected, "{runs}");
    };
    check(1, [true, false, false, false]);
    check(9, [true, false, false, false]);
    check(10, [true, true, false, false]);
    check(100, [true, true, true, false]);
    check(999, [true, true, true, false]);
    check(1_000, [true, true, true, true]);
    assert_eq!(SingleRuns::new(&recording(&[]), None), None);
}

#[test]
fn figures() {
    let times = [(40, 500), (1_000, 480), (9_000, 19), (70_000, 1)];
    let found = SingleRuns::new(&recording(&times), Some(15.0)).expect("runs");
    assert_eq!((found.runs, found.min_ns, found.max_ns), (1_000, 40, 70_000));
    assert!((found.mean_ns - 741.0).abs() < 1e-9, "{found:?}");
    let p90 = found.p90_ns.expect("p90");
    assert!((p90 - 1_000.0).abs() <= 1_000.0 * BIN_WIDTH, "{p90}");
    let (p50, net) = (found.p50_ns.expect("p50"), found.net_p50_ns.expect("net"));
    assert!((p50 - net - 15.0).abs() < 1e-9);
    assert_eq!(found.untimed.lost(), 7);
    assert_eq!(found.bins.len(), 4);
    assert_eq!(found.bins[0], Bin { lower_ns: 40, upper_ns: Some(41), runs: 500 });
}

#[test]
fn runs_beyond_the_bins_are_told_and_not_guessed() {
    let check = |beyond: u64, expected: [bool; 4]| {
        let times = [(1_000, 1_000 - beyond), (7_000_000_000, beyond)];
        let found = SingleRuns::new(&recording(&times), None).expect("runs");
        let known = [found.p50_ns, found.p90_ns, found.p99_ns, found.p999_ns];
        assert_eq!(known.map(|percentile| percentile.is_some()), expected, "{beyond}");
        assert_eq!((found.runs_beyond_bins, found.max_ns), (beyond, 7_000_000_000));
        assert_eq!(
            found.bins.last().map(|bin| (bin.lower_ns, bin.upper_ns)),
            Some((1 << 32, None))
        );
    };
    check(1, [true, true, true, true]);
    check(2, [true, true, true, false]);
    check(50, [true, true, false, false]);
    check(999, [false; 4]);
}

#[test]
fn counters() {
    let check = |sums: CounterSums, runs, empty: Option<f64>, expected: [Option<f64>; 3]| {
        let empty = empty
            .map(|per_run| CounterReport { per_run: Some(per_run), ..CounterReport::default() });
        let found = CounterReport::new(CounterEvent::Cycles, sums, runs, empty.as_ref());
        assert_eq!([found.total, found.per_run, found.net_per_run], expected, "{sums:?}");
    };
    let sums = |count, enabled_ns, running_ns, unread| CounterSums {
        count,
        enabled_ns,
        running_ns,
        unread,
    };
    check(sums(1_000, 50, 50, 0), 10, None, [Some(1_000.0), Some(100.0), None]);
    check(sums(1_000, 50, 50, 0), 10, Some(30.0), [Some(1_000.0), Some(100.0), Some(70.0)]);
    check(sums(1_000, 50, 50, 0), 10, Some(300.0), [Some(1_000.0), Some(100.0), Some(0.0)]);
    // Multiplexed: counted half of the time.
    check(sums(1_000, 50, 25, 0), 10, None, [Some(2_000.0), Some(200.0), None]);
    // Two runs could not be read.
    check(sums(800, 50, 50, 2), 10, None, [Some(800.0), Some(100.0), None]);
    // A counter that never ran has no value; a running one may have counted 0.
    check(sums(0, 50, 0, 0), 10, None, [None; 3]);
    check(sums(0, 0, 0, 10), 10, None, [None; 3]);
    check(sums(0, 50, 50, 0), 10, None, [Some(0.0), Some(0.0), None]);
}
