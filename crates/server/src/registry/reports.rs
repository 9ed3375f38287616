//! Registry data of reports, and UUIDs of their metrics.
//!
//! A metric's UUID encodes the row of its report, its index there, and a check value that detects made-up UUIDs. Hence
//! no table of metrics is needed.

use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use uuid::{Builder, Uuid};
use wingbeat_sql::{Error, OptionalExtension as _, Result as SqlResult, Row, Time, ToSql, params};

use super::{Registry, RegistryError};

/// A report, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportRow {
    /// Row, part of the UUIDs of its metrics.
    pub id: i64,
    pub uuid: Uuid,
    pub project: i64,
    /// The sender, if known and not deleted.
    pub user: Option<Sender>,
    pub created: OffsetDateTime,
}

/// The user who sent a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    pub uuid: Uuid,
    pub name: String,
    pub slug: String,
}

/// Common part of the UUIDs of a report's metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricUuids {
    bytes: [u8; 16],
}

const SELECT: &str = "SELECT r.id, r.uuid, r.project, r.created_ns,
            u.uuid AS user_uuid, u.name AS user_name, u.slug AS user_slug
     FROM report r LEFT JOIN \"user\" u ON u.id = r.\"user\"";

impl MetricUuids {
    /// For a report.
    pub fn of(report: &ReportRow) -> Self {
        let mut bytes = [0; 16];
        // 48 bits suffice for more reports than fit on a disk.
        bytes[..6].copy_from_slice(&report.id.to_be_bytes()[2..]);
        let check = Sha256::digest(report.uuid.as_bytes());
        bytes[6..12].copy_from_slice(&check[..6]);
        Self { bytes }
    }

    /// UUID of the metric at this index in the report.
    pub fn at(&self, position: u32) -> Uuid {
        let mut bytes = self.bytes;
        bytes[12..].copy_from_slice(&position.to_be_bytes());
        Builder::from_custom_bytes(bytes).into_uuid()
    }
}

impl Registry {
    /// Adds a report. A known one stays unchanged.
    pub fn add_report(
        &self,
        uuid: Uuid,
        project: i64,
        user: Option<i64>,
        now: OffsetDateTime,
    ) -> Result<ReportRow, RegistryError> {
        self.doing("entering a report", || {
            self.connection
                .prepare(
                    "INSERT INTO report (uuid, project, \"user\", created_ns) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (uuid) DO NOTHING",
                )?
                .execute(params![uuid, project, user, Time(now)])?;
            self.report_by("r.uuid = ?1", uuid)?.ok_or(Error::NoRow)
        })
    }

    /// Stores the notices from judging a report: a JSON list.
    pub fn set_notices(&self, uuid: Uuid, notices: &str) -> Result<(), RegistryError> {
        let sql = "UPDATE report SET notices = ?2 WHERE uuid = ?1";
        self.execute("keeping the notices of a report", sql, params![uuid, notices])
    }

    /// Notices of a report, if any.
    pub fn notices(&self, uuid: Uuid) -> Result<Option<String>, RegistryError> {
        let sql = "SELECT notices FROM report WHERE uuid = ?1";
        let found = self.row("reading the notices of a report", sql, [uuid], |row| row.get(0));
        found.map(Option::flatten)
    }

    /// The report with this UUID.
    pub fn report(&self, uuid: Uuid) -> Result<Option<ReportRow>, RegistryError> {
        self.report_by("r.uuid = ?1", uuid).map_err(self.error("looking for a report"))
    }

    /// Whether there are any reports.
    pub fn has_reports(&self) -> Result<bool, RegistryError> {
        let ask = || self.connection.prepare("SELECT 1 FROM report LIMIT 1")?.exists([]);
        ask().map_err(self.error("looking for reports"))
    }

    /// All reports of a project.
    pub fn reports_of(&self, project: i64) -> Result<Vec<Uuid>, RegistryError> {
        let sql = "SELECT uuid FROM report WHERE project = ?1";
        self.rows("listing reports", sql, [project], |row| row.get(0))
    }

    /// Decodes a metric's UUID to its report and index. `None` if the UUID is invalid.
    pub fn metric(&self, metric: Uuid) -> Result<Option<(ReportRow, u32)>, RegistryError> {
        let bytes = metric.as_bytes();
        let mut id = [0; 8];
        id[2..].copy_from_slice(&bytes[..6]);
        let id = i64::from_be_bytes(id);
        let position = u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
        let found = self.report_by("r.id = ?1", id).map_err(self.error("looking for a metric"))?;
        let is_its = |report: &ReportRow| MetricUuids::of(report).at(position) == metric;
        Ok(found.filter(is_its).map(|report| (report, position)))
    }

    fn report_by(&self, condition: &str, value: impl ToSql) -> SqlResult<Option<ReportRow>> {
        let sql = format!("{SELECT} WHERE {condition}");
        self.connection.prepare(&sql)?.query_row([value], report).optional()
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
        id: row.get("id")?,
        uuid: row.get("uuid")?,
        project: row.get("project")?,
        user,
        created: row.time("created_ns")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::tests::{now, on_both_with_project};

    #[test]
    fn uuids_of_metrics_lead_back() {
        on_both_with_project(|registry, project| {
            let add = |uuid| registry.add_report(uuid, project, None, now()).expect("written");
            let (first, second) = (add(Uuid::now_v7()), add(Uuid::now_v7()));
            assert_eq!(add(first.uuid), first, "a known one stays");
            registry.set_notices(first.uuid, "[]").expect("kept");
            let notices = |uuid| registry.notices(uuid).expect("read");
            assert_eq!(notices(first.uuid).as_deref(), Some("[]"));
            assert_eq!((notices(second.uuid), notices(Uuid::nil())), (None, None));
            for (report, place) in [(&first, 0), (&second, 7), (&second, u32::MAX)] {
                let uuid = MetricUuids::of(report).at(place);
                assert_eq!(uuid.get_version_num(), 8);
                let found = registry.metric(uuid).expect("read");
                assert_eq!(found, Some((report.clone(), place)));
            }
            let mut forged = MetricUuids::of(&first).at(0).into_bytes();
            forged[9] ^= 1;
            assert_eq!(registry.metric(Uuid::from_bytes(forged)).expect("read"), None);
            assert_eq!(registry.metric(Uuid::now_v7()).expect("read"), None);
        });
    }
}
