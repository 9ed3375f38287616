//! Requests and responses of a wingbeat server's native API, `/v1`, besides documents of the export format.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    bencher::JsonReport,
    explain::Explained,
    model::{Report, Threshold},
};

/// How to judge a report without verdicts: the member `run` next to `report` in its line.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Instructions {
    /// Thresholds given by the user.
    pub thresholds: Vec<Threshold>,
    /// Whether the server removes thresholds that are not listed.
    pub thresholds_reset: bool,
    /// Whether the branch inherits the thresholds of its start point.
    pub clone_thresholds: bool,
    /// Whether to restart the history of the branch.
    pub start_point_reset: bool,
}

/// The response to documents.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Taken {
    pub stored: usize,
    pub already_there: usize,
    pub refused: Vec<RefusedDocument>,
    /// For a single report: Bencher's `JsonReport`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<JsonReport>,
    /// For a single report: the report as stored, with verdicts and alerts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged: Option<Box<Report>>,
    /// For profiles: explanations of their reports' alerts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explained: Vec<Explained>,
}

/// A document rejected by the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedDocument {
    pub uuid: Uuid,
    pub reason: String,
}

/// The last line of a page of documents, in the member `page`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PageEnd {
    pub count: usize,
    /// The cursor of the next page. `None` on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
