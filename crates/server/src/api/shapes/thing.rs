//! Organizations, projects, and the things of projects.

use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, serde::rfc3339};
use utoipa::ToSchema;
use uuid::Uuid;

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
    /// Always there: else the client tells people to claim the project.
    #[serde(with = "rfc3339::option")]
    pub claimed: Option<OffsetDateTime>,
}

/// A commit, or a report without one, on a branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JsonVersion {
    pub number: u64,
    /// 40 digits.
    pub hash: Option<String>,
}

/// Where a branch begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JsonStartPoint {
    pub branch: Uuid,
    pub head: Uuid,
    pub version: JsonVersion,
}

/// A stretch of a branch: a new one begins where its history is reset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonHead {
    pub uuid: Uuid,
    pub start_point: Option<JsonStartPoint>,
    pub version: Option<JsonVersion>,
    #[serde(with = "rfc3339")]
    pub created: OffsetDateTime,
    #[serde(with = "rfc3339::option")]
    pub replaced: Option<OffsetDateTime>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonBranch {
    pub uuid: Uuid,
    pub project: Uuid,
    pub name: String,
    pub slug: String,
    pub head: JsonHead,
    #[serde(with = "rfc3339")]
    pub created: OffsetDateTime,
    #[serde(with = "rfc3339")]
    pub modified: OffsetDateTime,
    #[serde(with = "rfc3339::option")]
    pub archived: Option<OffsetDateTime>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonTestbed {
    pub uuid: Uuid,
    pub project: Uuid,
    pub name: String,
    pub slug: String,
    /// Always null: this server has no specs.
    #[schema(value_type = Option<String>)]
    pub spec: Option<()>,
    #[serde(with = "rfc3339")]
    pub created: OffsetDateTime,
    #[serde(with = "rfc3339")]
    pub modified: OffsetDateTime,
    #[serde(with = "rfc3339::option")]
    pub archived: Option<OffsetDateTime>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonBenchmark {
    pub uuid: Uuid,
    pub project: Uuid,
    pub name: String,
    pub slug: String,
    #[serde(with = "rfc3339")]
    pub created: OffsetDateTime,
    #[serde(with = "rfc3339")]
    pub modified: OffsetDateTime,
    #[serde(with = "rfc3339::option")]
    pub archived: Option<OffsetDateTime>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JsonMeasure {
    pub uuid: Uuid,
    pub project: Uuid,
    pub name: String,
    pub slug: String,
    pub units: String,
    #[serde(with = "rfc3339")]
    pub created: OffsetDateTime,
    #[serde(with = "rfc3339")]
    pub modified: OffsetDateTime,
    #[serde(with = "rfc3339::option")]
    pub archived: Option<OffsetDateTime>,
}

/// Whether the caller may do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JsonAllowed {
    pub allowed: bool,
}
