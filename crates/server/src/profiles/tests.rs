//! Pushing, merging, reading and deleting profiles in a folder.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use wingbeat_pprof::{
    pprof::pack,
    proto::{Function, Line, Location, Profile, Sample, ValueType},
};

use super::{
    Keep, Profiles, Push, Span, files,
    intake::{Labels, Part},
};

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// 2026-11-28T00:00:00Z.
const DAY: i64 = 1_795_824_000 * SECOND;

/// A profile of one function with this duration, in nanoseconds.
fn pprof(function: &str, value: i64, start_ns: i64) -> Vec<u8> {
    let message = Profile {
        sample_type: vec![ValueType { r#type: 1, unit: 2 }],
        sample: vec![Sample { location_id: vec![1], value: vec![value], label: Vec::new() }],
        location: vec![Location {
            id: 1,
            line: vec![Line { function_id: 1, line: 0 }],
            ..Location::default()
        }],
        function: vec![Function { id: 1, name: 3, ..Function::default() }],
        string_table: ["", "cpu", "nanoseconds", function].map(str::to_owned).to_vec(),
        time_nanos: start_ns,
        duration_nanos: 15 * SECOND,
        ..Profile::default()
    };
    let mut bytes = Vec::new();
    pack(&message, &mut bytes).expect("packed");
    bytes
}

fn part(service: &str, host: &str, value: i64, start_ns: i64) -> Part {
    Part {
        service: service.to_owned(),
        name: "process_cpu".to_owned(),
        labels: Labels::from([("host".to_owned(), host.to_owned())]),
        types: vec![("cpu".to_owned(), "nanoseconds".to_owned())],
        shown: 0,
        start_ns,
        duration_ns: 15 * SECOND,
        sums: vec![value],
        pprof: pprof("main", value, start_ns),
    }
}

struct Kept {
    folder: TempDir,
    profiles: Profiles,
}

impl Kept {
    fn new(bytes: u64) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let profiles = Profiles::of(folder.path(), Keep { for_s: 7 * 86_400, bytes });
        Self { folder, profiles }
    }

    fn put(&self, parts: Vec<Part>, now_ns: i64) {
        let push = Push { id: String::new(), parts };
        self.profiles.put("p", &[push], now_ns).expect("stored");
    }

    /// Usage of a service over a time range, in seconds.
    fn read(&self, service: &str, from_ns: i64, until_ns: i64, now_ns: i64) -> f64 {
        let series = self.profiles.series("p", Some(service)).expect("listed");
        let ids: Vec<i64> = series.iter().map(|it| it.id).collect();
        let span = Span { from_ns, until_ns };
        let reading = self.profiles.read(&ids, span, now_ns).expect("read");
        assert_eq!(reading.damaged, 0);
        let Some(profile) = reading.profile else { return 0.0 };
        profile.side("later", None).expect("a profile").total() / SECOND as f64
    }

    fn files(&self) -> usize {
        self.paths().len()
    }

    fn paths(&self) -> Vec<PathBuf> {
        let mut open = vec![self.folder.path().to_owned()];
        let mut paths = Vec::new();
        while let Some(path) = open.pop() {
            for entry in std::fs::read_dir(path).expect("a folder").flatten() {
                match entry.path() {
                    path if path.is_dir() => open.push(path),
                    path => paths.push(path),
                }
            }
        }
        paths.retain(|path| path.to_string_lossy().ends_with(".pb.gz"));
        paths
    }
}

#[test]
fn merged_profiles_are_the_same() {
    let kept = Kept::new(1 << 30);
    let (first, last) = (DAY, DAY + 3 * HOUR);
    let mut at = first;
    while at < last {
        kept.put(vec![part("web", "a", SECOND, at), part("web", "b", 2 * SECOND, at)], at);
        at += MINUTE;
    }
    let sums = |now: i64| {
        let read = |from: i64, until: i64| kept.read("web", DAY + from, DAY + until, now);
        [
            read(0, 3 * HOUR),
            read(10 * MINUTE, 20 * MINUTE),
            read(50 * MINUTE, 130 * MINUTE),
            read(2 * HOUR + 30 * MINUTE, 2 * HOUR + 35 * MINUTE),
            read(4 * HOUR, 5 * HOUR),
        ]
    };
    let expected = [540.0, 30.0, 240.0, 15.0, 0.0];
    assert_eq!(sums(last), expected);
    assert_eq!(kept.files(), 360);
    for _ in 0..3 {
        kept.profiles.tidy(last + 2 * MINUTE).expect("tidied");
        assert_eq!(sums(last + 2 * MINUTE), expected);
    }
    // For each of two series: three hours, 18 times ten minutes, and the windows of the last 80 minutes.
    assert_eq!(kept.files(), 2 * (3 + 18 + 80));
    // Late data is available immediately, and again after the next merge.
    kept.put(vec![part("web", "a", 7 * SECOND, DAY + 15 * MINUTE)], last);
    for now in [last + 2 * MINUTE, last + 4 * MINUTE] {
        let read = |from: i64, until: i64| kept.read("web", DAY + from, DAY + until, now);
        assert_eq!(read(10 * MINUTE, 20 * MINUTE), 37.0);
        assert_eq!(read(0, 3 * HOUR), 547.0);
        kept.profiles.tidy(now).expect("tidied");
    }
    kept.profiles.tidy(last + 2 * HOUR).expect("tidied");
    assert_eq!(kept.files(), 2 * (3 + 18));
    assert_eq!(kept.read("web", DAY, last, last + 2 * HOUR), 547.0);
    // Rounded outwards to the remaining blocks.
    let ten = (DAY + 11 * MINUTE, DAY + 12 * MINUTE);
    assert_eq!(kept.read("web", ten.0, ten.1, last + 2 * HOUR), 37.0);
}

#[test]
fn coarse_points_keep_the_sums() {
    let kept = Kept::new(1 << 30);
    for number in 0..40 {
        kept.put(vec![part("web", "a", SECOND, DAY + number * 15 * SECOND)], DAY + HOUR);
    }
    let id = kept.profiles.series("p", None).expect("listed")[0].id;
    let points = || {
        let span = Span { from_ns: DAY, until_ns: DAY + HOUR };
        let points = kept.profiles.points(&[id], span).expect("read").remove(0);
        (points.len(), points.iter().map(|it| it.sums[0]).sum::<i64>() / SECOND)
    };
    assert_eq!(points(), (40, 40));
    kept.profiles.tidy(DAY + 2 * HOUR).expect("tidied");
    assert_eq!(points(), (10, 40));
    let hours = kept.profiles.hours("p", DAY / HOUR).expect("read");
    assert_eq!(hours, [(id, DAY / HOUR, 40 * SECOND)]);
}

#[test]
fn a_repeated_push_counts_once() {
    let kept = Kept::new(1 << 30);
    let push = |id: &str| Push { id: id.to_owned(), parts: vec![part("web", "a", SECOND, DAY)] };
    let put =
        |project: &str, pushes: &[Push]| kept.profiles.put(project, pushes, DAY).expect("stored");
    assert_eq!(put("p", &[push("x")]), 1);
    assert_eq!(put("p", &[push("x"), push("y")]), 1);
    assert_eq!(put("q", &[push("x")]), 1);
    assert_eq!(put("p", &[push(""), push("")]), 2);
    assert_eq!(kept.read("web", DAY, DAY + MINUTE, DAY + MINUTE), 4.0);
}

#[test]
fn the_oldest_are_deleted_by_age_and_size() {
    let kept = Kept::new(30 * 4096);
    for minute in 0..40 {
        kept.put(vec![part("web", "a", SECOND, DAY + minute * MINUTE)], DAY + HOUR);
    }
    kept.put(vec![part("old", "a", SECOND, DAY - 8 * 24 * HOUR)], DAY);
    assert_eq!(kept.files(), 41);
    let now = DAY + 41 * MINUTE;
    let begin = Instant::now();
    kept.profiles.tidy_at(now, begin).expect("tidied");
    let (left, services) = (kept.files(), kept.profiles.series("p", None).expect("listed").len());
    assert!((20..=30).contains(&left) && services == 1, "{left} files of {services}");
    let newest = kept.read("web", DAY + 35 * MINUTE, DAY + 40 * MINUTE, now);
    assert_eq!(newest, 5.0);
    // A clock that jumps deletes nothing by age, until a day has really passed.
    kept.profiles.tidy_at(now + 9 * 24 * HOUR, begin).expect("tidied");
    kept.profiles.tidy_at(now, begin).expect("tidied");
    assert_eq!(kept.read("web", DAY + 30 * MINUTE, DAY + 40 * MINUTE, now), 10.0);
    let later = begin + Duration::from_nanos((9 * 24 * HOUR).unsigned_abs());
    kept.profiles.tidy_at(now + 9 * 24 * HOUR, later).expect("tidied");
    assert_eq!((kept.files(), kept.profiles.series("p", None).expect("listed")), (0, vec![]));
}

#[test]
fn projects_are_separate() {
    let kept = Kept::new(1 << 30);
    for project in ["p", "q"] {
        let push = Push { id: String::new(), parts: vec![part("web", "a", SECOND, DAY)] };
        kept.profiles.put(project, &[push], DAY).expect("stored");
    }
    let extent = kept.profiles.extent("q").expect("read").expect("something");
    assert_eq!((extent.from_ns, extent.until_ns), (DAY, DAY + 15 * SECOND));
    kept.profiles.forget("q").expect("forgotten");
    assert_eq!(kept.files(), 1);
    assert_eq!(kept.profiles.extent("q").expect("read"), None);
    assert_eq!(kept.read("web", DAY, DAY + MINUTE, DAY + MINUTE), 1.0);
}

#[test]
fn a_restart_keeps_whole_files_and_removes_others() {
    let kept = Kept::new(1 << 30);
    kept.put(vec![part("web", "a", SECOND, DAY)], DAY);
    let root = kept.folder.path().join(super::FOLDER);
    files::write(&root, "p/web/half.pb.gz", b"left by a crash").expect("written");
    let again = Profiles::of(kept.folder.path(), Keep { for_s: 86_400, bytes: 1 << 30 });
    let kept = Kept { folder: kept.folder, profiles: again };
    kept.put(vec![part("web", "a", SECOND, DAY + MINUTE)], DAY);
    assert_eq!(kept.files(), 2);
    assert_eq!(kept.read("web", DAY, DAY + 2 * MINUTE, DAY + 2 * MINUTE), 2.0);
}

#[test]
fn a_push_is_kept_whole_or_not_at_all() {
    let kept = Kept::new(1 << 30);
    kept.put(vec![part("web", "a", SECOND, DAY)], DAY);
    // A file in place of the second service's folder.
    let project = kept.folder.path().join(super::FOLDER).join("p");
    std::fs::write(project.join("api"), "in the way").expect("written");
    let parts = vec![part("web", "b", SECOND, DAY), part("api", "a", SECOND, DAY)];
    let push = Push { id: "x".to_owned(), parts };
    let error = kept.profiles.put("p", &[push], DAY).expect_err("not kept").to_string();
    assert!(error.starts_with("the folder of profiles cannot be used"), "{error}");
    assert_eq!(kept.files(), 1);
    assert_eq!(kept.read("web", DAY, DAY + MINUTE, DAY + MINUTE), 1.0);
    std::fs::remove_file(project.join("api")).expect("removed");
    let parts = vec![part("web", "b", SECOND, DAY), part("api", "a", SECOND, DAY)];
    let push = Push { id: "x".to_owned(), parts };
    assert_eq!(kept.profiles.put("p", &[push], DAY).expect("stored"), 2);
}

#[test]
fn damaged_files_are_counted() {
    let kept = Kept::new(1 << 30);
    kept.put(vec![part("web", "a", SECOND, DAY), part("web", "b", SECOND, DAY)], DAY);
    let folder = kept.folder.path().join(super::FOLDER).join("p/web");
    let first = std::fs::read_dir(folder).expect("a folder").flatten().next().expect("a file");
    std::fs::write(first.path(), "damaged").expect("written");
    let series = kept.profiles.series("p", None).expect("listed");
    let ids: Vec<i64> = series.iter().map(|it| it.id).collect();
    let span = Span { from_ns: DAY, until_ns: DAY + MINUTE };
    let reading = kept.profiles.read(&ids, span, DAY + MINUTE).expect("read");
    assert_eq!((reading.damaged, reading.windows, reading.files), (1, 1, 2));
}

/// Clients that disconnect release their permit.
#[tokio::test]
async fn cancelled_requests_release_their_permit() {
    let kept = Kept::new(1 << 30);
    for _ in 0..100 {
        let (waits, goes_on) = std::sync::mpsc::channel::<()>();
        let job = kept.profiles.run(move || goes_on.recv().is_ok());
        // Cancelled while the job runs.
        let given_up = tokio::time::timeout(Duration::from_millis(1), job).await;
        assert!(given_up.is_err());
        drop(waits);
    }
    kept.profiles.run(|| ()).await.expect("a permit");
}

#[test]
fn a_failed_merge_deletes_nothing() {
    let kept = Kept::new(1 << 30);
    kept.put(vec![part("web", "a", 5 * SECOND, DAY)], DAY + MINUTE);
    // Exists, but is not readable as a file.
    let path = kept.paths().remove(0);
    std::fs::remove_file(&path).expect("removed");
    std::fs::create_dir(&path).expect("made");
    kept.profiles.tidy(DAY + HOUR).expect("tidied");
    // Not replaced by an empty block.
    assert!(path.exists());
    std::fs::remove_dir(&path).expect("removed");
    std::fs::write(&path, pprof("main", 5 * SECOND, DAY)).expect("written");
    kept.profiles.tidy(DAY + HOUR).expect("tidied");
    assert_eq!(kept.read("web", DAY, DAY + HOUR, DAY + HOUR), 5.0);
}
