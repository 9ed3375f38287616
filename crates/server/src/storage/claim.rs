//! One server for one folder: two would each have a writer, and limits of their own.

use std::{
    fs::{File, OpenOptions, TryLockError},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use super::{StorageError, create_folder};

/// Name of the file that a server keeps locked.
const LOCK: &str = "server.lock";

/// A folder that this process serves, as long as it keeps this. The lock ends with the process.
#[derive(Debug)]
pub struct Claim {
    _file: File,
}

impl Claim {
    /// Claims a folder for this process.
    pub fn of(folder: &Path) -> Result<Self, StorageError> {
        create_folder(folder)?;
        let path = folder.join(LOCK);
        let failed = |source| StorageError::Lock { path: path.clone(), source };
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(StorageError::InUse { path: folder.to_owned() }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }
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
}
