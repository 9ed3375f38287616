//! The store through its public interface: what goes in comes out, whatever happens in between.

mod alerts;
mod copy;
mod exchange;
mod explain;
mod flips;
mod history;
mod import;
mod log;
mod mounts;
mod names;
mod opening;
mod processes;
mod profiles;
mod properties;
mod round_trip;
mod withdrawals;

use std::{
    borrow::Borrow,
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use time::{Duration, OffsetDateTime};
use uuid::Uuid;
use wingbeat_sql::{Connection, PostgresUrl, sqlite};
use wingbeat_track::{
    adapter::Adapter,
    model::{threshold::Test, *},
    store::*,
};

/// Environment variable with a database, to run the tests on PostgreSQL.
const DATABASE: &str = "WINGBEAT_TEST_DATABASE";

/// Location of a new store: a file of that name in a folder, or a separate schema in the database.
fn place(folder: &Path, name: &str) -> PathBuf {
    static SCHEMAS: AtomicUsize = AtomicUsize::new(0);
    match env::var(DATABASE) {
        Ok(url) => {
            let (process, number) = (std::process::id(), SCHEMAS.fetch_add(1, Ordering::Relaxed));
            format!("{url}?schema=test_{process}_{number}").into()
        }
        Err(_) => folder.join(name),
    }
}

/// Number of random cases: fewer on PostgreSQL, where each new store creates twenty tables.
fn cases(of_files: u32) -> u32 {
    if env::var_os(DATABASE).is_some() { of_files / 8 } else { of_files }
}

/// A second connection to the database of a store.
fn connect(store: &Store) -> Connection {
    let path = store.path().to_str().expect("a text");
    if PostgresUrl::is_meant(path) {
        return Connection::postgres(&PostgresUrl::parse(path).expect("a URL")).expect("connected");
    }
    sqlite::open(store.path(), sqlite::Mode::Write).expect("a database")
}

/// A store in a temporary folder.
struct Temporary {
    folder: tempfile::TempDir,
    store: Store,
}

impl Temporary {
    fn insert(&mut self, reports: impl IntoIterator<Item = impl Borrow<Report>>) {
        for report in reports {
            self.store.insert(report.borrow()).expect("stored");
        }
    }

    /// Changes the status of a report's alert.
    fn settle(&mut self, report: &Report, status: AlertStatus) -> AlertChange {
        let alert = report.alerts[0].uuid;
        self.store.set_alert_status(alert, status, None).expect("changed")
    }

    /// Exports it into a folder next to it.
    fn exported(&self) -> PathBuf {
        let folder = self.folder.path().join("files");
        self.store.export(&folder).expect("exported");
        folder
    }

    /// The report as it is in the store.
    fn read(&self, report: &Report) -> Report {
        self.store.report(report.uuid).expect("read").expect("a report")
    }
}

fn temporary() -> Temporary {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(place(folder.path(), "results.db")).expect("a store");
    Temporary { folder, store }
}

fn project() -> ProjectName {
    ProjectName::new("project").expect("a name")
}

fn branch(name: &str) -> BranchName {
    BranchName::new(name).expect("a name")
}

fn testbed() -> TestbedName {
    TestbedName::new("testbed").expect("a name")
}

fn benchmark(name: &str) -> BenchmarkName {
    BenchmarkName::new(name).expect("a name")
}

/// That many seconds after a fixed time.
fn at(seconds: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(1_795_298_672 + seconds).expect("a time")
}

/// A report on a branch at some second, with the latency of one benchmark. The UUID is derived from both.
fn report(branch_name: &str, second: i64, value: f64) -> Report {
    let mut results = Results::default();
    results.add(benchmark("a"), Measure::latency(), Metric::new(value)).expect("added");
    let name = branch_name.bytes().fold(0_u64, |sum, byte| sum * 31 + u64::from(byte));
    let uuid = Uuid::from_u64_pair(name, second.unsigned_abs());
    Report {
        end_time: at(second) + Duration::milliseconds(1500),
        iterations: vec![results],
        ..Report::new(uuid, project(), branch(branch_name), testbed(), at(second))
    }
}

fn start_point(name: &str, until: Option<OffsetDateTime>, max_versions: u32) -> StartPoint {
    StartPoint { branch: branch(name), hash: None, until, max_versions }
}

/// The report with a verdict and an alert about its only metric.
fn with_alert(mut report: Report) -> Report {
    let (low, high) = report.uuid.as_u64_pair();
    let verdict = Verdict {
        outcome: Outcome::Worse,
        test: Some(Test::TTest),
        boundary: Some(Boundary { baseline: Some(1.0), lower_limit: None, upper_limit: Some(2.0) }),
        limit: Some(Limit::Upper),
        change: Some(Change { relative: 0.5, lower: Some(0.25), upper: None }),
        p: Some(0.001),
        smallest_visible: Some(0.1),
        points: 7,
        reason: ReasonKind::BeyondLimit { side: Limit::Upper, limit: 2.0, value: 3.0 }.into(),
        ..Verdict::new(0, benchmark("a"), Measure::latency().slug)
    };
    report.alerts.push(Alert::of(Uuid::from_u64_pair(high, !low), &verdict));
    report.verdicts.push(verdict);
    report
}

/// A report with everything that a report can have, with that many metrics. All of it is derived from the number.
fn rich(number: u64, metrics: usize) -> Report {
    let mut report = report("main", number as i64, number as f64);
    report.uuid = Uuid::from_u64_pair(0xfeed, number);
    report.hash = Some(format!("{number:040x}"));
    report.environment = Environment {
        kernel: Some("Linux 6.18.44".to_owned()),
        load: Some(number as f64 / 7.0),
        is_dirty: Some(number.is_multiple_of(2)),
        ..Environment::default()
    };
    for index in 0..metrics {
        let value = number as f64 + index as f64 / 3.0;
        let metric = Metric::new(value)
            .within(value - 1.0, value + 1.0)
            .with_samples((0..4).map(|sample| value + f64::from(sample) / 10.0).collect());
        let name = benchmark(&format!("benchmark {index}"));
        report.iterations[0].add(name, Measure::latency(), metric).expect("added");
    }
    report.iterations[0].fail(benchmark("broken"), "exit code 1");
    with_alert(report)
}

/// All content of a store that does not depend on the order of storing.
fn content(store: &Store) -> Vec<(String, String)> {
    let folder = tempfile::tempdir().expect("a folder");
    store.export(folder.path()).expect("exported");
    let mut files: Vec<(String, String)> = std::fs::read_dir(folder.path())
        .expect("a folder")
        .map(|entry| {
            let path = entry.expect("a file").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).expect("a text"))
        })
        .collect();
    files.sort();
    files
}

/// Modules about files, or about both engines already.
const OF_FILES: [&str; 4] = ["copy", "flips", "mounts", "opening"];

/// Runs the tests of the store again on PostgreSQL, except those about SQLite's files.
#[test]
fn the_same_tests_pass_on_postgres() {
    let Some(url) = wingbeat_pg_testing::database() else { return };
    let mut again = Command::new(env::current_exe().expect("this program"));
    again.env(DATABASE, url).args(["store::", "--skip", "store::the_same_tests_pass_on_postgres"]);
    for skipped in OF_FILES {
        again.args(["--skip", &format!("store::{skipped}::")]);
    }
    let output = again.output().expect("a process");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    let passed = text.lines().filter(|line| line.ends_with(" ... ok")).count();
    assert!(passed > 50, "only {passed} tests ran: {text}");
}
