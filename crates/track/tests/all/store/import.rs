//! Imports of other tools' histories.

use std::path::Path;

use wingbeat_track::import::Place;

use super::*;

fn place(project: Option<&str>) -> Place {
    Place {
        project: project.unwrap_or("project").parse().expect("a name"),
        is_project_named: project.is_some(),
        branch: branch("main"),
        testbed: testbed(),
    }
}

fn import(store: &mut Store, text: &str) -> Result<Imported, ExchangeError> {
    store.import_any(text.as_bytes(), Path::new("file"), &place(None))
}

/// The series of a store: benchmark, measure, units, direction, values.
fn series(store: &Store) -> Vec<(String, String, String, Direction, Vec<f64>)> {
    let plot = store.plot(&PlotQuery::of(project())).expect("a plot");
    let of = |series: PlotSeries| {
        let Measure { slug, units, direction, .. } = series.measure;
        let values = series.points.iter().map(|it| it.value).collect();
        let benchmark = series.benchmark.to_string();
        (benchmark, slug.to_string(), units.to_string(), direction, values)
    };
    plot.series.into_iter().map(of).collect()
}

/// A commit's letter, and its measured values.
type Entry<'t> = (char, &'t str);

/// `data.js` with the entries of suites: name, tool, entries.
fn data_js(suites: &[(&str, &str, &[Entry<'_>])]) -> String {
    let suite = |(name, tool, entries): &(&str, &str, &[Entry<'_>])| {
        let entry = |(number, (letter, benches)): (usize, &Entry<'_>)| {
            let id = letter.to_string().repeat(40);
            let date = 1_573_190_347_193_u64 + 60_000 * number as u64;
            format!(
                r#"{{"commit": {{"id": "{id}", "message": "m", "timestamp": "2019-11-08T14:17:48+09:00", "url": "u"}},
                     "date": {date}, "tool": "{tool}", "benches": [{benches}]}}"#
            )
        };
        let entries: Vec<_> = entries.iter().enumerate().map(entry).collect();
        format!("{name:?}: [{}]", entries.join(", "))
    };
    let suites: Vec<_> = suites.iter().map(suite).collect();
    format!(
        "window.BENCHMARK_DATA = {{\"lastUpdate\": 1, \"repoUrl\": \"\", \"entries\": {{{}}}}}",
        suites.join(", ")
    )
}

#[test]
fn data_js_becomes_a_history_once() {
    use Direction::*;
    let rust = r#"{"name": "fib", "value": 1500, "range": "± 30", "unit": "ns/iter"}"#;
    let faster = r#"{"name": "fib", "value": 1.2, "range": "± 2%", "unit": "us"}"#;
    let go = r#"{"name": "BenchmarkFib", "value": 7, "unit": "ns/op", "extra": "9 times"},
                {"name": "BenchmarkFib - ns/op", "value": 7, "unit": "ns/op"},
                {"name": "BenchmarkFib - B/op", "value": 64, "unit": "B/op"}"#;
    let small =
        r#"{"name": "rss", "value": 5000, "unit": "MB"}, {"name": "fib", "value": 1, "unit": ""}"#;
    let big = r#"{"name": "rate", "value": 9, "unit": "req/s"}, {"name": "no", "value": null}"#;
    let text = data_js(&[
        ("Rust", "cargo", &[('a', rust), ('b', faster), ('b', rust)]),
        ("Go", "go", &[('a', go)]),
        ("Size", "customSmallerIsBetter", &[('a', small)]),
        ("Rate", "customBiggerIsBetter", &[('a', big)]),
    ]);
    let mut temporary = temporary();
    let imported = import(&mut temporary.store, &text).expect("imported");
    // Suites of one commit are one report, and a commit measured twice is two.
    assert_eq!((imported.documents.reports, imported.left_out), (3, 1), "{imported:?}");
    assert!(imported.left_out_named[0].contains("no at aaaaaaaaaa: it is not a number"));
    let (ns, bytes) = ("nanoseconds (ns)", "bytes (B)");
    let found = series(&temporary.store);
    let expected = [
        ("BenchmarkFib", "allocated", bytes, LowerIsBetter, vec![64.0]),
        ("BenchmarkFib", "latency", ns, LowerIsBetter, vec![7.0]),
        ("Rust/fib", "latency", ns, LowerIsBetter, vec![1500.0, 1200.0, 1500.0]),
        ("Size/fib", "value", "value (units)", LowerIsBetter, vec![1.0]),
        ("rate", "req-s", "req/s", HigherIsBetter, vec![9.0]),
        ("rss", "mb", "MB", LowerIsBetter, vec![5000.0]),
    ];
    let expected = expected.map(|(benchmark, measure, units, direction, values)| {
        (benchmark.to_owned(), measure.to_owned(), units.to_owned(), direction, values)
    });
    assert_eq!(found, expected);
    let again = import(&mut temporary.store, &text).expect("imported");
    assert_eq!((again.documents.reports, again.already_there), (0, 3));
    assert_eq!(series(&temporary.store), expected);
    let reports = temporary.store.reports(&ReportFilter::default(), 9).expect("a list");
    assert_eq!(reports[2].hash.as_deref(), Some(&*"a".repeat(40)));
    assert_eq!(reports[2].start_time.unix_timestamp(), 1_573_190_347);
    // The JSON alone, as for `external-data-json-path`.
    let json = text.trim_start_matches("window.BENCHMARK_DATA = ");
    let again = import(&mut temporary.store, json).expect("imported");
    assert_eq!((again.documents.reports, again.already_there), (0, 3));
}

/// From ROCm/ATOM#2099 and benchmark-action/github-action-benchmark#158.
#[test]
fn data_js_may_be_odd() {
    let one = r#"{"name": "NaN \"of\" -Infinity", "value": 1, "unit": "ns"}"#;
    let odd = r#"{"name": "a", "value": NaN}, {"name": "b", "value": -Infinity, "unit": "ns"}"#;
    let text =
        data_js(&[("S", "cargo", &[('a', one), ('a', one), ('b', &format!("{one}, {odd}"))])]);
    for end in ["", ";", ";;\n", ";\r\n"] {
        let mut temporary = temporary();
        let imported = import(&mut temporary.store, &format!("{text}{end}")).expect("imported");
        // A duplicate entry was measured once.
        assert_eq!((imported.documents.reports, imported.left_out), (2, 2), "{end:?}");
        assert_eq!(series(&temporary.store)[0].0, "NaN \"of\" -Infinity");
    }
}

fn bencher_report(number: u32, head: u32, value: f64) -> String {
    format!(
        r#"{{"uuid": "00000000-0000-0000-0000-00000000000{number}", "user": null,
        "project": {{"name": "Project", "slug": "project"}},
        "branch": {{"name": "main", "slug": "main", "head": {{
            "uuid": "00000000-0000-0000-0001-00000000000{head}", "start_point": null,
            "version": {{"number": {number}, "hash": "{number:040x}"}},
            "created": "2024-01-0{head}T00:00:00Z", "replaced": null}}}},
        "testbed": {{"name": "testbed", "slug": "testbed"}},
        "start_time": "2024-02-0{number}T00:00:00Z", "end_time": "2024-02-0{number}T00:00:01Z",
        "adapter": "rust_criterion", "alerts": [],
        "results": [[{{"iteration": 0, "benchmark": {{"name": "parse", "slug": "parse"}}, "measures": [
            {{"measure": {{"name": "Latency", "slug": "latency", "units": "nanoseconds (ns)"}},
              "metric": {{"uuid": "00000000-0000-0000-0000-000000000000", "value": {value}, "lower_value": 1.0,
                          "upper_value": null}}, "threshold": null, "boundary": null}},
            {{"measure": {{"name": "Peak RSS", "slug": "peak-rss-1a2b", "units": "MB"}},
              "metric": {{"value": 5, "lower_value": null, "upper_value": null}}}}]}}]]}}"#
    )
}

