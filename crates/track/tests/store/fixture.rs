//! A store of each version as it was written then, and the files exported from it. Both must be readable forever, with
//! the same content.
//!
//! ```text
//! cargo test -p wingbeat-track --test store make_the_fixture -- --ignored
//! ```
//!
//! creates that of the current version, once.

use std::{fs, path::PathBuf};

use crate::support::*;
use rusqlite::Connection;

fn fixtures() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/store/fixtures"))
}

#[test]
fn every_version_is_read_and_written() {
    for version in 1..=VERSION {
        check(&format!("version-{version}"), usize::from(version >= 3), usize::from(version >= 4));
    }
}

/// For the `withdrawn` reports only the files exist.
fn check(version: &str, withdrawn: usize, profiles: usize) {
    let temporary = temporary();
    let path = temporary.folder.path().join("older.db");
    fs::copy(fixtures().join(version).with_added_extension("db"), &path).expect("the fixture");
    let mut store = Store::open(&path).expect("it is brought to the present version");
    let mut imported = temporary.store;
    let files = imported.import(fixtures().join(version)).expect("imported");
    let found = (files.reports, files.alert_changes, files.withdrawals, files.skipped.len());
    assert_eq!(found, (4 + withdrawn, 1, withdrawn, 0));
    assert_eq!(files.profiles, profiles);
    assert_eq!(store.profiles(rich(3, 0).uuid).expect("a list").len(), profiles);
    assert_eq!(content(&store), content(&imported));
    let reports = store.reports(&ReportFilter::default(), 100).expect("a list");
    let epochs: Vec<_> =
        reports.iter().map(|report| (report.branch.as_str(), report.epoch)).collect();
    assert_eq!(epochs, [("feature", 3), ("main", 0), ("main", 0), ("main", 0)]);
    assert_eq!(reports.iter().map(|report| report.metrics).sum::<u64>(), 13);
    let silenced = reports.iter().filter(|report| report.alerts > report.active_alerts).count();
    assert_eq!(silenced, 1);
    let feature = store.report(reports[0].uuid).expect("read").expect("a report");
    assert_eq!(feature.start_point, Some(start_point("main", Some(at(2)), 255)));
    store.insert(&rich(9, 3)).expect("stored");
    let check = store.check().expect("checked");
    let found = (check.whole_reports, check.alert_changes, check.withdrawals, check.profiles);
    assert_eq!(found, (5 + withdrawn, 1, withdrawn, profiles), "{check:?}");
    assert_eq!(check.damaged, []);
}

/// Damage from before there were checksums costs one report, and not the store.
#[test]
fn damage_does_not_keep_an_older_store_shut() {
    let temporary = temporary();
    let path = temporary.folder.path().join("older.db");
    fs::copy(fixtures().join("version-1.db"), &path).expect("the fixture");
    let connection = Connection::open(&path).expect("a database");
    let sql = "PRAGMA foreign_keys = OFF;
               UPDATE metric SET samples = 999
               WHERE report = (SELECT report FROM metric WHERE samples IS NOT NULL LIMIT 1);";
    connection.execute_batch(sql).expect("damaged");
    drop(connection);
    let store = Store::open(&path).expect("it is brought to the present version");
    let check = store.check().expect("checked");
    assert_eq!((check.reports, check.whole_reports), (4, 3), "{check:?}");
    assert!(check.damaged[0].what.contains("samples"), "{check:?}");
}

#[test]
#[ignore = "writes into the repository"]
fn make_the_fixture() {
    let folder = fixtures();
    fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(format!("version-{VERSION}.db"));
    assert!(!path.exists(), "this version is released");
    let mut store = Store::open(&path).expect("a store");
    for number in 1..=3 {
        store.insert(&rich(number, 3)).expect("stored");
    }
    let feature = Report {
        epoch: 3,
        start_point: Some(start_point("main", Some(at(2)), 255)),
        confirms: Some(rich(3, 0).uuid),
        ..report("feature", 10, 0.1)
    };
    store.insert(&feature).expect("stored");
    let alert = rich(2, 0).alerts[0].uuid;
    let reason = Some("a change of the host".to_owned());
    store.set_alert_status(alert, AlertStatus::Silenced, reason).expect("changed");
    let withdrawn = report("main", 20, 100.0);
    store.insert(&withdrawn).expect("stored");
    let reason = Some("a broken machine".to_owned());
    store.withdraw(withdrawn.uuid, reason).expect("written").expect("withdrawn");
    let name = rich(3, 0).iterations[0].benchmarks[0].name.clone();
    let pprof = b"\x1f\x8bnot really pprof".to_vec();
    let profile = Profile::new(rich(3, 0).uuid, Some(name), ProfileKind::Wall, 9, pprof);
    store.insert_profiles(&[profile]).expect("stored");
    store.export(folder.join(format!("version-{VERSION}"))).expect("exported");
}
