//! What became of each file whose debug information was wanted: nothing is lost silently.

use std::fmt;

use serde::{Serialize, Serializer};
use thiserror::Error;

use super::BuildId;

/// Why debug information could not be had.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DownloadError {
    #[error("{server} answered with status {status}")]
    Status { server: String, status: u16 },
    #[error("{server} could not be asked: {reason}")]
    Connection { server: String, reason: String },
    #[error("the download from {server} broke off: {reason}")]
    Cut { server: String, reason: String },
    #[error("{server} sent less than 100 KB in {stall_s} s")]
    Slow { server: String, stall_s: u64 },
    #[error("{server} has a file of more than {max_bytes} bytes")]
    TooLarge { server: String, max_bytes: u64 },
    #[error("{server} sent something else than debug information of this build")]
    Foreign { server: String },
    #[error("the file cannot be kept: {reason}")]
    Cache { reason: String },
    #[error("the {limit_s} s for downloads were over")]
    TimeIsUp { limit_s: u64 },
    #[error("the downloads were interrupted")]
    Interrupted,
}

/// What became of the debug information of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was in the cache.
    Cached,
    Downloaded,
    /// No server has it, or had it when it was last asked.
    NotFound,
    Failed,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cached => "in the cache",
            Self::Downloaded => "downloaded",
            Self::NotFound => "on no server",
            Self::Failed => "failed",
        })
    }
}

/// A file whose debug information was wanted, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// As the process sees it.
    pub path: String,
    #[serde(serialize_with = "as_text")]
    pub build_id: BuildId,
    pub outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text_or_none")]
    pub error: Option<DownloadError>,
}

/// What was asked for, and what came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Received from servers.
    pub bytes: u64,
    /// In the order in which they were wanted.
    pub files: Vec<Asked>,
}

impl Account {
    /// How many files had this outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.files.iter().filter(|file| file.outcome == outcome).count()
    }
}

fn as_text<S: Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn as_text_or_none<S: Serializer>(
    value: &Option<DownloadError>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.as_ref().map(DownloadError::to_string).serialize(serializer)
}
