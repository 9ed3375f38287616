//! Confirmed reports are stored exactly once, on disk and in the server's responses.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use uuid::Uuid;
use wingbeat_track::store::Store;

use crate::{
    ran::wait_for,
    serve::support::{Server, Team},
};

/// The reports on disk.
fn stored(data: &Path) -> BTreeSet<Uuid> {
    let store = Store::open_existing(data.join("server.db")).expect("opened");
    let reports = store.reports(&wingbeat_track::store::ReportFilter::default(), 1_000_000);
    reports.expect("read").into_iter().map(|report| report.uuid).collect()
}

/// Number of reports that the server lists.
fn listed(server: &Server, team: &Team) -> usize {
    let answer = server.get("/v0/projects/own/reports?per_page=1", &team.key);
    let total = answer.head.lines().find_map(|line| line.strip_prefix("x-total-count: "));
    total.and_then(|total| total.parse().ok()).unwrap_or_else(|| panic!("{answer:?}"))
}

#[test]
fn a_hundred_kills_lose_no_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let team = Team::new(folder.path());
    let (mut answered, mut open) = (BTreeSet::new(), BTreeSet::new());
    let begun = Instant::now();
    for round in 0..100_u64 {
        let server = Server::start(folder.path());
        let address = server.address.clone();
        let first = AtomicBool::new(false);
        let client = || {
            let (mut done, mut begun) = (Vec::new(), None);
            loop {
                let uuid = Uuid::now_v7();
                begun.replace(uuid);
                match team.run(&address, uuid, done.len()) {
                    Ok(answer) if answer.status == 201 => {
                        done.push(uuid);
                        first.store(true, Ordering::Relaxed);
                    }
                    Ok(answer) => assert_eq!(answer.status, 503, "{answer:?}"),
                    Err(_) => return (done, begun),
                }
            }
        };
        thread::scope(|scope| {
            let clients: Vec<_> = (0..3).map(|_| scope.spawn(client)).collect();
            wait_for("a first answer", || first.load(Ordering::Relaxed));
            thread::sleep(Duration::from_micros(317 * round));
            server.end(Signal::KILL);
            for client in clients {
                let (done, begun) = client.join().expect("no panic");
                answered.extend(done);
                open.extend(begun);
            }
        });
    }
    println!(
        "{} reports, {} unanswered, 100 kills, {:?}",
        answered.len(),
        open.len(),
        begun.elapsed()
    );
    assert!(answered.len() >= 100);
    let on_disk = stored(folder.path());
    assert!(
        answered.is_subset(&on_disk),
        "{:?} are lost",
        Vec::from_iter(answered.difference(&on_disk))
    );
    // A client without a response retries with the same key: the work is completed or redone.
    let server = Server::start(folder.path());
    for uuid in &open {
        let answer = team.run(&server.address, *uuid, 0).expect("answered");
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    let expected: BTreeSet<Uuid> = answered.union(&open).copied().collect();
    assert_eq!(stored(folder.path()), expected);
    assert_eq!(listed(&server, &team), expected.len());
    for uuid in expected.iter().step_by(7) {
        let path = format!("/v0/projects/own/reports/{uuid}");
        assert_eq!(server.get(&path, &team.key).status, 200, "{uuid}");
    }
}

#[test]
fn the_same_report_at_once_is_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (team, uuid) = (Team::new(folder.path()), Uuid::now_v7());
    let server = Server::start(folder.path());
    let answers: Vec<_> = thread::scope(|scope| {
        let send = || team.run(&server.address, uuid, 2).expect("answered");
        let sent: Vec<_> = (0..8).map(|_| scope.spawn(send)).collect();
        let answers = sent.into_iter().map(|sent| sent.join().expect("no panic"));
        answers.map(|it| (it.status, it.json()["results"].clone())).collect()
    });
    assert!(answers.iter().all(|answer| *answer == answers[0] && answer.0 == 201), "{answers:?}");
    assert_eq!((listed(&server, &team), stored(folder.path())), (1, BTreeSet::from([uuid])));
}
