//! Damage of a stored report is found by its digest, and damage of the file by SQLite.

use std::{fs, path::Path};

use super::*;

/// Changes of every column of which a report's document is made.
const CHANGES: [&str; 43] = [
    "UPDATE metric SET value = value + 1e-12 WHERE position = 1",
    "UPDATE metric SET lower = NULL",
    "UPDATE metric SET upper = upper * 2",
    "UPDATE metric SET is_ignored = NOT is_ignored",
    "UPDATE metric SET position = 1 - position WHERE position < 2",
    "UPDATE metric SET samples = NULL WHERE position = 2",
    "UPDATE samples SET bytes = substr(bytes, 1, 16)",
    "DELETE FROM verdict",
    "UPDATE failure SET reason = 'another'",
    "UPDATE failure SET benchmark = 1",
    "DELETE FROM failure",
    "UPDATE verdict SET outcome = 'better'",
    "UPDATE verdict SET test = NULL",
    "UPDATE verdict SET has_boundary = NOT has_boundary",
    "UPDATE verdict SET baseline = 2",
    "UPDATE verdict SET lower_limit = 2",
    "UPDATE verdict SET upper_limit = 3",
    "UPDATE verdict SET crossed = 'lower'",
    "UPDATE verdict SET change = 2",
    "UPDATE verdict SET change_lower = NULL",
    "UPDATE verdict SET change_upper = 2",
    "UPDATE verdict SET p = 0.1",
    "UPDATE verdict SET smallest_visible = NULL",
    "UPDATE verdict SET points = 8",
    "UPDATE verdict SET reason = '\"another\"'",
    "UPDATE alert SET crossed = 'lower'",
    "UPDATE alert SET status = 'dismissed'",
    "UPDATE alert SET reason = 'another'",
    "DELETE FROM alert",
    "UPDATE report SET hash = NULL",
    "UPDATE report SET epoch = 1",
    "UPDATE report SET start_time_ns = start_time_ns + 1",
    "UPDATE report SET end_time_ns = end_time_ns + 1",
    "UPDATE report SET adapter = 'rust_bench'",
    "UPDATE report SET load = NULL",
    "UPDATE report SET iterations = 2",
    "UPDATE report SET confirms = uuid",
    "UPDATE environment SET kernel = 'another'",
    "UPDATE project SET name = 'another'",
    "UPDATE branch SET name = 'another'",
    "UPDATE testbed SET name = 'another'",
    "UPDATE benchmark SET name = 'another' WHERE id = 1",
    "UPDATE measure SET units = 'another'",
];

#[test]
fn every_change_of_a_report_is_found() {
    let report = rich(1, 2);
    let of_file = |folder: &Path| Store::open(folder.join("results.db")).expect("a store");
    let check = |change: &str, store: &mut Store| {
        store.insert(&report).expect("stored");
        assert_eq!(store.check().expect("checked").damaged, []);
        connect(store).execute(change, []).expect(change);
        let check = store.check().expect("checked");
        assert_eq!((check.reports, check.whole_reports), (1, 0), "{change}");
        assert_eq!(check.damaged[0].report, Some(report.uuid), "{change}: {check:?}");
        let mut lines = Vec::new();
        let exported = store.export_to(&mut lines, false).expect("exported");
        assert_eq!((exported.documents.reports, &exported.damaged[..1]), (0, &check.damaged[..1]));
    };
    for change in CHANGES {
        check(change, &mut of_file(tempfile::tempdir().expect("a folder").path()));
    }
    // A database for each would take long.
    for change in CHANGES.into_iter().step_by(7) {
        let Some(url) = wingbeat_pg_testing::database() else { return };
        check(change, &mut Store::open(url).expect("a store"));
    }
}

/// The lines of an export that are about reports, if nothing is damaged.
fn reports(path: &Path) -> Result<Vec<String>, String> {
    let clear = |error: StoreError| {
        let is_named = matches!(
            error,
            StoreError::Corrupt { .. }
                | StoreError::NotAStore { .. }
                | StoreError::OtherVersion { .. }
        );
        assert!(is_named, "not a clear sentence: {error:?}");
        error.to_string()
    };
    let store = Store::open_existing(path).map_err(clear)?;
    let check = store.check().map_err(clear)?;
    if let Some(damaged) = check.damaged.first() {
        return Err(damaged.what.clone());
    }
    let mut lines = Vec::new();
    let exported = store.export_to(&mut lines, false).map_err(|error| error.to_string())?;
    assert_eq!(exported.damaged, [], "the check found nothing");
    let lines = String::from_utf8(lines).expect("text");
    let is_report = |line: &&str| line.starts_with(r#"{"format":1,"report""#);
    Ok(lines.lines().filter(is_report).map(str::to_owned).collect())
}

/// Flips the bits selected by `which`, one at a time. Returns how many were flipped, and how many were found.
fn flip(which: impl Fn(usize) -> bool) -> (usize, usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("results.db");
    let store = Store::open(&path).expect("a store");
    for number in 1..=12 {
        store.insert(&rich(number, 4)).expect("stored");
    }
    let alert = rich(3, 0).alerts[0].uuid;
    store.set_alert_status(alert, AlertStatus::Silenced, None).expect("changed");
    store.withdraw(rich(5, 0).uuid, None).expect("written").expect("withdrawn");
    drop(store);
    let whole = fs::read(&path).expect("the store");
    let expected = reports(&path).expect("whole");
    assert_eq!(expected.len(), 12);
    let copy = folder.path().join("copy.db");
    let (mut flipped, mut found) = (0, 0);
    for bit in (0..whole.len() * 8).filter(|bit| which(*bit)) {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&copy, &damaged).expect("written");
        let place = format!("bit {} of byte {} of page {}", bit % 8, bit / 8 % 4096, bit / 32768);
        match reports(&copy) {
            Ok(reports) => assert!(reports == expected, "{place}: not found"),
            Err(_) => found += 1,
        }
        flipped += 1;
        for neighbour in ["copy.db-wal", "copy.db-shm"] {
            let _ = fs::remove_file(folder.path().join(neighbour));
        }
    }
    (flipped, found)
}

#[test]
fn a_flipped_bit_is_found_or_changes_no_report() {
    // A prime number of bits apart, so that all positions within a byte occur.
    let (flipped, found) = flip(|bit| bit % 4001 == 0);
    assert!(flipped > 150 && found > flipped / 10, "{found} of {flipped} were found");
}

#[test]
#[ignore = "takes an hour"]
fn every_flipped_bit_is_found_or_changes_no_report() {
    let (flipped, found) = flip(|_| true);
    println!("{found} of {flipped} were found");
}
