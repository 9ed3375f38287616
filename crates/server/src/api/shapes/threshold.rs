//! Thresholds and alerts.

use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, serde::rfc3339};
use utoipa::ToSchema;
use uuid::Uuid;
use wingbeat_track::model::{ThresholdModel, threshold::Test};

use super::{JsonBenchmark, JsonBoundary, JsonBranch, JsonMeasure, JsonMetric, JsonTestbed};

/// A model of a threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonModel {
    pub uuid: Uuid,
    #[schema(value_type = String)]
    pub test: Test,
    pub min_sample_size: Option<u32>,
    pub max_sample_size: Option<u32>,
    /// In seconds.
    pub window: Option<u32>,
    pub lower_boundary: Option<f64>,
    pub upper_boundary: Option<f64>,
    #[serde(with = "rfc3339")]
    pub created: OffsetDateTime,
    #[serde(with = "rfc3339::option")]
    pub replaced: Option<OffsetDateTime>,
}

/// The threshold of a metric, with the model that judged it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonThresholdModel {
    pub uuid: Uuid,
    pub project: Uuid,
    pub model: JsonModel,
    #[serde(with = "rfc3339")]
    pub created: OffsetDateTime,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonThreshold {
    pub uuid: Uuid,
    pub project: Uuid,
    pub branch: JsonBranch,
    pub testbed: JsonTestbed,
    pub measure: JsonMeasure,
    /// Null where nothing is in force, and where the test is one that the client does not know.
    pub model: Option<JsonModel>,
    #[serde(with = "rfc3339")]
    pub created: OffsetDateTime,
    #[serde(with = "rfc3339")]
    pub modified: OffsetDateTime,
    /// A model with a test of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wingbeat: Option<JsonModel>,
}

/// Settings of a model, as requests give them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonModelSettings {
    #[schema(value_type = String)]
    pub test: Test,
    #[serde(default)]
    pub min_sample_size: Option<u32>,
    #[serde(default)]
    pub max_sample_size: Option<u32>,
    #[serde(default)]
    pub window: Option<u32>,
    #[serde(default)]
    pub lower_boundary: Option<f64>,
    #[serde(default)]
    pub upper_boundary: Option<f64>,
}

impl JsonModelSettings {
    pub(crate) fn model(&self) -> ThresholdModel {
        ThresholdModel {
            test: self.test,
            min_sample_size: self.min_sample_size,
            max_sample_size: self.max_sample_size,
            window: self.window,
            lower_boundary: self.lower_boundary,
            upper_boundary: self.upper_boundary,
        }
    }
}

/// Which side of its boundary a value is beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum JsonLimit {
    Lower,
    Upper,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum JsonAlertStatus {
    Active,
    Dismissed,
    Silenced,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonAlert {
    pub uuid: Uuid,
    pub report: Uuid,
    pub iteration: u32,
    pub benchmark: JsonBenchmark,
    pub metric: JsonMetric,
    pub threshold: JsonThreshold,
    pub boundary: JsonBoundary,
    pub limit: JsonLimit,
    pub status: JsonAlertStatus,
    #[serde(with = "rfc3339")]
    pub created: OffsetDateTime,
    #[serde(with = "rfc3339")]
    pub modified: OffsetDateTime,
    /// What somebody said who changed its status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
