//! Series in one line each, of a choice.

use std::collections::HashSet;

use wingbeat_track::store::PlotQuery;

use super::choice::Choice;
pub(crate) use crate::series::SeriesRow;
use crate::{
    ApiError,
    registry::Project,
    series::{kept, row},
    storage::Databases,
};

/// Newest reports that count at most: a page is no archive.
const REPORTS_MAX: usize = 1000;

/// All series of a choice.
pub(crate) fn rows(
    databases: &Databases,
    project: &Project,
    choice: &Choice,
) -> Result<Vec<SeriesRow>, ApiError> {
    if choice.is_void {
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
    // The first report of a branch has just come.
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
