//! Request and response formats: Bencher's, and those that only a server reads or writes.

pub use wingbeat_track::bencher::*;

use serde::{Deserialize, Deserializer, Serialize, de};
use time::{OffsetDateTime, serde::rfc3339};
use utoipa::ToSchema;
use uuid::Uuid;
use wingbeat_track::model::{AlertStatus, Boundary, ThresholdModel, threshold::Test};

use crate::database::{PlotSettings, XAxis, YAxis};

/// The one organization of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonOrganization {
    pub uuid: Uuid,
    pub name: String,
    pub slug: String,
    #[serde(with = "rfc3339")]
    pub created: OffsetDateTime,
    #[serde(with = "rfc3339")]
    pub modified: OffsetDateTime,
    #[serde(with = "rfc3339::option")]
    pub claimed: Option<OffsetDateTime>,
}

/// Whether the caller may do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JsonAllowed {
    pub allowed: bool,
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
    pub boundary: Option<Boundary>,
    pub alert: Option<JsonPerfAlert>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonNewProject {
    #[schema(
        pattern = r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$",
        max_length = 64
    )]
    pub name: String,
    #[schema(pattern = "^[a-z0-9]+(-[a-z0-9]+)*$", max_length = 64)]
    pub slug: Option<String>,
    #[schema(pattern = "^https?://[!-~]+$", max_length = 1024)]
    pub url: Option<String>,
    pub visibility: Option<JsonVisibility>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct JsonUpdateProject {
    #[schema(
        pattern = r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$",
        max_length = 64
    )]
    pub name: Option<String>,
    #[schema(pattern = "^[a-z0-9]+(-[a-z0-9]+)*$", max_length = 64)]
    pub slug: Option<String>,
    /// Null removes it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^https?://[!-~]+$", max_length = 1024)]
    pub url: Option<Option<String>>,
    pub visibility: Option<JsonVisibility>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonNewEntity {
    #[schema(
        pattern = r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$"
    )]
    pub name: String,
    #[schema(pattern = "^[a-z0-9]+(-[a-z0-9]+)*$", max_length = 64)]
    pub slug: Option<String>,
    /// Required for measures.
    #[schema(
        pattern = r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$",
        max_length = 64
    )]
    pub units: Option<String>,
    /// For branches.
    pub start_point: Option<JsonRunStartPoint>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct JsonUpdateEntity {
    #[schema(
        pattern = r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$"
    )]
    pub name: Option<String>,
    #[schema(pattern = "^[a-z0-9]+(-[a-z0-9]+)*$", max_length = 64)]
    pub slug: Option<String>,
    /// For measures.
    #[schema(
        pattern = r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$",
        max_length = 64
    )]
    pub units: Option<String>,
    /// For branches.
    pub start_point: Option<JsonRunStartPoint>,
    pub archived: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonNewThreshold {
    pub branch: String,
    pub testbed: String,
    pub measure: String,
    #[serde(flatten)]
    pub model: ThresholdModel,
}

/// A new model, or the end of the active one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonUpdateModel {
    /// Null ends the active model.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, required)]
    pub test: Option<Option<Test>>,
    pub min_sample_size: Option<u32>,
    pub max_sample_size: Option<u32>,
    pub window: Option<u32>,
    pub lower_boundary: Option<f64>,
    pub upper_boundary: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct JsonUpdateAlert {
    pub status: Option<AlertStatus>,
    /// The reason, shown with the alert.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonPlot {
    pub uuid: Uuid,
    pub project: Uuid,
    #[serde(flatten)]
    pub settings: PlotSettings,
    pub branches: Vec<Uuid>,
    pub testbeds: Vec<Uuid>,
    pub benchmarks: Vec<Uuid>,
    pub measures: Vec<Uuid>,
    #[serde(with = "rfc3339")]
    pub created: OffsetDateTime,
    #[serde(with = "rfc3339")]
    pub modified: OffsetDateTime,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonNewPlot {
    /// Index among the plots; by default the last.
    #[schema(maximum = 255)]
    pub index: Option<u8>,
    #[serde(flatten)]
    pub settings: PlotSettings,
    pub branches: Vec<Uuid>,
    pub testbeds: Vec<Uuid>,
    pub benchmarks: Vec<Uuid>,
    pub measures: Vec<Uuid>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct JsonUpdatePlot {
    #[schema(maximum = 255)]
    pub index: Option<u8>,
    /// Null removes it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = r"\S", max_length = 64)]
    pub title: Option<Option<String>>,
    pub x_axis: Option<XAxis>,
    pub y_axis: Option<YAxis>,
    pub window: Option<u32>,
}

/// Distinguishes a `null` member from an absent one.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}

/// An integer, also in the JSON form `60.0`.
pub(super) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let exact = number.as_u64().or_else(|| {
        let float = number.as_f64()?;
        (float.fract() == 0.0 && float >= 0.0).then_some(float as u64)
    });
    let exact = exact.and_then(|number| u32::try_from(number).ok());
    let expected = || de::Error::custom(format!("{number} is not a whole number below 2^32"));
    exact.map(Some).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_may_have_a_fraction_of_zero() {
        #[derive(Debug, Deserialize)]
        struct Ttl {
            #[serde(default, deserialize_with = "whole")]
            ttl: Option<u32>,
        }
        let check = |text, expected: Option<Option<u32>>| {
            let read = serde_json::from_str::<Ttl>(text).map(|it| it.ttl);
            assert_eq!(read.ok(), expected, "{text}");
        };
        check("{}", Some(None));
        check(r#"{"ttl": null}"#, Some(None));
        check(r#"{"ttl": 60}"#, Some(Some(60)));
        check(r#"{"ttl": 63388.0}"#, Some(Some(63_388)));
        check(r#"{"ttl": 0.5}"#, None);
        check(r#"{"ttl": -1}"#, None);
        check(r#"{"ttl": 4294967296}"#, None);
        check(r#"{"ttl": 1e300}"#, None);
    }
}
