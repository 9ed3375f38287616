//! Outcomes by requested file, so that no failure is silent.

use std::fmt;

use serde::{Serialize, Serializer};
use thiserror::Error;

use super::BuildId;

/// Why debug information could not be fetched.
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

/// Outcome for one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Found in the cache.
    Cached,
    Downloaded,
    /// No server has it, now or when last asked.
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

/// A requested file and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// As seen by the process.
    pub path: String,
    #[serde(serialize_with = "as_text")]
    pub build_id: BuildId,
    pub outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text_or_none")]
    pub error: Option<DownloadError>,
}

/// All requests and their outcomes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Bytes received from servers.
    pub bytes: u64,
    /// In order of request.
    pub files: Vec<Asked>,
}

impl Account {
    /// Number of files with this outcome.
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
