//! The JSON of a recording: its summary and warnings.

use serde::Serialize;

use crate::{
    advice::{ProfileWarning, warnings},
    summary::Summary,
};

/// Incremented when a field is renamed or removed.
const SCHEMA_VERSION: u32 = 1;

/// A summary with its warnings.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    schema_version: u32,
    #[serde(flatten)]
    summary: &'a Summary,
    warnings: Vec<wingbeat_text::Warning>,
}

impl<'a> Document<'a> {
    /// Creates the document of a recording with `samples_kept` shown samples.
    pub fn of(summary: &'a Summary, samples_kept: u64) -> Self {
        let warnings = warnings(summary, samples_kept).iter().map(ProfileWarning::text).collect();
        Self { schema_version: SCHEMA_VERSION, summary, warnings }
    }
}
