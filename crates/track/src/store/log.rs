//! Lists the contents of a store without metrics: reports newest first, the state of a branch, names.

use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_sql::{Connection, FromSql, OptionalExtension as _, Row, limit_ns, params_from_iter};

use super::{
    SqlResult, Store, StoreError,
    columns::{MEASURE_COLUMNS, environment, measure, start_point},
    prepare,
    rows::{Conditions, branch_row, name_row, newest, project_row},
    withdrawals::STANDS,
};
use crate::{
    adapter::Adapter,
    model::{
        BenchmarkName, BranchName, Environment, Measure, ProjectName, Slug, Slugs, StartPoint,
        TestbedName,
    },
};

/// Selects reports. `None` matches all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReportFilter {
    pub project: Option<ProjectName>,
    pub branch: Option<BranchName>,
    pub testbed: Option<TestbedName>,
    pub since: Option<OffsetDateTime>,
    pub until: Option<OffsetDateTime>,
    pub uuid: Option<Uuid>,
    /// A prefix of the commit hash.
    pub hash_prefix: Option<String>,
    /// A further condition in SQL on the branch `b` and the testbed `t`: a server has tables of its own about names.
    pub condition: Option<String>,
}

/// A report without its metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportSummary {
    pub uuid: Uuid,
    pub project: ProjectName,
    pub branch: BranchName,
    pub hash: Option<String>,
    /// How often the history of the branch was restarted.
    pub epoch: u32,
    pub testbed: TestbedName,
    pub start_time: OffsetDateTime,
    pub end_time: OffsetDateTime,
    pub adapter: Adapter,
    pub environment: Environment,
    pub iterations: u32,
    pub metrics: u64,
    pub failures: u64,
    /// Number of alerts raised, whatever their status.
    pub alerts: u64,
    pub active_alerts: u64,
    /// The report whose alerts this one confirms.
    pub confirms: Option<Uuid>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchHead {
    pub epoch: u32,
    /// Where the branch starts from in that epoch.
    pub start_point: Option<StartPoint>,
    pub report: Uuid,
}

/// The names of a project, each list sorted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// Branches, including those that are only start points.
    pub branches: Vec<BranchName>,
    pub testbeds: Vec<TestbedName>,
    pub benchmarks: Vec<BenchmarkName>,
    pub measures: Vec<Slug>,
}

impl ReportFilter {
    /// All reports of a project.
    pub fn of(project: &ProjectName) -> Self {
        Self { project: Some(project.clone()), ..Self::default() }
    }

    /// The conditions on the report `r`. `None` if a name is not in the store, so that nothing matches.
    pub(super) fn conditions(&self, db: &Connection) -> SqlResult<Option<Conditions>> {
        let mut conditions = Conditions::default();
        let project = match &self.project {
            None => None,
            Some(name) => match project_row(db, name)? {
                None => return Ok(None),
                project => project,
            },
        };
        conditions.add("r.project =", project);
        let names = [
            ("branch", self.branch.as_ref().map(BranchName::as_str)),
            ("testbed", self.testbed.as_ref().map(TestbedName::as_str)),
        ];
        for (table, name) in names {
            let Some(name) = name else { continue };
            match project {
                Some(project) => match name_row(db, table, project, name)? {
                    None => return Ok(None),
                    row => conditions.add(&format!("r.{table} ="), row),
                },
                // The name may occur in several projects.
                None => {
                    let column = if table == "branch" { "b.name =" } else { "t.name =" };
                    conditions.add(column, Some(name.to_owned()));
                }
            }
        }
        conditions.add("r.start_time_ns >=", self.since.map(limit_ns));
        conditions.add("r.start_time_ns <=", self.until.map(limit_ns));
        conditions.add("r.uuid =", self.uuid.map(|uuid| uuid.as_bytes().to_vec()));
        if let Some(prefix) = &self.hash_prefix {
            let digits = prefix.chars().count();
            conditions.add(&format!("substr(r.hash, 1, {digits}) ="), Some(prefix.clone()));
        }
        if let Some(condition) = &self.condition {
            conditions.require(condition);
        }
        Ok(Some(conditions))
    }
}

impl Store {
    /// Reports, newest first, at most `limit`.
    pub fn reports(
        &self,
        filter: &ReportFilter,
        limit: usize,
    ) -> Result<Vec<ReportSummary>, StoreError> {
        let list = || match filter.conditions(&self.connection)? {
            Some(conditions) => reports(&self.connection, conditions, limit),
            None => Ok(Vec::new()),
        };
        list().map_err(self.error("listing reports"))
    }

    /// The newest report of a branch in any epoch. Reports that confirm another are excluded.
    pub fn latest(
        &self,
        project: &ProjectName,
        branch: &BranchName,
        testbed: Option<&TestbedName>,
    ) -> Result<Option<ReportSummary>, StoreError> {
        let filter = ReportFilter {
            branch: Some(branch.clone()),
            testbed: testbed.cloned(),
            ..ReportFilter::of(project)
        };
        self.doing("looking for the newest report", || {
            let conditions = filter.conditions(&self.connection)?;
            let Some(mut conditions) = conditions else { return Ok(None) };
            conditions.require("r.confirms IS NULL");
            Ok(reports(&self.connection, conditions, 1)?.pop())
        })
    }

