//! Export to files and import from them.

use std::{collections::BTreeMap, fs, path::Path};

use super::*;

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file"));
    let read = |path: &Path| fs::read(path).expect("a file");
    entries.map(|e| (e.file_name().to_string_lossy().into_owned(), read(&e.path()))).collect()
}

#[test]
fn files_are_named_by_time_and_uuid_and_only_added() {
    let mut temporary = temporary();
    let folder = temporary.folder.path().join("a/b");
    let first = with_alert(report("main", 0, 1.5));
    temporary.store.insert(&first).expect("stored");
    let check = |store: &Store, reports, alert_changes, already_there| {
        let documents = Counts { reports, alert_changes, ..Counts::default() };
        let expected = Exported { documents, already_there, ..Exported::default() };
        assert_eq!(store.export(&folder).expect("exported"), expected);
    };
    check(&temporary.store, 1, 0, 0);
    let name = format!("2026-11-21T22-04-32Z-{}.json", first.uuid);
    let before = files(&folder);
    assert_eq!(before.keys().collect::<Vec<_>>(), [&name]);
    // A change of an alert is a separate file; that of the report is unchanged.
    let change = temporary.settle(&first, AlertStatus::Silenced);
    temporary.store.insert(&report("main", 60, 2.5)).expect("stored");
    check(&temporary.store, 1, 1, 1);
    let after = files(&folder);
    assert_eq!(after.len(), 3);
    assert_eq!(after[&name], before[&name]);
    assert!(after.keys().any(|name| name.ends_with(&format!("Z-{}.alert.json", change.uuid))));
    check(&temporary.store, 0, 0, 3);
    assert_eq!(files(&folder), after);
}

#[test]
fn what_was_exported_comes_in_once() {
    let from = temporary();
    let report = rich(1, 5);
    from.store.insert(&report).expect("stored");
    let reason = Some("known".to_owned());
    from.store
        .set_alert_status(report.alerts[0].uuid, AlertStatus::Dismissed, reason)
        .expect("changed");
    let withdrawn = rich(2, 1);
    from.store.insert(&withdrawn).expect("stored");
    from.store.withdraw(withdrawn.uuid, None).expect("written");
    let folder = from.exported();
    let to = temporary();
    let imported = to.store.import(&folder).expect("imported");
    let documents = Counts { reports: 2, alert_changes: 1, withdrawals: 1, ..Counts::default() };
    assert_eq!(imported, Imported { documents, ..Imported::default() });
    assert_eq!(content(&to.store), content(&from.store));
    assert_eq!(to.read(&report), from.read(&report));
    let again = to.store.import(&folder).expect("imported");
    assert_eq!(again, Imported { already_there: 4, ..Imported::default() });
    assert_eq!(content(&to.store), content(&from.store));
}

#[test]
fn files_that_cannot_be_used_are_named_and_the_others_come_in() {
    let from = temporary();
    from.store.insert(&rich(1, 2)).expect("stored");
    let folder = from.exported();
    let good = files(&folder).into_values().next().expect("a file");
    let good = String::from_utf8(good).expect("a text");
    let mut expected = BTreeMap::new();
    let mut put = |name: &str, text: String, reason: &'static str| {
        fs::write(folder.join(name), text).expect("written");
        expected.insert(name.to_owned(), reason);
    };
    put("cut.json", good[..good.len() / 2].to_owned(), "it is cut off or damaged");
    put("empty.json", String::new(), "it is empty");
    put("two.json", format!("{good}{good}"), "it has more than one document");
    put("foreign.json", "{\"name\": \"wingbeat\"}".to_owned(), "not written by `wingbeat export`");
    put("list.json", "[]".to_owned(), "not written by `wingbeat export`");
    let newer = good.replace("\"format\":1", "\"format\":2");
    put("newer.json", newer, "a newer wingbeat has written it");
    let nameless = good.replace("\"project\":\"project\"", "\"project\":\"\"");
    put("project.json", nameless, "name of a project");
    let verdict = good.replace("\"iteration\":0", "\"iteration\":7");
    put("verdict.json", verdict, "no such metric");
    put("nothing.json", "{\"format\": 1}".to_owned(), "it has no report");
    // The alert already belongs to the good report, whose file name comes first.
    let other = good.replacen(&rich(1, 2).uuid.to_string(), &rich(2, 2).uuid.to_string(), 1);
    put("taken.json", other, "contradicts what is in the store");
    // Not ours.
    fs::write(folder.join("README.md"), "notes").expect("written");
    fs::write(folder.join(".unfinished-x.json"), "{").expect("written");
    fs::create_dir(folder.join(".git")).expect("a folder");
    let to = temporary();
    let imported = to.store.import(&folder).expect("imported");
    assert_eq!(imported.documents.reports, 1);
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    let skipped = imported.skipped.iter().map(|skipped| (name(&skipped.path), &skipped.reason));
    let found: BTreeMap<_, _> = skipped.collect();
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, reason) in expected {
        let found = found[&name];
        assert!(found.contains(reason), "{name}: {found}");
    }
    assert_eq!(content(&to.store), content(&from.store));
}

