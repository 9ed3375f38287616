//! One comparison at a time in a repository. The kernel takes the lock away with the process.

use std::fs::{File, TryLockError};

use super::{error::CompareError, git::file, place::Places};

/// Held until it is dropped.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "closing it unlocks")] File);

impl Lock {
    pub(super) fn take(places: &Places) -> Result<Self, CompareError> {
        let path = places.caches.join("lock");
        let opened = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = opened.map_err(|source| file("open", &path, source))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self(lock)),
            Err(TryLockError::WouldBlock) => Err(CompareError::Locked),
            Err(TryLockError::Error(source)) => Err(file("lock", &path, source)),
        }
    }
}
