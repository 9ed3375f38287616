//! A folder with windows, which belongs to one process: two that clean up in it would delete each other's windows.

use std::{
    fs::{File, TryLockError},
    io,
    path::Path,
};

use anyhow::{anyhow, bail};

/// Name of the lock file.
const LOCK: &str = ".lock";

/// For `map_err`: adds the operation, the file, and what to do.
pub(crate) fn failed(tried: &str, path: &Path) -> impl FnOnce(io::Error) -> anyhow::Error {
    move |error| anyhow!("{tried} {} failed: {error}{}", path.display(), hint(tried, &error))
}

fn hint(tried: &str, error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied if tried == "reading" => {
            "; run wingbeat as a user who may read it"
        }
        io::ErrorKind::NotFound if tried == "reading" => {
            "; name the folder that `wingbeat agent --keep` writes to"
        }
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            "; it is a file, so name a folder"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space, or lower the limit of what is kept"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; let wingbeat write there, or choose another folder"
        }
        _ => "",
    }
}

/// Locks a folder until it is dropped, or the process exits.
#[derive(Debug)]
pub(crate) struct FolderLock(File);

impl FolderLock {
    pub(crate) fn take(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(LOCK);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(failed("creating", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => bail!(
                "another process uses the windows in {}; give each agent a folder of its own",
                folder.display()
            ),
            Err(TryLockError::Error(error)) => Err(failed("locking", &path)(error)),
        }
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Closing the file is not sufficient while a child between fork and exec has it open.
        drop(self.0.unlock());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sentence_says_what_to_do() {
        let check_of = |tried: &'static str, kind: io::ErrorKind, expected: &str| {
            let error = failed(tried, Path::new("/archive/a"))(kind.into()).to_string();
            assert!(error.starts_with(&format!("{tried} /archive/a failed: ")), "{error}");
            assert!(error.ends_with(expected) && !error.contains('\n'), "{error}");
        };
        let check = |kind, expected: &str| check_of("writing", kind, expected);
        check(io::ErrorKind::StorageFull, "; free some space, or lower the limit of what is kept");
        check(io::ErrorKind::PermissionDenied, "choose another folder");
        check_of("reading", io::ErrorKind::PermissionDenied, "a user who may read it");
        check_of("reading", io::ErrorKind::NotFound, "`wingbeat agent --keep` writes to");
        check_of("reading", io::ErrorKind::NotADirectory, "; it is a file, so name a folder");
    }
}
