//! Other processes that use a store: this test program again, with a task in its environment.

use std::{
    env,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::support::*;

const TASK: &str = "WINGBEAT_TEST_CHILD";

/// Metrics of each report that a child stores.
pub(crate) const METRICS: usize = 40;

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
pub(crate) fn writer(path: &Path, first: u64, count: u64) -> Command {
    let task = format!("{first} {count} {}", path.display());
    let mut command = command("child::writes_reports", &task);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The numbers of the reports that a writer has stored, from its output. The last line may be truncated.
pub(crate) fn stored(output: &[u8]) -> Vec<u64> {
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
    let mut store = Store::open(path).expect("a store");
    for number in first..first + count {
        store.insert(&rich(number, METRICS)).expect("stored");
        println!("stored {number}");
        std::io::stdout().flush().expect("written");
    }
}
