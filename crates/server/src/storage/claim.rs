//! Ensures one server per folder: two would each have a writer, and separate rate limits.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use super::{StorageError, create_folder, open_existing};
use crate::settings::DataLocation;

/// Name of the lock file. It contains the server's URL.
const LOCK: &str = "server.lock";

/// The lock on a served folder, held while this value lives. The lock ends with the process.
#[derive(Debug)]
pub struct Claim {
    file: File,
}

impl Claim {
    /// Locks a folder for this process.
    pub fn of(folder: &Path) -> Result<Self, StorageError> {
        create_folder(folder)?;
        let path = folder.join(LOCK);
        let failed = |source| StorageError::Lock { path: path.clone(), source };
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file }),
            Err(TryLockError::WouldBlock) => Err(StorageError::InUse { path: folder.to_owned() }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Writes the server's URL.
    pub fn announce(&mut self, url: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all(url.as_bytes())
    }
}

/// URL of the server at a location: for a folder, of the running server; for a database, of the last one started.
pub fn served_at(place: &DataLocation) -> Option<String> {
    match place {
        DataLocation::Folder(folder) => served_folder(folder),
        DataLocation::Postgres { .. } => open_existing(place).ok()?.public_url().ok()?,
    }
}

fn served_folder(folder: &Path) -> Option<String> {
    let mut file = File::open(folder.join(LOCK)).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {}
        // A leftover of a stopped server.
        _ => return None,
    }
    let mut url = String::new();
    file.read_to_string(&mut url).ok()?;
    (!url.is_empty()).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_server() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = Claim::of(folder.path()).expect("free");
        assert!(matches!(Claim::of(folder.path()), Err(StorageError::InUse { .. })));
        drop(first);
        Claim::of(folder.path()).expect("free again");
    }

    #[test]
    fn a_folder_says_where_its_server_is() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(served_folder(folder.path()), None);
        for url in ["http://127.0.0.1:6610", "http://[::1]:80"] {
            let mut claim = Claim::of(folder.path()).expect("free");
            claim.announce(url).expect("written");
            assert_eq!(served_folder(folder.path()).as_deref(), Some(url));
            drop(claim);
            assert_eq!(served_folder(folder.path()), None);
        }
    }
}
