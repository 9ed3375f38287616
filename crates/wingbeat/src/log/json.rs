//! The list as JSON. docs/formats.md describes the fields.

use serde::Serialize;
use wingbeat_track::{
    explain::Explained,
    model::{Environment, ProfileInfo, Report, StartPoint},
};

use crate::{shell::print_json, store::rfc3339};

/// Of the list, of a report, and of a check. Incremented when a field is renamed or removed.
pub(super) const SCHEMA_VERSION: u32 = 1;

/// A report with its related entries.
#[derive(Serialize)]
pub(super) struct Whole<'a> {
    #[serde(flatten)]
    pub(super) report: &'a Report,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) profiles: Vec<ProfileInfo>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) explained: Vec<Explained>,
}

#[derive(Serialize)]
struct List<'a> {
    reports: Vec<Entry<'a>>,
}

pub(super) fn print<'a>(entries: impl Iterator<Item = &'a super::Entry>) -> anyhow::Result<()> {
    print_json(SCHEMA_VERSION, &List { reports: entries.map(Entry::of).collect() })
}

/// A report without its metrics.
#[derive(Serialize)]
struct Entry<'a> {
    uuid: String,
    project: &'a str,
    branch: &'a str,
    hash: Option<&'a str>,
    epoch: u32,
    start_point: Option<&'a StartPoint>,
    testbed: &'a str,
    start_time: String,
    end_time: String,
    iterations: u32,
    metrics: u64,
    failures: u64,
    alerts: u64,
    active_alerts: u64,
    confirms: Option<String>,
    environment: &'a Environment,
    environment_changes: &'a [String],
}

impl<'a> Entry<'a> {
    fn of(entry: &'a super::Entry) -> Self {
        let summary = &entry.summary;
        Self {
            uuid: summary.uuid.to_string(),
            project: summary.project.as_str(),
            branch: summary.branch.as_str(),
            hash: summary.hash.as_deref(),
            epoch: summary.epoch,
            start_point: entry.start_point.as_ref(),
            testbed: summary.testbed.as_str(),
            start_time: rfc3339(summary.start_time),
            end_time: rfc3339(summary.end_time),
            iterations: summary.iterations,
            metrics: summary.metrics,
            failures: summary.failures,
            alerts: summary.alerts,
            active_alerts: summary.active_alerts,
            confirms: summary.confirms.map(|uuid| uuid.to_string()),
            environment: &summary.environment,
            environment_changes: &entry.news,
        }
    }
}
