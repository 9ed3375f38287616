//! Bencher's JSON, as its client, its servers and ours exchange it. Members of our own have defaults, and its client
//! ignores them.

use std::{collections::BTreeMap, ops::Deref};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use time::{OffsetDateTime, serde::rfc3339};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    model::{
        AlertStatus, Average, Boundary, Change, Direction, Limit, MeasureKind, Notice, Outcome,
        Reason, Report, Results, ThresholdModel, threshold::Test,
    },
    run::Fold,
};

/// Who may read a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum JsonVisibility {
    Public,
    /// Users and keys of this server only.
    Private,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonProject {
    pub uuid: Uuid,
    pub organization: Uuid,
    pub name: String,
    pub slug: String,
    pub url: Option<String>,
    pub visibility: JsonVisibility,
    #[serde(with = "rfc3339")]
    pub created: OffsetDateTime,
    #[serde(with = "rfc3339")]
    pub modified: OffsetDateTime,
    /// Always set by our servers: else the client asks the user to claim the project.
    #[serde(default, with = "rfc3339::option")]
    pub claimed: Option<OffsetDateTime>,
}

/// A commit, or a report without one, on a branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JsonVersion {
    pub number: u64,
    /// 40 digits.
    pub hash: Option<String>,
}

/// The start point of a branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JsonStartPoint {
    pub branch: Uuid,
    pub head: Uuid,
    pub version: JsonVersion,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wingbeat: Option<JsonAskedStartPoint>,
}

/// The start point that the user asked for, if another report was compared with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JsonAskedStartPoint {
    pub asked_hash: Option<String>,
}

/// A section of a branch: a new one begins where its history is reset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonHead {
    pub uuid: Uuid,
    pub start_point: Option<JsonStartPoint>,
    pub version: Option<JsonVersion>,
    #[serde(with = "rfc3339")]
    pub created: OffsetDateTime,
    #[serde(default, with = "rfc3339::option")]
    pub replaced: Option<OffsetDateTime>,
}

/// A benchmark, or what it has in common with a branch, a testbed or a measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonEntity {
    pub uuid: Uuid,
    pub project: Uuid,
    pub name: String,
    pub slug: String,
    #[serde(with = "rfc3339")]
    pub created: OffsetDateTime,
    #[serde(with = "rfc3339")]
    pub modified: OffsetDateTime,
    #[serde(default, with = "rfc3339::option")]
    pub archived: Option<OffsetDateTime>,
}

