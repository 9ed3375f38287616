//! Full or read-only disks, locked or damaged databases: one sentence each, and nothing is lost.

use std::{
    fs,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::{
    ran::Ran,
    support::{Server, Team, WINGBEAT},
};

/// A server in its own mount namespace, after a script; `$0` is the data folder and `$1` wingbeat. `None` if namespaces
/// are not permitted.
fn in_own_mounts(script: &str, data: &Path) -> Option<Command> {
    let namespace = ["--mount", "--propagation", "private"];
    if !Command::new("unshare").args(namespace).arg("true").status().is_ok_and(|it| it.success()) {
        assert!(!rustix::process::geteuid().is_root(), "root may have mounts of its own");
        return None;
    }
    let script = format!("{script}\nexec \"$1\" serve --listen 127.0.0.1:0 --data \"$0\"");
    let mut command = Command::new("unshare");
    command.args(namespace).args(["sh", "-ec", &script]).arg(data).arg(WINGBEAT);
    Some(command)
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let team = Team::new(&data);
    // The databases are on a small disk, with 64 kB free once the server runs.
    let script =
        "mkdir \"$0.kept\"; cp \"$0\"/* \"$0.kept\"; mount -t tmpfs -o size=4m tmpfs \"$0\"
                  cp \"$0.kept\"/* \"$0\"";
    let Some(command) = in_own_mounts(script, &data) else { return };
    let server = Server::of(command);
    // The files of that disk, through the process.
    let inside =
        PathBuf::from(format!("/proc/{}/root{}", server.pid().as_raw_nonzero(), data.display()));
    let write = |n: usize| team.write(&server.address, &format!("{n:06}")).expect("answered");
    assert_eq!(write(0).status, 201);
    let filler = inside.join("filler");
    let mut fill = Command::new("dd");
    fill.args(["if=/dev/zero", "bs=4k", "status=none"]).arg(format!("of={}", filler.display()));
    let filled = fill.output();
    assert!(!filled.expect("dd runs").status.success(), "there is no end to this disk");
    let mut written = 1;
    let refused = loop {
        let answer = write(written);
        match answer.status {
            201 => written += 1,
            _ => break answer,
        }
        assert!(written < 250, "the disk does not fill up");
    };
    assert_eq!(refused.status, 503, "{refused:?}");
    let message = refused.json()["message"].as_str().expect("text").to_owned();
    assert!(message.contains("the disk is full") && message.contains("make room"), "{message}");
    // Reads still work.
    assert_eq!(server.get("/v0/users", &team.key).status, 200);
    assert_eq!(write(written).status, 503);
    fs::remove_file(&filler).expect("removed");
    let again = write(written);
    assert_eq!(again.status, 201, "{again:?}");
    let expected: Vec<_> = (0..=written).map(|n| format!("{n:06}")).collect();
    // SQLite would resolve the link to the other root within ours, so asks the server for its contents.
    let listed = server.get("/v0/projects/own/keys?per_page=255", &team.key).json();
    let listed = listed.as_array().expect("a list").iter();
    let listed: Vec<_> = listed.map(|key| key["name"].as_str().expect("text")).collect();
    assert_eq!(listed, expected);
    assert_eq!(server.end(Signal::TERM).0, Some(0));
}

#[test]
fn a_read_only_folder_is_said_in_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    drop(Team::new(&data));
    let before = fs::read(data.join("server.db")).expect("read");
    let script = "mount --bind \"$0\" \"$0\"; mount -o remount,ro,bind \"$0\"";
    let Some(mut command) = in_own_mounts(script, &data) else { return };
    Ran::of(&mut command).ended_with(1).tells_in_one_line().tells("Read-only file system");
    assert_eq!(fs::read(data.join("server.db")).expect("read"), before);
}

#[test]
fn a_lock_of_another_program_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let team = Team::new(folder.path());
    let server = Server::start(folder.path());
    let lock = rusqlite::Connection::open(folder.path().join("server.db")).expect("opened");
    lock.execute_batch("BEGIN IMMEDIATE").expect("locked");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let begun = Instant::now();
            (team.write(&server.address, "late").expect("answered").status, begun.elapsed())
        });
        thread::sleep(Duration::from_millis(700));
        // Reads do not wait.
        let begun = Instant::now();
        assert_eq!(server.get("/v0/users", &team.key).status, 200);
        assert!(begun.elapsed() < Duration::from_secs(10));
        lock.execute_batch("ROLLBACK").expect("unlocked");
        let (status, waited) = waiting.join().expect("no panic");
        assert_eq!(status, 201);
        assert!(waited > Duration::from_millis(500), "{waited:?}");
    });
    assert_eq!(team.written(), ["late"]);
}

#[test]
fn a_damaged_database_is_left_as_it_is() {
    let check = |name: &str, damage: &dyn Fn(&fs::File), expected: &[&str]| {
        let folder = tempfile::tempdir().expect("a folder");
        drop(Team::new(folder.path()));
        assert_eq!(Server::start(folder.path()).end(Signal::TERM).0, Some(0));
        let path = folder.path().join(name);
        damage(&fs::File::options().write(true).open(&path).expect("opened"));
        let before = fs::read(&path).expect("read");
        let mut serve = Command::new(WINGBEAT);
        serve.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder.path());
        let ran = Ran::of(&mut serve).ended_with(1).tells_in_one_line();
        assert!(ran.stderr.contains(name), "{ran}");
        assert!(expected.iter().any(|text| ran.stderr.contains(text)), "{ran}");
        assert_eq!(fs::read(&path).expect("read"), before, "{name} was changed");
    };
    let no_head = |file: &fs::File| file.write_all_at(&[0x55; 4096], 0).expect("written");
    check("server.db", &no_head, &["is not a database of a wingbeat server"]);
    check("results.db", &no_head, &["is not a store of wingbeat"]);
    let of_others = |file: &fs::File| file.write_all_at(&[9; 4], 68).expect("written");
    check("server.db", &of_others, &["is not a database of a wingbeat server"]);
    check("results.db", &of_others, &["is not a store of wingbeat"]);
    // Only the schema stays intact.
    let no_rest = |file: &fs::File| {
        let length = file.metadata().expect("read").len();
        file.write_all_at(&vec![0x55; length as usize - 100], 100).expect("written");
    };
    check("server.db", &no_rest, &["damaged", "malformed"]);
    check("results.db", &no_rest, &["damaged", "malformed"]);
}
