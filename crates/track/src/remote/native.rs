//! What the native route of a wingbeat server, `/v1`, takes and answers besides documents of the export format.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    explain::Explained,
    model::{Report, Threshold},
};

/// How a report without verdicts is to be judged: the member `run` beside `report` in its line.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Instructions {
    /// Thresholds that the user named.
    pub thresholds: Vec<Threshold>,
    /// Whether the server drops thresholds that are not named.
    pub thresholds_reset: bool,
    /// Whether the branch takes over the thresholds of its start point.
    pub clone_thresholds: bool,
    /// Whether the history of the branch begins anew.
    pub start_point_reset: bool,
}

/// The answer to documents.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Taken {
    pub stored: usize,
    pub already_there: usize,
    pub refused: Vec<RefusedDocument>,
    /// Of a single report Bencher's `JsonReport`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<Value>,
    /// Of a single report the report as it is stored, with verdicts and alerts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged: Option<Box<Report>>,
    /// Of profiles why their reports have alerts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explained: Vec<Explained>,
}

/// A document that the server did not store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedDocument {
    pub uuid: Uuid,
    pub reason: String,
}

/// The last line of a page of documents, in the member `page`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PageEnd {
    pub count: usize,
    /// The place from which the next page goes on; none if there are no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
