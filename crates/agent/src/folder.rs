//! A folder with windows, which belongs to one process: two that clean up in it would delete each other's windows.

use std::{
    fs::{File, TryLockError},
    io,
    path::Path,
};

/// Name of the lock file.
const LOCK: &str = ".lock";

/// Why a spool or archive cannot be used, or a window cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("{tried} {path} failed: {source}{}", hint(tried, source))]
    Io { tried: &'static str, path: String, source: io::Error },
    #[error("another process uses the windows in {path}; give each agent a folder of its own")]
    InUse { path: String },
    #[error(
        "a window of {} exceeds the limit of {path}, {}; raise that limit",
        wingbeat_text::bytes(*bytes), wingbeat_text::bytes(*bytes_max)
    )]
    TooLarge { path: String, bytes: u64, bytes_max: u64 },
}

impl FolderError {
    /// For `map_err`: adds the operation and the file.
    pub(crate) fn of(tried: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { tried, path: path.display().to_string(), source }
    }
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
    pub(crate) fn take(folder: &Path) -> Result<Self, FolderError> {
        let path = folder.join(LOCK);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sentence_says_what_to_do() {
        let check_of = |tried: &'static str, kind: io::ErrorKind, expected: &str| {
            let error = FolderError::of(tried, Path::new("/archive/a"))(kind.into()).to_string();
            assert!(error.starts_with(&format!("{tried} /archive/a failed: ")), "{error}");
            assert!(error.ends_with(expected) && !error.contains('\n'), "{error}");
        };
        let check = |kind, expected: &str| check_of("writing", kind, expected);
        check(io::ErrorKind::StorageFull, "; free some space, or lower the limit of what is kept");
        check(io::ErrorKind::PermissionDenied, "choose another folder");
        check_of("reading", io::ErrorKind::PermissionDenied, "a user who may read it");
        check_of("reading", io::ErrorKind::NotFound, "`wingbeat agent --keep` writes to");
        check_of("reading", io::ErrorKind::NotADirectory, "; it is a file, so name a folder");
        let error = FolderError::TooLarge { path: "/r".into(), bytes: 3 << 20, bytes_max: 1 << 20 };
        assert!(error.to_string().contains("3,146 KB"), "{error}");
    }
}
