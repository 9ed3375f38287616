//! An archive keeps the right windows, and never shows incomplete ones.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, SystemTime},
};

use wingbeat_agent::{Kind, Series, Window, WindowArchive};

use crate::backend::{at, labels, numbered};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The numbers of the windows in a listing.
fn listed(folder: &Path, since: SystemTime, until: SystemTime) -> Vec<u64> {
    let listing = WindowArchive::list(folder, since, until).expect("a listing");
    let marks = listing.entries.iter().map(|entry| {
        assert!(entry.path.is_file(), "{entry:?}");
        entry.labels["mark"]["window-".len()..].parse().expect("a number")
    });
    marks.collect()
}

fn all(folder: &Path) -> Vec<u64> {
    listed(folder, SystemTime::UNIX_EPOCH, at(1 << 40))
}

/// All other files in a folder.
fn others(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with("2026") && name != ".lock").collect()
}

#[test]
fn windows_return_by_their_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut archive = WindowArchive::open(folder.path(), DAY, u64::MAX).expect("an archive");
    for number in [0, 1, 2, 5, 3] {
        archive.add(&numbered(number, 100)).expect("added");
    }
    let check = |since, until, expected: &[u64]| {
        assert_eq!(listed(folder.path(), at(since), at(until)), expected, "{since} to {until}");
    };
    check(0, 9, &[0, 1, 2, 3, 5]);
    check(1, 3, &[1, 2]);
    check(4, 5, &[]);
    check(9, 9, &[]);
    check(9, 0, &[]);
    let half = Duration::from_millis(500);
    assert_eq!(listed(folder.path(), at(1) + half, at(2) + half), [1, 2]);
    assert_eq!(archive.windows(), 5);
}

#[test]
fn labels_and_times_survive() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut archive = WindowArchive::open(folder.path(), DAY, u64::MAX).expect("an archive");
    let series = |kind, service: &str| {
        let labels = labels(&[("service_name", service), ("container_id", "abc")]);
        Series { kind, labels, pprof: service.as_bytes().to_vec() }
    };
    let series = vec![series(Kind::Cpu, "../a b"), series(Kind::Pages, "c")];
    let (start, duration) = (at(3) + Duration::from_nanos(7), Duration::from_millis(1_001));
    let window = Window { start, duration, series };
    archive.add(&window).expect("added");
    // The same second and length again, and an empty window.
    archive.add(&window).expect("added");
    archive.add(&Window { series: Vec::new(), ..window.clone() }).expect("nothing to add");
    assert_eq!(archive.windows(), 2);
    let listing = WindowArchive::list(folder.path(), at(0), at(9)).expect("a listing");
    let found: Vec<_> = listing
        .entries
        .iter()
        .map(|it| {
            assert_eq!((it.start, it.duration), (start, duration));
            let pprof = fs::read(&it.path).expect("a file");
            Series { kind: it.kind, labels: it.labels.clone(), pprof }
        })
        .collect();
    assert_eq!(found, [window.series.clone(), window.series].concat());
    assert!(listing.damaged.is_empty());
}

#[test]
fn the_oldest_make_room() {
    let one = {
        let folder = tempfile::tempdir().expect("a folder");
        let mut archive = WindowArchive::open(folder.path(), DAY, u64::MAX).expect("an archive");
        archive.add(&numbered(0, 10_000)).expect("added");
        archive.bytes()
    };
    let check = |keep_for_s, keep_windows: u64, expected: &[u64]| {
        let folder = tempfile::tempdir().expect("a folder");
        let (keep_for, keep_bytes) = (Duration::from_secs(keep_for_s), keep_windows * one + 100);
        let mut archive =
            WindowArchive::open(folder.path(), keep_for, keep_bytes).expect("an archive");
        for number in 0..10 {
            archive.add(&numbered(number, 10_000)).expect("added");
            assert!(archive.bytes() <= keep_bytes);
        }
        assert_eq!(all(folder.path()), expected);
        assert_eq!(archive.removed(), 10 - expected.len() as u64);
        assert!(others(folder.path()).is_empty());
        // The next process counts the existing windows.
        let bytes = archive.bytes();
        drop(archive);
        let mut archive =
            WindowArchive::open(folder.path(), keep_for, keep_bytes).expect("an archive");
        assert_eq!((archive.bytes(), archive.windows()), (bytes, expected.len()));
        archive.add(&numbered(100, 10_000)).expect("added");
        assert!(archive.bytes() <= keep_bytes);
    };
    check(86_400, 100, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    check(86_400, 3, &[7, 8, 9]);
    check(3, 100, &[6, 7, 8, 9]);
    check(0, 100, &[9]);
    check(2, 2, &[8, 9]);
}

#[test]
fn a_clock_that_jumps_removes_nothing() {
    const YEARS: u64 = 10 * 365 * 86_400;
    let check = |ends: &[u64], restarts: bool| {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || {
            WindowArchive::open(folder.path(), Duration::from_secs(1_800), u64::MAX)
                .expect("an archive")
        };
        let mut archive = open();
        for &number in ends {
            if restarts {
                drop(archive);
                archive = open();
            }
            archive.add(&numbered(number, 100)).expect("added");
        }
        let mut sorted = ends.to_vec();
        sorted.sort_unstable();
        assert_eq!(all(folder.path()), sorted, "restarts: {restarts}");
    };
    for restarts in [false, true] {
        check(&[YEARS, YEARS + 1, 0, 1, 2, 3], restarts);
        check(&[0, 1, YEARS, YEARS + 1, 2], restarts);
        check(&[3_600, 3_601, 10_800, 10_801, 7_200, 7_201, 0], restarts);
    }
    // Windows from a clock that was ahead are limited in size too, and are removed first.
    let folder = tempfile::tempdir().expect("a folder");
    let one = {
        let mut archive = WindowArchive::open(folder.path(), DAY, u64::MAX).expect("an archive");
        archive.add(&numbered(YEARS, 10_000)).expect("added");
        archive.bytes()
    };
    let mut archive = WindowArchive::open(folder.path(), DAY, 2 * one + 100).expect("an archive");
    (0..2).for_each(|number| archive.add(&numbered(number, 10_000)).expect("added"));
    assert_eq!((all(folder.path()), archive.removed()), (vec![0, 1], 1));
}

#[test]
fn a_window_larger_than_the_archive_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut archive = WindowArchive::open(folder.path(), DAY, 5_000).expect("an archive");
    archive.add(&numbered(0, 1_000)).expect("added");
    let error = archive.add(&numbered(1, 10_000)).expect_err("too large").to_string();
    assert!(error.contains("raise that limit") && !error.contains('\n'), "{error}");
    assert_eq!(all(folder.path()), [0]);
}

