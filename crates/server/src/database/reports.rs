//! How reports came to the server, and UUIDs of their metrics.
//!
//! A metric's UUID is the beginning of its report's and its index there. Hence no table of metrics is needed.

use std::collections::HashMap;

use time::OffsetDateTime;
use uuid::{Builder, Uuid};
use wingbeat_sql::{Error, OptionalExtension as _, Result as SqlResult, Row, Time, params};
use wingbeat_track::{
    model::{BranchName, ProjectName},
    store::{AlertFilter, ReportFilter, StoreError},
};

use super::{Database, Kind, Project};

/// A report, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportRow {
    pub uuid: Uuid,
    /// Row of the project.
    pub project: i64,
    /// The sender, if known and not deleted.
    pub user: Option<Sender>,
    /// When it was received; the end of the run if it was not sent here.
    pub created: OffsetDateTime,
}

/// When a report was measured until, and when it was received: the same if it was not sent here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportTimes {
    pub end: OffsetDateTime,
    pub received: OffsetDateTime,
}

/// What a server got since a time. Reports count by when they ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    pub users: u64,
    pub projects: u64,
    /// Projects with reports.
    pub active_projects: u64,
    pub reports: u64,
    pub metrics: u64,
    /// When the first of these users and projects came.
    pub since: Option<OffsetDateTime>,
}

/// The user who sent a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    pub uuid: Uuid,
    pub name: String,
    pub slug: String,
}

const SELECT: &str =
    "SELECT r.uuid, sp.id AS project, coalesce(c.created_ns, r.end_time_ns) AS created_ns,
            u.uuid AS user_uuid, u.name AS user_name, u.slug AS user_slug
     FROM report r JOIN project p ON p.id = r.project JOIN server_project sp ON sp.stored = p.name
     LEFT JOIN receipt c ON c.report = r.uuid LEFT JOIN \"user\" u ON u.id = c.\"user\"";

/// Bytes of a report's UUID in those of its metrics.
const PREFIX: usize = 12;

impl ReportRow {
    /// UUID of the metric at this index in the report.
    pub fn metric(&self, position: u32) -> Uuid {
        metric_uuid(self.uuid, position)
    }
}

/// UUID of the metric at this index in a report.
pub fn metric_uuid(report: Uuid, position: u32) -> Uuid {
    let mut bytes = report.into_bytes();
    bytes[PREFIX..].copy_from_slice(&position.to_be_bytes());
    Builder::from_custom_bytes(bytes).into_uuid()
}

impl Project {
    /// Selects the reports of archived branches and testbeds, or all others.
    pub fn reports(&self, is_archived: bool) -> ReportFilter {
        let names = [(Kind::Branch, "b.name"), (Kind::Testbed, "t.name")];
        let condition = Some(self.archive(&names, is_archived));
        ReportFilter { condition, ..ReportFilter::of(&self.stored) }
    }

    /// Selects the alerts of archived branches, testbeds, benchmarks and measures, or all others.
    pub fn alerts(&self, is_archived: bool) -> AlertFilter {
        let names = [
            (Kind::Branch, "b.name"),
            (Kind::Testbed, "t.name"),
            (Kind::Benchmark, "n.name"),
            (Kind::Measure, "q.slug"),
        ];
        let condition = Some(self.archive(&names, is_archived));
        let reports = ReportFilter::of(&self.stored);
        AlertFilter { reports, condition, ..AlertFilter::default() }
    }

    /// The condition that one of these names is archived, or none.
    fn archive(&self, names: &[(Kind, &str)], is_archived: bool) -> String {
        let is_archived_name = |(kind, name): &(Kind, &str)| {
            format!(
                "EXISTS (SELECT 1 FROM entity h WHERE h.project = {} AND h.kind = '{}' AND h.stored = {name}
                         AND h.archived_ns IS NOT NULL)",
                self.id,
                kind.word()
            )
        };
        let any: Vec<_> = names.iter().map(is_archived_name).collect();
        format!("{} ({})", if is_archived { "" } else { "NOT" }, any.join(" OR "))
    }
}

impl Database {
    /// Notes that a report was received, with the notices from judging it: a JSON list. A known one stays unchanged.
    pub fn note_receipt(
        &self,
        report: Uuid,
        user: Option<i64>,
        notices: Option<&str>,
        now: OffsetDateTime,
    ) -> Result<(), StoreError> {
        let sql =
            "INSERT INTO receipt (report, \"user\", created_ns, notices) VALUES (?1, ?2, ?3, ?4)
                   ON CONFLICT (report) DO NOTHING";
        self.execute(
            "noting the receipt of a report",
            sql,
            params![report, user, Time(now), notices],
        )
    }

    /// Notices of a report, if any.
    pub fn notices(&self, uuid: Uuid) -> Result<Option<String>, StoreError> {
        let sql = "SELECT notices FROM receipt WHERE report = ?1";
        let found = self.row("reading the notices of a report", sql, [uuid], |row| row.get(0));
        found.map(Option::flatten)
    }

    /// The report with this UUID, if its project is known here.
    pub fn report(&self, uuid: Uuid) -> Result<Option<ReportRow>, StoreError> {
        let sql = format!("{SELECT} WHERE r.uuid = ?1");
        self.doing("looking for a report", || {
            self.db().prepare(&sql)?.query_row([uuid], report).optional()
        })
    }

