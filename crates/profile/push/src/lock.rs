//! A folder belongs to one process: two that clean up in it would take each other's windows.

use std::{
    fs::{File, TryLockError},
    path::Path,
};

use crate::error::FolderError;

const NAME: &str = ".lock";

/// Holds a folder until it is dropped, or the process ends.
#[derive(Debug)]
pub(crate) struct FolderLock(File);

impl FolderLock {
    pub(crate) fn take(folder: &Path) -> Result<Self, FolderError> {
        let path = folder.join(NAME);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(FolderError::of("creating", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => {
                Err(FolderError::InUse { path: folder.display().to_string() })
            }
            Err(TryLockError::Error(error)) => Err(FolderError::of("locking", &path)(error)),
        }
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Closing the file would do, were there no child between fork and exec that has it open, too.
        drop(self.0.unlock());
    }
}
