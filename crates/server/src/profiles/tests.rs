//! Pushing, merging, reading and deleting profiles in a folder.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use wingbeat_pprof::{pprof::pack, testing::window};

use super::{
    FOLDER, Keep, Profiles, ProfilesError, ProfilesPlace, Push, Span,
    intake::{Labels, Part},
    move_profiles,
};
use crate::{
    database::Database,
    settings::DataLocation,
    storage::{Storage, open},
};

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// 2026-11-28T00:00:00Z.
const DAY: i64 = 1_795_824_000 * SECOND;

/// A profile of one function with this duration, in nanoseconds.
fn pprof(function: &str, value: i64, start_ns: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    pack(&window(function, value, start_ns), &mut bytes).expect("packed");
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
        let profiles = profiles(folder.path(), folder.path(), bytes);
        Self { folder, profiles }
    }

    fn put(&self, parts: Vec<Part>, now_ns: i64) {
        let push = Push { id: String::new(), parts };
        self.profiles.put("p", vec![push], now_ns).expect("stored");
    }

    fn tidy(&self, now_ns: i64) {
        while !self.profiles.tidy(now_ns).expect("tidied") {}
    }

    fn ids(&self, service: &str) -> Vec<i64> {
        let series = self.profiles.series("p", Some(service)).expect("listed");
        series.iter().map(|it| it.id).collect()
    }

    /// Usage of a service over a time range, in seconds.
    fn read(&self, service: &str, from_ns: i64, until_ns: i64, now_ns: i64) -> f64 {
        self.read_some(&self.ids(service), from_ns, until_ns, now_ns)
    }

    fn read_some(&self, ids: &[i64], from_ns: i64, until_ns: i64, now_ns: i64) -> f64 {
        let span = Span { from_ns, until_ns };
        let reading = self.profiles.read(ids, span, now_ns).expect("read");
        assert_eq!(reading.damaged, 0);
        let Some(profile) = reading.profile else { return 0.0 };
        profile.side("later", None).expect("a profile").total() / SECOND as f64
    }

    /// Files that the index names.
    fn files(&self) -> usize {
        let sql = "SELECT count(*) FROM profile_block";
        let count = self.profiles.view(|db| Ok(db.query_row(sql, [], |row| row.get::<_, i64>(0))?));
        usize::try_from(count.expect("counted")).expect("a number")
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

/// Profiles in `place`, with the index in a database in `data`.
fn profiles(data: &Path, place: &Path, bytes: u64) -> Profiles {
    let storage = Storage::open(&DataLocation::from(data)).expect("opened");
    let keep = Keep { for_s: 7 * 86_400, bytes };
    Profiles::of(Arc::new(storage), ProfilesPlace::within(place), keep)
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
        kept.tidy(last + 2 * MINUTE);
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
        kept.tidy(now);
    }
    kept.tidy(last + 2 * HOUR);
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
    kept.tidy(DAY + 2 * HOUR);
    assert_eq!(points(), (10, 40));
    let hours = kept.profiles.hours("p", DAY / HOUR).expect("read");
    assert_eq!(hours, [(id, DAY / HOUR, 40 * SECOND)]);
}

#[test]
fn a_repeated_push_counts_once() {
    let kept = Kept::new(1 << 30);
    let push = |id: &str| Push { id: id.to_owned(), parts: vec![part("web", "a", SECOND, DAY)] };
    let put =
        |project: &str, pushes: Vec<Push>| kept.profiles.put(project, pushes, DAY).expect("stored");
    assert_eq!(put("p", vec![push("x")]), 1);
    assert_eq!(put("p", vec![push("x"), push("y")]), 1);
    assert_eq!(put("q", vec![push("x")]), 1);
    assert_eq!(put("p", vec![push(""), push("")]), 2);
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
        kept.profiles.put(project, vec![push], DAY).expect("stored");
    }
    let extent = kept.profiles.extent("q").expect("read").expect("something");
    assert_eq!((extent.from_ns, extent.until_ns), (DAY, DAY + 15 * SECOND));
    kept.profiles.forget("q").expect("forgotten");
    assert_eq!(kept.files(), 1);
    assert_eq!(kept.profiles.extent("q").expect("read"), None);
    assert_eq!(kept.read("web", DAY, DAY + MINUTE, DAY + MINUTE), 1.0);
}

