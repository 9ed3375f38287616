//! Backup of a running server, and a server on the backup.

use std::{
    fs,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use crate::{
    ran::Ran,
    support::{Server, Team, WINGBEAT, request},
};

fn back_up(data: &Path, to: &Path) -> Ran {
    Ran::of(Command::new(WINGBEAT).args(["serve", "backup"]).arg(to).arg("--data").arg(data))
}

/// Responses of a server, without parts that differ between any two.
fn answers(server: &Server, team: &Team, cookie: &str) -> Vec<(u16, String)> {
    let by_key = ["/v0/projects/own/keys?per_page=255", "/v0/users", "/v0/users/ada/keys"];
    let by_cookie = ["/", "/console/account", "/console/users", "/console/users/ada/keys"];
    let cookie = format!("Cookie: {cookie}\r\n");
    let signed_in =
        |path: &str| request(&server.address, "GET", path, &cookie, "").expect("answered");
    let by_key = by_key.iter().map(|path| server.get(path, &team.key));
    let answers = by_key.chain(by_cookie.iter().map(|path| signed_in(path)));
    answers.map(|answer| (answer.status, answer.body)).collect()
}

#[test]
fn a_restored_server_answers_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let team = Team::new(&data);
    let cookie = team.cookie();
    let server = Server::start(&data);
    for n in 0..20 {
        assert_eq!(team.write(&server.address, &n.to_string()).expect("answered").status, 201);
    }
    // Results come into the same file as on a laptop.
    let mut run = Command::new(WINGBEAT);
    run.args(["run", "--branch", "main", "-q", "--store"]).arg(data.join("results.db"));
    let line = format!("{WINGBEAT} mock --count 100");
    Ran::of(run.arg(line).current_dir(folder.path())).ended_with(0);
    let log = |data: &Path| {
        let mut log = Command::new(WINGBEAT);
        log.args(["log", "--format", "json", "--store"]).arg(data.join("results.db"));
        Ran::of(&mut log).ended_with(0).json()["reports"].clone()
    };
    let to = folder.path().join("backup");
    back_up(&data, &to).ended_with(0).tells("serve --data");
    let before = answers(&server, &team, &cookie);
    assert!(before.iter().all(|(status, _)| *status == 200), "{before:?}");
    let mut names: Vec<_> =
        fs::read_dir(&to).expect("a folder").flatten().map(|it| it.file_name()).collect();
    names.sort();
    assert_eq!(names, ["results.db", "server.db"]);
    let reports = log(&to);
    assert_eq!(reports.as_array().map(Vec::len), Some(1));
    assert_eq!(reports, log(&data));
    let restored = Server::start(&to);
    assert_eq!(answers(&restored, &team, &cookie), before);
    // It continues from there, independent of the first one.
    assert_eq!(team.write(&restored.address, "more").expect("answered").status, 201);
    assert_eq!(answers(&server, &team, &cookie), before);
}

#[test]
fn a_backup_does_not_disturb_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let team = Team::new(&data);
    let server = Server::start(&data);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (team, is_done, address) = (&team, &is_done, &server.address);
        let writing = scope.spawn(move || {
            let mut names = Vec::new();
            while !is_done.load(Ordering::Relaxed) {
                let name = format!("{:06}", names.len());
                let answer = team.write(address, &name).expect("answered");
                assert_eq!(answer.status, 201, "{answer:?}");
                names.push(name);
            }
            names
        });
        let mut found = Vec::new();
        for n in 0..5 {
            let to = folder.path().join(format!("backup-{n}"));
            back_up(&data, &to).ended_with(0);
            let registry =
                wingbeat_server::storage::open_registry(&to.as_path().into()).expect("opened");
            let owner = wingbeat_server::registry::KeyOwner::Project(1);
            found.push(registry.keys(owner).expect("read").len());
        }
        is_done.store(true, Ordering::Relaxed);
        let names = writing.join().expect("no panic");
        assert_eq!(team.written(), names);
        assert!(found.is_sorted() && found[0] < found[4], "{found:?}");
    });
}

#[test]
fn nothing_is_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    drop(Team::new(&data));
    drop(Server::start(&data));
    back_up(&data, &data).ended_with(1).tells_in_one_line().tells("is there already");
    let nowhere = Path::new("/proc/nowhere/backup");
    back_up(&data, nowhere).ended_with(1).tells_in_one_line().tells("cannot write the backup");
}
