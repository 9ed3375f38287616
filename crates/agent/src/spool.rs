//! Windows waiting for a backend: on disk if there is a folder, else in memory.
//!
//! Oldest first, with a maximum size: beyond it the oldest are dropped, and counted. Files are written under a
//! temporary name and renamed, so that they are complete or absent. A damaged file is detected by its checksum,
//! removed and counted. Nothing is synced to disk: that would delay each window, to guard against power failures
//! that the checksum detects anyway.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use flate2::Crc;
use prost::Message;

use crate::{
    folder::{FolderLock, failed},
    window::{Kind, Series, Window, time_of, unix_ns},
};

const SUFFIX: &str = "window";
/// Prefix of an incomplete file.
const PART_PREFIX: &str = ".part-";
/// Maximum names to try for a window: another with the same start may exist.
const NAMES_MAX: u64 = 1_000;

/// Magic number of a file: then a checksum, and a message follow.
const MARK: &[u8; 8] = b"wbwindo1";
const HEAD_BYTES: usize = MARK.len() + 4;

/// Largest file to read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 30;

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
    pub(crate) last_error: Option<String>,
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
    location: Location,
}

#[derive(Debug)]
enum Location {
    Memory(Arc<Window>),
    Disk(PathBuf),
}

#[derive(Clone, PartialEq, Message)]
struct StoredWindow {
    #[prost(sfixed64, tag = "1")]
    start_unix_ns: i64,
    #[prost(uint64, tag = "2")]
    duration_ns: u64,
    #[prost(message, repeated, tag = "3")]
    series: Vec<StoredSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct StoredSeries {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(btree_map = "string, string", tag = "2")]
    labels: BTreeMap<String, String>,
    #[prost(bytes = "vec", tag = "3")]
    pprof: Vec<u8>,
}

