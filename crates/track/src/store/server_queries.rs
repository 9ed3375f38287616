//! Queries used only by a server: counts for paginated lists, the numbers of all versions of a branch at once, and
//! whether a name is in use.

use std::collections::{HashMap, HashSet};

use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_sql::{Connection, OptionalExtension as _, Row, limit_ns, params, params_from_iter};

use super::{
    ReportFilter, SqlResult, Store, StoreError,
    columns::start_point,
    prepare,
    rows::{branch_row, name_row, project_row},
    versions::{START_POINTS_MAX, inherited},
    withdrawals::STANDS,
};
use crate::model::{BranchName, ProjectName, TestbedName};

/// Number of benchmarks and measures in an iteration of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IterationCount {
    pub benchmarks: u64,
    pub measures: u64,
}

/// A name that metrics may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use<'a> {
    Benchmark(&'a str),
    Measure(&'a str),
}

/// The reports of a branch on a testbed, without those that confirm another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    pub branch: BranchName,
    pub testbed: TestbedName,
    /// Changes whenever a report is added or removed. Not comparable between stores.
    pub state: String,
}

impl Store {
    /// The number of reports.
    pub fn report_count(&self, filter: &ReportFilter) -> Result<u64, StoreError> {
        let count = || {
            let Some(mut conditions) = filter.conditions(&self.connection)? else {
                return Ok(0);
            };
            conditions.require(STANDS);
            let sql = format!(
                "SELECT count(*) FROM (SELECT 1 FROM report r
                     JOIN branch b ON b.id = r.branch
                     JOIN testbed t ON t.id = r.testbed {} LIMIT ?) AS counted",
                conditions.sql()
            );
            let values = params_from_iter(conditions.values(usize::MAX));
            prepare(&self.connection, &sql)?.query_row(values, |row| row.get::<_, i64>(0))
        };
        count().map(i64::unsigned_abs).map_err(self.error("counting reports"))
    }

    /// The numbers of benchmarks and measures of each iteration of a report.
    pub fn iteration_counts(&self, report: Uuid) -> Result<Vec<IterationCount>, StoreError> {
        self.doing("counting metrics", || {
            let sql = "SELECT id, iterations FROM report WHERE uuid = ?1";
            let found = prepare(&self.connection, sql)?
                .query_row([report], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, u32>(1)?)))
                .optional()?;
            let Some((row, iterations)) = found else { return Ok(Vec::new()) };
            let mut benchmarks = vec![HashSet::new(); iterations as usize];
            let mut measures = benchmarks.clone();
            let sql = "SELECT iteration, benchmark, measure FROM metric WHERE report = ?1";
            let mut statement = prepare(&self.connection, sql)?;
            let mut rows = statement.query([row])?;
            while let Some(row) = &rows.next()? {
                let iteration = row.get::<_, u32>(0)? as usize;
                if let (Some(benchmarks), Some(measures)) =
                    (benchmarks.get_mut(iteration), measures.get_mut(iteration))
                {
                    benchmarks.insert(row.get::<_, i64>(1)?);
                    measures.insert(row.get::<_, i64>(2)?);
                }
            }
            let count = |(benchmarks, measures): (&HashSet<i64>, &HashSet<i64>)| IterationCount {
                benchmarks: benchmarks.len() as u64,
                measures: measures.len() as u64,
            };
            Ok(benchmarks.iter().zip(&measures).map(count).collect())
        })
    }

    /// [`Store::version_number`] of each report of a branch, without those that confirm another.
    pub fn version_numbers(
        &self,
        project: &ProjectName,
        branch: &BranchName,
    ) -> Result<HashMap<Uuid, u64>, StoreError> {
        version_numbers(&self.connection, project, branch).map_err(self.error("counting versions"))
    }

    /// The branches and testbeds of a project that have reports.
    pub fn stretches(&self, project: &ProjectName) -> Result<Vec<Stretch>, StoreError> {
        self.doing("listing branches and testbeds", || {
            let Some(project) = project_row(&self.connection, project)? else {
                return Ok(Vec::new());
            };
            let sql = format!(
                "SELECT b.name AS branch, t.name AS testbed, count(*) AS reports, CAST(sum(r.id) AS TEXT) AS rows
                 FROM report r JOIN branch b ON b.id = r.branch JOIN testbed t ON t.id = r.testbed
                 WHERE r.project = ?1 AND r.confirms IS NULL AND {STANDS}
                 GROUP BY r.branch, r.testbed, b.name, t.name"
            );
            let stretch = |row: &Row<'_>| {
                let (reports, rows): (i64, String) = (row.get("reports")?, row.get("rows")?);
                Ok(Stretch {
                    branch: row.get("branch")?,
                    testbed: row.get("testbed")?,
                    state: format!("{reports} {rows}"),
                })
            };
            prepare(&self.connection, &sql)?.query_map([project], stretch)?.collect()
        })
    }

    /// The place of each report of a project from a time on, among those of its branch and testbed: 1 is the oldest.
    pub fn places(
        &self,
        project: &ProjectName,
        since: OffsetDateTime,
    ) -> Result<HashMap<Uuid, usize>, StoreError> {
        self.doing("reading the order of reports", || {
            let mut places = HashMap::new();
            let Some(project) = project_row(&self.connection, project)? else { return Ok(places) };
            let sql = format!(
                "SELECT r.uuid, r.branch, r.testbed FROM report r
                 WHERE r.project = ?1 AND r.start_time_ns >= ?2 AND {STANDS}
                 ORDER BY r.start_time_ns, r.uuid"
            );
            let mut statement = prepare(&self.connection, &sql)?;
            let mut rows = statement.query([project, limit_ns(since)])?;
            let mut counts: HashMap<(i64, i64), usize> = HashMap::new();
            while let Some(row) = &rows.next()? {
                let count = counts.entry((row.get(1)?, row.get(2)?)).or_default();
                *count += 1;
                places.insert(row.get(0)?, *count);
            }
            Ok(places)
        })
    }

    /// Whether a metric of the project uses a name.
    pub fn is_used(&self, project: &ProjectName, name: Use<'_>) -> Result<bool, StoreError> {
        is_used(&self.connection, project, name).map_err(self.error("looking for uses of a name"))
    }
}

