//! The store from outside: concurrent runs, and unusable locations.

use std::{fs, process::Command, thread};

use crate::{
    ran::Ran,
    repository::{Repository, WINGBEAT, instructions, reports},
};

#[test]
fn eight_at_once() {
    let repository = Repository::new();
    thread::scope(|scope| {
        for number in 0..8 {
            let repository = &repository;
            scope.spawn(move || {
                repository
                    .run(&["--testbed", &format!("t{number}"), &instructions(1)])
                    .ended_with(0);
            });
        }
    });
    let mut testbeds: Vec<_> =
        repository.reports().iter().map(|report| report.testbed.to_string()).collect();
    testbeds.sort();
    assert_eq!(testbeds, ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"]);
}

#[test]
fn a_dry_run_compares_and_stores_nothing() {
    let repository = Repository::new();
    repository.run(&["--dry-run", &instructions(1)]).ended_with(0);
    assert!(!repository.path().join(".wingbeat").exists());
    repository.run(&[&instructions(1)]).ended_with(0);
    repository.run(&["--dry-run", "--err", &instructions(2)]).ended_with(1);
    assert_eq!(repository.reports().len(), 1);
}

#[test]
fn another_place() {
    let repository = Repository::new();
    let line = instructions(1);
    repository.run(&["--store", "new/folder/s.db", &line]).ended_with(0);
    Ran::of(repository.wingbeat(&["run", &line]).env("WINGBEAT_STORE", "v.db")).ended_with(0);
    for place in ["new/folder/s.db", "v.db"] {
        assert_eq!(reports(&repository.path().join(place)).len(), 1, "{place}");
    }
    assert!(!repository.store_path().exists());
    // From a subfolder, the repository's store.
    let below = repository.path().join("a/b");
    fs::create_dir_all(&below).expect("folders");
    assert_eq!(Ran::of(repository.wingbeat(&["run", &line]).current_dir(below)).code, Some(0));
    assert_eq!(repository.reports().len(), 1);
    assert_eq!(repository.git(&["status", "--porcelain", ".wingbeat"]), "", "git ignores it");
}

#[test]
fn what_cannot_be_used_is_told_before_the_command_runs() {
    let repository = Repository::new();
    let check = |place: &str, expected: &str| {
        repository.run(&["--store", place, "touch ran"]).ended_with(1).tells(expected);
        assert!(!repository.path().join("ran").exists(), "{place}");
    };
    repository.run(&["--store", "newer.db", &instructions(1)]).ended_with(0);
    let newer = repository.path().join("newer.db");
    let mut bytes = fs::read(&newer).expect("a store");
    // `user_version` is in bytes 60 to 63 of an SQLite file, big-endian.
    bytes[63] = 99;
    fs::write(&newer, &bytes).expect("written");
    check("newer.db", "has version 99");
    assert_eq!(fs::read(&newer).expect("a store"), bytes, "left as it is");
    repository.write("text.db", "not a database, but a text that is long enough to be looked at");
    check("text.db", "is not a store of wingbeat");
    check(".", "it is a folder");
    check("/proc/no/store.db", "cannot create the store /proc/no/store.db");
}

/// Runs a script as root in a new mount namespace; `None` if not permitted.
fn in_own_mounts(repository: &Repository, script: &str) -> Option<Ran> {
    let namespace = ["--mount", "--propagation", "private"];
    if !Command::new("unshare").args(namespace).arg("true").status().is_ok_and(|it| it.success()) {
        assert!(!rustix::process::geteuid().is_root(), "root may have mounts of its own");
        return None;
    }
    let mut command = repository.command("unshare");
    command.args(namespace).args(["sh", "-ec", script]);
    Some(Ran::of(command.env("WINGBEAT", WINGBEAT).env("LINE", instructions(1))))
}

#[test]
fn a_folder_that_cannot_be_written() {
    let repository = Repository::new();
    repository.run(&[&instructions(1)]).ended_with(0);
    let read_only = "mount --bind .wingbeat .wingbeat; mount -o remount,ro,bind .wingbeat";
    let script = format!("{read_only}; \"$WINGBEAT\" run \"touch ran\"");
    let Some(ran) = in_own_mounts(&repository, &script) else { return };
    ran.ended_with(1).tells("read-only");
    assert!(!repository.path().join("ran").exists());
    let script = format!("{read_only}; \"$WINGBEAT\" run --dry-run --err \"$LINE\"");
    // A dry run only reads.
    in_own_mounts(&repository, &script).expect("as before").ended_with(0);
}

#[test]
fn a_full_disk() {
    let repository = Repository::new();
    fs::create_dir(repository.path().join("small")).expect("a folder");
    // Enough room to open the store, but not for a report.
    let script = "mount -t tmpfs -o size=800k tmpfs small; cd small; \
                  \"$WINGBEAT\" run --store s.db \"$LINE\"; head -c 49152 /dev/zero > room; \
                  dd if=/dev/zero of=filler bs=4k 2>/dev/null || true; rm room; \
                  \"$WINGBEAT\" run --store s.db -q \"$WINGBEAT mock --count 2000\"";
    let Some(ran) = in_own_mounts(&repository, script) else { return };
    ran.ended_with(1).tells("the disk is full");
}
