//! Confirmed writes survive a kill of the server.

use std::{
    collections::BTreeSet,
    env, fs,
    io::Write as _,
    net::TcpStream,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use uuid::Uuid;
use wingbeat_pg_testing::database;
use wingbeat_server::settings::DataLocation;
use wingbeat_sql::PostgresUrl;

use crate::{
    ran::{Ran, wait_for},
    serve::support::{Server, Team, WINGBEAT},
};

#[test]
fn a_stop_finishes_what_was_begun() {
    let folder = tempfile::tempdir().expect("a folder");
    let team = Team::new(folder.path());
    let mut all = BTreeSet::new();
    for round in 0..5 {
        let server = Server::start(folder.path());
        let address = server.address.clone();
        let first = AtomicBool::new(false);
        let client = |at: usize| {
            let mut answered = Vec::new();
            for n in 0.. {
                let name = format!("{round}-{at}-{n}");
                match team.write(&address, &name) {
                    Ok(answer) if answer.status == 201 => {
                        answered.push(name);
                        first.store(true, Ordering::Relaxed);
                    }
                    Ok(answer) => assert_eq!(answer.status, 503, "{answer:?}"),
                    Err(_) => break,
                }
            }
            answered
        };
        let (client, first) = (&client, &first);
        let answered: Vec<String> = thread::scope(|scope| {
            let clients: Vec<_> = (0..8).map(|at| scope.spawn(move || client(at))).collect();
            wait_for("a first answer", || first.load(Ordering::Relaxed));
            thread::sleep(Duration::from_millis(50));
            let (code, log) = server.end(Signal::TERM);
            assert_eq!(code, Some(0), "{log}");
            assert!(log.contains("\"message\":\"stopped\"") && !log.contains("cut off"), "{log}");
            let answered = clients.into_iter().flat_map(|client| client.join().expect("no panic"));
            let answered: Vec<_> = answered.collect();
            // The server confirmed each write, and each response arrived.
            let logged = log.lines().filter(|line| line.contains("\"status\":201")).count();
            assert_eq!(logged, answered.len());
            answered
        });
        all.extend(answered);
        assert_eq!(BTreeSet::from_iter(team.written()), all);
    }
}

#[test]
fn half_requests_do_not_stop_a_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new("prlimit");
    command.args(["--nofile=128", WINGBEAT, "serve", "--listen", "127.0.0.1:0", "--data"]);
    let server = Server::of({
        command.arg(folder.path().join("data"));
        command
    });
    let body = "POST /auth/login HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 9\r\n\
                Content-Type: application/x-www-form-urlencoded\r\n\r\nemail=a";
    let halves = ["GET /healthz HTTP/1.1\r\nHost: x\r\n", body];
    let open: Vec<TcpStream> = (0..200)
        .map(|n| {
            let mut half = TcpStream::connect(&server.address).expect("connected");
            half.write_all(halves[n % 2].as_bytes()).expect("sent");
            half
        })
        .collect();
    let begun = Instant::now();
    assert_eq!(server.get("/healthz", "").status, 200);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    drop(open);
    let (_, log) = server.end(Signal::TERM);
    assert_eq!(log.matches("all 64 connections are open").count(), 1, "{log}");
}

// Full or read-only disks, locked or damaged database: one sentence each, and nothing is lost.

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
    // The database is on a small disk, with 64 kB free once the server runs.
    let script =
        "mkdir \"$0.kept\"; cp \"$0\"/* \"$0.kept\"; mount -t tmpfs -o size=4m,mode=700 tmpfs \"$0\"
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
    // Where it lies is for the log only.
    let path = data.to_str().expect("text");
    assert!(!refused.body.contains(path), "{message}");
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
        let waiting = scope.spawn(|| team.write(&server.address, "late").expect("answered"));
        thread::sleep(Duration::from_millis(700));
        assert!(!waiting.is_finished());
        assert_eq!(server.get("/v0/users", &team.key).status, 200, "reads do not wait");
        lock.execute_batch("ROLLBACK").expect("unlocked");
        assert_eq!(waiting.join().expect("no panic").status, 201);
    });
}

