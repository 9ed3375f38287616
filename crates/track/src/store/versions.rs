//! Versions of a branch: a commit, or a report without a commit. Their numbers are derived from the order of time and
//! are not stored, so that reports can be added in any order.

use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_sql::{Connection, OptionalExtension as _, Time, limit_ns, params};

use super::{
    SqlResult, Store, StoreError,
    columns::start_point,
    log::branch_head,
    prepare,
    rows::{branch_row, name_row, project_row},
    withdrawals::STANDS,
};
use crate::model::{BranchName, ProjectName, TestbedName};

/// Maximum length of a chain of start points.
pub(super) const START_POINTS_MAX: usize = 64;

impl Store {
    /// When a commit was last measured on a branch, for [`StartPoint::until`](crate::model::StartPoint::until). Reports
    /// that confirm another do not count.
    pub fn last_measured(
        &self,
        project: &ProjectName,
        branch: &BranchName,
        testbed: &TestbedName,
        hash: &str,
    ) -> Result<Option<OffsetDateTime>, StoreError> {
        last_measured(&self.connection, project, branch, testbed, hash)
            .map_err(self.error("looking for a version"))
    }

    /// The number of the version that a report measured, from 0, counted along the branch and its start points. `None`
    /// if there is no such report.
    pub fn version_number(&self, report: Uuid) -> Result<Option<u64>, StoreError> {
        number(&self.connection, report, START_POINTS_MAX).map_err(self.error("counting versions"))
    }
}

fn last_measured(
    db: &Connection,
    project: &ProjectName,
    branch: &BranchName,
    testbed: &TestbedName,
    hash: &str,
) -> SqlResult<Option<OffsetDateTime>> {
    let Some(project) = project_row(db, project)? else { return Ok(None) };
    let branch = name_row(db, "branch", project, branch.as_str())?;
    let testbed = name_row(db, "testbed", project, testbed.as_str())?;
    let sql = format!(
        "SELECT max(start_time_ns) FROM report r
         WHERE branch = ?1 AND hash = ?2 AND testbed = ?3 AND confirms IS NULL AND {STANDS}"
    );
    let last: Option<Time> =
        prepare(db, &sql)?.query_row(params![branch, hash, testbed], |row| row.get(0))?;
    Ok(last.map(|time| time.0))
}

struct VersionOrigin {
    project: ProjectName,
    branch: i64,
    epoch: u32,
    hash: Option<String>,
    start_time_ns: i64,
    confirms: Option<Uuid>,
    start: Option<(BranchName, Option<OffsetDateTime>)>,
}

fn number(db: &Connection, report: Uuid, start_points: usize) -> SqlResult<Option<u64>> {
    let Some(place) = place(db, report)? else { return Ok(None) };
    if let (None, Some(confirmed)) = (&place.hash, place.confirms)
        && start_points > 0
        && let Some(number) = number(db, confirmed, start_points - 1)?
    {
        return Ok(Some(number));
    }
    // A version is positioned at its first measurement.
    let first_sql = format!(
        "SELECT start_time_ns, uuid FROM report r
         WHERE branch = ?1 AND hash = ?2 AND epoch = ?3 AND confirms IS NULL AND {STANDS}
         ORDER BY start_time_ns, uuid LIMIT 1"
    );
    let first = prepare(db, &first_sql)?
        .query_row(params![place.branch, place.hash, place.epoch], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let (first_ns, first_report): (i64, Uuid) = first.unwrap_or((place.start_time_ns, report));
    let count_sql = format!(
        "SELECT count(DISTINCT hash) + count(CASE WHEN hash IS NULL THEN 1 END) FROM report r
         WHERE branch = ?1 AND epoch = ?2 AND confirms IS NULL
           AND (start_time_ns, uuid) < (?3, ?4) AND {STANDS}"
    );
    let values = params![place.branch, place.epoch, first_ns, first_report];
    let own: i64 = prepare(db, &count_sql)?.query_row(values, |row| row.get(0))?;
    let inherited = match &place.start {
        None => 0,
        Some((start, until)) => {
            let until_ns = until.map_or(place.start_time_ns, limit_ns);
            let branch = (place.branch, place.epoch);
            inherited(db, &place.project, start, until_ns, branch, start_points)?
        }
    };
    Ok(Some(own.unsigned_abs() + inherited))
}

/// The number of versions that a branch, given by row number and epoch, inherits from a start point at a given time.
/// `start_points` is the maximum length of the chain.
pub(super) fn inherited(
    db: &Connection,
    project: &ProjectName,
    start: &BranchName,
    until_ns: i64,
    own: (i64, u32),
    start_points: usize,
) -> SqlResult<u64> {
    let Some(branch) = branch_row(db, project, start)? else { return Ok(0) };
    let Some(head) = branch_head(db, branch, until_ns)? else { return Ok(0) };
    // A branch that starts from itself, without a new epoch, inherits nothing.
    if start_points == 0 || (branch, head.epoch) == own {
        return Ok(0);
    }
    Ok(number(db, head.report, start_points - 1)?.map_or(0, |number| number + 1))
}

fn place(db: &Connection, report: Uuid) -> SqlResult<Option<VersionOrigin>> {
    let sql = format!(
        "SELECT p.name AS project, r.branch, r.epoch, r.hash, r.start_time_ns, r.confirms,
                      s.name AS start_branch, r.start_hash, r.start_until_ns, r.start_versions_max
               FROM report r JOIN project p ON p.id = r.project
               LEFT JOIN branch s ON s.id = r.start_branch
               WHERE r.uuid = ?1 AND {STANDS}"
    );
    prepare(db, &sql)?
        .query_row([report], |row| {
            Ok(VersionOrigin {
                project: row.get("project")?,
                branch: row.get("branch")?,
                epoch: row.get("epoch")?,
                hash: row.get("hash")?,
                start_time_ns: row.get("start_time_ns")?,
                confirms: row.get("confirms")?,
                start: start_point(row)?.map(|start| (start.branch, start.until)),
            })
        })
        .optional()
}
