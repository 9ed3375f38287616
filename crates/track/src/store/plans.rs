//! Checks that no query scans a whole table that grows with the history. Records every statement while calling all
//! queries of the store, and then inspects SQLite's query plans.

use std::{cell::RefCell, collections::BTreeSet};

use rusqlite::StatementStatus;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{AlertFilter, HistoryLimits, PlotQuery, ReportFilter, Retention, Store, Use};
use crate::model::{
    Alert, AlertStatus, BenchmarkName, BranchName, Limit, Measure, Metric, Outcome, Profile,
    ProfileKind, ProjectName, Report, Results, StartPoint, Verdict,
};

thread_local! {
    static STATEMENTS: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

pub(super) fn note(sql: &str) {
    STATEMENTS.with_borrow_mut(|statements| statements.insert(sql.to_owned()));
}

const LARGE: [(&str, &str); 9] = [
    ("report", "r"),
    ("metric", "m"),
    ("verdict", "v"),
    ("samples", "s"),
    ("failure", "f"),
    ("alert", "a"),
    ("withdrawal", "w"),
    ("benchmark", "n"),
    ("profile", "pr"),
];

/// Statements that list all reports, along an index and with a limit or for their names only.
const WHOLE: [&str; 2] =
    ["SCAN r USING INDEX report_by_time", "SCAN report USING COVERING INDEX report_by_time"];

fn report(number: u128, branch: &str, start_point: Option<StartPoint>) -> Report {
    let mut results = Results::default();
    let benchmark = BenchmarkName::new("a").expect("a name");
    let metric = Metric::new(1.0).with_samples(vec![1.0]);
    results.add(benchmark.clone(), Measure::latency(), metric).expect("added");
    results.fail(BenchmarkName::new("b").expect("a name"), "it failed");
    let verdict = Verdict {
        outcome: Outcome::Worse,
        limit: Some(Limit::Upper),
        ..Verdict::new(0, benchmark, Measure::latency().slug)
    };
    let (project, testbed) = ("p".parse().expect("a name"), "t".parse().expect("a name"));
    let start_time = OffsetDateTime::UNIX_EPOCH + Duration::seconds(number as i64);
    let branch = BranchName::new(branch).expect("a name");
    Report {
        hash: Some("abc".to_owned()),
        start_point,
        iterations: vec![results],
        alerts: vec![Alert::of(Uuid::from_u128(number + 1000), &verdict)],
        verdicts: vec![verdict],
        ..Report::new(Uuid::from_u128(number), project, branch, testbed, start_time)
    }
}

fn use_all(store: &mut Store, folder: &std::path::Path) {
    let main = report(1, "main", None);
    let start = StartPoint {
        branch: main.branch.clone(),
        hash: None,
        until: Some(main.start_time),
        max_versions: 255,
    };
    let feature = report(2, "feature", Some(start));
    store.insert(&main).expect("stored");
    store.insert(&feature).expect("stored");
    let alert = main.alerts[0].uuid;
    store.set_alert_status(alert, AlertStatus::Silenced, None).expect("changed");
    let next = report(3, "feature", feature.start_point.clone());
    let history = store.history(&next, HistoryLimits::NONE).expect("a history");
    assert_eq!(history.reports.len(), 1);
    let (project, branch, testbed) = (&main.project, &main.branch, &main.testbed);
    let of_project = || ReportFilter::of(project);
    let some = ReportFilter {
        branch: Some(branch.clone()),
        testbed: Some(testbed.clone()),
        since: Some(main.start_time),
        until: Some(main.start_time),
        ..ReportFilter::of(project)
    };
    let of_uuid = ReportFilter { uuid: Some(main.uuid), ..of_project() };
    let of_commit = ReportFilter { hash_prefix: Some("abc".to_owned()), ..of_project() };
    let of_branch = ReportFilter { project: None, ..some.clone() };
    for reports in [ReportFilter::default(), of_project(), of_branch, of_uuid, of_commit, some] {
        assert!(!store.reports(&reports, 10).expect("reports").is_empty());
        // A server counts those of one project.
        if reports.project.is_some() {
            assert!(store.report_count(&reports).expect("a count") > 0);
        }
        for status in [None, Some(AlertStatus::Silenced)] {
            let filter = AlertFilter { reports: reports.clone(), status, ..AlertFilter::default() };
            assert_eq!(store.alerts(&filter, 1).expect("alerts").len(), 1);
        }
    }
    store.latest(project, branch, Some(testbed)).expect("read").expect("a report");
    store.branch_head(project, branch).expect("read").expect("a head");
    store.last_measured(project, branch, testbed, "abc").expect("read").expect("a time");
    store.version_number(feature.uuid).expect("read").expect("a number");
    store.report(feature.uuid).expect("read").expect("a report");
    store.measured(feature.uuid).expect("read").expect("a report");
    use_for_server(store, &main, &feature);
    assert_eq!(store.known(project).expect("names").branches.len(), 2);
    assert_eq!(store.projects().expect("names").len(), 1);
    store.settle_replaced_heads(project, branch).expect("settled");
    let silenced = store.silenced(project, std::slice::from_ref(branch), testbed);
    assert_eq!(silenced.expect("read").len(), 1);
    let narrow = PlotQuery {
        branches: vec![main.branch.clone()],
        testbeds: vec![main.testbed.clone()],
        benchmarks: vec![BenchmarkName::new("a").expect("a name")],
        measures: vec![Measure::latency().slug],
        since: Some(main.start_time),
        ..PlotQuery::of(project.clone())
    };
    for query in [PlotQuery::of(project.clone()), narrow] {
        assert!(!store.plot(&query).expect("a plot").series.is_empty());
    }
    store.withdraw(feature.uuid, None).expect("withdrawn").expect("a withdrawal");
    use_documents(store, project, &feature, alert);
    use_profiles(store, &main);
    store.export(folder).expect("exported");
    let other = Store::open(folder.join("other.db")).expect("a store");
    assert_eq!(other.import(folder).expect("imported").documents.reports, 2);
}

fn use_documents(store: &Store, project: &ProjectName, report: &Report, alert: Uuid) {
    let documents = store.documents(project, None, 1, usize::MAX).expect("documents");
    assert_eq!((documents.count, documents.next.is_some()), (1, true));
    assert_eq!(store.documents(project, documents.next, 9, 0).expect("documents").count, 1);
    assert_eq!(store.entries(project, None, 9).expect("entries").len(), 4);
    assert!(store.project_of_report(report.uuid).expect("read").is_some());
    assert!(store.project_of_alert(alert).expect("read").is_some());
}

fn use_profiles(store: &mut Store, main: &Report) {
    let name = BenchmarkName::new("a").expect("a name");
    let profile = Profile::new(main.uuid, Some(name.clone()), ProfileKind::Wall, 1, vec![1]);
    store.insert_profiles(std::slice::from_ref(&profile)).expect("stored");
    assert_eq!(store.profiles(main.uuid).expect("a list").len(), 1);
    store.profile_content(profile.about.sha256).expect("read").expect("a content");
    store.profile_before(main, Some(&name), ProfileKind::Wall, None).expect("read");
    assert_eq!(store.entries(&main.project, None, 9).expect("entries").len(), 5);
    let retention = Retention { newest: 0, ..Retention::default() };
    store.tidy_profiles(&main.project, retention).expect("tidied");
}

/// Queries used only by a server.
fn use_for_server(store: &Store, main: &Report, feature: &Report) {
    let project = &main.project;
    assert_eq!(store.stretches(project).expect("stretches").len(), 2);
    assert_eq!(store.places(project, main.start_time).expect("places").len(), 2);
    assert_eq!(store.version_numbers(project, &feature.branch).expect("numbers").len(), 1);
    assert_eq!(store.iteration_counts(main.uuid).expect("counts").len(), 1);
    for name in [Use::Benchmark("a"), Use::Measure("latency")] {
        assert!(store.is_used(project, name).expect("read"));
    }
}

fn plan(store: &Store, sql: &str) -> Vec<String> {
    let explain = format!("EXPLAIN QUERY PLAN {sql}");
    let sqlite = store.connection.sqlite().expect("SQLite");
    let mut statement = sqlite.prepare(&explain).expect("a statement");
    // Parameters without a value are NULL. Plans do not depend on values.
    let mut rows = statement.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next().expect("a step") {
        steps.push(row.get::<_, String>("detail").expect("a text"));
    }
    steps
}

fn is_scan_of_much(step: &str) -> bool {
    let Some(rest) = step.strip_prefix("SCAN ") else { return false };
    let table = rest.split(' ').next().unwrap_or(rest);
    let is_large = LARGE.iter().any(|(name, alias)| table == *name || table == *alias);
    is_large && !WHOLE.iter().any(|whole| step.starts_with(whole))
}

#[test]
fn no_query_reads_a_whole_table() {
    let temporary = tempfile::tempdir().expect("a folder");
    let mut store = Store::open(temporary.path().join("results.db")).expect("a store");
    use_all(&mut store, &temporary.path().join("files"));
    let statements = STATEMENTS.with_borrow(BTreeSet::clone);
    assert!(statements.len() > 30, "only {} statements were noted", statements.len());
    for sql in statements {
        let plan = plan(&store, &sql);
        let scans: Vec<_> = plan.iter().filter(|step| is_scan_of_much(step)).collect();
        assert!(scans.is_empty(), "{scans:#?}\nof\n{sql}\nwith the plan\n{plan:#?}");
    }
}

/// Statements that a history and a plot run for each report.
#[test]
fn each_report_of_a_history_and_a_plot_is_a_search() {
    let temporary = tempfile::tempdir().expect("a folder");
    let store = Store::open(temporary.path().join("results.db")).expect("a store");
    for number in 1..=9 {
        store.insert(&report(number, "main", None)).expect("stored");
    }
    let names = || vec![BenchmarkName::new("a").expect("a name")];
    let all = PlotQuery::of(ProjectName::new("p").expect("a name"));
    let some =
        PlotQuery { benchmarks: names(), measures: vec![Measure::latency().slug], ..all.clone() };
    STATEMENTS.take();
    let next = report(10, "main", None);
    let history = store.history(&next, HistoryLimits::NONE).expect("a history");
    assert_eq!(history.series[0].points.len(), 9);
    for query in [all, some] {
        assert_eq!(store.plot(&query).expect("a plot").series[0].points.len(), 9);
    }
    let statements = STATEMENTS.take();
    let check = |table: &str, expected: usize| {
        let of_report: Vec<_> = statements
            .iter()
            .filter(|sql| sql.contains(&format!("FROM {table}")) && sql.contains("report = ?1"))
            .collect();
        assert_eq!(of_report.len(), expected, "{table}: {statements:#?}");
        for sql in of_report {
            let plan = plan(&store, sql);
            let is_search = plan[0].contains(" USING ") && plan[0].contains("(report=?");
            assert!(is_search && plan[0].starts_with("SEARCH"), "{sql}\n{plan:#?}");
            let sorts = plan.iter().any(|step| step.contains("TEMP B-TREE"));
            assert!(!sorts, "{sql}\n{plan:#?}");
        }
    };
    check("metric", 3);
    check("verdict", 3);
    check("alert", 1);
    // A statement that SQLite prepares anew for each report takes longer to prepare than to run.
    let mut runs = 0;
    for sql in statements.iter().filter(|sql| sql.contains("report = ?1")) {
        let sqlite = store.connection.sqlite().expect("SQLite");
        let cached = sqlite.prepare_cached(sql).expect("a statement");
        runs += cached.get_status(StatementStatus::Run);
        assert_eq!(cached.get_status(StatementStatus::RePrepare), 0, "{sql}");
    }
    assert!(runs >= 9 * 11, "only {runs} runs are known: the statements are not those that ran");
}

#[test]
fn whole_tables_are_seen() {
    let temporary = tempfile::tempdir().expect("a folder");
    let store = Store::open(temporary.path().join("results.db")).expect("a store");
    for sql in ["SELECT count(*) FROM metric WHERE value > 1", "SELECT * FROM report r"] {
        assert!(plan(&store, sql).iter().any(|step| is_scan_of_much(step)), "{sql}");
    }
}
