//! An alert: a metric beyond a limit, and its status.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    name::{BenchmarkName, Slug},
    verdict::{Limit, Verdict},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertStatus {
    Active,
    Dismissed,
    /// Silenced: this and later alerts of the same series do not count.
    Silenced,
}

impl fmt::Display for AlertStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Active => "active",
            Self::Dismissed => "dismissed",
            Self::Silenced => "silenced",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    pub uuid: Uuid,
    pub iteration: u32,
    pub benchmark: BenchmarkName,
    pub measure: Slug,
    pub limit: Limit,
    pub status: AlertStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Alert {
    /// The active alert raised by a verdict.
    pub fn of(uuid: Uuid, verdict: &Verdict) -> Self {
        Self {
            uuid,
            iteration: verdict.iteration,
            benchmark: verdict.benchmark.clone(),
            measure: verdict.measure.clone(),
            // An alert without a crossed limit is one of exact measures that increased.
            limit: verdict.limit.unwrap_or(Limit::Upper),
            status: AlertStatus::Active,
            reason: None,
        }
    }
}