#[test]
fn files_without_an_index_entry_go_when_they_are_old() {
    let kept = Kept::new(1 << 30);
    kept.put(vec![part("web", "a", SECOND, DAY)], DAY);
    let left = kept.folder.path().join(FOLDER).join("p/web/left.pb.gz");
    std::fs::write(&left, "by a crash").expect("written");
    // Another server may be entering it.
    kept.tidy(DAY);
    assert_eq!(kept.paths().len(), 2);
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(2 * 3600);
    let file = std::fs::File::options().write(true).open(&left).expect("opened");
    file.set_modified(long_ago).expect("set");
    let again = profiles(kept.folder.path(), kept.folder.path(), 1 << 30);
    drop(kept.profiles);
    // The claim of the first one ends with time.
    let expire = |database: &mut Database| {
        let db = database.results.connection();
        Ok::<_, ProfilesError>(db.execute("UPDATE claim SET until_ns = 0", [])?)
    };
    again.storage.write_blocking(expire).expect("expired");
    let kept = Kept { folder: kept.folder, profiles: again };
    kept.tidy(DAY);
    assert_eq!((kept.paths().len(), left.exists()), (1, false));
    assert_eq!(kept.read("web", DAY, DAY + MINUTE, DAY + MINUTE), 1.0);
}

#[test]
fn replaced_files_stay_until_nobody_reads_them() {
    let kept = Kept::new(1 << 30);
    for at in [DAY, DAY + MINUTE] {
        kept.put(vec![part("web", "a", SECOND, at)], at);
    }
    let now = DAY + 3 * HOUR;
    kept.tidy(now);
    // Ten minutes and an hour, and both windows.
    assert_eq!((kept.files(), kept.paths().len()), (2, 4));
    kept.tidy(now + MINUTE);
    assert_eq!(kept.paths().len(), 4);
    kept.tidy(now + 3 * MINUTE);
    assert_eq!((kept.files(), kept.paths().len()), (2, 2));
}

/// Many pods: a day and a minute take few files, and have the same sums as all their series.
#[test]
fn a_total_is_the_sum_of_its_series() {
    let kept = Kept::new(1 << 40);
    let pod = |number: i64, at: i64| part("web", &format!("pod-{number}"), number * SECOND, at);
    let push = |pods: i64, at: i64| kept.put((1..=pods).map(|pod_| pod(pod_, at)).collect(), at);
    // Two hours of a small service, which then grows.
    let mut at = DAY;
    while at < DAY + 2 * HOUR {
        push(3, at);
        at += MINUTE;
        kept.tidy(at);
    }
    while at < DAY + 4 * HOUR {
        push(20, at);
        push(20, at + 15 * SECOND);
        at += MINUTE;
        if at % (10 * MINUTE) == 0 {
            kept.tidy(at);
        }
    }
    // Late data of a time that is merged already.
    kept.put(vec![pod(5, DAY + 3 * HOUR + 65 * SECOND)], at);
    let all = kept.ids("web");
    assert_eq!(all.len(), 20);
    let check = |now: i64| {
        for (from, until) in [
            (DAY, DAY + 4 * HOUR),
            (DAY + HOUR, DAY + 3 * HOUR),
            (DAY + 3 * HOUR, DAY + 3 * HOUR + 10 * MINUTE),
            (DAY + 150 * MINUTE, DAY + 210 * MINUTE),
            (at - 5 * MINUTE, at),
        ] {
            let alone: f64 = all.iter().map(|id| kept.read_some(&[*id], from, until, now)).sum();
            let span = Span { from_ns: from, until_ns: until };
            let whole = kept.profiles.read(&all, span, now).expect("read");
            let total = whole.profile.as_ref().map_or(0, |it| it.sums()[0]) / SECOND;
            assert_eq!(total as f64, alone, "{from} {until} {now}");
            let points = kept.profiles.points(&all, span).expect("read");
            let drawn: i64 = points.iter().flatten().map(|point| point.sums[0]).sum();
            // What is not summed yet is not drawn yet.
            assert!(now > at || drawn <= total * SECOND, "{drawn} {total}");
            if now > at {
                assert_eq!(drawn, total * SECOND, "{from} {until}");
            }
        }
    };
    check(at);
    kept.tidy(at + 2 * MINUTE);
    check(at + 2 * MINUTE);
    let last = Span { from_ns: at - HOUR, until_ns: at };
    let reading = kept.profiles.read(&all, last, at + 2 * MINUTE).expect("read");
    assert!(reading.files < 70 && reading.windows == 2401, "{} {}", reading.files, reading.windows);
    assert_eq!(reading.series, 20);
    kept.tidy(at + 6 * HOUR);
    let old = Span { from_ns: DAY + 2 * HOUR, until_ns: DAY + 4 * HOUR };
    let reading = kept.profiles.read(&all, old, at + 6 * HOUR).expect("read");
    assert!(reading.files < 30, "{}", reading.files);
}

