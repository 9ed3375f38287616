//! Confirmed writes survive a kill of the server.

use std::{
    env,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::{
    ran::{Ran, wait_for},
    support::{Server, Team, WINGBEAT},
};

/// Number of kills.
const KILLS: usize = 100;

/// Writes from concurrent clients until the server is gone; returns the confirmed names.
fn write_until_gone(
    team: &Team,
    clients: usize,
    address: &str,
    round: usize,
    first: &AtomicBool,
) -> Vec<String> {
    let client = |at: usize| {
        let mut answered = Vec::new();
        for n in 0.. {
            let name = format!("{round}-{at}-{n}");
            match team.write(address, &name) {
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
    let client = &client;
    thread::scope(|scope| {
        let clients: Vec<_> = (0..clients).map(|at| scope.spawn(move || client(at))).collect();
        clients.into_iter().flat_map(|client| client.join().expect("no panic")).collect()
    })
}

#[test]
fn a_hundred_kills_lose_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let team = Team::new(folder.path());
    let mut answered: Vec<String> = Vec::new();
    let begun = Instant::now();
    for round in 0..KILLS {
        let server = Server::start(folder.path());
        let address = server.address.clone();
        let first = AtomicBool::new(false);
        thread::scope(|scope| {
            let (team, first) = (&team, &first);
            let writing = scope.spawn(move || write_until_gone(team, 4, &address, round, first));
            wait_for("a first answer", || first.load(Ordering::Relaxed));
            // At a different moment of a write each time.
            thread::sleep(Duration::from_micros(317 * round as u64));
            server.end(Signal::KILL);
            answered.extend(writing.join().expect("no panic"));
        });
        let written = team.written();
        let lost: Vec<_> =
            answered.iter().filter(|it| written.binary_search(it).is_err()).collect();
        assert!(lost.is_empty(), "round {round}: {lost:?}");
    }
    println!("{} writes, {KILLS} kills, {:?}", answered.len(), begun.elapsed());
    assert!(answered.len() >= KILLS);
    // A backup is verified, and so are the databases by it.
    let to = folder.path().join("backup");
    let backup = ["serve", "backup", to.to_str().expect("a plain path"), "--data"];
    let backup = Ran::of(std::process::Command::new(WINGBEAT).args(backup).arg(folder.path()));
    backup.ended_with(0);
}

#[test]
fn a_stop_finishes_what_was_begun() {
    let folder = tempfile::tempdir().expect("a folder");
    let team = Team::new(folder.path());
    for round in 0..5 {
        let server = Server::start(folder.path());
        let address = server.address.clone();
        let first = AtomicBool::new(false);
        let answered = thread::scope(|scope| {
            let (team, first) = (&team, &first);
            let writing = scope.spawn(move || write_until_gone(team, 8, &address, round, first));
            wait_for("a first answer", || first.load(Ordering::Relaxed));
            thread::sleep(Duration::from_millis(50));
            let (code, log) = server.end(Signal::TERM);
            assert_eq!(code, Some(0), "{log}");
            assert!(log.contains("\"message\":\"stopped\""), "{log}");
            assert!(!log.contains("cut off"), "{log}");
            let answered = writing.join().expect("no panic");
            let logged = log.lines().filter(|line| line.contains("\"status\":201")).count();
            // The server confirmed each write, and each response arrived.
            assert_eq!(logged, answered.len());
            answered
        });
        let written = team.written();
        let of_round = format!("{round}-");
        let mut answered = answered;
        answered.sort();
        assert_eq!(
            Vec::from_iter(written.into_iter().filter(|it| it.starts_with(&of_round))),
            answered
        );
    }
}

/// Manually for a minute: `WINGBEAT_SERVE_TEST_SECONDS=60 cargo test -p wingbeat --test serve 64 -- --nocapture`.
#[test]
fn writes_of_64_clients_all_land() {
    let folder = tempfile::tempdir().expect("a folder");
    let team = Team::new(folder.path());
    let server = Server::start(folder.path());
    let address = &server.address;
    let seconds = env::var("WINGBEAT_SERVE_TEST_SECONDS").ok().and_then(|it| it.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(2));
    let client = |at: usize| {
        let (mut answered, mut refused) = (Vec::new(), 0);
        for n in 0.. {
            if Instant::now() > end {
                break;
            }
            let name = format!("{at}-{n}");
            loop {
                let answer = team.write(address, &name).expect("answered");
                match answer.status {
                    201 => break,
                    503 => {
                        assert!(answer.head.contains("retry-after: 1"), "{answer:?}");
                        refused += 1;
                        thread::sleep(Duration::from_millis(50));
                    }
                    _ => panic!("{answer:?}"),
                }
            }
            answered.push(name);
        }
        (answered, refused)
    };
    let client = &client;
    let (mut answered, refused) = thread::scope(|scope| {
        let clients: Vec<_> = (0..64).map(|at| scope.spawn(move || client(at))).collect();
        let all = clients.into_iter().map(|client| client.join().expect("no panic"));
        all.fold((Vec::new(), 0), |(mut names, refused), (more, again)| {
            names.extend(more);
            (names, refused + again)
        })
    });
    answered.sort();
    println!("{} writes, {refused} refused at first", answered.len());
    assert_eq!(team.written(), answered);
}
