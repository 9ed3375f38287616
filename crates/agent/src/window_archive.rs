//! Windows of the last hours as files, with the oldest removed: `pprof` and `wingbeat` read them without a server.
//!
//! ```text
//! DIR/20261127T230000Z-15s/process_cpu-nginx-0.pb.gz
//!                          off_cpu-nginx-1.pb.gz
//!                          labels.json
//! ```
//!
//! A window is written under a temporary name and renamed, and is renamed again before its removal, so that
//! listing the folder shows it completely or not at all. Nothing is synced to disk; after a power failure the
//! checksum in each gzip file detects damage.

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use anyhow::bail;
use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, PrimitiveDateTime, format_description::StaticFormatDescription};

use crate::{
    folder::{FolderLock, failed},
    window::{Kind, Window, time_of, unix_ns},
};

/// Maximum windows with the same start second and length; more are an error.
const SAME_NAME_MAX: u32 = 1_000;

/// The file with the metadata of the others.
const LABELS: &str = "labels.json";

/// Largest [`LABELS`] to read, in bytes.
const LABELS_BYTES_MAX: u64 = 64 << 20;

/// Prefix of a window while it is incomplete or being removed.
const PARTIAL_PREFIX: &str = ".partial-";

/// Start of a window in its folder's name.
const START: StaticFormatDescription =
    time::macros::format_description!("[year][month][day]T[hour][minute][second]Z");

/// Maximum characters of a service's name in a file name.
const SERVICE_CHARS_MAX: usize = 60;

/// A folder that stores windows for a time, and up to a size.
#[derive(Debug)]
pub struct WindowArchive {
    folder: PathBuf,
    keep_for: Duration,
    keep_bytes: u64,
    /// In order of writing.
    windows: VecDeque<KeptWindow>,
    time: ArchiveClock,
    bytes: u64,
    removed: u64,
    _lock: FolderLock,
}

#[derive(Debug)]
struct KeptWindow {
    /// End of the window, in the archive's own time.
    end: SystemTime,
    bytes: u64,
    path: PathBuf,
}

/// A file of an archive, with its metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// A profile in pprof's format, gzip'd. The archive may remove it at any time.
    pub path: PathBuf,
    pub start: SystemTime,
    pub duration: Duration,
    pub kind: Kind,
    pub labels: BTreeMap<String, String>,
}

/// Entries of an archive in a time range.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Oldest first.
    pub entries: Vec<Entry>,
    /// Windows with an invalid `labels.json`.
    pub damaged: Vec<PathBuf>,
}

/// Contents of `labels.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Labels {
    /// 1.
    format: u32,
    start_unix_ns: i64,
    duration_ns: u64,
    series: Vec<LabelsOfFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LabelsOfFile {
    file: String,
    kind: String,
    labels: BTreeMap<String, String>,
}

impl Labels {
    fn start(&self) -> SystemTime {
        time_of(self.start_unix_ns)
    }

    fn duration(&self) -> Duration {
        Duration::from_nanos(self.duration_ns)
    }
}

/// Maximum clock advance beyond the elapsed time. More means that the clock was set, or the machine was off.
const CLOCK_AHEAD_MAX: Duration = Duration::from_secs(60);

/// Clock for the age of windows: a clock that jumps in either direction must not remove windows.
#[derive(Debug)]
struct ArchiveClock {
    /// End of the newest window, by the system clock and by this one.
    newest: Option<(SystemTime, SystemTime)>,
    at: Instant,
}

impl ArchiveClock {
    /// Converts a window's end from the system clock.
    fn of(&self, end: SystemTime) -> SystemTime {
        let Some((by_clock, own)) = self.newest else { return end };
        let step = end.duration_since(by_clock).unwrap_or_default();
        own.checked_add(step.min(self.at.elapsed() + CLOCK_AHEAD_MAX)).unwrap_or(own)
    }
}

