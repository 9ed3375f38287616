//! Series, and single metrics.

use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, serde::rfc3339};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    JsonAlertStatus, JsonBenchmark, JsonBoundary, JsonBranch, JsonLimit, JsonMeasure, JsonMetric,
    JsonProject, JsonTestbed, JsonThresholdModel, JsonVersion,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonPerf {
    pub project: JsonProject,
    #[serde(with = "rfc3339::option")]
    pub start_time: Option<OffsetDateTime>,
    #[serde(with = "rfc3339::option")]
    pub end_time: Option<OffsetDateTime>,
    pub results: Vec<JsonPerfMetrics>,
}

/// A series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonPerfMetrics {
    pub branch: JsonBranch,
    pub testbed: JsonTestbed,
    pub benchmark: JsonBenchmark,
    pub measure: JsonMeasure,
    pub metrics: Vec<JsonPerfMetric>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonPerfMetric {
    pub report: Uuid,
    pub iteration: u32,
    #[serde(with = "rfc3339")]
    pub start_time: OffsetDateTime,
    #[serde(with = "rfc3339")]
    pub end_time: OffsetDateTime,
    pub version: JsonVersion,
    pub metric: JsonMetric,
    pub threshold: Option<JsonThresholdModel>,
    pub boundary: Option<JsonBoundary>,
    pub alert: Option<JsonPerfAlert>,
}

/// The alert that a metric raised.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonPerfAlert {
    pub uuid: Uuid,
    pub limit: JsonLimit,
    pub status: JsonAlertStatus,
    #[serde(with = "rfc3339")]
    pub modified: OffsetDateTime,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonOneMetric {
    pub uuid: Uuid,
    pub report: Uuid,
    pub iteration: u32,
    #[serde(with = "rfc3339")]
    pub start_time: OffsetDateTime,
    #[serde(with = "rfc3339")]
    pub end_time: OffsetDateTime,
    pub branch: JsonBranch,
    pub testbed: JsonTestbed,
    pub benchmark: JsonBenchmark,
    pub measure: JsonMeasure,
    pub metric: JsonMetric,
    pub threshold: Option<JsonThresholdModel>,
    pub boundary: Option<JsonBoundary>,
    pub alert: Option<JsonPerfAlert>,
}
