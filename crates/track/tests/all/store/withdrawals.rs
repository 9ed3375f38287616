//! Withdrawn reports: they are hidden, and stores with them still merge.

use super::*;

/// Three reports on main at seconds 1 to 3, each with an alert and a commit.
fn three() -> [Report; 3] {
    [1, 2, 3].map(|second| Report {
        hash: Some(format!("{second:040}")),
        ..with_alert(report("main", second, second as f64))
    })
}

fn withdraw(store: &mut Store, report: &Report) -> Withdrawal {
    let reason = Some("the machine was broken".to_owned());
    store.withdraw(report.uuid, reason).expect("written").expect("it was there")
}

#[test]
fn a_withdrawn_report_is_nowhere() {
    let mut temporary = temporary();
    let [first, middle, last] = three();
    let confirming =
        Report { confirms: Some(middle.uuid), hash: middle.hash.clone(), ..report("main", 4, 9.0) };
    temporary.insert([&first, &middle, &last, &confirming]);
    temporary.settle(&last, AlertStatus::Silenced);
    let store = &mut temporary.store;
    let uuids = |reports: Vec<ReportSummary>| reports.iter().map(|r| r.uuid).collect::<Vec<_>>();
    let latest = |store: &Store| {
        let latest = store.latest(&project(), &branch("main"), None).expect("read");
        latest.map(|report| report.uuid)
    };
    let head = |store: &Store| {
        let head = store.branch_head(&project(), &branch("main")).expect("read").expect("a head");
        head.report
    };
    let silenced = |store: &Store| {
        store.silenced(&project(), &[branch("main")], &testbed()).expect("read").len()
    };
    assert_eq!((latest(store), silenced(store)), (Some(last.uuid), 1));

    let withdrawal = withdraw(store, &last);
    assert_eq!(withdrawal.report, last.uuid);
    assert_eq!((latest(store), silenced(store)), (Some(middle.uuid), 0));
    assert_eq!(store.version_number(last.uuid).expect("read"), None);
    withdraw(store, &confirming);
    assert_eq!(head(store), middle.uuid);
    withdraw(store, &first);
    let all = ReportFilter::default();
    assert_eq!(uuids(store.reports(&all, 100).expect("a list")), [middle.uuid]);
    assert_eq!(store.report(first.uuid).expect("read"), None);
    let alerts = store.alerts(&AlertFilter::default(), 100).expect("a list");
    assert_eq!(alerts.iter().map(|a| a.report).collect::<Vec<_>>(), [middle.uuid]);
    let plot = store.plot(&PlotQuery::of(project())).expect("a plot");
    let values = plot.series.iter().flat_map(|series| &series.points).map(|point| point.value);
    assert_eq!(values.collect::<Vec<_>>(), [2.0]);
    let past = store.history(&report("main", 9, 1.0), HistoryLimits::NONE).expect("a history");
    assert_eq!(past.reports.iter().map(|r| r.uuid).collect::<Vec<_>>(), [middle.uuid]);
    assert_eq!(
        past.series[0].points[0].repeats,
        Vec::<f64>::new(),
        "what confirmed it was withdrawn too"
    );
    // Versions are counted without them.
    assert_eq!(store.version_number(middle.uuid).expect("read"), Some(0));
    let hash = first.hash.as_deref().expect("a commit");
    let measured = store.last_measured(&project(), &branch("main"), &testbed(), hash);
    assert_eq!(measured.expect("read"), None);

    let check = store.check().expect("checked");
    assert_eq!((check.whole_reports, check.withdrawals), (4, 3));
    assert_eq!(check.damaged, []);
}

#[test]
fn a_report_is_withdrawn_once() {
    let mut temporary = temporary();
    let [first, ..] = three();
    temporary.insert([&first]);
    assert_eq!(temporary.store.withdraw(Uuid::nil(), None).expect("written"), None);
    withdraw(&mut temporary.store, &first);
    assert_eq!(temporary.store.withdraw(first.uuid, None).expect("written"), None);
    // Storing the same report again does not restore it.
    assert_eq!(temporary.store.insert(&first).expect("stored"), Insertion::AlreadyThere);
    assert_eq!(temporary.store.report(first.uuid).expect("read"), None);
}

#[test]
fn one_file_tells_how_many_there_are() {
    let mut from = temporary();
    let [first, middle, _] = three();
    from.insert([&first, &middle]);
    withdraw(&mut from.store, &first);
    let mut lines = Vec::new();
    let exported = from.store.export_to(&mut lines, false).expect("exported");
    assert_eq!((exported.documents.reports, exported.documents.withdrawals), (2, 1));
    let to = temporary();
    let name = Path::new("lines");
    let imported = to.store.import_from(&*lines, name).expect("imported");
    assert_eq!((imported.documents.reports, imported.documents.withdrawals), (2, 1));
    assert_eq!(content(&to.store), content(&from.store));
    let text = String::from_utf8(lines).expect("a text");
    let without: String =
        text.split_inclusive('\n').filter(|line| !line.contains("\"withdrawal\":")).collect();
    let error = temporary().store.import_from(without.as_bytes(), name).expect_err("cut");
    assert!(error.to_string().contains("lines are missing"), "{error}");
}

/// A file of an older wingbeat has no number of withdrawals at its end.
#[test]
fn files_from_before_there_were_withdrawals() {
    let mut from = temporary();
    from.insert(three());
    let mut lines = Vec::new();
    from.store.export_to(&mut lines, false).expect("exported");
    let text = String::from_utf8(lines).expect("a text").replace(",\"withdrawals\":0", "");
    let name = Path::new("lines");
    let imported = temporary().store.import_from(text.as_bytes(), name).expect("imported");
    assert_eq!((imported.documents.reports, imported.documents.withdrawals), (3, 0));
}

#[test]
fn a_server_counts_without_them() {
    let mut temporary = temporary();
    let [first, middle, _] = three();
    temporary.insert([&first, &middle]);
    let store = &mut temporary.store;
    withdraw(store, &first);
    let all = ReportFilter::default();
    assert_eq!(store.report_count(&all).expect("counted"), 1);
    let numbers = store.version_numbers(&project(), &branch("main")).expect("numbers");
    assert_eq!(numbers.into_iter().collect::<Vec<_>>(), [(middle.uuid, 0)]);
    let is_used = |store: &Store| store.is_used(&project(), Use::Benchmark("a")).expect("read");
    assert!(is_used(store));
    withdraw(store, &middle);
    assert!(!is_used(store));
}
