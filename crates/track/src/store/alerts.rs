//! Alerts and their status. A change of status is a separate record that is only ever added, so that those of several
//! stores can be merged: the last one by time counts.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;
use wingbeat_sql::{Connection, OptionalExtension as _, Row, Time, params, params_from_iter};

use super::{
    InvalidDocument, ReportFilter, SqlResult, Store, StoreError,
    columns::{BOUNDARY_COLUMNS, MEASURE_COLUMNS, alert, boundary, measure, time_ns},
    document::Kind,
    prepare,
    rows::{branch_row, name_row, project_row},
    tables::{ALERT_CHANGE, is_known},
    withdrawals::STANDS,
};
use crate::model::{
    Alert, AlertStatus, BenchmarkName, Boundary, BranchName, Measure, ProjectName, Slug,
    TestbedName,
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertChange {
    pub uuid: Uuid,
    pub alert: Uuid,
    #[serde(with = "time::serde::rfc3339")]
    pub time: OffsetDateTime,
    pub status: AlertStatus,
    /// The comment of the person who changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Selects alerts. `None` matches all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AlertFilter {
    pub reports: ReportFilter,
    pub status: Option<AlertStatus>,
    pub uuid: Option<Uuid>,
    /// Like that of the reports, also on the benchmark `n` and the measure `q`.
    pub condition: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoredAlert {
    /// The alert with its current status.
    pub alert: Alert,
    /// When the status last changed. `None` if never since the alert was raised.
    pub changed: Option<OffsetDateTime>,
    pub report: Uuid,
    pub start_time: OffsetDateTime,
    pub project: ProjectName,
    pub branch: BranchName,
    pub testbed: TestbedName,
    pub hash: Option<String>,
    pub measure: Measure,
    /// Index of its metric among all of the report.
    pub position: u32,
    pub value: f64,
    pub lower_value: Option<f64>,
    pub upper_value: Option<f64>,
    pub boundary: Option<Boundary>,
}

impl StoredAlert {
    /// The crossed limit. Alerts of interleaved comparisons have none.
    pub fn limit(&self) -> Option<f64> {
        self.boundary?.limit(self.alert.limit)
    }

    /// Relative change from the baseline.
    pub fn change(&self) -> Option<f64> {
        let baseline = self.boundary?.baseline?;
        Some((self.value - baseline) / baseline.abs()).filter(|change| change.is_finite())
    }
}

impl Store {
    /// Alerts, newest report first, at most `limit`.
    pub fn alerts(
        &self,
        filter: &AlertFilter,
        limit: usize,
    ) -> Result<Vec<StoredAlert>, StoreError> {
        alerts(&self.connection, filter, limit).map_err(self.error("listing alerts"))
    }

    /// Changes the status of an alert now, and returns the change. Without a reason, an unchanged status keeps its
    /// earlier reason.
    pub fn set_alert_status(
        &self,
        alert: Uuid,
        status: AlertStatus,
        reason: Option<String>,
    ) -> Result<AlertChange, StoreError> {
        let change = || {
            let transaction = self.connection.writing()?;
            let known = prepare(&transaction, "SELECT 1 FROM alert WHERE uuid = ?1")?;
            if !{ known }.exists([alert])? {
                return Ok(None);
            }
            let change = change_status(&transaction, alert, status, reason)?;
            transaction.commit()?;
            Ok(Some(change))
        };
        let changed = change().map_err(self.error("changing an alert"))?;
        changed.ok_or_else(|| StoreError::NoSuchAlert { path: self.path.clone(), alert })
    }

    /// Silenced series of a testbed on one of these branches. A series is silenced by silencing one of its alerts,
    /// until one of its alerts is activated again.
    pub fn silenced(
        &self,
        project: &ProjectName,
        branches: &[BranchName],
        testbed: &TestbedName,
    ) -> Result<HashSet<(BenchmarkName, Slug)>, StoreError> {
        silenced(&self.connection, project, branches, testbed)
            .map_err(self.error("looking for silenced alerts"))
    }

    /// Dismisses the active alerts of all heads of a branch but the newest. Returns their number.
    ///
    /// Not silenced, which would silence their series on the new head, too.
    pub fn settle_replaced_heads(
        &self,
        project: &ProjectName,
        branch: &BranchName,
    ) -> Result<usize, StoreError> {
        self.doing("settling alerts", || {
            let transaction = self.connection.writing()?;
            let Some(branch) = branch_row(&transaction, project, branch)? else { return Ok(0) };
            let mut settled = 0;
            for (alert, raised) in of_replaced_heads(&transaction, branch)? {
                let last = last_change(&transaction, alert)?;
                if last.map_or(raised, |last| last.status) == AlertStatus::Active {
                    let reason = Some(SUPERSEDED.to_owned());
                    change_status(&transaction, alert, AlertStatus::Dismissed, reason)?;
                    settled += 1;
                }
            }
            transaction.commit()?;
            Ok(settled)
        })
    }
}

/// The reason for dismissing alerts of a branch that was restarted, as lists show it.
const SUPERSEDED: &str = "superseded: the branch was reset";

/// Adds a change of an existing alert after all of its earlier ones.
pub(super) fn change_status(
    db: &Connection,
    alert: Uuid,
    status: AlertStatus,
    reason: Option<String>,
) -> SqlResult<AlertChange> {
    // If the clock was set back, the change must still come after the previous one.
    let last = last_change(db, alert)?;
    let now = OffsetDateTime::now_utc();
    let time = last.as_ref().map_or(now, |last| now.max(last.time + TICK));
    let earlier = last.filter(|last| last.status == status).and_then(|last| last.reason);
    let reason = reason.or(earlier);
    let change = AlertChange { uuid: Uuid::now_v7(), alert, time, status, reason };
    insert_change(db, &change)?;
    Ok(change)
}

/// Minimum time between two changes.
const TICK: Duration = Duration::NANOSECOND;

pub(super) fn validate_change(change: &AlertChange) -> Result<(), InvalidDocument> {
    let reason = || format!("its time {} is not between the years 1677 and 2262", change.time);
    let invalid = || InvalidDocument { uuid: change.uuid, reason: reason() };
    time_ns(change.time).map(drop).ok_or_else(invalid)
}

pub(super) fn insert_change(db: &Connection, change: &AlertChange) -> SqlResult<bool> {
    if is_known(db, Kind::AlertChange, change.uuid)? {
        return Ok(false);
    }
    let AlertChange { uuid, alert, time, status, reason } = change;
    let values = params![uuid, alert, Time(*time), status, reason];
    ALERT_CHANGE.insert(db, values)?;
    Ok(true)
}

/// The change that determines the status of an alert.
pub(super) fn last_change(db: &Connection, alert: Uuid) -> SqlResult<Option<AlertChange>> {
    let sql = "SELECT uuid, alert, time_ns, status, reason FROM alert_change
               WHERE alert = ?1 ORDER BY time_ns DESC, uuid DESC LIMIT 1";
    prepare(db, sql)?.query_row([alert], change).optional()
}

/// A change from columns named as in the table.
pub(super) fn change(row: &Row<'_>) -> SqlResult<AlertChange> {
    Ok(AlertChange {
        uuid: row.get("uuid")?,
        alert: row.get("alert")?,
        time: row.time("time_ns")?,
        status: row.get("status")?,
        reason: row.get("reason")?,
    })
}

fn alerts(db: &Connection, filter: &AlertFilter, limit: usize) -> SqlResult<Vec<StoredAlert>> {
    let Some(mut conditions) = filter.reports.conditions(db)? else {
        return Ok(Vec::new());
    };
    conditions.require(STANDS);
    // Without statistics SQLite cannot know that reports are fewer than alerts may be, so the join order is fixed.
    conditions
        .add("coalesce(c.status, a.status) =", filter.status.map(|status| status.to_string()));
    conditions.add("a.uuid =", filter.uuid.map(|uuid| uuid.as_bytes().to_vec()));
    if let Some(condition) = &filter.condition {
        conditions.require(condition);
    }
    let sql = format!(
        "SELECT a.uuid, a.iteration, n.name AS benchmark, a.crossed,
                coalesce(c.status, a.status) AS status,
                CASE WHEN c.uuid IS NULL THEN a.reason ELSE c.reason END AS reason,
                c.time_ns AS changed_ns, r.uuid AS report, r.start_time_ns, r.hash,
                p.name AS project, b.name AS branch, t.name AS testbed,
                m.position, m.value, m.lower, m.upper,
                {MEASURE_COLUMNS}, {BOUNDARY_COLUMNS}
         FROM report r
         CROSS JOIN alert a ON a.report = r.id
         JOIN project p ON p.id = r.project
         JOIN branch b ON b.id = r.branch
         JOIN testbed t ON t.id = r.testbed
         JOIN benchmark n ON n.id = a.benchmark
         JOIN measure q ON q.id = a.measure
         JOIN metric m ON m.report = a.report AND m.benchmark = a.benchmark
                      AND m.measure = a.measure AND m.iteration = a.iteration
         LEFT JOIN verdict v ON v.report = a.report AND v.benchmark = a.benchmark
                      AND v.measure = a.measure AND v.iteration = a.iteration
                      AND v.position = (SELECT min(w.position) FROM verdict w
                          WHERE w.report = a.report AND w.benchmark = a.benchmark
                            AND w.measure = a.measure AND w.iteration = a.iteration
                            AND w.crossed = a.crossed)
         LEFT JOIN alert_change c ON c.uuid = (SELECT l.uuid FROM alert_change l
                          WHERE l.alert = a.uuid ORDER BY l.time_ns DESC, l.uuid DESC LIMIT 1)
         {}
         ORDER BY r.start_time_ns DESC, r.uuid DESC, a.position
         LIMIT ?",
        conditions.sql()
    );
    let values = params_from_iter(conditions.values(limit));
    prepare(db, &sql)?.query_map(values, stored)?.collect()
}

fn stored(row: &Row<'_>) -> SqlResult<StoredAlert> {
    Ok(StoredAlert {
        alert: alert(row)?,
        changed: row.optional_time("changed_ns")?,
        report: row.get("report")?,
        start_time: row.time("start_time_ns")?,
        project: row.get("project")?,
        branch: row.get("branch")?,
        testbed: row.get("testbed")?,
        hash: row.get("hash")?,
        measure: measure(row)?,
        position: row.get("position")?,
        value: row.get("value")?,
        lower_value: row.get("lower")?,
        upper_value: row.get("upper")?,
        boundary: boundary(row)?,
    })
}

fn silenced(
    db: &Connection,
    project: &ProjectName,
    branches: &[BranchName],
    testbed: &TestbedName,
) -> SqlResult<HashSet<(BenchmarkName, Slug)>> {
    let Some(project) = project_row(db, project)? else { return Ok(HashSet::new()) };
    let testbed = name_row(db, "testbed", project, testbed.as_str())?;
    // Changes are made by people, so they are few.
    let sql = format!(
        "SELECT n.name AS benchmark, q.slug, c.status
               FROM alert_change c
               CROSS JOIN alert a ON a.uuid = c.alert
               JOIN report r ON r.id = a.report
               JOIN benchmark n ON n.id = a.benchmark
               JOIN measure q ON q.id = a.measure
               WHERE r.branch = ?1 AND r.testbed = ?2 AND {STANDS}
               ORDER BY c.time_ns, c.uuid"
    );
    let mut all = HashSet::new();
    for branch in branches {
        let branch = name_row(db, "branch", project, branch.as_str())?;
        let (Some(branch), Some(testbed)) = (branch, testbed) else { continue };
        let mut last = HashMap::new();
        let mut statement = prepare(db, &sql)?;
        let mut rows = statement.query([branch, testbed])?;
        while let Some(row) = &rows.next()? {
            let status = row.get::<_, AlertStatus>("status")?;
            let series = (row.get("benchmark")?, row.get("slug")?);
            // Dismissing an alert does not affect its series.
            if status != AlertStatus::Dismissed {
                last.insert(series, status);
            }
        }
        let silenced = last.into_iter().filter(|(_, status)| *status == AlertStatus::Silenced);
        all.extend(silenced.map(|(series, _)| series));
    }
    Ok(all)
}

/// Alerts of a branch whose status is still the original one, except those of its newest head.
fn of_replaced_heads(db: &Connection, branch: i64) -> SqlResult<Vec<(Uuid, AlertStatus)>> {
    let newest = format!("SELECT max(epoch) FROM report r WHERE r.branch = ?1 AND {STANDS}");
    let newest: Option<u32> = prepare(db, &newest)?.query_row([branch], |row| row.get(0))?;
    let Some(newest) = newest.filter(|newest| *newest > 0) else { return Ok(Vec::new()) };
    let sql = format!(
        "SELECT a.uuid, a.status FROM report r CROSS JOIN alert a ON a.report = r.id
         WHERE r.branch = ?1 AND r.epoch < ?2 AND {STANDS}"
    );
    let alert = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    prepare(db, &sql)?.query_map([branch, newest.into()], alert)?.collect()
}
