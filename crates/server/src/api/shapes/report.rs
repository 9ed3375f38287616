//! Reports.

use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, serde::rfc3339};
use utoipa::ToSchema;
use uuid::Uuid;
use wingbeat_track::model::Notice;

use super::{
    JsonAlert, JsonBenchmark, JsonBranch, JsonMeasure, JsonProject, JsonTestbed, JsonThresholdModel,
};

/// Who sent a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JsonPubUser {
    pub uuid: Uuid,
    pub name: String,
    pub slug: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonReport {
    pub uuid: Uuid,
    pub user: Option<JsonPubUser>,
    pub project: JsonProject,
    pub branch: JsonBranch,
    pub testbed: JsonTestbed,
    #[serde(with = "rfc3339")]
    pub start_time: OffsetDateTime,
    #[serde(with = "rfc3339")]
    pub end_time: OffsetDateTime,
    pub adapter: String,
    /// By iteration. Lists have it only with `expand=true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<Vec<Vec<JsonReportResult>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alerts: Option<Vec<JsonAlert>>,
    pub counts: JsonReportCounts,
    /// What was noticed about the whole report when this server judged it, as `wingbeat run --format json` has it.
    /// Lists leave it out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub notices: Vec<Notice>,
    #[serde(with = "rfc3339")]
    pub created: OffsetDateTime,
}

/// A benchmark in one iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonReportResult {
    pub iteration: u32,
    pub benchmark: JsonBenchmark,
    pub measures: Vec<JsonReportMeasure>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonReportMeasure {
    pub measure: JsonMeasure,
    pub metric: JsonMetric,
    pub threshold: Option<JsonThresholdModel>,
    pub boundary: Option<JsonBoundary>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonMetric {
    pub uuid: Uuid,
    pub value: f64,
    pub lower_value: Option<f64>,
    pub upper_value: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct JsonBoundary {
    pub baseline: Option<f64>,
    pub lower_limit: Option<f64>,
    pub upper_limit: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JsonReportCounts {
    pub results: Vec<JsonIterationCounts>,
    pub alerts: JsonAlertCounts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JsonIterationCounts {
    pub benchmarks: u64,
    pub measures: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JsonAlertCounts {
    pub total: u64,
    pub active: u64,
}