    /// The state of a branch. `None` without reports.
    pub fn branch_head(
        &self,
        project: &ProjectName,
        branch: &BranchName,
    ) -> Result<Option<BranchHead>, StoreError> {
        let read = || match branch_row(&self.connection, project, branch)? {
            Some(branch) => branch_head(&self.connection, branch, i64::MAX),
            None => Ok(None),
        };
        read().map_err(self.error("reading the state of a branch"))
    }

    pub fn projects(&self) -> Result<Vec<ProjectName>, StoreError> {
        let sql = "SELECT name FROM project ORDER BY name";
        names(&self.connection, sql, None).map_err(self.error("listing projects"))
    }

    /// The names of a project. Empty if there is no such project.
    pub fn known(&self, project: &ProjectName) -> Result<Known, StoreError> {
        self.doing("listing names", || {
            let project = project_row(&self.connection, project)?;
            let Some(project) = project else { return Ok(Known::default()) };
            let (db, project) = (&self.connection, Some(project));
            let of =
                |table: &str| format!("SELECT name FROM {table} WHERE project = ?1 ORDER BY name");
            Ok(Known {
                branches: names(db, &of("branch"), project)?,
                testbeds: names(db, &of("testbed"), project)?,
                benchmarks: names(db, &of("benchmark"), project)?,
                measures: names(db, "SELECT DISTINCT slug FROM measure ORDER BY slug", None)?,
            })
        })
    }

    /// The slugs of a project's measures, oldest first.
    pub fn slugs(&self, project: &ProjectName) -> Result<Slugs, StoreError> {
        slugs(&self.connection, project).map_err(self.error("reading the names of measures"))
    }
}

fn reports(db: &Connection, conditions: Conditions, limit: usize) -> SqlResult<Vec<ReportSummary>> {
    let columns = "p.name AS project, r.epoch, r.end_time_ns, r.adapter, r.iterations, r.confirms,
         r.metrics, r.failures, r.alerts,
         (SELECT count(*) FROM alert a WHERE a.report = r.id AND 'active' = coalesce(
             (SELECT c.status FROM alert_change c WHERE c.alert = a.uuid
              ORDER BY c.time_ns DESC, c.uuid DESC LIMIT 1), a.status)) AS active_alerts";
    newest(db, columns, conditions, limit, summary)
}

fn summary(row: &Row<'_>) -> SqlResult<ReportSummary> {
    let count = |column: &str| row.get::<_, i64>(column).map(i64::unsigned_abs);
    Ok(ReportSummary {
        uuid: row.get("uuid")?,
        project: row.get("project")?,
        branch: row.get("branch")?,
        hash: row.get("hash")?,
        epoch: row.get("epoch")?,
        testbed: row.get("testbed")?,
        start_time: row.time("start_time_ns")?,
        end_time: row.time("end_time_ns")?,
        adapter: row.get("adapter")?,
        environment: environment(row)?,
        iterations: row.get("iterations")?,
        metrics: count("metrics")?,
        failures: count("failures")?,
        alerts: count("alerts")?,
        active_alerts: count("active_alerts")?,
        confirms: row.get("confirms")?,
    })
}

/// The state of a branch at a given time: the last epoch that had begun.
pub(super) fn branch_head(
    db: &Connection,
    branch: i64,
    until_ns: i64,
) -> SqlResult<Option<BranchHead>> {
    let sql = format!(
        "SELECT r.uuid, r.epoch, s.name AS start_branch, r.start_hash,
                      r.start_until_ns, r.start_versions_max
               FROM report r LEFT JOIN branch s ON s.id = r.start_branch
               WHERE r.branch = ?1 AND r.start_time_ns <= ?2 AND {STANDS}
               ORDER BY r.epoch DESC, r.start_time_ns DESC, r.uuid DESC LIMIT 1"
    );
    prepare(db, &sql)?
        .query_row([branch, until_ns], |row| {
            Ok(BranchHead {
                epoch: row.get("epoch")?,
                start_point: start_point(row)?,
                report: row.get("uuid")?,
            })
        })
        .optional()
}

fn names<T: FromSql>(db: &Connection, sql: &str, of: Option<i64>) -> SqlResult<Vec<T>> {
    let name = |row: &Row<'_>| row.get(0);
    prepare(db, sql)?.query_map(params_from_iter(of), name)?.collect()
}

fn slugs(db: &Connection, project: &ProjectName) -> SqlResult<Slugs> {
    let sql = format!("SELECT q.id, {MEASURE_COLUMNS} FROM measure q ORDER BY q.id");
    let rows = prepare(db, &sql)?
        .query_map([], |row| Ok((row.get::<_, i64>(0)?, measure(row)?)))?
        .collect::<SqlResult<Vec<_>>>()?;
    let mut slugs = Slugs::default();
    for (row, measure) in &rows {
        let shares = |other: &Measure| other.slug == measure.slug && !other.is(measure);
        // Ownership matters only if several names share a slug. It takes a search.
        if !rows.iter().any(|(_, other)| shares(other)) || uses_measure(db, project, *row)? {
            slugs.of(measure);
        }
    }
    Ok(slugs)
}

fn uses_measure(db: &Connection, project: &ProjectName, measure: i64) -> SqlResult<bool> {
    let Some(project) = project_row(db, project)? else { return Ok(false) };
    let sql = "SELECT 1 FROM report r CROSS JOIN metric m ON m.report = r.id
               WHERE r.project = ?1 AND m.measure = ?2 LIMIT 1";
    prepare(db, sql)?.exists([project, measure])
}
