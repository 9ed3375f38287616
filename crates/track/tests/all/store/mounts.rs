//! Full disks and read-only folders, as mounts in a separate namespace. Permissions do not work for this, because root
//! ignores them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::*;

use super::processes;

/// Runs a test again in a separate mount namespace after running `mount`; `$0` is the folder. Skipped without the
/// privilege to create one, except in CI.
fn inside(mount: &str, test: &str, folder: &Path) {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-ec"]);
        command
    };
    let probe = unshare().arg(mount).arg(folder).output().expect("unshare of util-linux");
    if !probe.status.success() {
        let answer = String::from_utf8_lossy(&probe.stderr);
        assert!(env::var_os("CI").is_none(), "no mount namespace in CI: {answer}");
        println!("skipped: no mount namespace: {answer}");
        return;
    }
    let again = processes::command(test, &folder.display().to_string());
    let environment = again.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let output = unshare()
        .arg(format!("{mount}\nexec \"$@\""))
        .arg(folder)
        .arg(again.get_program())
        .args(again.get_args())
        .envs(environment)
        .output()
        .expect("unshare of util-linux");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
}

#[test]
fn full_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    inside(
        "mount -t tmpfs -o size=2m tmpfs \"$0\"",
        "store::mounts::on_a_full_disk",
        folder.path(),
    );
}

#[test]
#[ignore = "a task of the test above"]
fn on_a_full_disk() {
    let Some(folder) = processes::task().map(PathBuf::from) else { return };
    let ballast = folder.join("ballast");
    fs::write(&ballast, vec![1; 512 << 10]).expect("written");
    let path = folder.join("results.db");
    let store = Store::open(&path).expect("a store");
    let mut stored = 0;
    let error = loop {
        match store.insert(&rich(stored, 200)) {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 1000, "the disk never gets full");
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert!(stored > 3, "only {stored} reports fitted");
    let check = |store: &Store, expected: u64| {
        let reports = store.reports(&ReportFilter::default(), 1000).expect("a list");
        assert_eq!(reports.len() as u64, expected);
        for number in 0..expected {
            let report = rich(number, 200);
            assert_eq!(store.report(report.uuid).expect("read"), Some(report));
        }
    };
    check(&store, stored);
    // It can still be opened by others, and exported to another disk.
    drop(store);
    let store = Store::open(&path).expect("a store on a full disk");
    check(&store, stored);
    assert_eq!(content(&store).len() as u64, stored);
    // A new one cannot be created.
    fs::write(folder.join("filler"), vec![1; 4 << 20]).expect_err("full");
    let error = Store::open(folder.join("new.db")).expect_err("no room");
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    // With space available again, everything works.
    fs::remove_file(folder.join("filler")).expect("removed");
    fs::remove_file(&ballast).expect("removed");
    store.insert(&rich(stored, 200)).expect("there is room again");
    check(&store, stored + 1);
}

#[test]
fn read_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("results.db");
    let store = Store::open(&path).expect("a store");
    store.insert(&rich(1, 3)).expect("stored");
    drop(store);
    let mount = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\"";
    inside(mount, "store::mounts::on_a_read_only_disk", folder.path());
}

#[test]
#[ignore = "a task of the test above"]
fn on_a_read_only_disk() {
    let Some(folder) = processes::task().map(PathBuf::from) else { return };
    let path = folder.join("results.db");
    let error = Store::open(&path).expect_err("read-only");
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    let error = Store::open(folder.join("new.db")).expect_err("read-only");
    assert!(matches!(error, StoreError::Create { .. }), "{error:?}");
    assert!(error.to_string().contains("name another place with --store"), "{error}");
    let store = Store::open_existing(&path).expect("reading is possible");
    assert_eq!(store.report(rich(1, 3).uuid).expect("read"), Some(rich(1, 3)));
    assert_eq!(content(&store).len(), 1);
    let error = store.insert(&rich(2, 3)).expect_err("read-only");
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
}
