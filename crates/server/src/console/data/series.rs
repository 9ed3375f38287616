//! One-line summaries of the selected series.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;
use wingbeat_track::{
    model::{AlertStatus, BenchmarkName, BranchName, Slug, TestbedName},
    store::{AlertFilter, PlotQuery, ReportFilter},
};

use super::choice::Choice;
pub(crate) use crate::series::SeriesRow;
use crate::{
    ApiError,
    registry::Project,
    series::{kept, row},
    storage::Databases,
};

/// Maximum newest reports considered.
const REPORTS_MAX: usize = 1000;

/// All series of a selection.
pub(crate) fn rows(
    databases: &Databases,
    project: &Project,
    choice: &Choice,
) -> Result<Vec<SeriesRow>, ApiError> {
    if choice.missing.is_some() {
        return Ok(Vec::new());
    }
    if let Some(mut rows) = kept(databases, project, &choice.branches)? {
        let benchmarks: HashSet<_> = choice.benchmarks.iter().collect();
        rows.retain(|row| {
            (choice.testbeds.is_empty() || choice.testbeds.contains(&row.testbed))
                && (choice.measures.is_empty() || choice.measures.contains(&row.measure.slug))
                && (benchmarks.is_empty() || benchmarks.contains(&row.benchmark))
        });
        return Ok(rows);
    }
    // The first report of a branch has just arrived.
    let query = PlotQuery {
        branches: choice.branches.clone(),
        testbeds: choice.testbeds.clone(),
        benchmarks: choice.benchmarks.clone(),
        measures: choice.measures.clone(),
        reports_max: REPORTS_MAX,
        ..PlotQuery::of(project.stored.clone())
    };
    let plot = databases.results.plot(&query)?;
    Ok(plot.series.iter().filter_map(|series| row(&plot, series)).collect())
}

/// The newest active alert of each series with any.
#[derive(Debug, Default)]
pub(crate) struct Alerts(HashMap<(BranchName, TestbedName, BenchmarkName, Slug), Uuid>);

/// Maximum alerts read.
const ALERTS_MAX: usize = 1000;

impl Alerts {
    pub(crate) fn read(databases: &Databases, project: &Project) -> Result<Self, ApiError> {
        let reports =
            ReportFilter { project: Some(project.stored.clone()), ..ReportFilter::default() };
        let active = AlertFilter { reports, status: Some(AlertStatus::Active), uuid: None };
        // Newest first, and the last insertion wins.
        let alerts = databases.results.alerts(&active, ALERTS_MAX)?.into_iter().rev();
        let by_series = alerts.map(|it| {
            ((it.branch, it.testbed, it.alert.benchmark, it.measure.slug), it.alert.uuid)
        });
        Ok(Self(by_series.collect()))
    }

    pub(crate) fn of(&self, row: &SeriesRow) -> Option<Uuid> {
        let SeriesRow { branch, testbed, benchmark, measure, .. } = row;
        let key = (branch.clone(), testbed.clone(), benchmark.clone(), measure.slug.clone());
        self.0.get(&key).copied()
    }
}
