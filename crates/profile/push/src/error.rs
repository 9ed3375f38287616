//! What can be wrong with a folder that windows are kept in.

use std::{io, path::Path};

/// Why a spool or a ring cannot be used, or a window not be kept.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("{tried} {path} failed: {source}{}", hint(source))]
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
    /// For `map_err`: what was tried with which file.
    pub(crate) fn of(tried: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { tried, path: path.display().to_string(), source }
    }
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
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
        let check = |kind: io::ErrorKind, expected: &str| {
            let error = FolderError::of("writing", Path::new("/ring/a"))(kind.into()).to_string();
            assert!(error.starts_with("writing /ring/a failed: "), "{error}");
            assert!(error.ends_with(expected) && !error.contains('\n'), "{error}");
        };
        check(io::ErrorKind::StorageFull, "; free some space, or let less be kept");
        check(io::ErrorKind::PermissionDenied, "choose another folder");
        let error = FolderError::TooLarge { path: "/r".into(), bytes: 3 << 20, bytes_max: 1 << 20 };
        assert!(error.to_string().contains("3,145 KB"), "{error}");
    }
}