impl WindowArchive {
    /// Opens a folder with the windows of an earlier process. Removes leftovers of a crash.
    ///
    /// `keep_for` counts back from the end of the newest window, and both limits apply from the next [`WindowArchive::add`]
    /// on. Time without recording does not count, nor does time skipped by the clock.
    pub fn open(folder: &Path, keep_for: Duration, keep_bytes: u64) -> anyhow::Result<Self> {
        fs::create_dir_all(folder).map_err(failed("creating the folder", folder))?;
        let lock = FolderLock::take(folder)?;
        let mut windows = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed("reading", folder))? {
            let path = entry.map_err(failed("reading", folder))?.path();
            // Windows are folders; other files are left alone.
            if !path.is_dir() {
                continue;
            }
            if is_partial(&path) {
                fs::remove_dir_all(&path).map_err(failed("removing", &path))?;
            } else if let Some((start, duration)) = span(&path) {
                let bytes = folder_bytes(&path).map_err(failed("reading", &path))?;
                let end = start.checked_add(duration).unwrap_or(start);
                windows.push((KeptWindow { end, bytes, path }, duration));
            }
        }
        // A window that ends in the future was written when the clock was ahead: earlier, at an unknown time.
        let now = SystemTime::now() + CLOCK_AHEAD_MAX;
        let by_age = |(window, _): &(KeptWindow, Duration)| (window.end <= now, window.end);
        windows.sort_by(|a, b| (by_age(a), &a.0.path).cmp(&(by_age(b), &b.0.path)));
        let mut next: Option<(SystemTime, SystemTime, Duration)> = None;
        for (window, length) in windows.iter_mut().rev() {
            let end = window.end;
            window.end = next.map_or(end.min(now), |(next_end, own, length)| {
                let step = next_end.duration_since(end).unwrap_or_default();
                own.checked_sub(step.min(length.saturating_add(CLOCK_AHEAD_MAX))).unwrap_or(own)
            });
            next = Some((end, window.end, *length));
        }
        let windows: VecDeque<KeptWindow> = windows.into_iter().map(|(window, _)| window).collect();
        let newest = windows.back().map(|window| (window.end, window.end));
        let time = ArchiveClock { newest, at: Instant::now() };
        let bytes = windows.iter().map(|window| window.bytes).sum();
        let folder = folder.to_owned();
        Ok(Self { folder, keep_for, keep_bytes, windows, time, bytes, removed: 0, _lock: lock })
    }

    /// Stores a window, after removing the oldest to make room. An empty one is not stored.
    ///
    /// On an error, such as a full disk, nothing of the window remains. The others stay, except those removed to
    /// make room.
    pub fn add(&mut self, window: &Window) -> anyhow::Result<()> {
        if window.series.is_empty() {
            return Ok(());
        }
        let files = files(window);
        let bytes = files.iter().map(|(_, contents)| contents.len() as u64).sum();
        if bytes > self.keep_bytes {
            bail!(
                "a window of {} exceeds the limit of {}, {}; raise that limit",
                wingbeat_text::bytes(bytes),
                self.folder.display(),
                wingbeat_text::bytes(self.keep_bytes)
            );
        }
        let end = self.time.of(window.end());
        self.make_room(bytes, end)?;
        let path = self.write(window, &files)?;
        self.windows.push_back(KeptWindow { end, bytes, path });
        self.time = ArchiveClock { newest: Some((window.end(), end)), at: Instant::now() };
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Lists the folder's entries of windows that overlap the time range, oldest first. Needs no [`WindowArchive`], and
    /// works while one writes there.
    pub fn list(folder: &Path, since: SystemTime, until: SystemTime) -> anyhow::Result<Listing> {
        let mut found = windows(folder)?;
        found.retain(|(start, duration, _)| {
            // The name has a resolution of one second.
            let end = start.checked_add(duration.saturating_add(Duration::from_secs(2)));
            *start < until && end.is_none_or(|end| end > since)
        });
        found.sort();
        let mut listing = Listing::default();
        for (.., path) in found {
            let labels = match labels(&path) {
                Ok(Some(labels)) => labels,
                // The archive has just removed it.
                Ok(None) => continue,
                Err(()) => {
                    listing.damaged.push(path);
                    continue;
                }
            };
            let (start, duration) = (labels.start(), labels.duration());
            let end = start.checked_add(duration).unwrap_or(start);
            if start >= until || end <= since {
                continue;
            }
            match entries(&path, labels) {
                Some(entries) => listing.entries.extend(entries),
                None => listing.damaged.push(path),
            }
        }
        listing.entries.sort_by_key(|entry| entry.start);
        Ok(listing)
    }

    /// Start of the oldest window in the folder and end of the newest, from their names, with a resolution of one
    /// second.
    pub fn range(folder: &Path) -> anyhow::Result<Option<(SystemTime, SystemTime)>> {
        let windows = windows(folder)?;
        let oldest = windows.iter().map(|(start, ..)| *start).min();
        let end = |start: SystemTime, duration| start.checked_add(duration).unwrap_or(start);
        let newest = windows.iter().map(|(start, duration, _)| end(*start, *duration)).max();
        Ok(oldest.zip(newest))
    }

    /// Stored bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of stored windows.
    #[must_use]
    pub fn windows(&self) -> usize {
        self.windows.len()
    }

    /// Number of windows removed because of their age or for room since it was opened.
    #[must_use]
    pub fn removed(&self) -> u64 {
        self.removed
    }

    fn make_room(&mut self, bytes: u64, end: SystemTime) -> anyhow::Result<()> {
        let too_old = end.checked_sub(self.keep_for);
        while let Some(oldest) = self.windows.front() {
            let is_old = too_old.is_some_and(|limit| oldest.end < limit);
            if !is_old && self.bytes.saturating_add(bytes) <= self.keep_bytes {
                break;
            }
            // Renamed first, so that it is not listed while its files are removed.
            let partial = partial(&oldest.path);
            let gone =
                fs::rename(&oldest.path, &partial).and_then(|()| fs::remove_dir_all(&partial));
            match gone {
                // Another process has removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                gone => gone.map_err(failed("removing", &oldest.path))?,
            }
            self.bytes = self.bytes.saturating_sub(oldest.bytes);
            self.removed += 1;
            self.windows.pop_front();
        }
        Ok(())
    }

    fn write(&self, window: &Window, files: &[(String, Vec<u8>)]) -> anyhow::Result<PathBuf> {
        let partial = tempfile::Builder::new()
            .prefix(PARTIAL_PREFIX)
            .permissions(folder_permissions())
            .tempdir_in(&self.folder)
            .map_err(failed("writing a window to", &self.folder))?;
        for (name, contents) in files {
            let path = partial.path().join(name);
            fs::write(&path, contents).map_err(failed("writing a window to", &self.folder))?;
        }
        for attempt in 0..SAME_NAME_MAX {
            let path = self.folder.join(folder(window, attempt));
            // A rename replaces only an empty folder, and ours are not empty.
            match fs::rename(partial.path(), &path) {
                Ok(()) => {
                    // It has been renamed, so there is nothing to remove.
                    let _ = partial.keep();
                    return Ok(path);
                }
                Err(error) if is_taken(&error) => {}
                Err(error) => {
                    return Err(failed("naming a window in", &self.folder)(error));
                }
            }
        }
        let error = io::ErrorKind::AlreadyExists.into();
        Err(failed("naming a window in", &self.folder)(error))
    }
}