fn version_numbers(
    db: &Connection,
    project: &ProjectName,
    branch: &BranchName,
) -> SqlResult<HashMap<Uuid, u64>> {
    let mut numbers = HashMap::new();
    let Some(row) = branch_row(db, project, branch)? else { return Ok(numbers) };
    let sql = format!(
        "SELECT r.uuid, r.hash, r.epoch, r.start_time_ns, s.name AS start_branch, r.start_hash,
                      r.start_until_ns, r.start_versions_max
               FROM report r LEFT JOIN branch s ON s.id = r.start_branch
               WHERE r.branch = ?1 AND r.confirms IS NULL AND {STANDS}
               ORDER BY r.epoch, r.start_time_ns, r.uuid"
    );
    let mut statement = prepare(db, &sql)?;
    let mut rows = statement.query([row])?;
    let mut seen: HashMap<(u32, String), u64> = HashMap::new();
    let mut known_starts = HashMap::new();
    let (mut epoch, mut next) = (0, 0);
    while let Some(found) = &rows.next()? {
        let uuid: Uuid = found.get("uuid")?;
        let hash: Option<String> = found.get("hash")?;
        let own: u32 = found.get("epoch")?;
        if own != epoch {
            (epoch, next) = (own, 0);
        }
        let key = (own, hash.unwrap_or_else(|| uuid.to_string()));
        let number = *seen.entry(key).or_insert_with(|| {
            next += 1;
            next - 1
        });
        let start = start_point(found)?.map(|start| {
            let until_ns = start.until.map_or(found.get("start_time_ns"), |it| Ok(limit_ns(it)));
            until_ns.map(|until_ns| (start.branch, until_ns))
        });
        let before = match start.transpose()? {
            None => 0,
            Some((start, until_ns)) => {
                let key = (start.clone(), until_ns, own);
                match known_starts.get(&key) {
                    Some(known) => *known,
                    None => {
                        let own = (row, own);
                        let number =
                            inherited(db, project, &start, until_ns, own, START_POINTS_MAX)?;
                        known_starts.insert(key, number);
                        number
                    }
                }
            }
        };
        numbers.insert(uuid, number + before);
    }
    Ok(numbers)
}

fn is_used(db: &Connection, project: &ProjectName, name: Use<'_>) -> SqlResult<bool> {
    let Some(project) = project_row(db, project)? else { return Ok(false) };
    match name {
        Use::Benchmark(name) => {
            let Some(row) = name_row(db, "benchmark", project, name)? else { return Ok(false) };
            let sql = format!(
                "SELECT 1 FROM report r CROSS JOIN metric m ON m.report = r.id
                 WHERE r.project = ?1 AND m.benchmark = ?2 AND {STANDS} LIMIT 1"
            );
            prepare(db, &sql)?.exists([project, row])
        }
        Use::Measure(slug) => {
            let sql = format!(
                "SELECT 1 FROM report r CROSS JOIN metric m ON m.report = r.id
                 JOIN measure q ON q.id = m.measure
                 WHERE r.project = ?1 AND q.slug = ?2 AND {STANDS} LIMIT 1"
            );
            prepare(db, &sql)?.exists(params![project, slug])
        }
    }
}