#[test]
fn reports_of_bencher_become_a_history_once() {
    let mut temporary = temporary();
    let [first, second, third] = [(1, 1, 10.0), (2, 1, 20.0), (3, 2, 30.0)]
        .map(|(number, head, value)| bencher_report(number, head, value));
    // Two pages.
    let text = format!("[{first},\n{second}]\n[{third}]");
    let imported = import(&mut temporary.store, &text).expect("imported");
    assert_eq!((imported.documents.reports, imported.left_out), (3, 0));
    let ns = ("parse".to_owned(), "latency".to_owned(), "nanoseconds (ns)".to_owned());
    let found = series(&temporary.store);
    assert_eq!(found[0], (ns.0, ns.1, ns.2, Direction::LowerIsBetter, vec![10.0, 20.0, 30.0]));
    assert_eq!((&*found[1].1, &*found[1].2), ("peak-rss-1a2b", "MB"));
    let reports = temporary.store.reports(&ReportFilter::default(), 9).expect("a list");
    let found: Vec<_> = reports.iter().map(|it| (it.epoch, it.adapter)).collect();
    let criterion = Adapter::RustCriterion;
    assert_eq!(found, [(1, criterion), (0, criterion), (0, criterion)]);
    let again = import(&mut temporary.store, &first).expect("imported");
    assert_eq!((again.documents.reports, again.already_there), (0, 1));
    let elsewhere = place(Some("else"));
    let other = bencher_report(4, 1, 1.0);
    temporary.store.import_any(other.as_bytes(), Path::new("file"), &elsewhere).expect("imported");
    let projects = temporary.store.projects().expect("a list");
    assert_eq!(projects.iter().map(ProjectName::as_str).collect::<Vec<_>>(), ["else", "project"]);
}

