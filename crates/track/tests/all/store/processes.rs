//! Several processes with one store, some of them killed. They are this test program again, with a task in its
//! environment.

use std::{
    env,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Barrier,
    thread,
    time::Duration,
};

use super::*;

const TASK: &str = "WINGBEAT_TEST_CHILD";

/// Metrics of each report that a child stores.
const METRICS: usize = 40;

/// A command that runs the task of a test, which is ignored otherwise.
pub(crate) fn command(test: &str, task: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(TASK, task).stdin(Stdio::null());
    command
}

pub(crate) fn task() -> Option<String> {
    env::var(TASK).ok()
}

/// Stores the reports with numbers from `first` on.
fn writer(path: &Path, first: u64, count: u64) -> Command {
    let task = format!("{first} {count} {}", path.display());
    let mut command = command("store::processes::writes_reports", &task);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The numbers of the reports that a writer has stored, from its output. The last line may be truncated.
fn stored(output: &[u8]) -> Vec<u64> {
    let text = String::from_utf8_lossy(output);
    let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    lines.filter_map(|line| line.strip_prefix("stored ")?.parse().ok()).collect()
}

#[test]
#[ignore = "a task of other tests"]
fn writes_reports() {
    let Some(task) = task() else { return };
    let mut words = task.splitn(3, ' ');
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).expect("a number");
    let (first, count) = (number(), number());
    let path = PathBuf::from(words.next().expect("a path"));
    println!();
    let store = Store::open(path).expect("a store");
    for number in first..first + count {
        store.insert(&rich(number, METRICS)).expect("stored");
        println!("stored {number}");
        std::io::stdout().flush().expect("written");
    }
}

/// Number of processes killed, and the maximum on a busy machine.
const ROUNDS: u64 = 25;
const ROUNDS_MAX: u64 = 250;

/// Starts a writer and kills it. Returns the numbers that it reported as stored.
fn write_and_kill(path: &Path, first: u64, after: Duration) -> Vec<u64> {
    let mut child = writer(path, first, u64::MAX / 2).spawn().expect("a process");
    let mut output = child.stdout.take().expect("its output");
    thread::sleep(after);
    child.kill().expect("killed");
    child.wait().expect("an end");
    let mut bytes = Vec::new();
    output.read_to_end(&mut bytes).expect("its output");
    stored(&bytes)
}

fn check(path: &Path, stored: &[u64]) -> usize {
    let store = Store::open(path).expect("the store opens");
    for number in stored {
        let uuid = rich(*number, 0).uuid;
        assert!(store.report(uuid).expect("read").is_some(), "report {number} was lost");
    }
    let reports = store.reports(&ReportFilter::default(), usize::MAX).expect("a list");
    for report in &reports {
        let (_, number) = report.uuid.as_u64_pair();
        let found = store.report(report.uuid).expect("read").expect("it is listed");
        assert_eq!(found, rich(number, METRICS), "report {number} is not whole");
    }
    reports.len()
}

/// `kill -9` at any moment: whatever was reported as stored exists, everything that exists is complete, and at most the
/// report in flight is lost.
#[test]
fn what_was_stored_is_there_and_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = place(folder.path(), "results.db");
    let mut stored = Vec::new();
    let mut round = 0;
    // On a busy machine a round may store nothing, so this continues until enough are stored.
    while round < ROUNDS || stored.len() <= ROUNDS as usize {
        assert!(round < ROUNDS_MAX, "only {} reports were stored", stored.len());
        // A different moment each time: primes avoid patterns.
        let after = Duration::from_micros(30_000 + round * 7_919 % 90_000);
        stored.extend(write_and_kill(&path, round * 1_000_000, after));
        let found = check(&path, &stored);
        let in_flight = found - stored.len();
        round += 1;
        assert!(in_flight as u64 <= round, "{in_flight} reports that were not acknowledged");
    }
}

#[test]
fn a_store_whose_making_was_interrupted_opens() {
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..25 {
        let path = place(folder.path(), &format!("{round}/results.db"));
        let after = Duration::from_micros(1_000 + round * 1_009 % 25_000);
        let stored = write_and_kill(&path, 0, after);
        assert!(check(&path, &stored) <= stored.len() + 1, "round {round}");
    }
}

const PROCESSES: u64 = 8;
const REPORTS: u64 = 10;

#[test]
fn all_reports_of_eight_processes_land() {
    for round in 0..3 {
        let folder = tempfile::tempdir().expect("a folder");
        let path = place(folder.path(), ".wingbeat/results.db");
        let children: Vec<_> = (0..PROCESSES)
            .map(|process| writer(&path, process * REPORTS, REPORTS).spawn().expect("a process"))
            .collect();
        for child in children {
            let output = child.wait_with_output().expect("an end");
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "round {round}: {errors}");
        }
        let store = Store::open_existing(&path).expect("a store");
        let reports = store.reports(&ReportFilter::default(), 1000).expect("a list");
        assert_eq!(reports.len() as u64, PROCESSES * REPORTS, "round {round}");
        for number in 0..PROCESSES * REPORTS {
            let expected = rich(number, METRICS);
            let report = store.report(expected.uuid).expect("read");
            assert_eq!(report, Some(expected), "round {round}");
        }
    }
}

#[test]
fn a_store_that_is_being_made_is_no_other_database() {
    for round in 0..20 {
        let folder = tempfile::tempdir().expect("a folder");
        let path = place(folder.path(), "results.db");
        let start = Barrier::new(PROCESSES as usize);
        thread::scope(|scope| {
            for _ in 0..PROCESSES {
                scope.spawn(|| {
                    start.wait();
                    if let Err(error) = Store::open(&path) {
                        panic!("round {round}: {error}");
                    }
                });
            }
        });
    }
}
