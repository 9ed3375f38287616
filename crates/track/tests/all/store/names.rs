//! Names: of measures in old stores, renamed ones, and what new ones cost.

use std::time::Instant;

use super::*;

/// A report with one value of a measure of the benchmark `a`.
fn of(measure: &Measure, second: i64, value: f64) -> Report {
    let mut results = Results::default();
    results.add(benchmark("a"), measure.clone(), Metric::new(value)).expect("added");
    Report { iterations: vec![results], ..report("main", second, value) }
}

/// A measure with the slug that its name had before slugs were unique.
fn old(name: &str) -> Measure {
    Measure { slug: Slug::of(name), ..Measure::named(name) }
}

/// The values that a new report's measure is judged by.
fn history(store: &Store, measure: &Measure) -> Vec<f64> {
    let mut measure = measure.clone();
    measure.slug = store.slugs(&project()).expect("read").of(&measure);
    let past = store.history(&of(&measure, 100, 0.0), HistoryLimits::NONE).expect("a history");
    let found = past.find(&benchmark("a"), &measure);
    found.map(|series| series.points.iter().map(|it| it.value).collect()).unwrap_or_default()
}

#[test]
fn series_of_old_stores_go_on() {
    let mut temporary = temporary();
    let names = ["延迟", "内存", "read_bytes", "read-bytes", "Größe", "my-score", "latency"];
    for (second, name) in (0..).zip(names) {
        temporary.insert([of(&old(name), second, second as f64)]);
    }
    let other = of(&old("p99-9"), 50, 50.0);
    temporary.insert([Report { project: "other".parse().expect("a name"), ..other }]);
    let mut slugs = temporary.store.slugs(&project()).expect("read");
    let mut check = |name: &str, slug: Option<&str>| {
        let found = slugs.of(&Measure::named(name));
        let expected = slug.map_or_else(|| Slug::with_tail(name), Slug::of);
        assert_eq!(found, expected, "{name}");
    };
    check("延迟", Some("x"));
    check("内存", None);
    check("read_bytes", Some("read-bytes"));
    check("read-bytes", None);
    check("Größe", Some("gr-e"));
    check("my-score", Some("my-score"));
    check("latency", Some("latency"));
    check("время", None);
    for (second, name) in (0..).zip(names) {
        let measure = Measure::named(name);
        assert_eq!(history(&temporary.store, &measure), [second as f64], "{name}");
        // Also once a report has the new slug.
        let mut renewed = measure.clone();
        renewed.slug = temporary.store.slugs(&project()).expect("read").of(&measure);
        temporary.insert([of(&renewed, 10 + second, 10.0)]);
        assert_eq!(history(&temporary.store, &measure), [second as f64, 10.0], "{name}");
    }
}

/// Two projects of a store do not share slugs.
#[test]
fn slugs_are_those_of_a_project() {
    let mut temporary = temporary();
    let elsewhere = of(&old("read_bytes"), 0, 1.0);
    temporary.insert([Report { project: "other".parse().expect("a name"), ..elsewhere }]);
    temporary.insert([of(&old("read-bytes"), 1, 2.0)]);
    let slug = |project| {
        let mut slugs = temporary.store.slugs(&project).expect("read");
        slugs.of(&Measure::named("read-bytes"))
    };
    assert_eq!(slug(project()), Slug::of("read-bytes"));
    assert_eq!(slug("other".parse().expect("a name")), Slug::with_tail("read-bytes"));
}

#[test]
fn a_series_goes_on_when_units_are_said() {
    let check = |units: &[Option<&str>], now: Option<&str>, expected: &[f64]| {
        let measure = |units: Option<&str>| {
            let plain = Measure::named("p99");
            let units = units.map_or(plain.units.clone(), |units| units.to_owned().into());
            Measure { units, direction: Direction::LowerIsBetter, ..plain }
        };
        let mut temporary = temporary();
        for (second, &units) in (0..).zip(units) {
            temporary.insert([of(&measure(units), second, second as f64)]);
        }
        assert_eq!(history(&temporary.store, &measure(now)), expected, "{units:?} {now:?}");
    };
    let (none, ms, s) = (None, Some("ms"), Some("s"));
    check(&[none, none], ms, &[0.0, 1.0]);
    check(&[none, ms], ms, &[0.0, 1.0]);
    check(&[none, ms], none, &[0.0, 1.0]);
    check(&[ms, s], s, &[1.0]);
    check(&[ms, s], ms, &[0.0]);
    check(&[none, ms, s], s, &[2.0]);
}

#[test]
fn a_branch_a_testbed_and_a_benchmark_are_renamed() {
    let mut temporary = temporary();
    let first = with_alert(report("master", 0, 1.0));
    temporary.insert([&first, &report("master", 1, 2.0)]);
    let profile =
        Profile::new(first.uuid, Some(benchmark("a")), ProfileKind::Wall, 9, b"p".to_vec());
    temporary.store.insert_profiles(&[profile]).expect("stored");
    let rename = |what, names, merges, expected| {
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
    let to = super::temporary();
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

/// A report of benchmarks with these numbers.
fn with_benchmarks(day: i64, numbers: std::ops::Range<u32>) -> Report {
    let mut results = Results::default();
    for number in numbers {
        let name = BenchmarkName::new(format!("benchmark_{number:06}")).expect("a name");
        results.add(name, Measure::latency(), Metric::new(f64::from(number))).expect("added");
    }
    let mut report = Report::new(
        Uuid::now_v7(),
        ProjectName::new("large").expect("a name"),
        BranchName::new("main").expect("a name"),
        TestbedName::new("box").expect("a name"),
        OffsetDateTime::UNIX_EPOCH + Duration::days(20_000 + day),
    );
    report.iterations = vec![results];
    report
}

/// The shortest of several times, because the machine may be busy.
fn shortest(store: &mut Store, reports: impl Iterator<Item = Report>) -> std::time::Duration {
    let took = |report: Report| {
        let begin = Instant::now();
        store.insert(&report).expect("stored");
        begin.elapsed()
    };
    reports.map(took).min().expect("a report")
}

/// The cost depends on the report, and not on how many names and metrics the store has.
#[test]
fn new_names_in_a_large_store_cost_as_much_as_in_a_small_one() {
    const NEW: u32 = 300;
    let with_new_names =
        |from: u32| (0..5).map(move |n| with_benchmarks(40, from + n * NEW..from + (n + 1) * NEW));
    let mut small = temporary();
    let in_small = shortest(&mut small.store, with_new_names(0));
    let mut large = temporary();
    large.insert((0..20).map(|day| with_benchmarks(day, 0..4000)));
    let in_large = shortest(&mut large.store, with_new_names(4000));
    assert!(
        in_large < in_small * 8 + std::time::Duration::from_millis(20),
        "{in_large:?}, {in_small:?}"
    );
}

#[test]
fn ten_times_the_names_cost_some_ten_times_as_much() {
    // Into an empty store each, where PostgreSQL has no statistics yet.
    let of_report = |names: u32| {
        shortest(&mut temporary().store, std::iter::once(with_benchmarks(0, 0..names)))
    };
    let (few, many) = (of_report(500), of_report(5000));
    assert!(many < few * 40, "{many:?}, {few:?}");
}