#[test]
fn series_of_bencher_become_a_history_once() {
    let series = |benchmark: &str, measure: &str, values: &[(u32, u32, f64)]| {
        let point = |(report, iteration, value): &(u32, u32, f64)| {
            format!(
                r#"{{"report": "00000000-0000-0000-0000-00000000000{report}", "iteration": {iteration},
                "start_time": "2024-02-0{report}T00:00:00Z", "end_time": "2024-02-0{report}T00:00:01Z",
                "version": {{"number": {report}, "hash": "{report:040x}"}},
                "metric": {{"uuid": "00000000-0000-0000-0000-000000000000", "value": {value}, "lower_value": null,
                            "upper_value": null}}, "threshold": null, "boundary": null, "alert": null}}"#
            )
        };
        let points: Vec<_> = values.iter().map(point).collect();
        format!(
            r#"{{"branch": {{"name": "main", "slug": "main", "head": {{
                "uuid": "00000000-0000-0000-0001-000000000001", "created": "2024-01-01T00:00:00Z"}}}},
            "testbed": {{"name": "testbed", "slug": "testbed"}},
            "benchmark": {{"name": "{benchmark}", "slug": "{benchmark}"}}, "measure": {measure},
            "metrics": [{}]}}"#,
            points.join(", ")
        )
    };
    let latency = r#"{"name": "Latency", "slug": "latency", "units": "nanoseconds (ns)"}"#;
    let own = r#"{"name": "Peak RSS", "slug": "peak-rss-1a2b", "units": "MB"}"#;
    let perf = |series: &[String]| {
        format!(
            r#"{{"project": {{"name": "Project", "slug": "project"}}, "start_time": null, "end_time": null,
                "results": [{}]}}"#,
            series.join(", ")
        )
    };
    let first = perf(&[series("parse", latency, &[(1, 0, 10.0), (1, 1, 11.0), (2, 0, 20.0)])]);
    // Another query for the same reports.
    let second =
        perf(&[series("render", own, &[(2, 0, 5.0), (3, 0, 6.0)]), series("no", own, &[])]);
    let text = format!("{first}\n{second}");
    let mut temporary = temporary();
    let imported = import(&mut temporary.store, &text).expect("imported");
    assert_eq!((imported.documents.reports, imported.left_out), (3, 0));
    let found = self::series(&temporary.store);
    let ns = "nanoseconds (ns)".to_owned();
    let expected = ("parse".to_owned(), "latency".to_owned(), ns);
    assert_eq!((found[0].0.clone(), found[0].1.clone(), found[0].2.clone()), expected);
    assert_eq!((found[0].3, &*found[0].4), (Direction::LowerIsBetter, &[10.0, 11.0, 20.0][..]));
    assert_eq!(
        (&*found[1].0, &*found[1].1, &*found[1].4),
        ("render", "peak-rss-1a2b", &[5.0, 6.0][..])
    );
    let reports = temporary.store.reports(&ReportFilter::default(), 9).expect("a list");
    assert_eq!(reports[2].hash.as_deref(), Some(&*format!("{:040x}", 1)));
    let again = import(&mut temporary.store, &text).expect("imported");
    assert_eq!((again.documents.reports, again.already_there), (0, 3));
    let error =
        import(&mut temporary.store, &text.replace("\"metrics\"", "\"metric\"")).expect_err("odd");
    assert!(error.to_string().contains("it looks like the output of `bencher perf`"), "{error}");
    let error = import(&mut temporary.store, &perf(&[])).expect_err("nothing");
    assert!(error.to_string().contains("it has no results"), "{error}");
}

#[test]
fn what_is_wrong_is_told_and_nothing_is_stored() {
    let check = |text: &str, expected: &str| {
        let mut temporary = temporary();
        let error = import(&mut temporary.store, text).expect_err(text).to_string();
        assert!(error.contains(expected) && error.contains("not even in part"), "{error}");
        let reports = temporary.store.reports(&ReportFilter::default(), 9).expect("a list");
        assert!(reports.is_empty(), "{text}");
    };
    let one = r#"{"name": "a", "value": 1, "unit": "ns"}"#;
    let good = data_js(&[("S", "cargo", &[('a', one), ('b', one)])]);
    check(&good[..good.len() / 2], "it looks like data.js of github-action-benchmark");
    check(&good.replace("\"benches\"", "\"banches\""), "missing field `benches`");
    check(&good.replace("157319", "157319000000"), "entry 1 of \"S\": ");
    check(&data_js(&[]), "it has no results");
    check("window.BENCHMARK_DATA = {}", "missing field `entries`");
    let report = bencher_report(1, 1, 1.0);
    check(&report.replace("\"results\"", "\"result\""), "reports?expand=true");
    check(
        &format!("[{report}, {}]", report.replace("\"main\"", "\"a b\"")),
        "cannot be the name of a branch",
    );
    check(
        &report.replace("rust_criterion\"", "x\", \"start_time\": 1"),
        "it looks like a list of Bencher's reports",
    );
    check("[1]", "it looks like a list of Bencher's reports");
    check("[]", "it has no results");
    check(&"[".repeat(100_000), "it looks like a list of Bencher's reports");
}
