//! Windows waiting for a backend: on disk if there is a folder, else in memory.
//!
//! Oldest first, with a maximum size: beyond it the oldest are dropped, and counted. Files are written under a
//! temporary name and renamed, so that they are complete or absent. A damaged file is detected by its checksum,
//! removed and counted. Nothing is synced to disk: that would delay each window, to guard against power failures
//! that the checksum detects anyway.

mod stored;

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    error::FolderError,
    lock::FolderLock,
    window::{Window, unix_ns},
};

/// For the fuzz target.
pub(crate) fn fuzz(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), stored::with_head(bytes)] {
        if let Ok(window) = stored::decode(&bytes) {
            assert_eq!(stored::decode(&stored::encode(&window)).as_ref(), Ok(&window));
        }
    }
}

const SUFFIX: &str = "window";
/// Prefix of an incomplete file.
const PART_PREFIX: &str = ".part-";
/// Maximum names to try for a window: another with the same start may exist.
const NAMES_MAX: u64 = 1_000;

/// Waiting windows and losses.
#[derive(Debug)]
pub(crate) struct Spool {
    folder: Option<Folder>,
    bytes_max: u64,
    memory_windows_max: usize,
    entries: VecDeque<Waiting>,
    bytes: u64,
    next_number: u64,
    /// The window being sent. It is not dropped, since it may have arrived.
    in_flight: Option<u64>,
    is_closed: bool,
    /// Windows left by an earlier process.
    pub(crate) restored: u64,
    pub(crate) losses: Losses,
    /// Last disk error.
    pub(crate) trouble: Option<String>,
}

/// Windows that will never be sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// Over the size limit, or not writable to disk.
    pub(crate) dropped: u64,
    /// The file was damaged.
    pub(crate) damaged: u64,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    _lock: FolderLock,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    bytes: u64,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Memory(Arc<Window>),
    Disk(PathBuf),
}

impl Spool {
    /// Opens a spool with the windows left in the folder by an earlier process.
    pub(crate) fn open(
        folder: Option<&Path>,
        bytes_max: u64,
        memory_windows_max: usize,
    ) -> Result<Self, FolderError> {
        let mut spool = Self {
            folder: None,
            bytes_max,
            memory_windows_max,
            entries: VecDeque::new(),
            bytes: 0,
            next_number: 0,
            in_flight: None,
            is_closed: false,
            restored: 0,
            losses: Losses::default(),
            trouble: None,
        };
        if let Some(path) = folder {
            fs::create_dir_all(path).map_err(FolderError::of("creating the folder", path))?;
            spool.folder = Some(Folder { path: path.to_owned(), _lock: FolderLock::take(path)? });
            for (path, bytes) in left(path).map_err(FolderError::of("reading", path))? {
                spool.enter(bytes, Place::Disk(path));
            }
            spool.restored = spool.len();
            spool.limit();
        }
        Ok(spool)
    }

    /// Whether windows are on disk.
    pub(crate) fn has_folder(&self) -> bool {
        self.folder.is_some()
    }

    pub(crate) fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a window.
    pub(crate) fn push(&mut self, window: Arc<Window>) {
        let bytes = window.bytes();
        self.enter(bytes, Place::Memory(window));
        self.limit();
        if self.folder.is_some() && self.in_memory() > self.memory_windows_max {
            self.spill();
        }
    }

    /// Drops the oldest until the rest fits.
    pub(crate) fn limit(&mut self) {
        while self.bytes > self.bytes_max {
            let in_flight = self.in_flight;
            let oldest = self.entries.iter().position(|entry| Some(entry.number) != in_flight);
            let Some(oldest) = oldest else { break };
            self.remove(oldest);
            self.losses.dropped += 1;
        }
    }

    /// The oldest window, which counts as in flight from now on.
    pub(crate) fn front(&mut self) -> Option<(u64, Arc<Window>)> {
        loop {
            let entry = self.entries.front()?;
            let window = match &entry.place {
                Place::Memory(window) => Ok(Arc::clone(window)),
                Place::Disk(path) => read(path).map(Arc::new),
            };
            match window {
                Ok(window) => {
                    self.in_flight = Some(entry.number);
                    return Some((entry.number, window));
                }
                Err(reason) => {
                    self.trouble = Some(reason);
                    self.losses.damaged += 1;
                    self.remove(0);
                }
            }
        }
    }

