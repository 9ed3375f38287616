//! Waiting and dropped windows, and restarts.

use std::{
    collections::BTreeMap,
    time::{Duration, UNIX_EPOCH},
};

use super::*;
use crate::window::{Kind, Series};

const WINDOW_BYTES: u64 = 1_000;

/// A window starting at this second.
fn window(second: u64) -> Arc<Window> {
    let series = Series { kind: Kind::Cpu, labels: BTreeMap::new(), pprof: Vec::new() };
    let pprof = vec![1; (WINDOW_BYTES - series.bytes()) as usize];
    let start = UNIX_EPOCH + Duration::from_secs(second);
    let series = vec![Series { pprof, ..series }];
    Arc::new(Window { start, duration: Duration::from_secs(1), series })
}

/// Removes all windows as if they were pushed, and returns their seconds.
fn drained(spool: &mut Spool) -> Vec<u64> {
    let mut seconds = Vec::new();
    while let Some((number, window)) = spool.front() {
        seconds.push(window.start.duration_since(UNIX_EPOCH).expect("later").as_secs());
        assert!(spool.done(number));
    }
    seconds
}

fn files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let mut names: Vec<_> =
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name != ".lock");
    names.sort();
    names
}

#[test]
fn the_oldest_leave_first_and_are_counted() {
    let check = |has_folder: bool, windows, bytes_max, expected: &[u64], dropped| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = has_folder.then_some(folder.path());
        let mut spool = Spool::open(path, bytes_max, 2).expect("a spool");
        for second in 0..windows {
            spool.push(window(second));
        }
        assert_eq!(spool.losses, Losses { dropped, damaged: 0 });
        assert_eq!(drained(&mut spool), expected, "{windows} windows, {bytes_max} bytes");
        assert_eq!((spool.bytes(), spool.len()), (0, 0));
        assert!(!has_folder || files(folder.path()).is_empty());
        assert_eq!(spool.trouble, None);
    };
    check(false, 3, 10_000, &[0, 1, 2], 0);
    check(true, 3, 10_000, &[0, 1, 2], 0);
    check(false, 5, 2 * WINDOW_BYTES, &[3, 4], 3);
    check(true, 5, 2 * WINDOW_BYTES, &[3, 4], 3);
    check(true, 2, WINDOW_BYTES - 1, &[], 2);
}

#[test]
fn memory_keeps_a_few_and_disk_the_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut spool = Spool::open(Some(folder.path()), u64::MAX, 2).expect("a spool");
    spool.push(window(0));
    spool.push(window(1));
    assert_eq!(files(folder.path()).len(), 0);
    spool.push(window(2));
    assert_eq!(files(folder.path()).len(), 3);
    assert_eq!(spool.in_memory(), 0);
    spool.push(window(3));
    assert_eq!(drained(&mut spool), [0, 1, 2, 3]);
}

#[test]
fn a_restart_finds_what_was_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |bytes_max| Spool::open(Some(folder.path()), bytes_max, 2).expect("a spool");
    let mut spool = open(u64::MAX);
    for second in [5, 3, 4] {
        spool.push(window(second));
    }
    spool.push(window(3));
    // The window in flight is sent again.
    let (number, _) = spool.front().expect("a window");
    spool.close();
    assert!(!spool.done(number), "its file is another's now");
    let kept = spool.bytes();
    assert_eq!((spool.losses, spool.len()), (Losses::default(), 4));
    drop(spool);

    fs::write(folder.path().join(".part-abc"), "half").expect("a file");
    fs::write(folder.path().join("notes.txt"), "not ours").expect("a file");
    let mut spool = open(u64::MAX);
    assert_eq!((spool.restored, spool.bytes()), (4, kept));
    assert_eq!(drained(&mut spool), [3, 3, 4, 5], "by time");
    assert_eq!(files(folder.path()), ["notes.txt"]);
}

#[test]
fn a_restart_with_less_room_drops_the_oldest() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut spool = Spool::open(Some(folder.path()), u64::MAX, 0).expect("a spool");
    (0..4).for_each(|second| spool.push(window(second)));
    drop(spool);
    let mut spool = Spool::open(Some(folder.path()), 2 * WINDOW_BYTES + 500, 0).expect("a spool");
    assert_eq!((spool.restored, spool.losses.dropped), (4, 2));
    assert_eq!(drained(&mut spool), [2, 3]);
}

#[test]
fn damaged_files_are_counted_and_the_rest_survives() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut spool = Spool::open(Some(folder.path()), u64::MAX, 0).expect("a spool");
    (0..4).for_each(|second| spool.push(window(second)));
    drop(spool);
    let names = files(folder.path());
    let path = |at: usize| folder.path().join(&names[at]);
    let bytes = fs::read(path(0)).expect("a file");
    fs::write(path(0), &bytes[..bytes.len() / 2]).expect("cut");
    fs::write(path(2), b"").expect("emptied");
    let mut spool = Spool::open(Some(folder.path()), u64::MAX, 0).expect("a spool");
    fs::remove_file(path(3)).expect("taken away");
    assert_eq!(drained(&mut spool), [1]);
    assert_eq!(spool.losses, Losses { dropped: 0, damaged: 3 });
    assert!(spool.trouble.clone().expect("a reason").contains(&names[3]), "{:?}", spool.trouble);
    assert!(files(folder.path()).is_empty());
}

#[test]
fn what_is_being_sent_is_not_dropped() {
    let mut spool = Spool::open(None, 2 * WINDOW_BYTES, 9).expect("a spool");
    spool.push(window(0));
    let (number, _) = spool.front().expect("a window");
    spool.push(window(1));
    spool.push(window(2));
    assert_eq!(spool.losses.dropped, 1);
    assert!(spool.done(number));
    assert_eq!(drained(&mut spool), [2]);
}

#[test]
fn without_a_disk_memory_keeps_a_few() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("gone");
    let mut spool = Spool::open(Some(&path), u64::MAX, 2).expect("a spool");
    fs::remove_dir_all(&path).expect("removed");
    (0..5).for_each(|second| spool.push(window(second)));
    assert_eq!(spool.losses.dropped, 3);
    let trouble = spool.trouble.clone().expect("a reason");
    assert!(trouble.starts_with("writing a window to "), "{trouble}");
    assert_eq!(drained(&mut spool), [3, 4]);
    spool.push(window(5));
    spool.close();
    assert_eq!(spool.losses.dropped, 4);
}

#[test]
fn a_folder_has_one_user() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = Spool::open(Some(folder.path()), 1, 1).expect("a spool");
    let error = Spool::open(Some(folder.path()), 1, 1).expect_err("in use");
    assert!(error.to_string().starts_with("another process keeps windows in "), "{error}");
    drop(first);
    Spool::open(Some(folder.path()), 1, 1).expect("free again");
}
