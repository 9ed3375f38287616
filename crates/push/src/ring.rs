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

mod list;
mod names;

use std::{
    collections::VecDeque,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

pub use self::list::{Entry, Listing};
use crate::{error::FolderError, lock::FolderLock, window::Window};

/// For the fuzz target: files named in labels are in the folder of their window.
pub(crate) fn fuzz(folder: &Path, labels: &[u8]) {
    if let Some((start, duration)) = names::span(folder) {
        assert!(start.checked_add(duration).is_some() || duration > Duration::from_secs(1 << 40));
        assert!(!names::is_half(folder));
    }
    for entry in list::fuzz(Path::new("/window"), labels) {
        assert_eq!(entry.path.parent(), Some(Path::new("/window")));
    }
}

/// Maximum windows with the same start second and length; more are an error.
const SAME_NAME_MAX: u32 = 1_000;

/// A folder that stores windows for a time, and up to a size.
#[derive(Debug)]
pub struct Ring {
    folder: PathBuf,
    keep_for: Duration,
    keep_bytes: u64,
    /// In order of writing.
    windows: VecDeque<Kept>,
    time: OwnTime,
    bytes: u64,
    removed: u64,
    _lock: FolderLock,
}

#[derive(Debug)]
struct Kept {
    /// End of the window, in the ring's own time.
    end: SystemTime,
    bytes: u64,
    path: PathBuf,
}

/// Maximum clock advance beyond the elapsed time. More means that the clock was set, or the machine was off.
const CLOCK_AHEAD_MAX: Duration = Duration::from_secs(60);

/// Clock for the age of windows: a clock that jumps in either direction must not remove windows.
#[derive(Debug)]
struct OwnTime {
    /// End of the newest window, by the system clock and by this one.
    newest: Option<(SystemTime, SystemTime)>,
    at: Instant,
}

impl OwnTime {
    /// Converts a window's end from the system clock.
    fn of(&self, end: SystemTime) -> SystemTime {
        let Some((by_clock, own)) = self.newest else { return end };
        let step = end.duration_since(by_clock).unwrap_or_default();
        own.checked_add(step.min(self.at.elapsed() + CLOCK_AHEAD_MAX)).unwrap_or(own)
    }
}

impl Ring {
    /// Opens a folder with the windows of an earlier process. Removes leftovers of a crash.
    ///
    /// `keep_for` counts back from the end of the newest window, and both limits apply from the next [`Ring::add`]
    /// on. Time without recording does not count, nor does time skipped by the clock.
    pub fn open(folder: &Path, keep_for: Duration, keep_bytes: u64) -> Result<Self, FolderError> {
        fs::create_dir_all(folder).map_err(FolderError::of("creating the folder", folder))?;
        let lock = FolderLock::take(folder)?;
        let mut windows = Vec::new();
        for entry in fs::read_dir(folder).map_err(FolderError::of("reading", folder))? {
            let path = entry.map_err(FolderError::of("reading", folder))?.path();
            // Windows are folders; other files are left alone.
            if !path.is_dir() {
                continue;
            }
            if names::is_half(&path) {
                fs::remove_dir_all(&path).map_err(FolderError::of("removing", &path))?;
            } else if let Some((start, duration)) = names::span(&path) {
                let bytes = folder_bytes(&path).map_err(FolderError::of("reading", &path))?;
                let end = start.checked_add(duration).unwrap_or(start);
                windows.push((Kept { end, bytes, path }, duration));
            }
        }
        // A window that ends in the future was written when the clock was ahead: earlier, at an unknown time.
        let now = SystemTime::now() + CLOCK_AHEAD_MAX;
        let by_age = |(window, _): &(Kept, Duration)| (window.end <= now, window.end);
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
        let windows: VecDeque<Kept> = windows.into_iter().map(|(window, _)| window).collect();
        let newest = windows.back().map(|window| (window.end, window.end));
        let time = OwnTime { newest, at: Instant::now() };
        let bytes = windows.iter().map(|window| window.bytes).sum();
        let folder = folder.to_owned();
        Ok(Self { folder, keep_for, keep_bytes, windows, time, bytes, removed: 0, _lock: lock })
    }

    /// Stores a window, after removing the oldest to make room. An empty one is not stored.
    ///
    /// On an error, such as a full disk, nothing of the window remains. The others stay, except those removed to
    /// make room.
    pub fn add(&mut self, window: &Window) -> Result<(), FolderError> {
        if window.series.is_empty() {
            return Ok(());
        }
        let files = names::files(window);
        let bytes = files.iter().map(|(_, contents)| contents.len() as u64).sum();
        if bytes > self.keep_bytes {
            let (path, bytes_max) = (self.folder.display().to_string(), self.keep_bytes);
            return Err(FolderError::TooLarge { path, bytes, bytes_max });
        }
        let end = self.time.of(window.end());
        self.make_room(bytes, end)?;
        let path = self.write(window, &files)?;
        self.windows.push_back(Kept { end, bytes, path });
        self.time = OwnTime { newest: Some((window.end(), end)), at: Instant::now() };
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Lists the folder's entries of windows that overlap the time range, oldest first. Needs no [`Ring`], and
    /// works while one writes there.
    pub fn list(
        folder: &Path,
        since: SystemTime,
        until: SystemTime,
    ) -> Result<Listing, FolderError> {
        list::list(folder, since, until)
    }

    /// Start of the oldest window in the folder and end of the newest, from their names, with a resolution of one
    /// second.
    pub fn range(folder: &Path) -> Result<Option<(SystemTime, SystemTime)>, FolderError> {
        list::range(folder)
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

    fn make_room(&mut self, bytes: u64, end: SystemTime) -> Result<(), FolderError> {
        let too_old = end.checked_sub(self.keep_for);
        while let Some(oldest) = self.windows.front() {
            let is_old = too_old.is_some_and(|limit| oldest.end < limit);
            if !is_old && self.bytes.saturating_add(bytes) <= self.keep_bytes {
                break;
            }
            // Renamed first, so that it is not listed while its files are removed.
            let half = names::half(&oldest.path);
            let gone = fs::rename(&oldest.path, &half).and_then(|()| fs::remove_dir_all(&half));
            match gone {
                // Another process has removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                gone => gone.map_err(FolderError::of("removing", &oldest.path))?,
            }
            self.bytes = self.bytes.saturating_sub(oldest.bytes);
            self.removed += 1;
            self.windows.pop_front();
        }
        Ok(())
    }

    fn write(&self, window: &Window, files: &[(String, Vec<u8>)]) -> Result<PathBuf, FolderError> {
        let part = tempfile::Builder::new()
            .prefix(names::HALF_PREFIX)
            .permissions(folder_rights())
            .tempdir_in(&self.folder)
            .map_err(FolderError::of("writing a window to", &self.folder))?;
        for (name, contents) in files {
            let path = part.path().join(name);
            fs::write(&path, contents)
                .map_err(FolderError::of("writing a window to", &self.folder))?;
        }
        for attempt in 0..SAME_NAME_MAX {
            let path = self.folder.join(names::folder(window, attempt));
            // A rename replaces only an empty folder, and ours are not empty.
            match fs::rename(part.path(), &path) {
                Ok(()) => {
                    // It has been renamed, so there is nothing to remove.
                    let _ = part.keep();
                    return Ok(path);
                }
                Err(error) if is_taken(&error) => {}
                Err(error) => {
                    return Err(FolderError::of("naming a window in", &self.folder)(error));
                }
            }
        }
        let error = io::ErrorKind::AlreadyExists.into();
        Err(FolderError::of("naming a window in", &self.folder)(error))
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

/// Usual permissions of a new folder: any user who can enter the ring may read its files.
fn folder_rights() -> fs::Permissions {
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
