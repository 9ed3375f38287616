//! Which reports a new one is judged by.

use super::*;

fn seconds(past: &Past) -> Vec<i64> {
    past.reports.iter().map(|report| (report.start_time - at(0)).whole_seconds()).collect()
}

/// A store of these reports.
fn of(reports: impl IntoIterator<Item = Report>) -> Temporary {
    let mut temporary = temporary();
    temporary.insert(reports);
    temporary
}

fn history(temporary: &Temporary, report: &Report) -> Past {
    temporary.store.history(report, HistoryLimits::NONE).expect("a history")
}

/// Checks the seconds of the reports that a report from a start point is judged by.
fn check_from(temporary: &Temporary, report: Report, start: StartPoint, expected: &[i64]) {
    let report = Report { start_point: Some(start), ..report };
    let history = history(temporary, &report);
    assert_eq!(seconds(&history), expected, "{:?}", report.start_point);
}

#[test]
fn a_branch_without_a_start_point_has_its_own_earlier_reports() {
    // In any order, and with others that are not history.
    let mut temporary = of([5, 1, 9, 3].map(|second| report("main", second, 1.0)));
    let elsewhere = [
        Report { epoch: 1, ..report("main", 2, 1.0) },
        Report { testbed: "other".parse().expect("a name"), ..report("main", 4, 1.0) },
        Report { confirms: Some(Uuid::nil()), ..report("main", 6, 1.0) },
        Report { project: "other".parse().expect("a name"), ..report("main", 7, 1.0) },
        report("other", 0, 1.0),
    ];
    temporary.insert(elsewhere);
    let check = |report: Report, expected: &[i64]| {
        assert_eq!(seconds(&history(&temporary, &report)), expected);
    };
    let next = report("main", 8, 1.0);
    check(next.clone(), &[1, 3, 5]);
    check(Report { epoch: 1, ..next.clone() }, &[2]);
    check(Report { epoch: 2, ..next.clone() }, &[]);
    check(Report { branch: "nowhere".parse().expect("a name"), ..next.clone() }, &[]);
    check(Report { testbed: "nowhere".parse().expect("a name"), ..next.clone() }, &[]);
    let limits = HistoryLimits { reports: 2, ..HistoryLimits::NONE };
    let newest = temporary.store.history(&next, limits).expect("a history");
    assert_eq!(seconds(&newest), [3, 5]);
}

#[test]
fn what_was_measured_again_stands_beside_its_point() {
    let first = report("main", 2, 2.0);
    let again =
        |second, value| Report { confirms: Some(first.uuid), ..report("main", second, value) };
    let temporary = of([report("main", 1, 1.0), first.clone(), again(4, 1.5), again(3, 1.25)]);
    let past = history(&temporary, &report("main", 8, 1.0));
    let points: Vec<(f64, &[f64])> =
        past.series[0].points.iter().map(|point| (point.value, &point.repeats[..])).collect();
    assert_eq!(points, [(1.0, &[][..]), (2.0, &[1.25, 1.5])]);
}

#[test]
fn reports_of_the_same_time_are_ordered_by_uuid() {
    let numbered =
        |number| Report { uuid: Uuid::from_u128(number), ..report("main", 1, number as f64) };
    let temporary = of([3, 1, 4].map(numbered));
    let history = history(&temporary, &numbered(4));
    let uuids: Vec<_> = history.reports.iter().map(|report| report.uuid.as_u128()).collect();
    assert_eq!(uuids, [1, 3]);
}

#[test]
fn a_branch_with_a_start_point_has_that_history_and_not_its_own() {
    let mut temporary = of((1..=9).map(|second| report("main", second, 1.0)));
    let pushes = [6, 8].map(|second| Report {
        start_point: Some(start_point("main", Some(at(5)), 255)),
        ..report("feature", second, 1.0)
    });
    temporary.insert(pushes);
    let check = |until, max_versions, expected: &[i64]| {
        let start = start_point("main", until, max_versions);
        check_from(&temporary, report("feature", 20, 1.0), start, expected);
    };
    check(Some(at(5)), 255, &[1, 2, 3, 4, 5]);
    check(Some(at(5)), 2, &[4, 5]);
    check(Some(at(5)), 0, &[]);
    check(None, 3, &[7, 8, 9]);
    check(Some(at(0)), 255, &[]);
}

