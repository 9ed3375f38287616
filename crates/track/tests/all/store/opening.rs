//! Any file may be at the path. Unusable ones are reported and left unchanged.

use std::{fs, path::Path};

use super::*;
use rusqlite::Connection;

type Open = fn(&Path) -> Result<Store, StoreError>;

/// Checks the errors of both ways to open what `make` puts at a path, which must stay unchanged.
fn check(make: impl Fn(&Path), expected: &str, is_expected: fn(&StoreError) -> bool) {
    let opens: [Open; 2] = [|path| Store::open(path), |path| Store::open_existing(path)];
    for open in opens {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results.db");
        make(&path);
        let before = fs::read(&path).ok();
        let error = open(&path).expect_err("it cannot be used");
        assert!(is_expected(&error), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(fs::read(&path).ok(), before, "it was touched");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "files were left");
    }
}

fn database(sql: &'static str) -> impl Fn(&Path) {
    move |path| {
        let connection = Connection::open(path).expect("a database");
        connection.execute_batch(sql).expect("made");
    }
}

#[test]
fn what_is_no_store_is_left_alone() {
    let is_no_store = |error: &StoreError| matches!(error, StoreError::NotAStore { .. });
    let text = |path: &Path| fs::write(path, "name,value\n".repeat(1000)).expect("written");
    check(text, "it is not an SQLite database", is_no_store);
    check(|path| fs::write(path, "short").expect("written"), "not an SQLite database", is_no_store);
    check(|path| fs::create_dir(path).expect("a folder"), "it is a folder", is_no_store);
    let foreign = "SQLite database of another program";
    check(database("CREATE TABLE songs (title)"), foreign, is_no_store);
    check(database("PRAGMA application_id = 7"), foreign, is_no_store);
}

/// If not even the tables can be listed, no command can recover anything.
#[test]
fn a_store_without_tables_that_can_be_read_is_given_up() {
    let damaged = |path: &Path| {
        drop(Store::open(path).expect("a store"));
        let connection = Connection::open(path).expect("a database");
        connection.pragma_update(None, "journal_mode", "DELETE").expect("set");
        drop(connection);
        // The page that lists the tables begins after the header.
        let mut bytes = fs::read(path).expect("read");
        bytes[100..108].fill(0xff);
        fs::write(path, bytes).expect("written");
    };
    let sentence = "no part of it can be read";
    check(damaged, sentence, |error| matches!(error, StoreError::Corrupt { .. }));
}

#[test]
fn a_store_of_another_version_is_refused() {
    let change = |path: &Path, pragma: &str, number: i64| {
        drop(Store::open(path).expect("a store"));
        let connection = Connection::open(path).expect("a database");
        connection.pragma_update(None, pragma, number).expect("set");
        // So that there are no files next to it.
        connection.pragma_update(None, "journal_mode", "DELETE").expect("set");
    };
    let is_other = |error: &StoreError| matches!(error, StoreError::OtherVersion { .. });
    let newer = format!("has version {} of the tables", VERSION + 1);
    check(|path| change(path, "user_version", VERSION + 1), &newer, is_other);
    // The `application_id` of stores of development.
    let sentence = "has version 0 of the tables, and this wingbeat reads version 1";
    check(|path| change(path, "application_id", 0x776e_6762), sentence, is_other);
}

#[test]
fn a_store_that_is_not_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a/results.db");
    let error = Store::open_existing(&path).expect_err("nothing there");
    assert!(matches!(error, StoreError::Missing { .. }), "{error:?}");
    assert!(!path.parent().expect("a folder").exists(), "reading makes nothing");
    drop(Store::open(&path).expect("made with its folder"));
    Store::open_existing(&path).expect("there now");
}

#[test]
fn an_empty_file_becomes_a_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("results.db");
    fs::write(&path, "").expect("written");
    Store::open(&path).expect("a store").insert(&rich(1, 3)).expect("stored");
}

#[test]
fn odd_names_are_only_names() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["file:x?mode=memory", "a b%41#?.db", "ü", ":memory:"] {
        let path = folder.path().join(name);
        Store::open(&path).expect("a store").insert(&rich(1, 3)).expect("stored");
        let store = Store::open_existing(&path).expect("there");
        assert!(store.report(rich(1, 3).uuid).expect("read").is_some(), "{name}");
    }
}

/// Damages a store at many places: it is refused, or the check finds it, and nothing is overwritten.
#[test]
fn damaged_pages_are_found_and_nothing_is_overwritten() {
    let original = temporary();
    let store = original.store;
    let reports: Vec<_> = (1..=20).map(|number| rich(number, 30)).collect();
    for report in &reports {
        store.insert(report).expect("stored");
    }
    let path = store.path().to_owned();
    drop(store);
    let whole = fs::read(&path).expect("the store");
    let pages = whole.len() / 4096;
    assert!(pages > 30, "{pages} pages");
    let (mut refused, mut found) = (0, 0);
    for page in 0..pages {
        let folder = tempfile::tempdir().expect("a folder");
        let copy = folder.path().join("results.db");
        let mut damaged = whole.clone();
        damaged[page * 4096..(page + 1) * 4096].fill(0xa5);
        fs::write(&copy, &damaged).expect("written");
        let is_clear = |error: &StoreError| {
            let is_named =
                matches!(error, StoreError::Corrupt { .. } | StoreError::NotAStore { .. });
            assert!(is_named, "page {page}: {error:?}");
        };
        match Store::open(&copy) {
            Err(error) => {
                is_clear(&error);
                refused += 1;
            }
            Ok(store) => {
                for report in &reports {
                    let _ = store.report(report.uuid).inspect_err(is_clear);
                }
                let _ = store.history(&rich(21, 0), HistoryLimits::NONE).inspect_err(is_clear);
                let check = store.check().expect("checked");
                assert!(!check.damaged.is_empty(), "page {page}: {check:?}");
                found += 1;
            }
        }
        let after = fs::read(&copy).expect("the store");
        assert!(after == damaged, "page {page} was damaged, and the file was changed");
    }
    assert!(refused > 0 && found > pages / 2, "{refused}, {found} of {pages}");
}

#[test]
fn a_store_that_was_cut_off() {
    let mut original = temporary();
    original.insert((1..=20).map(|number| rich(number, 30)));
    let before = content(&original.store);
    let path = original.store.path().to_owned();
    drop(original.store);
    let whole = fs::read(&path).expect("the store");
    for length in [10, 100, 4096, 5000, whole.len() / 2] {
        fs::write(&path, &whole[..length]).expect("written");
        let used = Store::open(&path).and_then(|store| store.insert(&rich(21, 30)));
        let error = used.expect_err("it is cut off");
        let is_named = matches!(error, StoreError::Corrupt { .. } | StoreError::NotAStore { .. });
        assert!(is_named, "{length}: {error:?}");
        assert!(fs::read(&path).expect("the file") == whole[..length], "{length}: it was touched");
    }
    fs::write(&path, &whole).expect("written");
    assert_eq!(content(&Store::open(&path).expect("whole again")), before);
}
