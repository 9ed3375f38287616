//! A persistent folder of names by build id, with a file for each, written atomically.
//!
//! When it is full, the least recently used files are removed. It is only a cache: unreadable files count as missing.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File, Permissions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use flate2::Crc;
use prost::Message;

const SUFFIX: &str = ".names";
/// Prefix of incomplete files.
const PART_PREFIX: &str = ".part-";

/// Maximum size of a file to read, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A folder of names.
#[derive(Debug)]
pub(crate) struct NameStore {
    folder: PathBuf,
    bytes_max: u64,
    /// Size and last use by file name.
    files: HashMap<String, (u64, SystemTime)>,
}

impl NameStore {
    /// Opens a folder, or creates one that no other user can write to.
    pub(crate) fn open(folder: &Path, bytes_max: u64) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut files = HashMap::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.starts_with(PART_PREFIX) {
                // Left over from a crash.
                let _ = fs::remove_file(entry.path());
            } else if name.ends_with(SUFFIX)
                && let Ok(found) = entry.metadata()
            {
                let used = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                files.insert(name, (found.len(), used));
            }
        }
        let mut store = Self { folder: folder.to_owned(), bytes_max, files };
        store.make_room(0);
        Ok(store)
    }

    /// The functions of a file, if stored.
    pub(crate) fn load(&mut self, build_id: &[u8]) -> Option<Functions> {
        let name = name_of(build_id);
        let (_, used) = self.files.get_mut(&name)?;
        let file = File::options().read(true).write(true).open(self.folder.join(&name)).ok()?;
        *used = SystemTime::now();
        // Records the last use for the next process.
        let _ = file.set_modified(*used);
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        decode(&bytes, build_id)
    }

    /// Stores the functions of a file.
    pub(crate) fn save(&mut self, build_id: &[u8], functions: &Functions) -> io::Result<()> {
        let (name, bytes) = (name_of(build_id), encode(build_id, functions));
        let size = bytes.len() as u64;
        if size > self.bytes_max.min(FILE_BYTES_MAX) {
            return Ok(());
        }
        self.files.remove(&name);
        self.make_room(size);
        let mut part = tempfile::Builder::new()
            .prefix(PART_PREFIX)
            .permissions(Permissions::from_mode(0o600))
            .tempfile_in(&self.folder)?;
        part.write_all(&bytes)?;
        // With the clock of `load`: the file system's is some milliseconds behind.
        let used = SystemTime::now();
        part.as_file().set_modified(used)?;
        part.persist(self.folder.join(&name)).map_err(|error| error.error)?;
        self.files.insert(name, (size, used));
        Ok(())
    }

    fn make_room(&mut self, bytes: u64) {
        let mut total: u64 = self.files.values().map(|(size, _)| size).sum();
        if total.saturating_add(bytes) <= self.bytes_max {
            return;
        }
        let mut oldest: Vec<(SystemTime, String, u64)> =
            self.files.iter().map(|(name, (size, used))| (*used, name.clone(), *size)).collect();
        oldest.sort();
        for (_, name, size) in oldest {
            if total.saturating_add(bytes) <= self.bytes_max {
                break;
            }
            // It may have been removed by another process.
            let _ = fs::remove_file(self.folder.join(&name));
            self.files.remove(&name);
            total -= size;
        }
    }
}

fn name_of(build_id: &[u8]) -> String {
    let digits: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{digits}{SUFFIX}")
}

/// Magic number of the first version.
const MARK: &[u8; 8] = b"wbnames1";

/// Version of the writer: other versions may name functions differently.
const WRITER: &str = env!("CARGO_PKG_VERSION");

/// Functions by start address.
pub(crate) type Functions = BTreeMap<u64, KnownFunction>;

/// A function, or one of its addresses with a source position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownFunction {
    /// One past its last byte.
    pub end: u64,
    pub name: String,
    pub source: Option<(String, u32)>,
}

#[derive(Clone, PartialEq, Message)]
struct StoredNames {
    #[prost(string, tag = "1")]
    writer: String,
    #[prost(bytes = "vec", tag = "2")]
    build_id: Vec<u8>,
    #[prost(message, repeated, tag = "3")]
    functions: Vec<StoredFunction>,
}

#[derive(Clone, PartialEq, Message)]
struct StoredFunction {
    #[prost(uint64, tag = "1")]
    start: u64,
    #[prost(uint64, tag = "2")]
    bytes: u64,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, optional, tag = "4")]
    source_file: Option<String>,
    #[prost(uint32, tag = "5")]
    source_line: u32,
}