#[test]
fn a_damaged_database_is_left_as_it_is() {
    let check = |from: u64, expected: &[&str]| {
        let folder = tempfile::tempdir().expect("a folder");
        drop(Team::new(folder.path()));
        assert_eq!(Server::start(folder.path()).end(Signal::TERM).0, Some(0));
        let path = folder.path().join("server.db");
        let file = fs::File::options().write(true).open(&path).expect("opened");
        let length = file.metadata().expect("read").len();
        file.write_all_at(&vec![0x55; (length - from) as usize], from).expect("written");
        let before = fs::read(&path).expect("read");
        let mut serve = Command::new(WINGBEAT);
        serve.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder.path());
        let ran = Ran::of(&mut serve).ended_with(1).tells_in_one_line().tells("server.db");
        assert!(expected.iter().any(|text| ran.stderr.contains(text)), "{ran}");
        assert_eq!(fs::read(&path).expect("read"), before, "it was changed");
    };
    check(0, &["is not a store of wingbeat"]);
    // Only the header stays intact.
    check(100, &["damaged", "malformed"]);
}

// Rolling restarts of servers on one database while clients post to any of them.

const CLIENTS: usize = 64;

/// Addresses of both servers, as a load balancer has them.
struct Proxy(Mutex<[String; 2]>);

impl Proxy {
    fn addresses(&self) -> MutexGuard<'_, [String; 2]> {
        self.0.lock().expect("sound")
    }

    /// Posts a report to either server until one confirms it; returns the number of attempts.
    fn post(&self, team: &Team, client: usize, uuid: Uuid, value: usize) -> usize {
        let mut attempts = 0;
        loop {
            let address = self.addresses()[(client + attempts) % 2].clone();
            attempts += 1;
            match team.run(&address, uuid, value) {
                Ok(answer) if answer.status == 201 => return attempts,
                Ok(answer) => assert_eq!(answer.status, 503, "{answer:?}"),
                Err(_) => {}
            }
            assert!(attempts < 1000, "no server answers");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Manually for a minute: `WINGBEAT_SERVE_TEST_SECONDS=60 cargo test -p wingbeat --test serve rolling -- --nocapture`.
#[test]
fn a_rolling_restart_loses_nothing_and_doubles_nothing() {
    let Some(url) = database() else { return };
    let primary = PostgresUrl::parse(&url).expect("a URL");
    let team = Team::new(DataLocation::Postgres { primary, replica: None });
    let mut servers = [(); 2].map(|()| Server::start_on(&url));
    let proxy = Proxy(Mutex::new(servers.each_ref().map(|server| server.address.clone())));
    let seconds = env::var("WINGBEAT_SERVE_TEST_SECONDS").ok().and_then(|it| it.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(4));
    let is_done = AtomicBool::new(false);
    let client = |client: usize| {
        let (mut answered, mut attempts) = (Vec::new(), 0);
        // Not forever if a restart fails.
        while !is_done.load(Ordering::Relaxed) && Instant::now() < end + Duration::from_secs(60) {
            let uuid = Uuid::now_v7();
            attempts += proxy.post(&team, client, uuid, client);
            answered.push(uuid);
        }
        (answered, attempts)
    };
    let mut restarts = 0;
    let mut restart = || {
        let turn = restarts % 2;
        let server = Server::start_on(&url);
        let address = server.address.clone();
        let former = std::mem::replace(&mut servers[turn], server);
        proxy.addresses()[turn] = address;
        // Stopped, and every third time killed.
        let signal = if restarts % 3 == 2 { Signal::KILL } else { Signal::TERM };
        let (code, log) = former.end(signal);
        assert_eq!(code, (signal == Signal::TERM).then_some(0), "{log}");
        restarts += 1;
    };
    let client = &client;
    let done: Vec<(Vec<Uuid>, usize)> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|at| scope.spawn(move || client(at))).collect();
        // Both of them, and each way.
        for round in 0.. {
            if round >= 4 && Instant::now() > end {
                break;
            }
            thread::sleep(Duration::from_millis(200));
            restart();
        }
        is_done.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("no panic")).collect()
    });
    let attempts: usize = done.iter().map(|(_, attempts)| attempts).sum();
    let answered: Vec<Uuid> = done.into_iter().flat_map(|(answered, _)| answered).collect();
    println!("{} reports, {attempts} attempts, {restarts} restarts", answered.len());
    assert!(answered.len() >= CLIENTS);
    let expected: BTreeSet<Uuid> = answered.iter().copied().collect();
    assert_eq!(expected.len(), answered.len());
    assert_eq!(team.reports(), expected);
    let list = servers[0].get("/v0/projects/own/reports?per_page=1", &team.key);
    let count = format!("x-total-count: {}", expected.len());
    assert!(list.head.contains(&count), "{count}: {list:?}");
}
