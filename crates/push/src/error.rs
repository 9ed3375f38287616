//! Errors of a folder with windows.

use std::{io, path::Path};

/// Why a spool or ring cannot be used, or a window not be stored.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("{tried} {path} failed: {source}{}", hint(tried, source))]
    Io { tried: &'static str, path: String, source: io::Error },
    #[error("another process keeps windows in {path}; give each agent a folder of its own")]
    InUse { path: String },
    #[error(
        "a window of {} is larger than all that {path} may keep, {}; raise that limit",
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
            "; free some space, or let less be kept"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; let wingbeat write there, or choose another folder"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sentence_says_what_to_do() {
        let check_of = |tried: &'static str, kind: io::ErrorKind, expected: &str| {
            let error = FolderError::of(tried, Path::new("/ring/a"))(kind.into()).to_string();
            assert!(error.starts_with(&format!("{tried} /ring/a failed: ")), "{error}");
            assert!(error.ends_with(expected) && !error.contains('\n'), "{error}");
        };
        let check = |kind, expected: &str| check_of("writing", kind, expected);
        check(io::ErrorKind::StorageFull, "; free some space, or let less be kept");
        check(io::ErrorKind::PermissionDenied, "choose another folder");
        check_of("reading", io::ErrorKind::PermissionDenied, "a user who may read it");
        check_of("reading", io::ErrorKind::NotFound, "`wingbeat agent --keep` writes to");
        check_of("reading", io::ErrorKind::NotADirectory, "; it is a file, so name a folder");
        let error = FolderError::TooLarge { path: "/r".into(), bytes: 3 << 20, bytes_max: 1 << 20 };
        assert!(error.to_string().contains("3,146 KB"), "{error}");
    }
}