fn is_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AlreadyExists
            | io::ErrorKind::DirectoryNotEmpty
            | io::ErrorKind::NotADirectory
    )
}

/// Usual permissions of a new folder: any user who can enter the archive may read its files.
fn folder_permissions() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    fs::Permissions::from_mode(0o777)
}

/// Total size of the files in a folder, in bytes.
fn folder_bytes(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// The windows in a folder: their spans by their names, and their paths.
fn windows(folder: &Path) -> anyhow::Result<Vec<(SystemTime, Duration, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed("reading", folder))? {
        let path = entry.map_err(failed("reading", folder))?.path();
        found.extend(span(&path).map(|(start, duration)| (start, duration, path)));
    }
    Ok(found)
}

/// `None` if the window has been removed.
fn labels(window: &Path) -> Result<Option<Labels>, ()> {
    let mut bytes = Vec::new();
    let read = fs::File::open(window.join(LABELS))
        .and_then(|file| file.take(LABELS_BYTES_MAX).read_to_end(&mut bytes));
    match read {
        Ok(_) => serde_json::from_slice(&bytes).map(Some).map_err(|_| ()),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !window.exists() => Ok(None),
        Err(_) => Err(()),
    }
}

fn entries(window: &Path, labels: Labels) -> Option<Vec<Entry>> {
    let (start, duration) = (labels.start(), labels.duration());
    let entry = |of: LabelsOfFile| {
        // A path to another folder is not an entry of the archive.
        let is_plain = Path::new(&of.file).file_name().is_some_and(|name| name == of.file.as_str());
        let kind = Kind::of_name(&of.kind).filter(|_| is_plain)?;
        Some(Entry { path: window.join(of.file), start, duration, kind, labels: of.labels })
    };
    labels.series.into_iter().map(entry).collect()
}

/// The files of a window, `labels.json` last.
fn files(window: &Window) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::with_capacity(window.series.len() + 1);
    let mut series = Vec::with_capacity(window.series.len());
    for (number, it) in window.series.iter().enumerate() {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._".contains(c) { c } else { '-' };
        let service: String = it.service().chars().take(SERVICE_CHARS_MAX).map(plain).collect();
        let (kind, labels) = (it.kind.name(), it.labels.clone());
        let file = format!("{kind}-{service}-{number}.pb.gz");
        files.push((file.clone(), it.pprof.clone()));
        series.push(LabelsOfFile { file, kind: kind.to_owned(), labels });
    }
    let labels = Labels {
        format: 1,
        start_unix_ns: unix_ns(window.start),
        duration_ns: u64::try_from(window.duration.as_nanos()).unwrap_or(u64::MAX),
        series,
    };
    // Cannot fail: numbers, texts, and maps of texts.
    let labels = serde_json::to_vec_pretty(&labels).unwrap_or_default();
    files.push((LABELS.to_owned(), labels));
    files
}

