//! Locks a folder for one process: two that clean up in it would delete each other's windows.

use std::{
    fs::{File, TryLockError},
    path::Path,
};

use crate::error::FolderError;

const NAME: &str = ".lock";

/// Locks a folder until it is dropped, or the process exits.
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
        // Closing the file is not sufficient while a child between fork and exec has it open.
        drop(self.0.unlock());
    }
}