#[test]
fn leftovers_of_a_crash_are_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut archive = WindowArchive::open(folder.path(), DAY, u64::MAX).expect("an archive");
    archive.add(&numbered(0, 100)).expect("added");
    let error = WindowArchive::open(folder.path(), DAY, 1).expect_err("in use").to_string();
    assert!(error.contains("another process"), "{error}");
    drop(archive);
    let partial = folder.path().join(".partial-abc");
    fs::create_dir(&partial).expect("a folder");
    fs::write(partial.join("process_cpu-web-0.pb.gz"), "half").expect("a file");
    fs::write(folder.path().join("README"), "mine").expect("a file");
    fs::write(folder.path().join("20261127T230000Z-1s.1"), "a file").expect("a file");
    assert_eq!(all(folder.path()), [0]);
    WindowArchive::open(folder.path(), DAY, u64::MAX).expect("an archive");
    assert_eq!(others(folder.path()), ["README"]);
    assert_eq!(all(folder.path()), [0]);
}

#[test]
fn readers_see_whole_windows_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_owned();
    let mut archive =
        WindowArchive::open(&path, Duration::from_secs(3), u64::MAX).expect("an archive");
    let writer = thread::spawn(move || {
        for number in 0..100 {
            let mut window = (*numbered(number, 100)).clone();
            window.series = vec![window.series[0].clone(); 10];
            archive.add(&window).expect("added");
        }
    });
    while !writer.is_finished() {
        let listing =
            WindowArchive::list(&path, SystemTime::UNIX_EPOCH, at(1 << 40)).expect("a listing");
        assert_eq!(listing.damaged, Vec::<PathBuf>::new());
        assert_eq!(listing.entries.len() % 10, 0);
        // Otherwise the writer would wait for the folder most of the time.
        thread::sleep(Duration::from_micros(200));
    }
    writer.join().expect("no panic");
}

#[test]
fn readers_trust_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |text: &str| {
        let window = folder.path().join("20261127T230000Z-15s");
        fs::create_dir_all(&window).expect("a folder");
        fs::write(window.join("labels.json"), text).expect("a file");
        let listing = WindowArchive::list(folder.path(), SystemTime::UNIX_EPOCH, at(1 << 40))
            .expect("a listing");
        assert_eq!((listing.entries, listing.damaged), (Vec::new(), vec![window]), "{text}");
    };
    let with = |file: &str, kind: &str| {
        format!(
            r#"{{"format": 1, "start_unix_ns": 1795820400000000000, "duration_ns": 15000000000,
            "series": [{{"file": {file:?}, "kind": {kind:?}, "labels": {{}}}}]}}"#
        )
    };
    check("");
    check("{}");
    check("[[[[");
    check(&with("../../secret", "process_cpu"));
    check(&with("/etc/passwd", "process_cpu"));
    check(&with("..", "process_cpu"));
    check(&with("a.pb.gz", "heat"));
    assert!(
        WindowArchive::list(&folder.path().join("none"), SystemTime::UNIX_EPOCH, at(1 << 40))
            .is_err()
    );
}

/// Runs the test again in a process that may write only files of up to 4 KiB, so that writes fail halfway, as on a
/// full disk.
#[test]
fn a_failed_write_leaves_nothing() {
    const FOLDER: &str = "WINGBEAT_ARCHIVE_FOLDER";
    if let Some(folder) = std::env::var_os(FOLDER) {
        let mut archive =
            WindowArchive::open(Path::new(&folder), DAY, u64::MAX).expect("an archive");
        archive.add(&numbered(0, 100)).expect("added");
        let error = archive.add(&numbered(1, 100_000)).expect_err("too large a file").to_string();
        assert!(error.starts_with("writing a window to ") && !error.contains('\n'), "{error}");
        archive.add(&numbered(2, 100)).expect("added");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let this = std::env::current_exe().expect("a program");
    let output = Command::new("sh")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact window_archive::a_failed_write_leaves_nothing",
        ])
        .arg(this)
        .env(FOLDER, folder.path())
        // Coverage data or a profile of the test itself would be a file, too.
        .current_dir(folder.path())
        .output()
        .expect("a shell");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(all(folder.path()), [0, 2]);
    assert!(others(folder.path()).is_empty(), "{:?}", others(folder.path()));
}
