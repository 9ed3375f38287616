//! The history that a new report is judged by.
//!
//! A branch without a start point has its own earlier reports for a history. A branch with one has those
//! of the start point, so that its own earlier pushes cannot hide a regression.

use std::collections::HashSet;

use super::prelude::*;
use time::Duration;

use super::{
    from_row::ENVIRONMENT,
    log::branch_head,
    past::{SUMS, StoredReport, past, past_report},
    versions::START_POINTS_MAX,
};

/// Whose history is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryQuery {
    pub project: ProjectName,
    pub branch: BranchName,
    pub epoch: u32,
    pub start_point: Option<StartPoint>,
    pub testbed: TestbedName,
    /// Its start time and its UUID: history is what comes before, in this order.
    pub before: (OffsetDateTime, Uuid),
    /// How long before it history begins. `None`: with the first report.
    pub window: Option<Duration>,
    /// Newest reports that count at most.
    pub reports_max: usize,
    /// Newest reports whose samples are read as well: they are large.
    pub sampled_reports_max: usize,
}

impl HistoryQuery {
    /// The whole history of a report, with all samples.
    pub fn of(report: &Report) -> Self {
        Self {
            project: report.project.clone(),
            branch: report.branch.clone(),
            epoch: report.epoch,
            start_point: report.start_point.clone(),
            testbed: report.testbed.clone(),
            before: (report.start_time, report.uuid),
            window: None,
            reports_max: usize::MAX,
            sampled_reports_max: usize::MAX,
        }
    }

    fn since_ns(&self) -> i64 {
        let since = self.window.and_then(|window| self.before.0.checked_sub(window));
        since.map_or(i64::MIN, limit_ns)
    }
}

impl Store {
    /// The history of a report. Reports that confirm another are not part of it.
    pub fn history(&self, query: &HistoryQuery) -> Result<Past, StoreError> {
        history(&self.connection, query).map_err(self.error("reading a history"))
    }
}

fn history(db: &Connection, query: &HistoryQuery) -> SqlResult<Past> {
    // One view of the store, also if somebody writes meanwhile.
    let view = db.unchecked_transaction()?;
    let Some(project) = project_row(&view, &query.project)? else { return Ok(Past::default()) };
    let testbed = name_row(&view, "testbed", project, query.testbed.as_str())?;
    let Some(testbed) = testbed else { return Ok(Past::default()) };
    let branch = name_row(&view, "branch", project, query.branch.as_str())?;
    let reports = match (&query.start_point, branch) {
        (Some(start), _) => inherited(&view, query, project, testbed, start)?,
        (None, Some(branch)) => {
            let end = (limit_ns(query.before.0), query.before.1);
            let stretch = Stretch { branch, testbed, epoch: query.epoch, end };
            stretch.newest(&view, query.since_ns(), query.reports_max)?
        }
        (None, None) => Vec::new(),
    };
    past(&view, reports, query.sampled_reports_max)
}

/// Reports of one branch, testbed and epoch before some place in time.
struct Stretch {
    branch: i64,
    testbed: i64,
    epoch: u32,
    /// Start time in nanoseconds and UUID of the first report that is beyond.
    end: (i64, Uuid),
}

impl Stretch {
    fn newest(&self, db: &Connection, since_ns: i64, most: usize) -> SqlResult<Vec<StoredReport>> {
        let sql = format!(
            "SELECT r.id AS row, r.uuid, b.name AS branch, r.hash, r.start_time_ns, {SUMS}, {ENVIRONMENT}
             FROM report r
             JOIN branch b ON b.id = r.branch
             JOIN environment e ON e.id = r.environment
             WHERE r.branch = ?1 AND r.testbed = ?2 AND r.epoch = ?3 AND r.confirms IS NULL
               AND r.start_time_ns >= ?4 AND (r.start_time_ns, r.uuid) < (?5, ?6)
             ORDER BY r.start_time_ns DESC, r.uuid DESC
             LIMIT ?7"
        );
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let (end_ns, end_uuid) = (self.end.0, Id(self.end.1));
        let values =
            params![self.branch, self.testbed, self.epoch, since_ns, end_ns, end_uuid, most];
        prepare(db, &sql)?.query_map(values, past_report)?.collect()
    }
}

/// Reports of a start point, of its own start point and so on, newest first.
fn inherited(
    db: &Connection,
    query: &HistoryQuery,
    project: i64,
    testbed: i64,
    start: &StartPoint,
) -> SqlResult<Vec<StoredReport>> {
    let mut reports = Vec::new();
    let mut visited = HashSet::new();
    let mut versions_left = usize::MAX;
    let mut next = Some(start.clone());
    while let Some(start) = next.take() {
        versions_left = versions_left.min(start.max_versions as usize);
        let branch = name_row(db, "branch", project, start.branch.as_str())?;
        let Some(branch) = branch else { break };
        let end = match start.until {
            // The first nanosecond that does not count.
            Some(until) => (limit_ns(until).saturating_add(1), Uuid::nil()),
            None => (limit_ns(query.before.0), query.before.1),
        };
        let until_ns = start.until.map_or(end.0, limit_ns);
        let Some(head) = branch_head(db, branch, until_ns)? else { break };
        if !visited.insert((branch, head.epoch)) || visited.len() > START_POINTS_MAX {
            break;
        }
        let stretch = Stretch { branch, testbed, epoch: head.epoch, end };
        let most = query.reports_max - reports.len();
        let mut versions = HashSet::new();
        for report in stretch.newest(db, query.since_ns(), most)? {
            let version =
                report.report.hash.clone().unwrap_or_else(|| report.report.uuid.to_string());
            if versions.len() == versions_left && !versions.contains(&version) {
                break;
            }
            versions.insert(version);
            reports.push(report);
        }
        versions_left -= versions.len();
        next = head.start_point.filter(|_| versions_left > 0 && reports.len() < query.reports_max);
    }
    Ok(reports)
}
