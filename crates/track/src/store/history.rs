//! The history that a new report is judged by.
//!
//! For a branch without a start point it consists of the branch's own earlier reports. For one with a start point it
//! consists of those of the start point, so that its own earlier pushes cannot hide a regression.

use std::collections::HashSet;

use super::prelude::*;

use super::{
    log::branch_head,
    past::{SUMS, StoredReport, past, past_report},
    rows::{Conditions, newest},
    versions::START_POINTS_MAX,
};

/// How much of a history is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Maximum number of reports, newest first.
    pub reports: usize,
    /// Number of newest reports whose samples are read as well: they are large.
    pub sampled_reports: usize,
}

impl HistoryLimits {
    /// All reports, with all samples.
    pub const NONE: Self = Self { reports: usize::MAX, sampled_reports: usize::MAX };
}

impl Store {
    /// The history of a report: earlier ones by start time and UUID. Reports that confirm another are excluded.
    pub fn history(&self, report: &Report, limits: HistoryLimits) -> Result<Past, StoreError> {
        let read = || {
            // A consistent view of the store despite concurrent writes.
            let view = self.connection.view()?;
            past(&view, reports(&view, report, limits)?, limits.sampled_reports)
        };
        read().map_err(self.error("reading a history"))
    }

    /// The newest earlier reports of the same branch, without samples, if it has a start point: then they are not part
    /// of its history.
    pub fn pushes(&self, report: &Report, most: usize) -> Result<Past, StoreError> {
        if report.start_point.is_none() {
            return Ok(Past::default());
        }
        let own = Report { start_point: None, ..report.clone() };
        self.history(&own, HistoryLimits { reports: most, sampled_reports: 0 })
    }
}

fn reports(
    db: &Connection,
    report: &Report,
    limits: HistoryLimits,
) -> SqlResult<Vec<StoredReport>> {
    let Some(project) = project_row(db, &report.project)? else { return Ok(Vec::new()) };
    let testbed = name_row(db, "testbed", project, report.testbed.as_str())?;
    let Some(testbed) = testbed else { return Ok(Vec::new()) };
    let branch = name_row(db, "branch", project, report.branch.as_str())?;
    let end = (limit_ns(report.start_time), report.uuid);
    match (&report.start_point, branch) {
        (Some(start), _) => inherited(db, limits, (project, testbed), start, end),
        (None, Some(branch)) => {
            let stretch = Stretch { branch, testbed, epoch: report.epoch, end };
            stretch.newest(db, limits.reports)
        }
        (None, None) => Ok(Vec::new()),
    }
}

/// Reports of one branch, testbed and epoch before some point in time.
struct Stretch {
    branch: i64,
    testbed: i64,
    epoch: u32,
    /// Start time in nanoseconds and UUID of the first report beyond.
    end: (i64, Uuid),
}

impl Stretch {
    fn newest(&self, db: &Connection, most: usize) -> SqlResult<Vec<StoredReport>> {
        let mut conditions = Conditions::default();
        conditions.add("r.branch =", Some(self.branch));
        conditions.add("r.testbed =", Some(self.testbed));
        conditions.add("r.epoch =", Some(self.epoch));
        conditions.require("r.confirms IS NULL");
        conditions.before(self.end.0, self.end.1);
        newest(db, &format!("r.id AS row, {SUMS}"), conditions, most, past_report)
    }
}

/// Reports of a start point, of its own start point and so on, newest first.
fn inherited(
    db: &Connection,
    limits: HistoryLimits,
    (project, testbed): (i64, i64),
    start: &StartPoint,
    before: (i64, Uuid),
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
            None => before,
        };
        let until_ns = start.until.map_or(end.0, limit_ns);
        let Some(head) = branch_head(db, branch, until_ns)? else { break };
        if !visited.insert((branch, head.epoch)) || visited.len() > START_POINTS_MAX {
            break;
        }
        let stretch = Stretch { branch, testbed, epoch: head.epoch, end };
        let most = limits.reports - reports.len();
        let mut versions = HashSet::new();
        for report in stretch.newest(db, most)? {
            let version =
                report.report.hash.clone().unwrap_or_else(|| report.report.uuid.to_string());
            if versions.len() == versions_left && !versions.contains(&version) {
                break;
            }
            versions.insert(version);
            reports.push(report);
        }
        versions_left -= versions.len();
        next = head.start_point.filter(|_| versions_left > 0 && reports.len() < limits.reports);
    }
    Ok(reports)
}
