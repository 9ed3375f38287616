//! A flipped bit anywhere in a store's file is detected on reading, or does not change what is read.

use std::{fs, path::Path};

use crate::support::*;

/// All query results of a store, as texts, up to the first error.
fn all(path: &Path) -> Result<Vec<String>, String> {
    let clear = |error: StoreError| {
        let is_named = matches!(
            error,
            StoreError::Corrupt { .. } | StoreError::NotAStore { .. } | StoreError::Newer { .. }
        );
        assert!(is_named, "no clear sentence: {error:?}");
        error.to_string()
    };
    let store = Store::open_existing(path).map_err(clear)?;
    let mut found = Vec::new();
    let reports = store.reports(&ReportFilter::default(), usize::MAX).map_err(clear)?;
    for one in &reports {
        found.push(format!("{:?}", store.report(one.uuid).map_err(clear)?));
        found.push(format!("{:?}", store.measured(one.uuid).map_err(clear)?));
        found.push(format!("{:?}", store.version_number(one.uuid).map_err(clear)?));
    }
    found.push(format!("{reports:?}"));
    let history = store.history(&report("main", 1000, 1.0), HistoryLimits::NONE).map_err(clear)?;
    found.push(format!("{:?} {:?}", history.series, history.reports));
    let limits = HistoryLimits { sampled_reports: 0, ..HistoryLimits::NONE };
    let history = store.history(&report("main", 1000, 1.0), limits).map_err(clear)?;
    found.push(format!("{:?}", history.series));
    let plot = store.plot(&PlotQuery::of(project())).map_err(clear)?;
    found.push(format!("{:?}", plot.series));
    let alerts = store.alerts(&AlertFilter::default(), usize::MAX).map_err(clear)?;
    found.push(format!("{alerts:?}"));
    found.push(format!("{:?}", store.branch_head(&project(), &branch("main")).map_err(clear)?));
    let silenced = store.silenced(&project(), &[branch("main")], &testbed()).map_err(clear)?;
    found.push(format!("{silenced:?}"));
    found.push(format!("{:?}", store.known(&project()).map_err(clear)?));
    Ok(found)
}

/// The output of an export, or that it reports damage.
fn exported(path: &Path) -> Result<Vec<u8>, String> {
    let store = Store::open_to_save(path).map_err(|error| error.to_string())?;
    let mut lines = Vec::new();
    let done = store.export_to(&mut lines, false).map_err(|error| error.to_string())?;
    match done.damaged.first() {
        Some(damaged) => Err(damaged.what.clone()),
        None => Ok(lines),
    }
}

/// Flips the bits selected by `which`, one at a time. Returns how many were flipped, and how many were detected.
fn flip(which: impl Fn(usize) -> bool) -> (usize, usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("results.db");
    let mut store = Store::open(&path).expect("a store");
    for number in 1..=12 {
        store.insert(&rich(number, 4)).expect("stored");
    }
    let alert = rich(3, 0).alerts[0].uuid;
    store.set_alert_status(alert, AlertStatus::Silenced, None).expect("changed");
    store.withdraw(rich(5, 0).uuid, None).expect("written").expect("withdrawn");
    drop(store);
    let whole = fs::read(&path).expect("the store");
    let (expected, files) = (all(&path).expect("whole"), exported(&path).expect("whole"));
    let copy = folder.path().join("copy.db");
    let (mut flipped, mut told) = (0, 0);
    for bit in (0..whole.len() * 8).filter(|bit| which(*bit)) {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&copy, &damaged).expect("written");
        let (found, saved) = (all(&copy), exported(&copy));
        let place = format!("bit {} of byte {} of page {}", bit % 8, bit / 8 % 4096, bit / 32768);
        if let Ok(found) = &found {
            let differs = found.iter().zip(&expected).position(|(found, right)| found != right);
            assert_eq!((found.len(), differs), (expected.len(), None), "{place}: read, not told");
        }
        if let Ok(saved) = &saved {
            assert!(*saved == files, "{place}: exported, not told");
        }
        flipped += 1;
        told += usize::from(found.is_err());
        for neighbour in ["copy.db-wal", "copy.db-shm"] {
            let _ = fs::remove_file(folder.path().join(neighbour));
        }
    }
    (flipped, told)
}

#[test]
fn a_flipped_bit_is_told_or_changes_nothing() {
    // A prime number of bits apart, so that all positions within a byte occur.
    let (flipped, told) = flip(|bit| bit % 4001 == 0);
    assert!(flipped > 220 && told > flipped / 10, "{told} of {flipped} were told");
}

#[test]
#[ignore = "takes an hour"]
fn every_flipped_bit_is_told_or_changes_nothing() {
    let (flipped, told) = flip(|_| true);
    println!("{told} of {flipped} were told");
}
