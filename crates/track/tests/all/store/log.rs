//! Lists of reports, series for plots, versions and the state of branches.

use super::*;

#[test]
fn reports_are_listed_newest_first() {
    let mut temporary = temporary();
    temporary.insert([2, 3, 1].map(|second| report("main", second, 1.0)));
    let elsewhere = Report { project: "other".parse().expect("a name"), ..report("main", 5, 1.0) };
    let hash = Some("0123abcdef".to_owned());
    temporary.insert([Report { hash, ..report("feature", 4, 1.0) }, elsewhere]);
    let check = |filter: ReportFilter, limit, expected: &[i64]| {
        let reports = temporary.store.reports(&filter, limit).expect("a list");
        let seconds = reports.iter().map(|report| (report.start_time - at(0)).whole_seconds());
        assert_eq!(seconds.collect::<Vec<_>>(), expected, "{filter:?}");
    };
    let all = ReportFilter::default;
    let main = || Some(branch("main"));
    check(all(), 100, &[5, 4, 3, 2, 1]);
    check(all(), 2, &[5, 4]);
    check(ReportFilter { project: Some(project()), ..all() }, 100, &[4, 3, 2, 1]);
    check(ReportFilter { branch: main(), ..all() }, 100, &[5, 3, 2, 1]);
    check(ReportFilter { project: Some(project()), branch: main(), ..all() }, 100, &[3, 2, 1]);
    check(ReportFilter { testbed: Some(testbed()), ..all() }, 1, &[5]);
    check(ReportFilter { since: Some(at(2)), until: Some(at(4)), ..all() }, 100, &[4, 3, 2]);
    let third = temporary.store.reports(&all(), 3).expect("a list").remove(2).uuid;
    check(ReportFilter { uuid: Some(third), ..all() }, 100, &[3]);
    let of_commit = |digits: &str| ReportFilter { hash_prefix: Some(digits.to_owned()), ..all() };
    check(of_commit("0123ab"), 100, &[4]);
    check(of_commit("0123ac"), 100, &[]);
    check(ReportFilter { project: "nowhere".parse().ok(), ..all() }, 100, &[]);
    check(ReportFilter { branch: Some(branch("nowhere")), ..all() }, 100, &[]);
}

#[test]
fn a_summary_counts() {
    let mut temporary = temporary();
    let report = rich(1, 3);
    temporary.store.insert(&report).expect("stored");
    let counts = |store: &Store| {
        let summary = store.reports(&ReportFilter::default(), 1).expect("a list").remove(0);
        assert_eq!((summary.uuid, &summary.environment), (report.uuid, &report.environment));
        (summary.metrics, summary.failures, summary.alerts, summary.active_alerts)
    };
    assert_eq!(counts(&temporary.store), (4, 1, 1, 1));
    temporary.settle(&report, AlertStatus::Dismissed);
    assert_eq!(counts(&temporary.store), (4, 1, 1, 0));
}

#[test]
fn the_newest_report_and_the_state_of_a_branch() {
    let mut temporary = temporary();
    let start = start_point("main", Some(at(1)), 10);
    let reports = [
        report("feature", 1, 1.0),
        Report { epoch: 1, start_point: Some(start.clone()), ..report("feature", 2, 1.0) },
        // Measured later, for an earlier epoch.
        report("feature", 3, 1.0),
        Report { confirms: Some(Uuid::nil()), ..report("feature", 4, 1.0) },
    ];
    temporary.insert(&reports);
    let (project, feature) = (project(), branch("feature"));
    let latest = temporary.store.latest(&project, &feature, Some(&testbed())).expect("read");
    assert_eq!(latest.expect("a report").uuid, reports[2].uuid);
    let head = temporary.store.branch_head(&project, &feature).expect("read").expect("a head");
    assert_eq!((head.epoch, head.start_point, head.report), (1, Some(start), reports[1].uuid));
    assert_eq!(temporary.store.branch_head(&project, &branch("main")).expect("read"), None);
    assert_eq!(temporary.store.latest(&project, &branch("main"), None).expect("read"), None);
}

#[test]
fn versions_are_found_and_numbered_by_time() {
    let mut temporary = temporary();
    let on = |name: &str, second, hash: Option<&str>| Report {
        hash: hash.map(str::to_owned),
        ..report(name, second, 1.0)
    };
    let from_main = |report: Report| Report {
        start_point: Some(start_point("main", Some(at(4)), 255)),
        ..report
    };
    let reports = [
        (on("main", 1, Some("a")), 0),
        (on("main", 2, None), 1),
        (on("main", 3, Some("b")), 2),
        (on("main", 4, Some("a")), 0),
        (on("main", 5, None), 3),
        (Report { confirms: Some(on("main", 5, None).uuid), ..on("main", 6, None) }, 3),
        (on("main", 7, Some("c")), 4),
        // The branch begins after "a", the last one measured by then.
        (from_main(on("feature", 8, Some("d"))), 1),
        (from_main(on("feature", 9, Some("e"))), 2),
    ];
    // The numbers do not depend on the order of storing.
    temporary.insert(reports.iter().rev().map(|(report, _)| report));
    for (report, expected) in &reports {
        let number = temporary.store.version_number(report.uuid).expect("read");
        assert_eq!(number, Some(*expected), "{} {:?}", report.branch, report.hash);
        let all = temporary.store.version_numbers(&report.project, &report.branch).expect("read");
        let number = all.get(&report.uuid).copied();
        assert_eq!(number, report.confirms.is_none().then_some(*expected), "{}", report.uuid);
    }
    assert_eq!(temporary.store.version_number(Uuid::nil()).expect("read"), None);
    let check = |name, hash, expected| {
        let found = temporary.store.last_measured(&project(), &branch(name), &testbed(), hash);
        assert_eq!(found.expect("read"), expected);
    };
    check("main", "a", Some(at(4)));
    check("main", "d", None);
    check("nowhere", "a", None);
}

