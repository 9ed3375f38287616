//! Requests that create or change something.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, serde::rfc3339};
use utoipa::ToSchema;
use uuid::Uuid;
use wingbeat_track::{
    model::{Average, threshold::Test},
    run::Fold,
};

use super::{JsonAlertStatus, JsonModelSettings, JsonVisibility};

/// Results with all that the client knows about them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonNewRun {
    /// Slug or UUID. A slug that there is none of becomes a project.
    #[serde(default)]
    #[schema(pattern = "^[a-z0-9]+(-[a-z0-9]+)*$", max_length = 64)]
    pub project: Option<String>,
    /// It becomes the UUID of the report, so that the same request twice is one report.
    #[serde(default)]
    #[schema(min_length = 32)]
    pub idempotency_key: Option<Uuid>,
    #[serde(default)]
    pub branch: Option<String>,
    #[serde(default)]
    pub hash: Option<String>,
    #[serde(default)]
    pub start_point: Option<JsonRunStartPoint>,
    #[serde(default)]
    pub testbed: Option<String>,
    #[serde(default)]
    pub thresholds: Option<JsonReportThresholds>,
    #[serde(with = "rfc3339")]
    pub start_time: OffsetDateTime,
    #[serde(with = "rfc3339")]
    pub end_time: OffsetDateTime,
    /// What the benchmark tool printed, by iteration.
    #[schema(min_items = 1)]
    pub results: Vec<String>,
    #[serde(default)]
    pub settings: Option<JsonReportSettings>,
    #[serde(default)]
    pub context: Option<BTreeMap<String, String>>,
    /// For runs on machines of the server, of which this one has none.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub job: Option<serde_json::Value>,
}

/// Results of a branch on a testbed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonNewReport {
    #[serde(default)]
    #[schema(min_length = 32)]
    pub idempotency_key: Option<Uuid>,
    pub branch: String,
    #[serde(default)]
    pub hash: Option<String>,
    #[serde(default)]
    pub start_point: Option<JsonRunStartPoint>,
    pub testbed: String,
    #[serde(default)]
    pub thresholds: Option<JsonReportThresholds>,
    #[serde(with = "rfc3339")]
    pub start_time: OffsetDateTime,
    #[serde(with = "rfc3339")]
    pub end_time: OffsetDateTime,
    #[schema(min_items = 1)]
    pub results: Vec<String>,
    #[serde(default)]
    pub settings: Option<JsonReportSettings>,
}

/// Where the branch of a report begins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct JsonRunStartPoint {
    #[serde(default)]
    pub branch: Option<String>,
    #[serde(default)]
    pub hash: Option<String>,
    #[serde(default)]
    pub max_versions: Option<u32>,
    #[serde(default)]
    pub clone_thresholds: Option<bool>,
    #[serde(default)]
    pub reset: Option<bool>,
}

/// Thresholds that are kept from now on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct JsonReportThresholds {
    /// By measure.
    #[serde(default)]
    pub models: Option<BTreeMap<String, JsonModelSettings>>,
    /// Whether all others of the branch and testbed end.
    #[serde(default)]
    pub reset: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct JsonReportSettings {
    #[serde(default)]
    pub adapter: Option<String>,
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub average: Option<Average>,
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub fold: Option<Fold>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonNewProject {
    #[schema(
        pattern = r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$",
        max_length = 64
    )]
    pub name: String,
    #[serde(default)]
    #[schema(pattern = "^[a-z0-9]+(-[a-z0-9]+)*$", max_length = 64)]
    pub slug: Option<String>,
    #[serde(default)]
    #[schema(pattern = "^https?://[!-~]+$", max_length = 1024)]
    pub url: Option<String>,
    #[serde(default)]
    pub visibility: Option<JsonVisibility>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct JsonUpdateProject {
    #[serde(default)]
    #[schema(
        pattern = r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$",
        max_length = 64
    )]
    pub name: Option<String>,
    #[serde(default)]
    #[schema(pattern = "^[a-z0-9]+(-[a-z0-9]+)*$", max_length = 64)]
    pub slug: Option<String>,
    /// Null removes it.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^https?://[!-~]+$", max_length = 1024)]
    pub url: Option<Option<String>>,
    #[serde(default)]
    pub visibility: Option<JsonVisibility>,
}

/// Where a new branch begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JsonNewStartPoint {
    pub branch: String,
    #[serde(default)]
    pub hash: Option<String>,
    #[serde(default)]
    pub max_versions: Option<u32>,
    #[serde(default)]
    pub clone_thresholds: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonNewThing {
    #[schema(
        pattern = r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$"
    )]
    pub name: String,
    #[serde(default)]
    #[schema(pattern = "^[a-z0-9]+(-[a-z0-9]+)*$", max_length = 64)]
    pub slug: Option<String>,
    /// Of measures, which must have it.
    #[serde(default)]
    #[schema(
        pattern = r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$",
        max_length = 64
    )]
    pub units: Option<String>,
    /// Of branches.
    #[serde(default)]
    pub start_point: Option<JsonNewStartPoint>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct JsonUpdateThing {
    #[serde(default)]
    #[schema(
        pattern = r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$"
    )]
    pub name: Option<String>,
    #[serde(default)]
    #[schema(pattern = "^[a-z0-9]+(-[a-z0-9]+)*$", max_length = 64)]
    pub slug: Option<String>,
    /// Of measures.
    #[serde(default)]
    #[schema(
        pattern = r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$",
        max_length = 64
    )]
    pub units: Option<String>,
    /// Of branches.
    #[serde(default)]
    pub start_point: Option<JsonRunStartPoint>,
    #[serde(default)]
    pub archived: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonNewThreshold {
    pub branch: String,
    pub testbed: String,
    pub measure: String,
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

/// A new model, or the end of the one in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonUpdateModel {
    /// Null ends the model in force.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, required)]
    pub test: Option<Option<Test>>,
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

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct JsonUpdateAlert {
    #[serde(default)]
    pub status: Option<JsonAlertStatus>,
    /// Why: people see it beside the alert.
    #[serde(default)]
    pub reason: Option<String>,
}

/// The start point of a new branch has the form of a report's.
impl From<JsonNewStartPoint> for JsonRunStartPoint {
    fn from(new: JsonNewStartPoint) -> Self {
        Self {
            branch: Some(new.branch),
            hash: new.hash,
            max_versions: new.max_versions,
            clone_thresholds: new.clone_thresholds,
            reset: None,
        }
    }
}
