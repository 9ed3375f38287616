//! Pinned plots.

use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, serde::rfc3339};
use utoipa::ToSchema;
use uuid::Uuid;

/// What the horizontal axis shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JsonXAxis {
    DateTime,
    Version,
}

/// How the vertical axis is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JsonYAxis {
    #[default]
    Auto,
    Linear,
    Log,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonPlot {
    pub uuid: Uuid,
    pub project: Uuid,
    pub title: Option<String>,
    pub lower_value: bool,
    pub upper_value: bool,
    pub lower_boundary: bool,
    pub upper_boundary: bool,
    pub x_axis: JsonXAxis,
    pub y_axis: JsonYAxis,
    /// In seconds.
    pub window: u32,
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
    /// Its place among the plots; the last one if it is not there.
    #[serde(default)]
    #[schema(maximum = 255)]
    pub index: Option<u8>,
    #[serde(default)]
    #[schema(pattern = r"\S", max_length = 64)]
    pub title: Option<String>,
    pub lower_value: bool,
    pub upper_value: bool,
    pub lower_boundary: bool,
    pub upper_boundary: bool,
    pub x_axis: JsonXAxis,
    #[serde(default)]
    pub y_axis: JsonYAxis,
    pub window: u32,
    pub branches: Vec<Uuid>,
    pub testbeds: Vec<Uuid>,
    pub benchmarks: Vec<Uuid>,
    pub measures: Vec<Uuid>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct JsonUpdatePlot {
    #[serde(default)]
    #[schema(maximum = 255)]
    pub index: Option<u8>,
    /// Null removes it.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = r"\S", max_length = 64)]
    pub title: Option<Option<String>>,
    #[serde(default)]
    pub window: Option<u32>,
}