impl Spool {
    /// Opens a spool with the windows left in the folder by an earlier process.
    pub(crate) fn open(
        folder: Option<&Path>,
        bytes_max: u64,
        memory_windows_max: usize,
    ) -> anyhow::Result<Self> {
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
            last_error: None,
        };
        if let Some(path) = folder {
            fs::create_dir_all(path).map_err(failed("creating the folder", path))?;
            spool.folder = Some(Folder { path: path.to_owned(), _lock: FolderLock::take(path)? });
            for (path, bytes) in leftovers(path).map_err(failed("reading", path))? {
                spool.enter(bytes, Location::Disk(path));
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
        self.enter(bytes, Location::Memory(window));
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
            let window = match &entry.location {
                Location::Memory(window) => Ok(Arc::clone(window)),
                Location::Disk(path) => read(path).map(Arc::new),
            };
            match window {
                Ok(window) => {
                    self.in_flight = Some(entry.number);
                    return Some((entry.number, window));
                }
                Err(reason) => {
                    self.last_error = Some(reason);
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
        let index = self.entries.iter().position(|entry| entry.number == number);
        let Some(index) = index.filter(|_| !self.is_closed) else { return false };
        self.remove(index);
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
            let Location::Memory(window) = &entry.location else { continue };
            match write(&folder, window, entry.number) {
                Ok((path, bytes)) => {
                    self.bytes = self.bytes - entry.bytes + bytes;
                    (entry.bytes, entry.location) = (bytes, Location::Disk(path));
                }
                Err(error) => {
                    let error = failed("writing a window to", &folder)(error);
                    self.last_error = Some(error.to_string());
                    break;
                }
            }
        }
        self.limit();
        while self.in_memory() > self.memory_windows_max {
            let is_droppable = |entry: &Waiting| {
                matches!(entry.location, Location::Memory(_))
                    && Some(entry.number) != self.in_flight
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
        while let Some(index) =
            self.entries.iter().position(|entry| matches!(entry.location, Location::Memory(_)))
        {
            self.remove(index);
            self.losses.dropped += 1;
        }
        // Another process may use the folder now.
        self.folder = None;
        self.is_closed = true;
    }

    fn in_memory(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.location, Location::Memory(_))).count()
    }

    fn enter(&mut self, bytes: u64, location: Location) {
        let number = self.next_number;
        self.next_number += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.entries.push_back(Waiting { number, bytes, location });
    }

    fn remove(&mut self, index: usize) {
        let Some(entry) = self.entries.remove(index) else { return };
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        if let Location::Disk(path) = entry.location
            && let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            self.last_error = Some(failed("removing", &path)(error).to_string());
        }
    }
}

/// The files of an earlier process, oldest first, with their sizes in bytes. Removes incomplete files.
fn leftovers(folder: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
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
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    read.map_err(|error| failed("reading", path)(error).to_string())?;
    decode(&bytes).map_err(|reason| {
        format!("the window in {} was damaged and is lost: {reason}", path.display())
    })
}

/// Names sort by start, then by order of writing.
fn write(folder: &Path, window: &Window, number: u64) -> io::Result<(PathBuf, u64)> {
    let bytes = encode(window);
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

/// Serializes a window as a spool file.
fn encode(window: &Window) -> Vec<u8> {
    let stored = |series: &Series| StoredSeries {
        kind: series.kind.name().to_owned(),
        labels: series.labels.clone(),
        pprof: series.pprof.clone(),
    };
    let message = StoredWindow {
        start_unix_ns: unix_ns(window.start),
        duration_ns: u64::try_from(window.duration.as_nanos()).unwrap_or(u64::MAX),
        series: window.series.iter().map(stored).collect(),
    };
    with_head(&message.encode_to_vec())
}

/// Prepends magic number and checksum to a message.
fn with_head(message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + message.len());
    bytes.extend_from_slice(MARK);
    bytes.extend_from_slice(&checksum(message).to_le_bytes());
    bytes.extend_from_slice(message);
    bytes
}

/// Parses a spool file, or returns what is wrong with it.
fn decode(bytes: &[u8]) -> Result<Window, &'static str> {
    let rest = bytes.strip_prefix(MARK).ok_or("its magic number is wrong")?;
    let (expected, message) = rest.split_first_chunk().ok_or("it is truncated")?;
    if u32::from_le_bytes(*expected) != checksum(message) {
        return Err("its checksum is wrong");
    }
    let stored = StoredWindow::decode(message).map_err(|_| "it cannot be decoded")?;
    let mut series = Vec::with_capacity(stored.series.len());
    for StoredSeries { kind, labels, pprof } in stored.series {
        let kind = Kind::of_name(&kind).ok_or("it has an unknown kind of profile")?;
        series.push(Series { kind, labels, pprof });
    }
    Ok(Window {
        start: time_of(stored.start_unix_ns),
        duration: Duration::from_nanos(stored.duration_ns),
        series,
    })
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// For the fuzz target.
pub(crate) fn fuzz(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), with_head(bytes)] {
        if let Ok(window) = decode(&bytes) {
            assert_eq!(decode(&encode(&window)).as_ref(), Ok(&window));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

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
            assert_eq!(spool.last_error, None);
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
    fn a_restart_finds_the_files() {
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
        let mut spool =
            Spool::open(Some(folder.path()), 2 * WINDOW_BYTES + 500, 0).expect("a spool");
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
        assert!(
            spool.last_error.clone().expect("a reason").contains(&names[3]),
            "{:?}",
            spool.last_error
        );
        assert!(files(folder.path()).is_empty());
    }

    #[test]
    fn windows_in_flight_are_not_dropped() {
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
    fn without_a_disk_a_few_stay_in_memory() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("gone");
        let mut spool = Spool::open(Some(&path), u64::MAX, 2).expect("a spool");
        fs::remove_dir_all(&path).expect("removed");
        (0..5).for_each(|second| spool.push(window(second)));
        assert_eq!(spool.losses.dropped, 3);
        let last_error = spool.last_error.clone().expect("a reason");
        assert!(last_error.starts_with("writing a window to "), "{last_error}");
        assert_eq!(drained(&mut spool), [3, 4]);
        spool.push(window(5));
        spool.close();
        assert_eq!(spool.losses.dropped, 4);
    }

    fn window_of_all_kinds() -> Window {
        let labels = BTreeMap::from([("service_name".to_owned(), "web".to_owned())]);
        let series =
            Kind::ALL.map(|kind| Series { kind, labels: labels.clone(), pprof: vec![1, 2] });
        let start = UNIX_EPOCH + Duration::from_nanos(1_795_820_400_000_000_001);
        Window { start, duration: Duration::from_millis(15_001), series: series.into() }
    }

    #[test]
    fn windows_return() {
        assert_eq!(decode(&encode(&window_of_all_kinds())), Ok(window_of_all_kinds()));
    }

    #[test]
    fn any_damage_is_noticed() {
        let whole = encode(&window_of_all_kinds());
        for length in 0..whole.len() {
            assert!(decode(&whole[..length]).is_err(), "{length} bytes");
        }
        for index in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[index] ^= 0x10;
            assert!(decode(&damaged).is_err(), "byte {index}");
        }
    }
}
