//! What goes in comes out.

use super::*;

#[test]
fn reports_come_out_as_they_went_in() {
    let temporary = temporary();
    let check = |number: u128, change: fn(&mut Report)| {
        let mut report = rich(1, 3);
        report.uuid = Uuid::from_u128(number);
        report.alerts[0].uuid = Uuid::from_u128(number + 100);
        change(&mut report);
        assert_eq!(temporary.store.insert(&report).expect("stored"), Insertion::Stored);
        let back = temporary.store.report(report.uuid).expect("read").expect("it is there");
        assert_eq!(back, report);
        let measured = temporary.store.measured(report.uuid).expect("read");
        let expected = Report { verdicts: Vec::new(), alerts: Vec::new(), ..report };
        assert_eq!(measured, Some(expected));
    };
    // `properties` tries all kinds of start points, names and times.
    check(1, |_| {});
    check(2, |report| report.verdicts[0].boundary = Some(Boundary::default()));
    check(3, |report| {
        let verdict = &mut report.verdicts[0];
        (verdict.boundary, verdict.change, verdict.test, verdict.limit) = (None, None, None, None);
    });
    check(4, |report| report.iterations.insert(0, report.iterations[0].clone()));
    check(5, |report| {
        report.iterations[0].benchmarks.reverse();
        report.iterations[0].benchmarks[1].is_ignored = true;
    });
}

#[test]
fn the_same_report_again_changes_nothing() {
    let temporary = temporary();
    let report = rich(1, 3);
    temporary.store.insert(&report).expect("stored");
    let before = content(&temporary.store);
    assert_eq!(temporary.store.insert(&report).expect("known"), Insertion::AlreadyThere);
    assert_eq!(content(&temporary.store), before);
}

#[test]
fn contradictions_are_refused_whole() {
    let temporary = temporary();
    let check = |change: fn(&mut Report), expected: &str| {
        let mut report = rich(1, 3);
        change(&mut report);
        let error = temporary.store.insert(&report).expect_err(expected);
        assert!(matches!(error, StoreError::Invalid(_)), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(temporary.store.report(report.uuid).expect("read"), None);
    };
    let verdict = "a verdict about the latency of a in iteration 1";
    check(|report| report.verdicts[0].iteration = 1, verdict);
    check(|report| report.alerts[0].benchmark = benchmark("x"), "an alert about the latency of x");
    check(|report| report.verdicts[0].p = Some(f64::NAN), "the p-value in its verdict");
    check(|report| report.alerts.push(report.alerts[0].clone()), "twice");
    check(
        |report| {
            let first = report.iterations[0].benchmarks[0].clone();
            report.iterations[0].benchmarks.push(first);
        },
        "the benchmark a twice",
    );
    check(
        |report| {
            let metrics = &mut report.iterations[0].benchmarks[0].metrics;
            metrics.push(metrics[0].clone());
        },
        "the latency of a twice",
    );
    check(
        |report| {
            let metric = Metric::new(f64::INFINITY);
            report.iterations[0].benchmarks[0].metrics[0].1 = metric;
        },
        "not a finite number",
    );
    check(
        |report| {
            let name = benchmark("empty");
            let empty = BenchmarkResults { name, is_ignored: false, metrics: Vec::new() };
            report.iterations[0].benchmarks.push(empty);
        },
        "empty has no metric",
    );
    let late: fn(&mut Report) = |report| report.end_time += Duration::days(400 * 365);
    check(late, "not between the years 1677 and 2262");
}

#[test]
fn an_error_in_the_middle_leaves_nothing_of_the_report() {
    let temporary = temporary();
    let first = with_alert(report("main", 1, 1.0));
    temporary.store.insert(&first).expect("stored");
    let before = content(&temporary.store);
    // The alert is stored last, and its UUID is taken.
    let mut second = with_alert(report("main", 2, 2.0));
    second.alerts[0].uuid = first.alerts[0].uuid;
    temporary.store.insert(&second).expect_err("the UUID is taken");
    assert_eq!(content(&temporary.store), before);
    assert_eq!(temporary.store.report(second.uuid).expect("read"), None);
}