#[test]
fn too_many_files_narrow_the_time() {
    let kept = Kept::new(1 << 40);
    // Too few series for a total, and too many windows that are not merged yet.
    let parts = |at: i64| (0..10).map(|host| part("web", &format!("{host}"), SECOND, at)).collect();
    let (mut at, begin) = (DAY, DAY);
    while at < DAY + 650 * 6 * SECOND {
        kept.put(parts(at), at);
        at += 6 * SECOND;
    }
    let span = Span { from_ns: begin, until_ns: at };
    let reading = kept.profiles.read(&kept.ids("web"), span, at).expect("read");
    assert_eq!(reading.too_many, Some(6500));
    assert!((5000..=6000).contains(&reading.files), "{}", reading.files);
    assert!(reading.span.from_ns > begin && reading.span.until_ns == at, "{:?}", reading.span);
}

#[test]
fn one_of_two_servers_merges() {
    let kept = Kept::new(1 << 30);
    for number in 0..40 {
        kept.put(vec![part("web", "a", SECOND, DAY + number * 15 * SECOND)], DAY + HOUR);
    }
    let other = profiles(kept.folder.path(), kept.folder.path(), 1 << 30);
    let begun = kept.profiles.tidy(DAY + 20 * MINUTE).expect("tidied");
    let files = kept.files();
    assert!(begun && files == 41, "{files}");
    other.tidy(DAY + 3 * HOUR).expect("left to the first one");
    assert_eq!(kept.files(), 41);
    kept.tidy(DAY + 3 * HOUR);
    assert_eq!(kept.files(), 2);
    let ids = kept.ids("web");
    let span = Span { from_ns: DAY, until_ns: DAY + HOUR };
    let reading = other.read(&ids, span, DAY + 3 * HOUR).expect("read");
    assert_eq!((reading.windows, reading.damaged), (40, 0));
}

