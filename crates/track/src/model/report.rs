//! A report: the results of one `wingbeat run`, with branch, commit, testbed, time and environment.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    adapter::Adapter,
    alert::{Alert, AlertStatus},
    environment::Environment,
    measure::Measure,
    metric::Metric,
    name::{BranchName, ProjectName, TestbedName},
    results::{BenchmarkResults, FailedBenchmark, Results},
    verdict::Verdict,
};

/// All results of one run. The store keeps it, and `wingbeat export` writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Unique across stores.
    pub uuid: Uuid,
    pub project: ProjectName,
    pub branch: BranchName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// How often the branch's history was restarted. Earlier epochs are not history for this one.
    #[serde(default)]
    pub epoch: u32,
    /// Where the branch starts from. Its history continues there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_point: Option<StartPoint>,
    /// The user's name for the machine, or the kind of machine.
    pub testbed: TestbedName,
    /// When the first iteration began. History is ordered by it, and not by the time of storing.
    #[serde(with = "time::serde::rfc3339")]
    pub start_time: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub end_time: OffsetDateTime,
    pub adapter: Adapter,
    #[serde(default)]
    pub environment: Environment,
    /// One per iteration.
    pub iterations: Vec<Results>,
    /// Verdicts, in the order of the iterations and of their metrics.
    #[serde(default)]
    pub verdicts: Vec<Verdict>,
    #[serde(default)]
    pub alerts: Vec<Alert>,
    /// The report whose alerts this one confirms (`--confirm`). Such reports are not history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirms: Option<Uuid>,
}

impl Report {
    /// An empty report in Bencher Metric Format with a duration of 0.
    pub fn new(
        uuid: Uuid,
        project: ProjectName,
        branch: BranchName,
        testbed: TestbedName,
        start_time: OffsetDateTime,
    ) -> Self {
        Self {
            uuid,
            project,
            branch,
            hash: None,
            epoch: 0,
            start_point: None,
            testbed,
            start_time,
            end_time: start_time,
            adapter: Adapter::Json,
            environment: Environment::default(),
            iterations: Vec::new(),
            verdicts: Vec::new(),
            alerts: Vec::new(),
            confirms: None,
        }
    }

    /// All metrics in order, each with its iteration from 0, its benchmark and its measure.
    pub fn metrics(&self) -> impl Iterator<Item = (u32, &BenchmarkResults, &Measure, &Metric)> {
        let iterations = (0..).zip(&self.iterations);
        let benchmarks =
            iterations.flat_map(|(at, results)| results.benchmarks.iter().map(move |it| (at, it)));
        benchmarks.flat_map(|(at, it)| {
            it.metrics.iter().map(move |(measure, metric)| (at, it, measure, metric))
        })
    }

    /// The benchmarks that failed, each with its iteration from 0.
    pub fn failures(&self) -> impl Iterator<Item = (u32, &FailedBenchmark)> {
        let iterations = (0..).zip(&self.iterations);
        iterations
            .flat_map(|(at, results)| results.failures.iter().map(move |failure| (at, failure)))
    }

    /// Alerts that are neither dismissed nor silenced.
    pub fn active_alerts(&self) -> usize {
        self.alerts.iter().filter(|alert| alert.status == AlertStatus::Active).count()
    }
}

/// The position in another branch's history where a branch begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartPoint {
    pub branch: BranchName,
    /// Commit at which the branches diverge, if known: the merge base, or `--start-point-hash`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Reports of the other branch count up to and including this time: the start time of the last report of that
    /// commit, or of the nearest one before it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "time::serde::rfc3339::option"
    )]
    pub until: Option<OffsetDateTime>,
    /// Maximum number of the other branch's versions to use, newest first.
    pub max_versions: u32,
}