/// Folder name of a window; another for each attempt.
fn folder(window: &Window, attempt: u32) -> String {
    let start: OffsetDateTime =
        OffsetDateTime::from_unix_timestamp_nanos(unix_ns(window.start).into())
            .unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let start = start.format(START).unwrap_or_else(|_| "19700101T000000Z".to_owned());
    let seconds = (window.duration.as_nanos() + 500_000_000) / 1_000_000_000;
    let seconds = seconds.max(1);
    match attempt {
        0 => format!("{start}-{seconds}s"),
        attempt => format!("{start}-{seconds}s.{attempt}"),
    }
}

/// Start and length of a window from its folder's name, with a resolution of one second; it may end up to two
/// seconds later.
fn span(path: &Path) -> Option<(SystemTime, Duration)> {
    let name = path.file_name()?.to_str()?;
    let (start, rest) = name.split_once('-')?;
    let start = PrimitiveDateTime::parse(start, START).ok()?.assume_utc();
    let (seconds, attempt) = rest.split_once('s')?;
    let is_attempt = |text: &str| text.parse::<u32>().is_ok();
    if !attempt.is_empty() && !attempt.strip_prefix('.').is_some_and(is_attempt) {
        return None;
    }
    Some((start.into(), Duration::from_secs(seconds.parse().ok()?)))
}

/// Whether a window is incomplete or being removed.
fn is_partial(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(PARTIAL_PREFIX.as_bytes()))
}

/// Path of a window while it is being removed.
fn partial(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{PARTIAL_PREFIX}{name}"))
}

/// For the fuzz target: the name of a window's folder, and its `labels.json`. Files named there are in that folder.
pub(crate) fn fuzz(folder: &Path, labels: &[u8]) {
    if let Some((start, duration)) = span(folder) {
        assert!(start.checked_add(duration).is_some() || duration > Duration::from_secs(1 << 40));
        assert!(!is_partial(folder));
    }
    let labels: Option<Labels> = serde_json::from_slice(labels).ok();
    let window = Path::new("/window");
    for entry in labels.and_then(|labels| entries(window, labels)).unwrap_or_default() {
        assert_eq!(entry.path.parent(), Some(window));
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn names_say_the_span() {
        let check = |start_ns, duration_ms, attempt, expected: &str| {
            let (start, duration) = (time_of(start_ns), Duration::from_millis(duration_ms));
            let window = Window { start, duration, series: Vec::new() };
            assert_eq!(folder(&window, attempt), expected);
            let (from, length) = span(Path::new(expected)).expect("a span");
            assert!(from <= start, "{expected}");
            assert!(window.end() <= from + length + Duration::from_secs(1), "{expected}");
        };
        check(1_795_820_400_000_000_000, 15_000, 0, "20261127T230000Z-15s");
        check(1_795_820_400_000_000_000, 15_001, 0, "20261127T230000Z-15s");
        check(1_795_820_400_999_999_999, 14_501, 2, "20261127T230000Z-15s.2");
        check(0, 0, 0, "19700101T000000Z-1s");
    }

    #[test]
    fn other_names_are_no_windows() {
        let check = |name: &str| assert_eq!(span(Path::new(name)), None, "{name}");
        check("20261127T230000Z");
        check("20261327T230000Z-15s");
        check("20261127T230000Z-s");
        check("20261127T230000Z-15s.x");
        check("20261127T230000Z-15sx");
        check(".partial-20261127T230000Z-15s");
        check(".lock");
        check("");
    }

    #[test]
    fn files_have_plain_names() {
        use crate::window::{Kind, Series};
        let check = |service: &str, expected: &str| {
            let labels = BTreeMap::from([("service_name".to_owned(), service.to_owned())]);
            let series = vec![Series { kind: Kind::Cpu, labels, pprof: Vec::new() }];
            let window = Window { start: UNIX_EPOCH, duration: Duration::ZERO, series };
            let files = files(&window);
            assert_eq!(files[0].0, expected);
            let labels: Labels = serde_json::from_slice(&files[1].1).expect("labels");
            assert_eq!((labels.series[0].file.as_str(), labels.format), (expected, 1));
        };
        check("nginx", "process_cpu-nginx-0.pb.gz");
        check("../../etc/ä b", "process_cpu-..-..-etc---b-0.pb.gz");
        check("", "process_cpu-unknown_service-0.pb.gz");
        check(&"x".repeat(500), &format!("process_cpu-{}-0.pb.gz", "x".repeat(60)));
    }
}
