//! Texts about debug information that could not be downloaded.

use super::text::more;
use crate::debuginfod::DownloadError;

/// States which file is missing, and why.
pub(super) fn not_downloaded(file: &str, error: &DownloadError, others: u64) -> String {
    format!("debug information of {file}{} was not downloaded, because {error}", more(others))
}

/// How to make the download succeed.
pub(super) fn how_to_download(error: &DownloadError) -> &'static str {
    match error {
        DownloadError::Status { .. }
        | DownloadError::Connection { .. }
        | DownloadError::Cut { .. }
        | DownloadError::Foreign { .. } => {
            "check the address, try another server, or record again later"
        }
        DownloadError::Slow { .. } => "give servers more time: DEBUGINFOD_TIMEOUT, in seconds",
        DownloadError::TooLarge { .. } => "to have it, raise DEBUGINFOD_MAXSIZE, in bytes",
        DownloadError::Cache { .. } => {
            "make room in the cache and make it writable, or set DEBUGINFOD_CACHE_PATH to another \
             folder"
        }
        DownloadError::TimeIsUp { .. } => {
            "record again with a larger DEBUGINFOD_MAXTIME, in seconds; what was downloaded is kept"
        }
        DownloadError::Interrupted => "record again; what was downloaded is kept",
    }
}