/// Serializes functions.
pub(crate) fn encode(build_id: &[u8], functions: &Functions) -> Vec<u8> {
    let stored = |(start, function): (&u64, &KnownFunction)| {
        let (source_file, source_line) = function.source.clone().unzip();
        StoredFunction {
            start: *start,
            bytes: function.end - start,
            name: function.name.clone(),
            source_file,
            source_line: source_line.unwrap_or(0),
        }
    };
    let message = StoredNames {
        writer: WRITER.to_owned(),
        build_id: build_id.to_vec(),
        functions: functions.iter().map(stored).collect(),
    };
    with_head(&message.encode_to_vec())
}

/// Prepends magic number and checksum to a message.
pub(crate) fn with_head(message: &[u8]) -> Vec<u8> {
    let mut bytes = MARK.to_vec();
    bytes.extend_from_slice(&sum(message).to_le_bytes());
    bytes.extend_from_slice(message);
    bytes
}

/// Deserializes the functions of the file with this build id; `None` if the bytes are damaged or of another version.
pub(crate) fn decode(bytes: &[u8], build_id: &[u8]) -> Option<Functions> {
    let (expected, message) = bytes.strip_prefix(MARK)?.split_first_chunk()?;
    if u32::from_le_bytes(*expected) != sum(message) {
        return None;
    }
    let stored = StoredNames::decode(message).ok()?;
    if stored.writer != WRITER || stored.build_id != build_id {
        return None;
    }
    let function = |stored: StoredFunction| {
        let end = stored.start.checked_add(stored.bytes.max(1))?;
        let source = stored.source_file.map(|file| (file, stored.source_line));
        Some((stored.start, KnownFunction { end, name: stored.name, source }))
    };
    stored.functions.into_iter().map(function).collect()
}

fn sum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {

    use super::*;

    fn functions(name: &str) -> Functions {
        let function = KnownFunction { end: 9, name: name.to_owned(), source: None };
        Functions::from([(1, function)])
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).expect("a folder").flatten();
        let mut names: Vec<String> =
            names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn names_outlive_the_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("names");
        let mut store = NameStore::open(&path, 1 << 20).expect("a store");
        assert_eq!(store.load(b"\x01\x02"), None);
        store.save(b"\x01\x02", &functions("main")).expect("saved");
        fs::write(path.join(".part-x"), b"half").expect("write");
        let mut again = NameStore::open(&path, 1 << 20).expect("a store");
        assert_eq!(again.load(b"\x01\x02"), Some(functions("main")));
        assert_eq!(names(&path), ["0102.names"]);
        // A damaged file counts as missing, and is written again.
        fs::write(path.join("0102.names"), b"wbnames1nonsense").expect("write");
        assert_eq!(again.load(b"\x01\x02"), None);
        again.save(b"\x01\x02", &functions("other")).expect("saved");
        assert_eq!(again.load(b"\x01\x02"), Some(functions("other")));
    }

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let size = encode(b"\0", &functions("f")).len() as u64;
        let mut store = NameStore::open(folder.path(), 3 * size).expect("a store");
        for id in 0..3_u8 {
            store.save(&[id], &functions("f")).expect("saved");
        }
        assert!(store.load(&[0]).is_some());
        store.save(&[3], &functions("f")).expect("saved");
        assert_eq!(names(folder.path()), ["00.names", "02.names", "03.names"]);
        // Another process sees the last uses too, and may have a smaller limit.
        let _ = NameStore::open(folder.path(), size).expect("a store");
        assert_eq!(names(folder.path()), ["03.names"]);
        store.save(&[4], &functions(&"f".repeat(1 << 10))).expect("too large to be kept");
        assert_eq!(names(folder.path()), ["03.names"]);
    }

    #[test]
    fn names_return_and_damage_is_noticed() {
        let function = |end, name: &str, source: Option<(&str, u32)>| KnownFunction {
            end,
            name: name.to_owned(),
            source: source.map(|(file, line)| (file.to_owned(), line)),
        };
        let functions = Functions::from([
            (0x1000, function(0x1040, "main", None)),
            (0x2000, function(0x2001, "main.run", Some(("run.go", 7)))),
        ]);
        let bytes = encode(b"abcd", &functions);
        assert_eq!(decode(&bytes, b"abcd").as_ref(), Some(&functions));
        assert_eq!(decode(&bytes, b"abce"), None);
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length], b"abcd"), None, "{length} bytes");
        }
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x10;
            assert_eq!(decode(&damaged, b"abcd"), None, "byte {place}");
        }
    }
}