    /// Removes a window that was pushed or rejected. Returns whether it was still there. After the end its file
    /// may belong to another process, and stays.
    pub(crate) fn done(&mut self, number: u64) -> bool {
        self.in_flight = None;
        let place = self.entries.iter().position(|entry| entry.number == number);
        let Some(place) = place.filter(|_| !self.is_closed) else { return false };
        self.remove(place);
        true
    }

    /// Returns the window in flight to the queue.
    pub(crate) fn release(&mut self) {
        self.in_flight = None;
        self.limit();
    }

    /// Writes windows in memory to disk. If that fails, a few stay in memory.
    pub(crate) fn spill(&mut self) {
        let Some(folder) = self.folder.as_ref().map(|folder| folder.path.clone()) else { return };
        for entry in &mut self.entries {
            let Place::Memory(window) = &entry.place else { continue };
            match write(&folder, window, entry.number) {
                Ok((path, bytes)) => {
                    self.bytes = self.bytes - entry.bytes + bytes;
                    (entry.bytes, entry.place) = (bytes, Place::Disk(path));
                }
                Err(error) => {
                    let error = FolderError::of("writing a window to", &folder)(error);
                    self.trouble = Some(error.to_string());
                    break;
                }
            }
        }
        self.limit();
        while self.in_memory() > self.memory_windows_max {
            let is_droppable = |entry: &Waiting| {
                matches!(entry.place, Place::Memory(_)) && Some(entry.number) != self.in_flight
            };
            let Some(oldest) = self.entries.iter().position(is_droppable) else { break };
            self.remove(oldest);
            self.losses.dropped += 1;
        }
    }

    /// Closes the spool: windows that cannot be written to disk are lost.
    pub(crate) fn close(&mut self) {
        if self.is_closed {
            return;
        }
        self.in_flight = None;
        self.spill();
        while let Some(place) =
            self.entries.iter().position(|entry| matches!(entry.place, Place::Memory(_)))
        {
            self.remove(place);
            self.losses.dropped += 1;
        }
        // Another process may use the folder now.
        self.folder = None;
        self.is_closed = true;
    }

    fn in_memory(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.place, Place::Memory(_))).count()
    }

    fn enter(&mut self, bytes: u64, place: Place) {
        let number = self.next_number;
        self.next_number += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.entries.push_back(Waiting { number, bytes, place });
    }

    fn remove(&mut self, place: usize) {
        let Some(entry) = self.entries.remove(place) else { return };
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        if let Place::Disk(path) = entry.place
            && let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            self.trouble = Some(FolderError::of("removing", &path)(error).to_string());
        }
    }
}

/// The files of an earlier process, oldest first, with their sizes in bytes. Removes incomplete files.
fn left(folder: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with(PART_PREFIX) {
            // A file that cannot be removed only takes space.
            drop(fs::remove_file(&path));
        } else if path.extension().is_some_and(|suffix| suffix == SUFFIX) {
            let metadata = entry.metadata()?;
            if metadata.is_file() {
                found.push((path, metadata.len()));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn read(path: &Path) -> Result<Window, String> {
    let mut bytes = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(stored::FILE_BYTES_MAX).read_to_end(&mut bytes));
    read.map_err(|error| FolderError::of("reading", path)(error).to_string())?;
    stored::decode(&bytes).map_err(|reason| {
        format!("the window in {} was damaged and is lost: {reason}", path.display())
    })
}

/// Names sort by start, then by order of writing.
fn write(folder: &Path, window: &Window, number: u64) -> io::Result<(PathBuf, u64)> {
    let bytes = stored::encode(window);
    let mut part = tempfile::Builder::new().prefix(PART_PREFIX).tempfile_in(folder)?;
    part.write_all(&bytes)?;
    let start_ns = unix_ns(window.start).max(0);
    for number in number..number.saturating_add(NAMES_MAX) {
        let path = folder.join(format!("{start_ns:020}-{number:08}.{SUFFIX}"));
        part = match part.persist_noclobber(&path) {
            Ok(_) => return Ok((path, bytes.len() as u64)),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => error.file,
            Err(error) => return Err(error.error),
        };
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests;