#[test]
fn folders_that_cannot_be_used() {
    let temporary = temporary();
    let path = temporary.folder.path().join("nowhere");
    let error = temporary.store.import(&path).expect_err("no folder");
    assert!(matches!(error, ExchangeError::Io { doing: "read the folder", .. }), "{error:?}");
    let file = temporary.folder.path().join("file");
    fs::write(&file, "").expect("written");
    let error = temporary.store.export(file).expect_err("a file");
    assert!(matches!(error, ExchangeError::Io { doing: "create the folder", .. }), "{error:?}");
}

#[test]
fn a_file_that_is_there_is_not_overwritten() {
    let temporary = temporary();
    temporary.store.insert(&rich(1, 1)).expect("stored");
    let folder = temporary.exported();
    let path = folder.join(files(&folder).keys().next().expect("a file"));
    fs::write(&path, "mine").expect("written");
    let exported = temporary.store.export(&folder).expect("exported");
    assert_eq!((exported.documents.reports, exported.already_there), (0, 1));
    assert_eq!(fs::read_to_string(&path).expect("a file"), "mine");
}

#[test]
fn an_export_of_many_reports_writes_only_what_is_new() {
    let mut from = temporary();
    let folder = from.folder.path().join("files");
    from.insert((0..300).map(|second| report("main", second, 1.0)));
    assert_eq!(from.store.export(&folder).expect("exported").documents.reports, 300);
    from.store.insert(&report("main", 300, 1.0)).expect("stored");
    let exported = from.store.export(&folder).expect("exported");
    assert_eq!((exported.documents.reports, exported.already_there), (1, 300));
    // More than one batch.
    let to = Store::open(place(from.folder.path(), "to.db")).expect("a store");
    assert_eq!(to.import(&folder).expect("imported").documents.reports, 301);
}

#[test]
fn one_file_that_is_not_whole_changes_nothing() {
    let mut from = temporary();
    from.insert((0..25).map(|second| report("main", second, 1.0)));
    let mut plain = Vec::new();
    from.store.export_to(&mut plain, false).expect("exported");
    let import = |content: &[u8]| {
        let to = temporary();
        let imported = to.store.import_from(content, Path::new("lines"));
        (
            imported.map_err(|error| error.to_string()),
            to.store.reports(&ReportFilter::default(), 100),
        )
    };
    let check = |content: &[u8], expected: &str| {
        let (imported, stored) = import(content);
        let error = imported.expect_err(expected);
        assert!(error.contains(expected), "{error}");
        assert_eq!(stored.expect("a list"), []);
    };
    let lines: Vec<_> = plain.split_inclusive(|byte| *byte == b'\n').collect();
    check(&plain[..plain.len() / 2], "cut off");
    check(&lines[..20].concat(), "it is cut off after 19 reports: its last line is missing");
    check(&[&lines[..3], &lines[4..]].concat().concat(), "lines are missing");
    check(b"name,value\na,1\n", "it was not written by `wingbeat export`");
    check(b"{\"a\": 1}\n", "it was not written by `wingbeat export`");
    check(b"", "it is empty");
    let newer = String::from_utf8_lossy(&plain).replace("\"format\":1", "\"format\":2");
    check(newer.as_bytes(), "a newer wingbeat has written it");
    // Concatenated files of a folder.
    let joined = import(&lines[1..4].concat()).0.expect("imported");
    assert_eq!(joined.documents.reports, 3);
}
