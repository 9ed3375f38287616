//! Copies of stores between all combinations of engines, verified to be complete.

use std::path::Path;

use super::*;

/// A store on each engine: a file, and a database schema if PostgreSQL is installed.
fn places(folder: &Path) -> Vec<[PathBuf; 2]> {
    let file = |name: &str| folder.join(name);
    let mut pairs = vec![[file("a.db"), file("b.db")]];
    if let Some(url) = wingbeat_pg_testing::database() {
        let schema = |name: &str| format!("{url}?schema={name}").into();
        pairs.push([file("c.db"), schema("one")]);
        pairs.push([schema("two"), file("d.db")]);
        pairs.push([schema("three"), schema("four")]);
    }
    pairs
}

/// Reports of three months, with everything a store can contain.
fn fill(store: &mut Store) {
    for number in 0..70 {
        let mut report = rich(number, 5);
        report.start_time -= Duration::days(number as i64);
        report.end_time = report.start_time;
        let changes = vec![format!("change {number} with a nul \0 in it")];
        report.verdicts[0].reason.notes = vec![ReasonNote::EnvironmentChanged { changes }];
        store.insert(&report).expect("stored");
    }
    let alert = rich(2, 0).alerts[0].uuid;
    store.set_alert_status(alert, AlertStatus::Silenced, None).expect("changed");
    store
        .withdraw(rich(5, 0).uuid, Some("broken".to_owned()))
        .expect("written")
        .expect("taken back");
    let kept = Profile::new(rich(3, 0).uuid, None, ProfileKind::Wall, 9, b"content".to_vec());
    let mut gone = Profile::new(rich(4, 0).uuid, None, ProfileKind::Wall, 9, b"gone".to_vec());
    gone.pprof = None;
    store.insert_profiles(&[kept, gone]).expect("stored");
}

#[test]
fn every_engine_to_every_engine() {
    let folder = tempfile::tempdir().expect("a folder");
    for [from, to] in places(folder.path()) {
        let mut source = Store::open(&from).expect("a store");
        fill(&mut source);
        let target = Store::open(&to).expect("a store");
        let mut last = None;
        let copied = source.copy_to(&target, |progress| last = Some(progress)).expect("copied");
        let expected = Counts { reports: 70, alert_changes: 1, withdrawals: 1, profiles: 2 };
        assert_eq!(copied.documents, expected, "{from:?} to {to:?}");
        assert_eq!((copied.already_there, copied.others, copied.sha256.len()), (0, 0, 64));
        assert_eq!(last, Some(Progress::Compared(74, 74)));
        assert_eq!(content(&target), content(&source), "{from:?} to {to:?}");
        let check = target.check().expect("checked");
        assert_eq!((check.whole_reports, check.damaged), (70, Vec::new()));
        // Repeating it finds everything, and new documents in the target are not an error.
        target.insert(&rich(1000, 1)).expect("stored");
        let again = source.copy_to(&target, |_| {}).expect("copied");
        assert_eq!((again.already_there, again.others), (74, 1));
        assert_eq!(again.sha256, copied.sha256);
    }
}

#[test]
fn what_differs_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    for [from, to] in places(folder.path()) {
        let (source, target) =
            (Store::open(from).expect("a store"), Store::open(to).expect("a store"));
        source.insert(&report("main", 1, 1.0)).expect("stored");
        target.insert(&report("main", 1, 2.0)).expect("stored");
        let error = source.copy_to(&target, |_| {}).expect_err("another content");
        assert!(matches!(error, CopyError::Differs { .. }), "{error:?}");
        let uuid = report("main", 1, 1.0).uuid.to_string();
        assert!(error.to_string().contains(&uuid), "{error}");
    }
}

#[test]
fn a_damaged_store_is_not_copied() {
    let folder = tempfile::tempdir().expect("a folder");
    for [from, to] in places(folder.path()) {
        let (source, target) =
            (Store::open(from).expect("a store"), Store::open(to).expect("a store"));
        source.insert(&report("main", 1, 1.0)).expect("stored");
        connect(&source).execute("UPDATE metric SET value = ?1", [7.5]).expect("damaged");
        let error = source.copy_to(&target, |_| {}).expect_err("damaged");
        assert!(matches!(error, CopyError::Damaged { .. }), "{error:?}");
        assert!(error.to_string().contains("wingbeat export"), "{error}");
    }
}
