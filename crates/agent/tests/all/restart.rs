//! Windows waiting on disk survive the process, up to the size limit.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use wingbeat_agent::PushOptions;
use wingbeat_http::testing::Server;

use crate::{
    backend::{hang, numbered, status, taken, wait_for},
    push::{PATIENCE, check_sum, quick, start},
};

fn spooling(folder: &Path) -> PushOptions {
    PushOptions { folder: Some(folder.to_owned()), ..quick() }
}

/// A backend that is down until it is switched on.
fn switched() -> (Server, Arc<AtomicBool>) {
    let is_up = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&is_up);
    let backend = Server::start(move |_, _| match is_up.load(Ordering::SeqCst) {
        true => status(200),
        false => status(503),
    });
    (backend, switch)
}

/// The window files in the only target's folder, oldest first.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let target = entries.map(|entry| entry.path()).next().expect("a folder of the target");
    let entries = fs::read_dir(target).expect("a folder").flatten().map(|entry| entry.path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|suffix| suffix == "window")).collect();
    files.sort();
    files
}

#[test]
fn a_restart_sends_the_rest() {
    let (backend, is_up) = switched();
    let folder = tempfile::tempdir().expect("a folder");
    let pusher = start(&backend.url, spooling(folder.path()));
    (0..20).for_each(|number| pusher.offer(&numbered(number, 500)));
    wait_for(&backend, 1);
    let counts = pusher.finish(Duration::from_millis(20));
    check_sum(&counts);
    assert_eq!((counts.pushed, counts.dropped, counts.waiting), (0, 0, 20), "{counts:?}");
    let waiting = files(folder.path());
    assert_eq!(waiting.len(), 20);

    fs::write(&waiting[19], "nonsense").expect("overwritten");
    is_up.store(true, Ordering::SeqCst);
    let pusher = start(&backend.url, spooling(folder.path()));
    (20..25).for_each(|number| pusher.offer(&numbered(number, 500)));
    let counts = pusher.finish(PATIENCE);
    check_sum(&counts);
    assert_eq!((counts.offered, counts.restored, counts.pushed), (5, 20, 24), "{counts:?}");
    assert_eq!((counts.damaged, counts.dropped), (1, 0), "{counts:?}");
    assert!(counts.last_error.expect("a reason").contains("was damaged and is lost"));
    assert_eq!(taken(&backend), (0..19).chain(20..25).collect::<Vec<_>>());
    assert!(files(folder.path()).is_empty());
}

#[test]
fn a_dropped_pusher_keeps_waiting_windows() {
    let (backend, _) = switched();
    let folder = tempfile::tempdir().expect("a folder");
    let pusher = start(&backend.url, spooling(folder.path()));
    (0..3).for_each(|number| pusher.offer(&numbered(number, 500)));
    drop(pusher);
    assert_eq!(files(folder.path()).len(), 3);
}

#[test]
fn windows_are_on_disk_before_they_are_sent() {
    let backend = Server::start(|_, _| hang());
    let folder = tempfile::tempdir().expect("a folder");
    let pusher = start(&backend.url, spooling(folder.path()));
    for number in 0..3 {
        pusher.offer(&numbered(number, 500));
        assert_eq!(files(folder.path()).len() as u64, number + 1);
    }
    wait_for(&backend, 1);
    std::mem::forget(pusher);
}

#[test]
fn a_closed_port() {
    // This port is never assigned dynamically.
    let url = "http://127.0.0.1:1";
    let folder = tempfile::tempdir().expect("a folder");
    let pusher = start(url, spooling(folder.path()));
    (0..4).for_each(|number| pusher.offer(&numbered(number, 500)));
    let begin = Instant::now();
    while pusher.counts().retries == 0 && begin.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(2));
    }
    let last_error = pusher.counts().last_error.expect("a reason");
    assert!(last_error.contains("it refused the connection"), "{last_error}");
    let counts = pusher.finish(Duration::from_millis(20));
    check_sum(&counts);
    assert_eq!((counts.waiting, counts.dropped), (4, 0), "{counts:?}");
}

#[test]
fn two_agents_do_not_share_a_folder() {
    let (backend, _) = switched();
    let folder = tempfile::tempdir().expect("a folder");
    let _first = start(&backend.url, spooling(folder.path()));
    let target = format!("pyroscope={}", backend.url).parse().expect("a target");
    let second =
        wingbeat_agent::Pusher::start(&target, Default::default(), spooling(folder.path()));
    assert!(second.expect_err("in use").to_string().contains("a folder of its own"));
    // Another target has another folder.
    let target = format!("parca={}", backend.url).parse().expect("a target");
    wingbeat_agent::Pusher::start(&target, Default::default(), spooling(folder.path()))
        .expect("another folder");
}
