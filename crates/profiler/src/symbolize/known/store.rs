//! A persistent folder of names by build id, with a file for each, written atomically.
//!
//! When it is full, the least recently used files are removed. It is only a cache: unreadable files count as missing.

use std::{
    collections::HashMap,
    fs::{self, File, Permissions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::file::{Functions, decode, encode};

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

#[cfg(test)]
mod tests {
    use super::{super::file::KnownFunction, *};

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
}