    /// Times of all reports of a branch, by names in the results.
    pub fn report_times(
        &self,
        project: &ProjectName,
        branch: &BranchName,
    ) -> Result<HashMap<Uuid, ReportTimes>, StoreError> {
        let sql =
            "SELECT r.uuid, r.end_time_ns, coalesce(c.created_ns, r.end_time_ns) AS created_ns
                   FROM project p JOIN branch b ON b.project = p.id JOIN report r ON r.branch = b.id
                   LEFT JOIN receipt c ON c.report = r.uuid WHERE p.name = ?1 AND b.name = ?2";
        let names = params![project.as_str(), branch.as_str()];
        let times = |row: &Row<'_>| {
            let (end, received) = (row.time(1)?, row.time(2)?);
            Ok((row.get(0)?, ReportTimes { end, received }))
        };
        Ok(self.rows("reading times of reports", sql, names, times)?.into_iter().collect())
    }

    /// Counts what came since a time, without withdrawn reports.
    pub fn counts(&self, since: OffsetDateTime) -> Result<Counts, StoreError> {
        let sql = "SELECT
             (SELECT count(*) FROM \"user\" WHERE created_ns >= ?1) AS users,
             (SELECT count(*) FROM server_project WHERE created_ns >= ?1) AS projects,
             (SELECT min(created_ns) FROM (
                 SELECT created_ns FROM \"user\" UNION ALL SELECT created_ns FROM server_project
              ) AS made WHERE created_ns >= ?1) AS since_ns,
             count(*) AS reports, count(DISTINCT r.project) AS active_projects,
             CAST(coalesce(sum(r.metrics), 0) AS BIGINT) AS metrics
             FROM report r WHERE r.start_time_ns >= ?1
             AND NOT EXISTS (SELECT 1 FROM withdrawal w WHERE w.report = r.uuid)";
        let counts = |row: &Row<'_>| {
            let count = |column: &str| row.get::<_, i64>(column).map(i64::unsigned_abs);
            Ok(Counts {
                users: count("users")?,
                projects: count("projects")?,
                active_projects: count("active_projects")?,
                reports: count("reports")?,
                metrics: count("metrics")?,
                since: row.optional_time("since_ns")?,
            })
        };
        let found = self.row("counting what is there", sql, params![Time(since)], counts)?;
        found.ok_or_else(|| self.error("counting what is there")(Error::NoRow))
    }

    /// All reports of a project.
    pub fn reports_of(&self, project: i64) -> Result<Vec<Uuid>, StoreError> {
        let sql = "SELECT r.uuid FROM server_project sp JOIN project p ON p.name = sp.stored
                   JOIN report r ON r.project = p.id WHERE sp.id = ?1";
        self.rows("listing reports", sql, [project], |row| row.get(0))
    }

    /// Decodes a metric's UUID to its report and index. `None` without such a report.
    pub fn find_metric(&self, sought: Uuid) -> Result<Option<(ReportRow, u32)>, StoreError> {
        let mut ends = [[0; 16], [0xff; 16]];
        // The next bytes have the version and the variant, which are not the report's.
        ends.iter_mut().for_each(|end| end[..6].copy_from_slice(&sought.as_bytes()[..6]));
        let ends = ends.map(Uuid::from_bytes);
        let mut position = [0; 4];
        position.copy_from_slice(&sought.as_bytes()[PREFIX..]);
        let position = u32::from_be_bytes(position);
        let sql = format!("{SELECT} WHERE r.uuid BETWEEN ?1 AND ?2");
        let found = self.rows("looking for a metric", &sql, params![ends[0], ends[1]], report)?;
        let found = found.into_iter().find(|report| report.metric(position) == sought);
        Ok(found.map(|report| (report, position)))
    }
}

fn report(row: &Row<'_>) -> SqlResult<ReportRow> {
    let user = match row.get::<_, Option<Uuid>>("user_uuid")? {
        Some(uuid) => {
            Some(Sender { uuid, name: row.get("user_name")?, slug: row.get("user_slug")? })
        }
        None => None,
    };
    Ok(ReportRow {
        uuid: row.get("uuid")?,
        project: row.get("project")?,
        user,
        created: row.time("created_ns")?,
    })
}

#[cfg(test)]
mod tests {
    use wingbeat_track::model::Report;

    use super::*;
    use crate::database::tests::{now, on_both_with_project};

    #[test]
    fn uuids_of_metrics_lead_back() {
        on_both_with_project(|database, project| {
            let add = |uuid, project: &str| {
                let parts = [project, "main", "box"];
                let (project, branch, testbed) =
                    (parts[0].parse(), parts[1].parse(), parts[2].parse());
                let (project, branch, testbed) =
                    (project.expect("a name"), branch.expect("a name"), testbed.expect("a name"));
                let report = Report::new(uuid, project, branch, testbed, now());
                database.results.insert(&report).expect("stored");
                database.report(uuid).expect("read")
            };
            let row = |uuid| add(uuid, "project").expect("of a known project");
            let (first, second) = (row(Uuid::now_v7()), row(Uuid::from_u128(u128::MAX / 7)));
            assert_eq!((first.project, first.created), (project, now()));
            assert_eq!(add(Uuid::now_v7(), "unknown"), None);
            let note = |notices| database.note_receipt(first.uuid, None, notices, now());
            note(Some("[]")).expect("kept");
            note(None).expect("a known one stays");
            let notices = |uuid| database.notices(uuid).expect("read");
            assert_eq!(notices(first.uuid).as_deref(), Some("[]"));
            assert_eq!((notices(second.uuid), notices(Uuid::nil())), (None, None));
            for (report, place) in [(&first, 0), (&second, 7), (&second, u32::MAX)] {
                let uuid = report.metric(place);
                assert_eq!(uuid.get_version_num(), 8);
                let found = database.find_metric(uuid).expect("read");
                assert_eq!(found, Some((report.clone(), place)));
            }
            let mut other = first.metric(0).into_bytes();
            other[9] ^= 1;
            assert_eq!(database.find_metric(Uuid::from_bytes(other)).expect("read"), None);
            assert_eq!(database.find_metric(Uuid::now_v7()).expect("read"), None);
        });
    }
}
