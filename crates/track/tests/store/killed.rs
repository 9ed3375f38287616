//! `kill -9` at any moment: whatever was reported as stored exists, everything that exists is complete, and at most the
//! report in flight is lost.

use std::{io::Read as _, path::Path, thread, time::Duration};

use crate::support::*;

use crate::child::{self, METRICS};

/// Number of processes killed, and the maximum on a busy machine.
const ROUNDS: u64 = 25;
const ROUNDS_MAX: u64 = 250;

/// Starts a writer and kills it. Returns the numbers that it reported as stored.
fn write_and_kill(path: &Path, first: u64, after: Duration) -> Vec<u64> {
    let mut child = child::writer(path, first, u64::MAX / 2).spawn().expect("a process");
    let mut output = child.stdout.take().expect("its output");
    thread::sleep(after);
    child.kill().expect("killed");
    child.wait().expect("an end");
    let mut bytes = Vec::new();
    output.read_to_end(&mut bytes).expect("its output");
    child::stored(&bytes)
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
        assert!(in_flight as u64 <= round, "{in_flight} reports that nobody was told of");
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
