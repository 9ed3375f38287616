//! Renaming in a store.

use crate::support::*;

#[test]
fn a_branch_a_testbed_and_a_benchmark_are_renamed() {
    let mut temporary = temporary();
    let first = with_alert(report("master", 0, 1.0));
    temporary.insert([&first, &report("master", 1, 2.0)]);
    let profile =
        Profile::new(first.uuid, Some(benchmark("a")), ProfileKind::Wall, 9, b"p".to_vec());
    temporary.store.insert_profiles(&[profile]).expect("stored");
    let mut rename = |what, names, merges, expected| {
        let found = temporary.store.rename(&project(), what, names, merges).expect("renamed");
        assert_eq!(found, expected, "{names:?}");
        let check = temporary.store.check().expect("checked");
        assert_eq!((check.whole_reports, check.damaged), (2, Vec::new()), "{names:?}");
    };
    rename(Renamable::Branch, ("master", "main"), false, Renamed::Done);
    rename(Renamable::Branch, ("master", "main"), false, Renamed::Missing);
    rename(Renamable::Branch, ("main", "main"), false, Renamed::Done);
    rename(Renamable::Testbed, ("testbed", "ci"), false, Renamed::Done);
    rename(Renamable::Benchmark, ("a", "parse"), false, Renamed::Done);
    let renamed = temporary.read(&first);
    assert_eq!((renamed.branch, renamed.testbed.as_str()), (branch("main"), "ci"));
    assert_eq!(renamed.alerts[0].benchmark, benchmark("parse"));
    let profiles = temporary.store.profiles(first.uuid).expect("a list");
    assert_eq!(profiles[0].benchmark, Some(benchmark("parse")));
    // It opens, and its export can be imported elsewhere.
    let path = temporary.store.path().to_owned();
    let store = Store::open(path).expect("opened");
    let mut to = super::support::temporary();
    store.export(to.folder.path().join("files")).expect("exported");
    to.store.import(to.folder.path().join("files")).expect("imported");
    assert_eq!(content(&to.store), content(&store));
}

#[test]
fn two_branches_become_one_history() {
    let mut temporary = temporary();
    let start = start_point("master", Some(at(3)), 255);
    temporary.insert([
        report("master", 1, 1.0),
        report("master", 2, 2.0),
        Report { start_point: Some(start.clone()), ..report("main", 4, 4.0) },
        Report { start_point: Some(start.clone()), ..report("feature", 5, 5.0) },
    ]);
    let rename = |store: &mut Store, what, names, merges| {
        store.rename(&project(), what, names, merges).expect("renamed")
    };
    let store = &mut temporary.store;
    assert_eq!(rename(store, Renamable::Branch, ("master", "main"), false), Renamed::Taken);
    let merged = rename(store, Renamable::Branch, ("master", "main"), true);
    assert_eq!(merged, Renamed::Merged { reports: 2 });
    let check = store.check().expect("checked");
    assert_eq!((check.whole_reports, check.damaged), (4, Vec::new()));
    let known = store.known(&project()).expect("names");
    assert_eq!(known.branches, [branch("feature"), branch("main")]);
    let seconds = |report: &Report| {
        let past = store.history(report, HistoryLimits::NONE).expect("a history");
        past.reports.iter().map(|it| (it.start_time - at(0)).whole_seconds()).collect::<Vec<_>>()
    };
    assert_eq!(seconds(&report("main", 9, 9.0)), [1, 2, 4]);
    let feature = report("feature", 9, 9.0);
    let start = StartPoint { branch: branch("main"), ..start };
    assert_eq!(seconds(&Report { start_point: Some(start), ..feature }), [1, 2]);
    // The values of two benchmarks are never merged into one series.
    let mut results = Results::default();
    results.add(benchmark("b"), Measure::latency(), Metric::new(1.0)).expect("added");
    temporary.insert([Report { iterations: vec![results], ..report("main", 20, 1.0) }]);
    let found = rename(&mut temporary.store, Renamable::Benchmark, ("a", "b"), true);
    assert_eq!(found, Renamed::Taken);
}
