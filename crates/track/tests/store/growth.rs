//! The cost of storing a report depends on that report, and not on how many names and metrics the store has.

use std::time::{Duration, Instant};

use crate::support::*;

/// A report of benchmarks with these numbers.
fn report(day: i64, numbers: std::ops::Range<u32>) -> Report {
    let mut results = Results::default();
    for number in numbers {
        let name = BenchmarkName::new(format!("benchmark_{number:06}")).expect("a name");
        results.add(name, Measure::latency(), Metric::new(f64::from(number))).expect("added");
    }
    let mut report = Report::new(
        uuid::Uuid::now_v7(),
        ProjectName::new("large").expect("a name"),
        BranchName::new("main").expect("a name"),
        TestbedName::new("box").expect("a name"),
        time::OffsetDateTime::UNIX_EPOCH + time::Duration::days(20_000 + day),
    );
    report.iterations = vec![results];
    report
}

/// The shortest of several times, because the machine may be busy.
fn shortest(store: &mut Store, reports: impl Iterator<Item = Report>) -> Duration {
    let took = |report: Report| {
        let begin = Instant::now();
        store.insert(&report).expect("stored");
        begin.elapsed()
    };
    reports.map(took).min().expect("a report")
}

#[test]
fn new_names_in_a_large_store_cost_as_much_as_in_a_small_one() {
    const NEW: u32 = 300;
    let with_new_names =
        |from: u32| (0..5).map(move |n| report(40, from + n * NEW..from + (n + 1) * NEW));
    let mut small = temporary();
    let in_small = shortest(&mut small.store, with_new_names(0));
    let mut large = temporary();
    large.insert((0..20).map(|day| report(day, 0..4000)));
    let in_large = shortest(&mut large.store, with_new_names(4000));
    assert!(in_large < in_small * 8 + Duration::from_millis(20), "{in_large:?}, {in_small:?}");
}

#[test]
fn ten_times_the_names_cost_some_ten_times_as_much() {
    // Into an empty store each, where PostgreSQL has no statistics yet.
    let of_report =
        |names: u32| shortest(&mut temporary().store, std::iter::once(report(0, 0..names)));
    let (few, many) = (of_report(500), of_report(5000));
    assert!(many < few * 40, "{many:?}, {few:?}");
}