#[test]
fn profiles_move_there_and_back() {
    let kept = Kept::new(1 << 30);
    for number in 0..100 {
        kept.put(vec![part("web", "a", SECOND, DAY + number * 15 * SECOND)], DAY + HOUR);
    }
    let elsewhere = tempfile::tempdir().expect("a folder");
    let (here, there) =
        (ProfilesPlace::within(kept.folder.path()), ProfilesPlace::within(elsewhere.path()));
    let database = open(&DataLocation::from(kept.folder.path())).expect("opened");
    // Interrupted: a part is there, and one file is half written.
    let paths = kept.paths();
    let name = |path: &Path| path.strip_prefix(kept.folder.path()).expect("within").to_owned();
    for (path, is_whole) in paths.iter().take(10).zip([true, false].iter().cycle()) {
        let target = elsewhere.path().join(name(path));
        std::fs::create_dir_all(target.parent().expect("a folder")).expect("made");
        let content = std::fs::read(path).expect("read");
        std::fs::write(target, &content[..content.len() - usize::from(!is_whole)])
            .expect("written");
    }
    let moved = move_profiles(&database, &here, &there, |_| {}).expect("moved");
    assert_eq!((moved.files, moved.known, moved.missing), (100, 5, 0));
    for path in &paths {
        let copy = std::fs::read(elsewhere.path().join(name(path))).expect("copied");
        assert_eq!(copy, std::fs::read(path).expect("read"));
    }
    // The former place takes nothing any more.
    let push = Push { id: String::new(), parts: vec![part("web", "a", SECOND, DAY)] };
    let error = kept.profiles.put("p", vec![push], DAY).expect_err("moved").to_string();
    assert!(error.contains("the profiles of this database are in"), "{error}");
    let moved = profiles(kept.folder.path(), elsewhere.path(), 1 << 30);
    let push = Push { id: String::new(), parts: vec![part("web", "a", SECOND, DAY)] };
    assert_eq!(moved.put("p", vec![push], DAY).expect("stored"), 1);
    let moved = move_profiles(&database, &there, &here, |_| {}).expect("moved");
    assert_eq!((moved.files, moved.known), (101, 100));
    assert_eq!(kept.read("web", DAY, DAY + HOUR, DAY + HOUR), 101.0);
}

#[test]
fn a_push_is_kept_whole_or_not_at_all() {
    let kept = Kept::new(1 << 30);
    kept.put(vec![part("web", "a", SECOND, DAY)], DAY);
    // A file in place of the second service's folder.
    let project = kept.folder.path().join(FOLDER).join("p");
    std::fs::write(project.join("api"), "in the way").expect("written");
    let parts = vec![part("web", "b", SECOND, DAY), part("api", "a", SECOND, DAY)];
    let push = Push { id: "x".to_owned(), parts };
    let error = kept.profiles.put("p", vec![push], DAY).expect_err("not kept").to_string();
    assert!(error.starts_with("writing a profile in /"), "{error}");
    assert_eq!((kept.files(), kept.paths().len()), (1, 1));
    assert_eq!(kept.read("web", DAY, DAY + MINUTE, DAY + MINUTE), 1.0);
    std::fs::remove_file(project.join("api")).expect("removed");
    let parts = vec![part("web", "b", SECOND, DAY), part("api", "a", SECOND, DAY)];
    let push = Push { id: "x".to_owned(), parts };
    assert_eq!(kept.profiles.put("p", vec![push], DAY).expect("stored"), 2);
}

#[test]
fn damaged_files_are_counted() {
    let kept = Kept::new(1 << 30);
    kept.put(vec![part("web", "a", SECOND, DAY), part("web", "b", SECOND, DAY)], DAY);
    let folder = kept.folder.path().join(FOLDER).join("p/web");
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
    // Exists, but cannot be read.
    let path = kept.paths().remove(0);
    std::fs::remove_file(&path).expect("removed");
    std::os::unix::fs::symlink(&path, &path).expect("made");
    kept.tidy(DAY + HOUR);
    // Not replaced by an empty block.
    assert!(path.is_symlink() && kept.files() == 1);
    std::fs::remove_file(&path).expect("removed");
    // The folder is not mounted: its files are not gone.
    let folder = kept.folder.path().join(FOLDER);
    let elsewhere = kept.folder.path().join("elsewhere");
    std::fs::rename(&folder, &elsewhere).expect("renamed");
    std::fs::create_dir(&folder).expect("made");
    kept.tidy(DAY + HOUR);
    assert_eq!(kept.files(), 1);
    std::fs::remove_dir(&folder).expect("removed");
    std::fs::rename(&elsewhere, &folder).expect("renamed");
    std::fs::write(&path, pprof("main", 5 * SECOND, DAY)).expect("written");
    kept.tidy(DAY + HOUR);
    assert_eq!(kept.read("web", DAY, DAY + HOUR, DAY + HOUR), 5.0);
}