#[test]
fn a_version_is_a_commit() {
    let hashes = ["a", "b", "b", "c", "c", "c"].map(|hash| Some(hash.to_owned()));
    let reports = (1..).zip(hashes).map(|(at, hash)| Report { hash, ..report("main", at, 1.0) });
    let temporary = of(reports.chain([7, 8].map(|second| report("main", second, 1.0))));
    let check = |max_versions, expected: &[i64]| {
        let start = start_point("main", None, max_versions);
        check_from(&temporary, report("feature", 20, 1.0), start, expected);
    };
    check(1, &[8]);
    check(2, &[7, 8]);
    check(3, &[4, 5, 6, 7, 8]);
    check(4, &[2, 3, 4, 5, 6, 7, 8]);
    check(5, &[1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn start_points_of_start_points_go_on() {
    let mut temporary = of((1..=5).map(|second| report("main", second, 1.0)));
    let release = (11..=13).map(|second| Report {
        start_point: Some(start_point("main", Some(at(3)), 255)),
        ..report("release", second, 1.0)
    });
    temporary.insert(release);
    let check = |until, max_versions, expected: &[i64]| {
        let start = start_point("release", until, max_versions);
        check_from(&temporary, report("fix", 20, 1.0), start, expected);
    };
    check(None, 255, &[1, 2, 3, 11, 12, 13]);
    check(Some(at(12)), 255, &[1, 2, 3, 11, 12]);
    check(None, 5, &[2, 3, 11, 12, 13]);
    check(None, 3, &[11, 12, 13]);
}

#[test]
fn the_epoch_of_a_start_point_is_that_of_the_time() {
    let epoch = |second| u32::from(second > 3);
    let temporary = of((1..=6).map(|it| Report { epoch: epoch(it), ..report("main", it, 1.0) }));
    let check = |until, expected: &[i64]| {
        let start = start_point("main", Some(at(until)), 255);
        check_from(&temporary, report("feature", 20, 1.0), start, expected);
    };
    check(3, &[1, 2, 3]);
    check(5, &[4, 5]);
}

#[test]
fn circles_of_start_points_end() {
    let from = |name: &str, start: &str, second| Report {
        start_point: Some(start_point(start, None, 255)),
        ..report(name, second, 1.0)
    };
    let temporary = of([from("a", "b", 1), from("b", "a", 2), from("c", "c", 3)]);
    let check = |report: &Report, expected: &[i64]| {
        assert_eq!(seconds(&history(&temporary, report)), expected);
    };
    check(&from("x", "a", 9), &[2, 1]);
    check(&from("c", "c", 9), &[3]);
}

#[test]
fn points_tell_what_is_known_of_them() {
    let mut first = with_alert(report("main", 1, 5.0));
    first.environment.kernel = Some("Linux 6.18".to_owned());
    first.hash = Some("abc".to_owned());
    let metric = Metric::new(5.0).within(4.0, 6.0).with_samples(vec![4.0, 6.0]);
    first.iterations[0].benchmarks[0].metrics[0].1 = metric.clone();
    let mut second = report("main", 2, 7.0);
    second.iterations[0].benchmarks[0].metrics[0].1 = metric;
    second.iterations.push(report("main", 2, 8.0).iterations[0].clone());
    let mut temporary = of([first.clone(), second]);
    temporary.settle(&first, AlertStatus::Dismissed);
    let limits = HistoryLimits { sampled_reports: 1, ..HistoryLimits::NONE };
    let past = temporary.store.history(&report("main", 9, 1.0), limits).expect("a history");
    let report = &past.reports[0];
    assert_eq!((report.uuid, report.hash.as_deref()), (first.uuid, Some("abc")));
    assert_eq!((report.branch.as_str(), &report.environment), ("main", &first.environment));
    let points = &past.find(&benchmark("a"), &Measure::latency()).expect("a series").points;
    let values: Vec<_> = points.iter().map(|p| (p.report, p.iteration, p.value)).collect();
    assert_eq!(values, [(0, 0, 5.0), (1, 0, 5.0), (1, 1, 8.0)]);
    assert_eq!(points[0].samples, [0.0; 0], "of the newest report only");
    assert_eq!(points[1].samples, [4.0, 6.0]);
    assert_eq!(points[0].alert, Some((Limit::Upper, AlertStatus::Dismissed)));
    assert_eq!((points[0].outcome, points[1].outcome), (Some(Outcome::Worse), None));
}

#[test]
fn units_never_mix_and_renamed_measures_go_on() {
    let measured = |second, measure: Measure| {
        let mut report = report("main", second, second as f64);
        report.iterations[0].benchmarks[0].metrics[0].0 = measure;
        report
    };
    let latency = Measure::latency();
    let renamed = Measure { name: "Duration".into(), ..latency.clone() };
    let seconds = Measure { units: "seconds (s)".into(), ..latency.clone() };
    let measures = [&latency, &renamed, &seconds, &latency, &renamed];
    let temporary = of((1..).zip(measures).map(|(second, it)| measured(second, it.clone())));
    let past = history(&temporary, &report("main", 9, 1.0));
    let values = |measure: &Measure| -> Vec<f64> {
        let series = past.find(&benchmark("a"), measure).expect("a series");
        series.points.iter().map(|point| point.value).collect()
    };
    assert_eq!(values(&latency), [1.0, 2.0, 4.0, 5.0]);
    assert_eq!(values(&seconds), [3.0]);
    assert_eq!(past.find(&benchmark("a"), &latency).expect("a series").measure, renamed);
    assert_eq!(past.series.len(), 2);
    assert!(past.find(&benchmark("b"), &latency).is_none());
}

#[test]
fn a_history_without_samples_has_the_same_values() {
    let mut temporary = of((1..=4).map(|number| rich(number, 5)));
    let again = Report { confirms: Some(rich(2, 0).uuid), ..report("main", 900, 0.5) };
    temporary.insert([again]);
    let next = report("main", 1000, 1.0);
    let limits = HistoryLimits { sampled_reports: 0, ..HistoryLimits::NONE };
    let expected = temporary.store.history(&next, limits).expect("a history");
    assert_eq!(expected.series.len(), 6);
    assert_eq!(expected.series[0].points[1].repeats, [0.5]);
    let mut sampled = history(&temporary, &next);
    let points = || sampled.series.iter().flat_map(|series| &series.points);
    assert_eq!(points().filter(|point| point.samples.len() == 4).count(), 4 * 5);
    for point in sampled.series.iter_mut().flat_map(|series| &mut series.points) {
        point.samples.clear();
    }
    assert_eq!(sampled, expected);
}
