//! Several processes write at once, and the first of them also creates the store.

use std::{sync::Barrier, thread};

use crate::support::*;

use crate::child::{self, METRICS};

const PROCESSES: u64 = 8;
const REPORTS: u64 = 10;

#[test]
fn all_reports_of_eight_processes_land() {
    for round in 0..3 {
        let folder = tempfile::tempdir().expect("a folder");
        let path = place(folder.path(), ".wingbeat/results.db");
        let children: Vec<_> = (0..PROCESSES)
            .map(|process| {
                child::writer(&path, process * REPORTS, REPORTS).spawn().expect("a process")
            })
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