pub type JsonBenchmark = JsonEntity;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonBranch {
    #[serde(flatten)]
    pub entity: JsonEntity,
    pub head: JsonHead,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonTestbed {
    #[serde(flatten)]
    pub entity: JsonEntity,
    /// Always null on our servers.
    #[schema(value_type = Option<Object>)]
    pub spec: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonMeasure {
    #[serde(flatten)]
    pub entity: JsonEntity,
    pub units: String,
}

macro_rules! entities {
    ($($name:ty),+) => {$(
        impl Deref for $name {
            type Target = JsonEntity;

            fn deref(&self) -> &JsonEntity {
                &self.entity
            }
        }
    )+};
}

entities!(JsonBranch, JsonTestbed, JsonMeasure);

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonMetric {
    pub uuid: Uuid,
    pub value: f64,
    pub lower_value: Option<f64>,
    pub upper_value: Option<f64>,
}

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
    #[serde(default, with = "rfc3339::option")]
    pub replaced: Option<OffsetDateTime>,
}

impl JsonModel {
    /// A model with its settings, in force since `created`.
    pub fn of(uuid: Uuid, settings: &ThresholdModel, created: OffsetDateTime) -> Self {
        let ThresholdModel {
            test,
            min_sample_size,
            max_sample_size,
            window,
            lower_boundary,
            upper_boundary,
        } = *settings;
        Self {
            uuid,
            test,
            min_sample_size,
            max_sample_size,
            window,
            lower_boundary,
            upper_boundary,
            created,
            replaced: None,
        }
    }
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
    /// Null without an active model, and with a test that the client does not know.
    pub model: Option<JsonModel>,
    #[serde(with = "rfc3339")]
    pub created: OffsetDateTime,
    #[serde(with = "rfc3339")]
    pub modified: OffsetDateTime,
    /// A model with a test that the client does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wingbeat: Option<JsonModel>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonAlert {
    pub uuid: Uuid,
    pub report: Uuid,
    pub iteration: u32,
    pub benchmark: JsonBenchmark,
    pub metric: JsonMetric,
    pub threshold: JsonThreshold,
    pub boundary: Boundary,
    pub limit: Limit,
    pub status: AlertStatus,
    #[serde(with = "rfc3339")]
    pub created: OffsetDateTime,
    #[serde(with = "rfc3339")]
    pub modified: OffsetDateTime,
    /// The reason given with the last change of its status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The sender of a report.
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
    /// Our servers always set it.
    pub counts: Option<JsonReportCounts>,
    /// Notices about the whole report from judging it. Lists omit them.
    #[serde(default, deserialize_with = "known_notices", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub notices: Vec<Notice>,
    #[serde(with = "rfc3339")]
    pub created: OffsetDateTime,
    /// Facts that Bencher has no members for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub wingbeat: Option<Value>,
}

/// Reads notices, except those of kinds that a newer version added.
fn known_notices<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Notice>, D::Error> {
    let all = Vec::<Value>::deserialize(deserializer)?;
    Ok(all.into_iter().filter_map(|it| Notice::deserialize(it).ok()).collect())
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
    pub boundary: Option<Boundary>,
    /// The verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub wingbeat: Option<JsonVerdict>,
}

/// A metric's verdict, and what Bencher has no members for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JsonVerdict {
    pub verdict: Outcome,
    pub test: Option<Test>,
    pub change: Option<Change>,
    pub p: Option<f64>,
    pub smallest_visible: Option<f64>,
    pub points: Option<usize>,
    /// Why, as a sentence.
    pub reason: String,
    /// Why, as fields.
    pub reason_fields: Option<Reason>,
    pub limit: Option<Limit>,
    pub is_suspect: bool,
    pub is_ignored: bool,
    /// Number of raw samples.
    pub samples: usize,
    pub direction: Direction,
    pub kind: MeasureKind,
    /// The threshold behind the verdict, if known.
    pub threshold: Option<ThresholdModel>,
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

impl JsonReportCounts {
    pub fn of(report: &Report) -> Self {
        let of_one = |results: &Results| {
            let benchmarks = &results.benchmarks;
            let metrics = benchmarks.iter().flat_map(|benchmark| &benchmark.metrics);
            let measures: BTreeMap<_, _> =
                metrics.map(|(measure, _)| (&measure.slug, ())).collect();
            JsonIterationCounts {
                benchmarks: benchmarks.len() as u64,
                measures: measures.len() as u64,
            }
        };
        let (total, active) = (report.alerts.len() as u64, report.active_alerts() as u64);
        Self {
            results: report.iterations.iter().map(of_one).collect(),
            alerts: JsonAlertCounts { total, active },
        }
    }
}

/// Series of metrics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonPerf {
    pub project: JsonProject,
    #[serde(default, with = "rfc3339::option")]
    pub start_time: Option<OffsetDateTime>,
    #[serde(default, with = "rfc3339::option")]
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
    #[serde(default)]
    pub iteration: u32,
    #[serde(with = "rfc3339")]
    pub start_time: OffsetDateTime,
    #[serde(with = "rfc3339")]
    pub end_time: OffsetDateTime,
    pub version: JsonVersion,
    pub metric: JsonMetric,
    pub threshold: Option<JsonThresholdModel>,
    pub boundary: Option<Boundary>,
    pub alert: Option<JsonPerfAlert>,
}

/// The alert raised by a metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonPerfAlert {
    pub uuid: Uuid,
    pub limit: Limit,
    pub status: AlertStatus,
    #[serde(with = "rfc3339")]
    pub modified: OffsetDateTime,
}

/// A request to store results. The client describes its environment in `context`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonNewRun {
    /// Slug or UUID. An unknown slug creates a project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[a-z0-9]+(-[a-z0-9]+)*$", max_length = 64)]
    pub project: Option<String>,
    /// It becomes the UUID of the report, so that a repeated request stores one report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 32)]
    pub idempotency_key: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_point: Option<JsonRunStartPoint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub testbed: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thresholds: Option<JsonReportThresholds>,
    #[serde(with = "rfc3339")]
    pub start_time: OffsetDateTime,
    #[serde(with = "rfc3339")]
    pub end_time: OffsetDateTime,
    /// Output of the benchmark tool, by iteration.
    #[schema(min_items = 1)]
    pub results: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<JsonReportSettings>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<BTreeMap<String, String>>,
    /// For runs on machines of the server. Our servers have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub job: Option<Value>,
}

/// A request to store results of a branch on a testbed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonNewReport {
    #[schema(min_length = 32)]
    pub idempotency_key: Option<Uuid>,
    pub branch: String,
    pub hash: Option<String>,
    pub start_point: Option<JsonRunStartPoint>,
    pub testbed: String,
    pub thresholds: Option<JsonReportThresholds>,
    #[serde(with = "rfc3339")]
    pub start_time: OffsetDateTime,
    #[serde(with = "rfc3339")]
    pub end_time: OffsetDateTime,
    #[schema(min_items = 1)]
    pub results: Vec<String>,
    pub settings: Option<JsonReportSettings>,
}

/// The start point of a branch in a request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct JsonRunStartPoint {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_versions: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone_thresholds: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<bool>,
}

/// Thresholds to store.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct JsonReportThresholds {
    /// By measure.
    pub models: Option<BTreeMap<String, ThresholdModel>>,
    /// Whether to end all others of the branch and testbed.
    pub reset: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct JsonReportSettings {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub average: Option<Average>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub fold: Option<Fold>,
}