#[test]
fn series_are_drawn_with_boundaries_and_alerts() {
    let mut temporary = temporary();
    let reports = [
        with_alert(report("main", 1, 5.0)),
        report("main", 2, 6.0),
        report("feature", 3, 7.0),
        Report { confirms: Some(Uuid::nil()), ..report("main", 4, 8.0) },
    ];
    temporary.insert(&reports);
    let plot = temporary.store.plot(&PlotQuery::of(project())).expect("a plot");
    let names: Vec<_> = plot.series.iter().map(|series| series.branch.as_str()).collect();
    assert_eq!(names, ["feature", "main"]);
    let main = &plot.series[1];
    assert_eq!((&main.benchmark, &main.measure), (&benchmark("a"), &Measure::latency()));
    let values: Vec<_> = main.points.iter().map(|point| point.value).collect();
    assert_eq!(values, [5.0, 6.0]);
    let [first, second] = &main.points[..] else { panic!("two points") };
    assert_eq!((first.lower_limit, first.upper_limit), (None, Some(2.0)));
    assert_eq!(first.outcome, Some(Outcome::Worse));
    assert_eq!(first.alert, Some((Limit::Upper, AlertStatus::Active)));
    assert_eq!((second.upper_limit, second.outcome, second.alert), (None, None, None));
    assert_eq!(plot.reports[second.report].uuid, reports[1].uuid);
}

#[test]
fn a_plot_in_parts_is_the_whole_plot() {
    let mut temporary = temporary();
    temporary.insert((1..=9).map(|number| rich(number, 2)));
    let store = &temporary.store;
    // By index lookup, and by scanning whole reports.
    for names in [vec![], vec![benchmark("a")], vec![benchmark("a"), benchmark("benchmark 1")]] {
        let query = PlotQuery { benchmarks: names, ..PlotQuery::of(project()) };
        let times = store.plot_times(&query).expect("times");
        assert!(times.is_sorted() && times.len() == 9, "{times:?}");
        let (since, until) = (Some(times[4]), Some(times[4] - Duration::NANOSECOND));
        let early = PlotQuery { until, ..query.clone() };
        let late = PlotQuery { since, ..query.clone() };
        let mut parts = store.plot(&early).expect("a plot");
        parts.append(store.plot(&late).expect("a plot"));
        assert_eq!(parts, store.plot(&query).expect("a plot"));
        assert_eq!(parts.reports.len(), 9);
    }
}

#[test]
fn series_are_chosen() {
    let mut temporary = temporary();
    temporary.insert((1..=3).map(|number| rich(number, 2)));
    let check = |change: fn(&mut PlotQuery), series, points| {
        let mut query = PlotQuery::of(project());
        change(&mut query);
        let plot = temporary.store.plot(&query).expect("a plot");
        let found = plot.series.iter().map(|series| series.points.len()).sum::<usize>();
        assert_eq!((plot.series.len(), found), (series, points), "{query:?}");
    };
    check(|_| {}, 3, 9);
    check(|query| query.benchmarks = vec![benchmark("a"), benchmark("benchmark 1")], 2, 6);
    check(|query| query.benchmarks = vec![benchmark("nowhere")], 0, 0);
    check(|query| query.measures = vec![Measure::latency().slug], 3, 9);
    check(|query| query.measures = vec![Measure::throughput().slug], 0, 0);
    check(|query| query.branches = vec![branch("main")], 3, 9);
    check(|query| query.branches = vec![branch("nowhere")], 0, 0);
    check(|query| query.testbeds = vec![testbed()], 3, 9);
    check(|query| query.reports_max = 2, 3, 6);
    check(|query| query.since = Some(at(2)), 3, 6);
    check(|query| query.project = "nowhere".parse().expect("a name"), 0, 0);
}

#[test]
fn names_are_listed() {
    let temporary = temporary();
    let started =
        Report { start_point: Some(start_point("main", None, 1)), ..report("feature", 1, 1.0) };
    temporary.store.insert(&started).expect("stored");
    let known = temporary.store.known(&project()).expect("names");
    assert_eq!(known.branches, [branch("feature"), branch("main")]);
    assert_eq!((known.testbeds, known.benchmarks), (vec![testbed()], vec![benchmark("a")]));
    assert_eq!(known.measures, [Measure::latency().slug]);
    assert_eq!(temporary.store.projects().expect("names"), [project()]);
}
